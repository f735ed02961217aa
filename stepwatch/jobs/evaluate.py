"""How good is detection on series of which people have said where the steps are?

A whole series is read as one window. Night by night it is `stepwatch replay`: an alert counts on the night it is said,
and one that is taken back is a flip. A peer's alert night by night is a boundary that it still shows when four results
are on the new level; that helps each of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepwatch.core.course import TriageSettings
from stepwatch.core.detection import detect
from stepwatch.core.labels import Labelled
from stepwatch.core.model import Better, Direction, Point
from stepwatch.core.scores import FIRST, Night, Score, held, score, whole
from stepwatch.jobs.replay import Replay, replay
from stepwatch.runners.peers import Peers

OURS = "stepwatch"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One detector: its score on whole series, within 2 and within 1 result, and night by night."""

    detector: str
    near: Score
    exact: Score
    watched: Score


def evaluate(
    series: Sequence[Labelled],
    *,
    settings: TriageSettings,
    peers: Peers | None,
    said: Sequence[tuple[list[int], Night]] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """A row for each detector, ours first; without `peers` ours alone.

    `said` are our own answers where they are known already, of each whole series and night by night.

    Raises:
        UnreachableError: the peers' environment can't be made now.
    """
    rows = []
    for detector in (OURS, *(peers.names() if peers else ())):
        progress(detector)
        if detector == OURS and said:
            answers, nights = [answer for answer, _ in said], [night for _, night in said]
        elif detector == OURS or peers is None:
            answers = [places(one, settings) for one in series]
            nights = [watch(one, settings) for one in series]
        else:
            answers = peers.ask(detector, series)["answers"]
            nights = [held(each) for each in peers.ask(detector, series, FIRST)["answers"]]
        rows.append(
            Row(
                detector=detector,
                near=whole(series, answers),
                exact=whole(series, answers, 1),
                watched=score(series, nights),
            )
        )
    return rows


def places(series: Labelled, settings: TriageSettings | None = None) -> list[int]:
    """Ours of a whole series: the first position of each new level."""
    found = detect(series.values, noise=series.noise, settings=settings.detection if settings else None)
    return [step.index for step in found.steps]


def watch(series: Labelled, settings: TriageSettings | None = None) -> Night:
    """Ours night by night; something retracted is a flip."""
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    points = [
        Point(label=str(i), at=start + dt.timedelta(days=i), value=value)
        for i, value in enumerate(series.values)
    ]
    played = replay(points, better=Better.LOWER, noise=series.noise, settings=settings)
    return night_of(played, {point.label: place for place, point in enumerate(points)})


def night_of(played: Replay, places: Mapping[str, int]) -> Night:
    """What a replay has said, by the places of the nights among those with a result."""
    alerts = {
        (places[one.saying.suspect.through], places[one.on]) for one in played.said if one.saying.suspect
    }
    flips = [one for one in played.said if one.saying.suspect is None]
    drifts = sum(one.saying.regression.direction is Direction.DRIFT for one in flips)  # are about no step
    return Night(alerts=sorted(alerts), flips=len(flips) - drifts)


def row_json(row: Row) -> dict[str, Any]:
    """A row as `stepwatch evaluate --json` prints it; rates are for 1000 series-nights, delays in results."""
    watched = row.watched
    return {
        "detector": row.detector,
        "precision": row.near.precision,
        "recall": row.near.recall,
        "f1": row.near.f1,
        "f1_within_1": row.exact.f1,
        "online": {
            "f1": watched.f1,
            "delay_median": watched.delay(0.5) if watched.delays else None,
            "delay_p90": watched.delay(0.9) if watched.delays else None,
            "false": watched.rate(watched.false),
            "flips": watched.rate(watched.flips),
            "duplicates": watched.rate(watched.doubles),
        },
    }
