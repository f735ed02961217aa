"""What do the nights of every series say together, and what is to be told?

The whole window is read again each time and the answer is a function of it, so late results, reruns and backfills
come out right by themselves. Everything that is decided, the messages included, is stored in one transaction.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from stepwatch.core import detection
from stepwatch.core.model import (
    Benchmark,
    Direction,
    Evidence,
    Point,
    Regression,
    Source,
    State,
    SuspectRange,
    Verdict,
    title,
)
from stepwatch.core.recheck import control_noise
from stepwatch.core.rules import Rulebook, SeriesSettings
from stepwatch.core.sayings import RAISING
from stepwatch.core.triage import Triage, triage
from stepwatch.jobs.follow_failures import follow_failures
from stepwatch.jobs.overlap import ask_overlaps
from stepwatch.jobs.surroundings import moved_together, tell_surroundings
from stepwatch.jobs.tell import Told, tell
from stepwatch.jobs.workplace import Workplace
from storage import incidents, rechecks, steps
from storage.controls import control_values
from storage.rows import Connection, Database, ensure_machine, ensure_source, exclusively, load_series


@dataclass(frozen=True, kw_only=True)
class Detected:
    """What a detection came to: things told for the first time, and boundaries to be measured again.

    `left_out` are the series that no step is looked for in, each with the reason.
    """

    told: int
    suspects: int
    left_out: tuple[str, ...] = ()


def detect(place: Workplace) -> Detected:
    """Detect in the series of a workplace's machine and source, of which nothing need be stored yet."""
    with place.database.begin() as connection:
        ensure_machine(connection, place.machine)
        ensure_source(connection, place.source)
    found = detect_in(place.database, machine=place.machine.name, source=place.source, rules=place.rules)
    for reason in found.left_out:
        place.say(f"no step is looked for in {reason}")
    return found


def detect_in(database: Database, *, machine: str, source: Source, rules: Rulebook) -> Detected:
    """Read every judged series of a machine and source, store what follows, and write what is to be said.

    The steps of counts that are not judged are stored too, for what they explain; nobody is told of them.
    """
    with exclusively(database, "detect", machine, source.kind, source.name) as connection:
        nights = steps.night_refs(connection, source)
        scene = _Scene(
            connection=connection,
            machine=machine,
            source=source,
            rules=rules,
            order=[night.id for night in nights],
        )
        ids = {night.label: night.id for night in nights}
        seen, left_out = _look(scene)
        timed = sum(each.watched and not each.benchmark.exact for each in seen)
        elsewhere = moved_together(
            connection,
            [each.result for each in seen if each.watched and not each.benchmark.exact],
            ids,
            machine=machine,
        )
        told: list[Told] = []
        moved: dict[SuspectRange, list[str]] = defaultdict(list)
        suspects = 0
        for each in seen:
            result = each.result
            own = elsewhere - each.crossed
            if any(saying.regression.suspect.through in own for saying in result.said):
                result = each.triage(own)
            told += _save(scene, each.id, ids, each.known, result)
            for now in result.regressions:
                if now.state is State.ENVIRONMENT:
                    moved[now.suspect].append(title(each.benchmark.name, each.benchmark.params))
            how = "control" if each.floor != each.own.noise else result.detection.noise_source
            _keep(connection, each.id, each.points, ids, replace(result.detection, noise_source=how))
            suspects += _ask(scene, each.id, ids, each.points, result)
        for series_id in steps.judged_series(connection, machine=machine, source=source, judged=False):
            points = steps.points(connection, series_id)
            counted = detection.detect([p.value for p in points if p.value is not None], exact=True)
            _keep(connection, series_id, points, ids, counted)
        suspects += ask_overlaps(connection, ids, machine=machine, source=source)
        if nights:
            tell(connection, told, ids, tonight=_newest(seen, nights), rules=rules)
            tell_surroundings(connection, moved, ids, machine=machine, source=source, series=timed)
            changed = follow_failures(
                connection,
                {each.id: each.points for each in seen if each.watched},
                ids,
                tonight=nights[-1].label,
                rules=rules,
                incident=lambda suspect: scene.incident(Direction.FAILURE, suspect, ids),
            )
        else:
            changed = 0
    return Detected(told=len(told) + changed, suspects=suspects, left_out=tuple(left_out))


def _newest(seen: Sequence[_Seen], nights: Sequence[steps.NightRef]) -> str:
    """The last night with a result, else the last one."""
    measured = {point.label for each in seen for point in each.points if point.value is not None}
    return next((night.label for night in reversed(nights) if night.label in measured), nights[-1].label)


@dataclass(kw_only=True)
class _Seen:
    """One judged series, all that triage is given of it, and what that says."""

    id: int
    benchmark: Benchmark
    points: Sequence[Point]
    known: Sequence[tuple[int, Regression]]
    evidence: Sequence[Evidence]
    controls: Sequence[tuple[str, float]]
    own: SeriesSettings

    @property
    def watched(self) -> bool:
        return bool(self.own.triage.told)

    @property
    def floor(self) -> float | None:
        return self.own.noise or control_noise(self.controls)

    @property
    def crossed(self) -> set[str]:
        """The nights whose change was there with what stands beside the program held still: the program did it."""
        return {e.suspect.through for e in self.evidence if e.bridge and e.verdict is Verdict.DIFFERENT}

    @cached_property
    def result(self) -> Triage:
        return self.triage()

    def triage(self, elsewhere: Collection[str] = ()) -> Triage:
        return triage(
            self.points,
            known=[regression for _, regression in self.known],
            evidence=self.evidence,
            controls=self.controls,
            better=self.benchmark.better,
            exact=self.benchmark.exact,
            noise=self.floor,
            settings=self.own.triage,
            elsewhere=elsewhere,
        )


