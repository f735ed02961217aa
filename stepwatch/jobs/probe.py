"""What has a bisection observed by now, what follows from it, and how is more observed?

A candidate is measured alternately with the reference, the good end, and its values are ratios to that, so what was
measured hours apart can be compared. Both sides of what the search ends with are measured side by side once more: the
sandwich.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stepwatch.core.bisection.blame import Answer, Ask, blame, unconfirmed
from stepwatch.core.bisection.compare import (
    FIRST_LOOK,
    SECOND_LOOK,
    Comparison,
    compare,
    error,
    is_apart,
    level,
)
from stepwatch.core.bisection.effort import Effort, effort_for
from stepwatch.core.bisection.ends import Published, compared, nothing_to_build, with_images
from stepwatch.core.bisection.plan import (
    Bracket,
    Brackets,
    GiveUp,
    Next,
    Observation,
    Policy,
    PolicyKind,
    hours_of,
    plan_commits,
    still_to_try,
)
from stepwatch.core.model import Benchmark, Better, CommitPair, Culprit, Origin, Outcome, Verdict, digest
from stepwatch.jobs.bench import run_folder
from stepwatch.jobs.open_bisection import RefusedError
from stepwatch.jobs.record import record_documents
from stepwatch.jobs.side_by_side import Both, measure_published, side_by_side
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure, Opened
from storage import bisections, sandwiches
from storage.nights import find_image
from storage.rows import Database, load_series
from storage.runs import value_of

Found = Next | Brackets | GiveUp
Look = Callable[..., Found]  # plan_hours or plan_commits


def observed(probes: Sequence[bisections.ProbeRow]) -> dict[CommitPair, Observation]:
    """What the rows of a bisection's probes say of each pair; those that are built to the same have the same values, the most."""
    values: dict[str | None, tuple[float, ...]] = {}
    for probe in probes:
        values[probe.program] = max(values.get(probe.program, ()), probe.ratios, key=len)
    return {
        probe.pair: Observation(
            values=values[probe.program] if probe.program else probe.ratios, program=probe.program
        )
        if probe.outcome is Outcome.OK
        else Observation(broken=probe.reason or probe.outcome.value)
        for probe in probes
    }


