"""How is a range searched until what did it has a name?

`search`, `attribute` and `conclude` are tasks of the DAG `bisect`, and the command `stepwatch bisect` plays them one
after the other. Each probe is stored at once, and what is next follows from what is stored: killed anywhere, the
search goes on where it was.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from alerts import message
from stepwatch.core import documents
from stepwatch.core.bisection.blame import Answer, Ask, blame, distinct
from stepwatch.core.bisection.compare import FIRST_LOOK, level
from stepwatch.core.bisection.plan import Brackets, GiveUp, Next, Observation, Policy, PolicyKind, plan
from stepwatch.core.model import Benchmark, CommitPair, Culprit, Origin, Outcome, title
from stepwatch.jobs.bench import run_folder
from stepwatch.jobs.measure import alternate, measure_some
from stepwatch.jobs.open_bisection import RefusedError
from stepwatch.jobs.record import record_documents
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure
from storage import bisections, incidents
from storage.rows import Database, load_series
from storage.runs import value_of

CAP = 8  # processes of a candidate; two that can't be told apart by then are UNKNOWN
MIN_EFFECT = 0.05  # relative
WORK_S = 240  # how long one call works before it gives the machine's slot back


def search(place: Workplace, bisection_id: int) -> bool:
    """Try candidates until the brackets are known; False where there is more to do after `WORK_S`.

    Raises:
        RefusedError: the bisection was cancelled.
        UnreachableError: what an environment is made from can't be reached now.
    """

    def step(work: _Work) -> bool:
        result = plan(len(work.row.path), work.on_path(), work.policy)
        if not isinstance(result, Next):
            return True
        tried = result.tries[0]
        work.probe(work.row.path[tried.position], tried.repeats)
        return False

    return _go_on(place, bisection_id, step)


def attribute(place: Workplace, bisection_id: int) -> bool:
    """Measure the crossed pairs that blame asks for; False where there is more to do after `WORK_S`.

    Raises:
        RefusedError: the bisection was cancelled.
        UnreachableError: what an environment is made from can't be reached now.
    """

    def step(work: _Work) -> bool:
        answers = work.answers(plan(len(work.row.path), work.on_path(), work.policy))
        asked = next((answer for answer in answers if isinstance(answer, Ask)), None)
        if asked is not None:
            work.probe(asked.tries[0].pair, asked.tries[0].repeats)
        return asked is None

    return _go_on(place, bisection_id, step)


def conclude(place: Workplace, bisection_id: int) -> tuple[Culprit, ...]:
    """Say what a bisection has ended with; once, however often it is called.

    Raises:
        RefusedError: its search is not done.
    """
    work = _Work(place, bisection_id)
    result = plan(len(work.row.path), work.on_path(), work.policy)
    culprits: list[Culprit] = []
    if isinstance(result, GiveUp):
        culprits.append(
            Culprit(kind=result.kind, after=work.row.good, through=work.row.bad, reason=result.reason)
        )
    answers = work.answers(result)
    if isinstance(result, Next) or any(isinstance(answer, Ask) for answer in answers):
        raise RefusedError(f"the search of bisection {bisection_id} is not done")
    culprits += [culprit for answer in answers if isinstance(answer, Answer) for culprit in answer.culprits]
    named = tuple(replace(culprit, baseline=work.baseline()) for culprit in distinct(culprits))
    with place.database.begin() as connection:
        done = bisections.finish_bisection(connection, bisection_id, state="finished", culprits=named)
        if done:
            said = message.explained(
                bisection_id,
                title(work.benchmark.name, work.benchmark.params),
                work.row.good,
                work.row.bad,
                named,
                probes=len(work.observations),
            )
            incidents.write(
                connection,
                kind=f"bisection {bisection_id}",
                message=said,
                incident_id=work.row.incident_id,
                bisection_id=bisection_id,
            )
            if work.row.incident_id is not None:
                incidents.mark_explained(connection, work.row.incident_id)
    return named


def give_up(place: Workplace, bisection_id: int, reason: str) -> None:
    """End a bisection that could not be carried out; its incident may be tried again."""
    with place.database.begin() as connection:
        bisections.finish_bisection(connection, bisection_id, state="failed", reason=reason)


def cancel(database: Database, bisection_id: int) -> bool:
    """End an open bisection; what works at it stops before its next probe. Says whether it was open."""
    with database.begin() as connection:
        return bisections.finish_bisection(connection, bisection_id, state="cancelled", reason="by request")


class _Work:
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
        self.observations = {
            probe.pair: Observation(values=probe.ratios)
            if probe.outcome is Outcome.OK
            else Observation(broken=probe.reason or probe.outcome.value)
            for probe in probes
        }
        self.policy = Policy(
            kind=PolicyKind(row.policy),
            every=place.comb,
            repeats=place.suite.processes,
            cap=CAP,
            min_effect=self._min_effect(),
            better=self.benchmark.better,
        )

    def _min_effect(self) -> float:
        """The smallest relative step that is looked for: a tenth of the range's log ratio, once its ends are measured.

        It rests on the first look alone, so that it stays the same when the ends get more values.
        """
        ends = [
            self.observations.get(pair, Observation()).values[:FIRST_LOOK]
            for pair in (self.row.path[0], self.row.path[-1])
        ]
        if min(len(values) for values in ends) < FIRST_LOOK:
            return MIN_EFFECT
        good, bad = (level(values, self.benchmark.better).log for values in ends)
        return max(MIN_EFFECT, math.expm1(abs(bad - good) / 10))

    def on_path(self) -> dict[int, Observation]:
        """The observations of the candidates that have a place on the path."""
        return {
            position: self.observations[pair]
            for position, pair in enumerate(self.row.path)
            if pair in self.observations
        }

    def answers(self, result: Next | Brackets | GiveUp) -> list[Answer | Ask]:
        """What blame says of each bracket that the search has ended with."""
        brackets = result.brackets if isinstance(result, Brackets) else ()
        path, source = self.row.path, self.row.source.kind
        return [blame(path, bracket, self.observations, self.policy, source) for bracket in brackets]

    def baseline(self) -> float | None:
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
        place, reference = self.place, self.row.path[0]
        opened = place.runner.open(pair)
        if isinstance(opened, Failure):
            return opened
        folder = run_folder(place.runs, self._key(pair))
        if pair == reference:
            alone = measure_some(
                place.runner, opened, place.suite, folder, benchmarks=[self.benchmark], count=count
            )
            sides = alone if isinstance(alone, Failure) else (alone, alone)
        else:
            beside = place.runner.open(reference)
            if isinstance(beside, Failure):
                return beside
            sides = alternate(
                place.runner, beside, opened, place.suite, folder, benchmarks=[self.benchmark], count=count
            )
        if isinstance(sides, Failure):
            return sides
        old, new = (documents.process_values(side, self.benchmark) for side in sides)
        if len(new) < count or not old:
            failed = next(iter(documents.failures([*sides[0], *sides[1]]).values()), None)
            outcome, reason = failed or (Outcome.BENCHMARK_FAILED, "it was not measured")
            return Failure(outcome=outcome, reason=reason)
        with place.database.begin() as connection:
            record_documents(
                connection,
                place,
                sides[1],
                run_key=self._key(pair),
                origin=Origin.PROBE,
                opened=opened,
                probe_id=probe_id,
            )
        unit = math.exp(level(old, self.benchmark.better).log)
        return tuple(value / unit for value in new)

    def _key(self, pair: CommitPair) -> str:
        return f"probe/{self.row.id}/{pair}"


def _go_on(place: Workplace, bisection_id: int, step: Callable[[_Work], bool]) -> bool:
    """Take one step after the other, each from what is stored, until the phase or the time is over."""
    begun = time.monotonic()
    while time.monotonic() - begun < WORK_S:
        work = _Work(place, bisection_id)
        if work.row.state == "cancelled":
            raise RefusedError(f"bisection {bisection_id} was cancelled")
        if work.row.state != "open" or step(work):
            return True
    return False