def _look(scene: _Scene) -> tuple[list[_Seen], list[str]]:
    """Every judged series with what triage says of it, and those of which nothing can be said, each with the reason."""
    seen: list[_Seen] = []
    left_out: list[str] = []
    connection = scene.connection
    for series_id in steps.judged_series(connection, machine=scene.machine, source=scene.source):
        benchmark = load_series(connection, series_id).benchmark
        name = title(benchmark.name, benchmark.params)
        one = _Seen(
            id=series_id,
            benchmark=benchmark,
            points=steps.points(connection, series_id),
            known=steps.known_regressions(connection, series_id),
            evidence=rechecks.evidence(connection, series_id),
            controls=control_values(connection, series_id),
            own=scene.rules.of(name),
        )
        try:
            one.result  # noqa: B018 - levels are compared as ratios, which may be refused
        except ValueError as error:
            left_out.append(f"{name} {benchmark.metric}: {error}")
        else:
            seen.append(one)
    return seen, left_out


@dataclass(frozen=True, kw_only=True)
class _Scene:
    connection: Connection
    machine: str
    source: Source
    rules: Rulebook
    order: Sequence[int]

    def incident(self, direction: Direction, suspect: SuspectRange, ids: dict[str, int]) -> int:
        """The incident that what is newly told belongs to, opened where there is none."""
        where: dict[str, Any] = {
            "machine": self.machine,
            "source": self.source,
            "direction": direction,
            "after_id": ids[suspect.after],
            "through_id": ids[suspect.through],
        }
        found = incidents.overlapping_incident(self.connection, order=self.order, **where)
        return found if found is not None else incidents.open_incident(self.connection, **where)


def _save(
    scene: _Scene,
    series_id: int,
    ids: dict[str, int],
    known: Sequence[tuple[int, Regression]],
    result: Triage,
) -> list[Told]:
    """Store what has become of each regression; returns what is told of them, with their incidents."""
    # those that are forgotten go first: two rows can't stand for one boundary
    for (regression_id, _), now in zip(known, result.followed, strict=True):
        if now is None:
            steps.mark_gone(scene.connection, regression_id)
    saved: dict[int, int] = {}
    followed = [
        (regression_id, now)
        for (regression_id, _), now in zip(known, result.followed, strict=True)
        if now is not None
    ]
    # likewise those that are over: another one may have moved to where they were
    followed.sort(key=lambda each: each[1].recovered is None)
    everything: list[tuple[int | None, Regression]] = [*followed, *((None, new) for new in result.opened)]
    for known_id, now in everything:
        sayings = [saying for saying in result.said if saying.regression is now]
        raised = any(saying.kind in RAISING for saying in sayings)
        saved_id = steps.save_regression(
            scene.connection,
            now,
            ids,
            series_id=series_id,
            regression_id=known_id,
            incident_id=scene.incident(now.direction, now.suspect, ids) if raised else None,
        )
        saved.update({id(saying): saved_id for saying in sayings})
    told = []
    for saying in result.said:
        incident_id = steps.incident_of(scene.connection, saved[id(saying)])
        if incident_id is None:
            raise AssertionError("a regression that people are told of has an incident")
        told.append(Told(regression_id=saved[id(saying)], incident_id=incident_id, saying=saying))
    return told


def _keep(
    connection: Connection,
    series_id: int,
    points: Sequence[Point],
    ids: dict[str, int],
    found: detection.Detection,
) -> None:
    """Store what a series is made of, and the noise by which that was judged."""
    steps.save_steps(connection, series_id, _step_rows(points, ids, found))
    steps.save_noise(connection, series_id, found.noise, found.noise_source)


def _step_rows(
    points: Sequence[Point], ids: dict[str, int], found: detection.Detection
) -> list[dict[str, Any]]:
    labels = [point.label for point in points if point.value is not None]
    rows = [
        {
            "kind": "step",
            "after_night_id": ids[labels[step.index - 1]],
            "through_night_id": ids[labels[step.index]],
            "level_before": step.level_before,
            "level_after": step.level_after,
            "confidence": step.confidence,
        }
        for step in found.steps
    ]
    for dip in found.dips:
        around = next(s.level for s in found.segments if s.start <= dip.start < s.stop)
        rows.append(
            {
                "kind": "dip",
                "after_night_id": ids[labels[dip.start]],
                "through_night_id": ids[labels[dip.stop - 1]],
                "level_before": around,
                "level_after": around * dip.ratio,
                "confidence": None,
            }
        )
    for drift in found.drifts:
        level = next(s.level for s in found.segments if s.start <= drift.start < s.stop)
        first = level / math.sqrt(1 + drift.total)  # the level is that of its middle
        rows.append(
            {
                "kind": "drift",
                "after_night_id": ids[labels[drift.start]],
                "through_night_id": ids[labels[drift.stop - 1]],
                "level_before": first,
                "level_after": first * (1 + drift.total),
                "confidence": None,
            }
        )
    return rows


def _ask(scene: _Scene, series_id: int, ids: dict[str, int], points: Sequence[Point], result: Triage) -> int:
    """Ask for the re-measurement that triage wants, where both nights can be run again."""
    suspect = result.suspect
    if suspect is None:
        return 0
    runnable = {point.label for point in points if point.environment is not None}
    if not {suspect.after, suspect.through} <= runnable:
        return 0
    rechecks.ask_recheck(
        scene.connection,
        machine=scene.machine,
        source=scene.source,
        series_id=series_id,
        after_id=ids[suspect.after],
        through_id=ids[suspect.through],
    )
    return 1
