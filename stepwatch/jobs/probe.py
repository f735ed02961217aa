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

from stepwatch.core import documents
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
from stepwatch.core.documents import Document
from stepwatch.core.model import Benchmark, Better, CommitPair, Culprit, Origin, Outcome, Verdict, digest
from stepwatch.jobs.bench import run_folder
from stepwatch.jobs.measure import alternate, every_group, measure_some, selections
from stepwatch.jobs.open_bisection import RefusedError
from stepwatch.jobs.record import record_documents
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure, Opened
from storage import bisections
from storage.rows import Database, load_series
from storage.runs import value_of

Found = Next | Brackets | GiveUp
Look = Callable[..., Found]  # plan_hours or plan_commits
Both = tuple[
    list[Document], tuple[float, ...], tuple[float, ...]
]  # the new side's documents, and both sides' values


def observed(probes: Sequence[bisections.ProbeRow]) -> dict[CommitPair, Observation]:
    """What the rows of a bisection's probes say of each pair."""
    return {
        probe.pair: Observation(values=probe.ratios)
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
            self.sandwiches = bisections.sandwiches(connection, bisection_id)
        self.hours = hours_of([each.hour is not None for each in row.candidates])
        self.observations = observed(probes)
        self.seconds = math.fsum(
            [each.seconds for each in probes] + [each.seconds for each in self.sandwiches.values()]
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
        at_hand = {at for at, each in enumerate(self.row.candidates) if each.at_hand}
        return look(self.hours, self.on_path(), self.policy, at_hand=at_hand, stop=self.spent)

    def try_next(self, look: Look) -> bool:
        """Measure the next candidate that a look asks for; whether there was none."""
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
        found = self.sandwiches.get((good, bad), bisections.Sandwich(old=(), new=()))
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
            found = bisections.Sandwich(old=(), new=(), reason=both.reason, seconds=seconds)
        else:
            _, old, new = both
            found = bisections.Sandwich(old=old, new=new, seconds=seconds)
        with self.place.database.begin() as connection:
            bisections.save_sandwich(connection, self.row.id, good, bad, found)
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
        result = self._measure(pair, len(known.values) + repeats, probe_id)
        seconds = time.monotonic() - begun
        if isinstance(result, Failure):
            if result.outcome is Outcome.CANCELLED:
                raise RefusedError("cancelled while it was measured")
            place.say(f"bisection {self.row.id}: {pair} is broken: {result.reason}")
            with place.database.begin() as connection:
                bisections.save_probe(
                    connection, probe_id, outcome=result.outcome, reason=result.reason, seconds=seconds
                )
            return
        value = math.exp(level(result, self.benchmark.better).log)
        place.say(f"bisection {self.row.id}: {pair} is {value:.3g} times the good end")
        with place.database.begin() as connection:
            bisections.save_probe(
                connection, probe_id, outcome=Outcome.OK, ratios=result, value=value, seconds=seconds
            )

    def _measure(self, pair: CommitPair, count: int, probe_id: int) -> tuple[float, ...] | Failure:
        both = self._alternate(self.row.path[0], pair, run_folder(self.place.runs, self._key(pair)), count)
        if isinstance(both, Failure):
            return both
        read, old, new = both
        opened = self._open(pair)
        if isinstance(opened, Failure):
            return opened
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
        place, benchmarks = self.place, [self.benchmark]
        suite = every_group(place.suite)
        opened = self._open(new)
        if isinstance(opened, Failure):
            return opened
        beside = opened if old == new else self._open(old)
        if isinstance(beside, Failure):
            return beside
        if old == new:
            alone = measure_some(
                place.runner, opened, suite, folder, only=selections(benchmarks), count=count
            )
            sides = alone if isinstance(alone, Failure) else (alone, alone)
        else:
            sides = alternate(place.runner, beside, opened, suite, folder, benchmarks=benchmarks, count=count)
        if isinstance(sides, Failure):
            return sides
        values = [documents.process_values(side, self.benchmark) for side in sides]
        if min(len(each) for each in values) < count:
            failed = next(iter(documents.failures([*sides[0], *sides[1]]).values()), None)
            outcome, reason = failed or (Outcome.BENCHMARK_FAILED, "it was not measured")
            return Failure(outcome=outcome, reason=reason)
        return sides[1], tuple(values[0]), tuple(values[1])

    def _open(self, pair: CommitPair) -> Opened | Failure:
        return self.place.runner.open(pair)

    def _key(self, pair: CommitPair) -> str:
        return f"probe/{self.row.id}/{pair}"