def effort_of(
    path: Sequence[CommitPair], observations: Mapping[CommitPair, Observation], better: Better
) -> Effort:
    """What the range is worth, by what its ends gave."""
    good, bad = (observations.get(pair, Observation()).values for pair in (path[0], path[-1]))
    return effort_for(good, bad, better)


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What a probe on the path means next to the measured one before it, and how many between the two were not tried."""

    verdict: Verdict | None
    untried: int


def meanings(database: Database, bisection_id: int) -> dict[tuple[str, str], Meaning]:
    """What each probe on the path means, by the refs of its pair."""
    with database.begin() as connection:
        row = bisections.load_bisection(connection, bisection_id)
        if row is None:
            return {}
        better = load_series(connection, row.series_id).benchmark.better
        observations = observed(bisections.probes(connection, bisection_id))
    effort = effort_of(row.path, observations, better)
    found: dict[tuple[str, str], Meaning] = {}
    before: tuple[float, ...] = ()
    untried = 0
    for pair in row.path:
        seen = observations.get(pair)
        verdict = None
        if seen is None:
            untried += 1
            continue
        if seen.broken is not None:
            verdict = Verdict.BROKEN
        elif before:
            verdict = compare(
                before, seen.values, min_effect=effort.min_effect, cap=effort.cap, better=better
            ).verdict
        found[pair.jax.ref, pair.xla.ref] = Meaning(verdict=verdict, untried=untried)
        if seen.broken is None:
            before, untried = seen.values, 0
    return found


class Work:
    """One look at a bisection: its row, what has been observed, and the means to observe more."""

    def __init__(self, place: Workplace, bisection_id: int) -> None:
        self.place = place
        with place.database.begin() as connection:
            row = bisections.load_bisection(connection, bisection_id)
            if row is None:
                raise RefusedError(f"there is no bisection {bisection_id}")
            self.row = row
            self.benchmark: Benchmark = load_series(connection, row.series_id).benchmark
            probes = bisections.probes(connection, bisection_id)
            self.sandwiches = sandwiches.sandwiches(connection, bisection_id)
            self.published, seconds = sandwiches.load_published(connection, bisection_id)
            container = self.row.setup.container
            self.image = find_image(connection, self.row.source, container) if container else None
        self.runner = place.runner.within(self.image)
        self.hours = hours_of([each.hour is not None for each in row.candidates])
        self.observations = observed(probes)
        self.measured = {
            each.program: each.pair for each in probes if each.outcome is Outcome.OK and each.reason is None
        }
        self.seconds = math.fsum(
            [
                seconds,
                *(each.seconds for each in probes),
                *(each.seconds for each in self.sandwiches.values()),
            ]
        )
        effort = effort_of(row.path, self.observations, self.benchmark.better)
        self.policy = Policy(
            kind=PolicyKind(row.setup.policy),
            every=place.comb,
            repeats=place.suite.processes,
            cap=effort.cap,
            min_effect=effort.min_effect,
            better=self.benchmark.better,
        )

    @property
    def spent(self) -> str | None:
        """Why nothing more may be tried, where the budget is used up."""
        setup = self.row.setup
        if setup.budget_probes is not None and len(self.observations) >= setup.budget_probes:
            return f"the budget of {setup.budget_probes} probes is used up"
        if setup.budget_minutes is not None and self.seconds >= 60 * setup.budget_minutes:
            return f"the budget of {setup.budget_minutes:g} minutes is used up"
        return None

    def on_path(self) -> dict[int, Observation]:
        """The observations of the candidates that have a place on the path."""
        return {
            position: self.observations[pair]
            for position, pair in enumerate(self.row.path)
            if pair in self.observations
        }

    def found(self, look: Look) -> Found:
        """What a look at all that was observed says."""
        better = self.benchmark.better
        if self.image is not None and (nothing := nothing_to_build(self.published, better)):
            return nothing
        at_hand = {at for at, each in enumerate(self.row.candidates) if each.at_hand}
        found = look(self.hours, self.on_path(), self.policy, at_hand=at_hand, stop=self.spent)
        return with_images(self.published, better, found, self.image.reference) if self.image else found

    def look_at_published(self) -> bool:
        """Measure the published images of both ends alternately, where that is not decided yet; whether it was done."""
        more = compared(self.published, self.benchmark.better).more
        if self.image is None or not more or self.published.reason or self.spent:
            return False
        begun = time.monotonic()
        found = measure_published(
            self.place, self.runner, self.row, self.benchmark, len(self.published.old) + more
        )
        if isinstance(found, Failure):
            if found.outcome is Outcome.CANCELLED:
                raise RefusedError("cancelled while it was measured")
            found = Published(reason=found.reason)
        with self.place.database.begin() as connection:
            sandwiches.save_published(connection, self.row.id, found, seconds=time.monotonic() - begun)
        return True

    def try_next(self, look: Look) -> bool:
        """Measure the next candidate that a look asks for, the published images first; whether there was none."""
        if self.look_at_published():
            return False
        found = self.found(look)
        if not isinstance(found, Next):
            return True
        tried = found.tries[0]
        left = still_to_try(found, self.on_path(), len(self.row.path))
        if len(self.observations) > 1 and left:
            minutes = left * self.seconds / len(self.observations) / 60
            self.place.say(
                f"bisection {self.row.id}: about {left} more to try, {max(1, round(minutes))} minutes"
            )
        self.probe(self.row.path[tried.position], tried.repeats)
        return False

    def brackets(self) -> Sequence[Bracket]:
        """What the search has ended with, none where it has not or found nothing."""
        found = self.found(plan_commits)
        return found.brackets if isinstance(found, Brackets) else ()

    def beside_reference(self, bracket: Bracket) -> bool:
        """Whether a bracket begins at the reference, and is so large that the probes beside it leave no doubt."""
        ends = [self.observations[self.row.path[at]].values for at in (bracket.after, bracket.through)]
        return bracket.after == 0 and is_apart(*(values[:FIRST_LOOK] for values in ends))

    def sides(self, bracket: Bracket) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What both sides of a bracket gave side by side."""
        good, bad = self.row.path[bracket.after], self.row.path[bracket.through]
        if self.beside_reference(bracket):
            return self.observations[good].values, self.observations[bad].values
        found = self.sandwiches.get((good, bad), sandwiches.Sandwich(old=(), new=()))
        return found.old, found.new

    def compared(self, bracket: Bracket) -> Comparison:
        """What both sides of a bracket are to each other, side by side."""
        policy = self.policy
        return compare(
            *self.sides(bracket),
            min_effect=policy.min_effect,
            cap=policy.cap,
            better=policy.better,
        )

    def look_again(self, bracket: Bracket) -> bool:
        """Measure both sides of a bracket alternately, where that is not decided yet; whether it was done."""
        good, bad = self.row.path[bracket.after], self.row.path[bracket.through]
        known = self.sandwiches.get((good, bad))
        # what is shown as evidence is never three processes, however far apart they lie
        least = 0 if self.beside_reference(bracket) else SECOND_LOOK
        more = max(self.compared(bracket).more, least - len(self.sides(bracket)[0]))
        if more <= 0 or self.spent or (known and known.reason):
            return False
        self.place.say(f"bisection {self.row.id}: {good} and {bad} side by side")
        count = len(self.sides(bracket)[0]) + more
        folder = run_folder(self.place.runs, f"sandwich/{self.row.id}/{digest([str(good), str(bad)])[:12]}")
        begun = time.monotonic()
        both = self._alternate(good, bad, folder, count)
        seconds = time.monotonic() - begun + (known.seconds if known else 0.0)
        if isinstance(both, Failure):
            if both.outcome is Outcome.CANCELLED:
                raise RefusedError("cancelled while it was measured")
            found = sandwiches.Sandwich(old=(), new=(), reason=both.reason, seconds=seconds)
        else:
            _, old, new = both
            found = sandwiches.Sandwich(old=old, new=new, seconds=seconds)
        with self.place.database.begin() as connection:
            sandwiches.save_sandwich(connection, self.row.id, good, bad, found)
        return True

    def answer(self, bracket: Bracket) -> Answer | Ask:
        """What blame says of a bracket that stands side by side too; of one that does not, that it is a range."""
        good, bad = self.row.path[bracket.after], self.row.path[bracket.through]
        known = self.sandwiches.get((good, bad))
        compared = self.compared(bracket)
        if compared.verdict is not Verdict.DIFFERENT and not (compared.more and self.spent):
            seen = known.reason if known and known.reason else compared.reason
            return unconfirmed(self.row.path, bracket, self.observations, self.policy, seen)
        return blame(self.row.path, bracket, self.observations, self.policy, stop=self.spent)

    def told(self, culprit: Culprit, bracket: Bracket) -> Culprit:
        """A bracket's culprit with its baseline, what both sides gave, and what its repository says of it."""
        info = None
        if culprit.repository is not None and culprit.commit is not None:
            info = self.place.nights.info(culprit.repository, culprit.commit)
        culprit = replace(culprit, baseline=self._baseline(), info=info)
        old, new = self.sides(bracket)
        if culprit.change is None or not old or not new:
            return culprit
        unsure = 2 * error([level(values, self.benchmark.better) for values in (old, new)])
        low, high = (math.expm1(math.log1p(culprit.change) + each) for each in (-unsure, unsure))
        return replace(culprit, old=old, new=new, low=low, high=high)

    def _baseline(self) -> float | None:
        """The good end's own value in the benchmark's unit, where it was measured."""
        with self.place.database.begin() as connection:
            return value_of(connection, self._key(self.row.path[0]), self.row.series_id)

    def probe(self, pair: CommitPair, repeats: int) -> None:
        """Measure a pair in `repeats` further processes beside the reference, the good end, and store all it gave."""
        place = self.place
        known = self.observations.get(pair, Observation())
        place.say(f"bisection {self.row.id}: trying {pair}")
        with place.database.begin() as connection:
            probe_id = bisections.open_probe(connection, self.row.id, pair)
        begun = time.monotonic()
        opened = self._open(pair)
        program = digest(opened.stamp) if isinstance(opened, Opened) and opened.stamp else None
        same = self.measured.get(program, pair) if program else pair
        if same != pair and known.values:  # what is wanted of it is wanted of the other one
            self.probe(same, repeats)
            return
        if isinstance(opened, Failure):
            result: tuple[float, ...] | Failure = opened
        elif same != pair:
            place.say(f"bisection {self.row.id}: {pair} is built to the same as {same}; it is not measured")
            result = self.observations[same].values
        else:
            result = self._measure(pair, opened, len(known.values) + repeats, probe_id)
        seconds = time.monotonic() - begun
        if isinstance(result, Failure):
            if result.outcome is Outcome.CANCELLED:
                raise RefusedError("cancelled while it was measured")
            place.say(f"bisection {self.row.id}: {pair} is broken: {result.reason}")
            with place.database.begin() as connection:
                bisections.save_probe(
                    connection,
                    probe_id,
                    outcome=result.outcome,
                    reason=result.reason,
                    log=result.log,
                    seconds=seconds,
                )
            return
        value = math.exp(level(result, self.benchmark.better).log)
        place.say(f"bisection {self.row.id}: {pair} is {value:.3g} times the good end")
        with place.database.begin() as connection:
            bisections.save_probe(
                connection,
                probe_id,
                outcome=Outcome.OK,
                reason=f"built to the same as {same}" if same != pair else None,
                ratios=result,
                value=value,
                program=program,
                seconds=seconds,
            )

    def _measure(
        self, pair: CommitPair, opened: Opened, count: int, probe_id: int
    ) -> tuple[float, ...] | Failure:
        both = self._alternate(self.row.path[0], pair, run_folder(self.place.runs, self._key(pair)), count)
        if isinstance(both, Failure):
            return both
        read, old, new = both
        with self.place.database.begin() as connection:
            record_documents(
                connection,
                self.place,
                read,
                run_key=self._key(pair),
                origin=Origin.PROBE,
                opened=opened,
                probe_id=probe_id,
            )
        unit = math.exp(level(old, self.benchmark.better).log)
        return tuple(value / unit for value in new)

    def _alternate(self, old: CommitPair, new: CommitPair, folder: Path, count: int) -> Both | Failure:
        """`count` processes of each of two pairs, one after the other in turn; of one pair alone where they are the same."""
        opened = self._open(new)
        if isinstance(opened, Failure):
            return opened
        beside = opened if old == new else self._open(old)
        if isinstance(beside, Failure):
            return beside
        return side_by_side(self.place, self.runner, (beside, opened), self.benchmark, folder, count)

    def _open(self, pair: CommitPair) -> Opened | Failure:
        return self.runner.open(pair)

    def _key(self, pair: CommitPair) -> str:
        return f"probe/{self.row.id}/{pair}"
