"""What would have been said, night by night, had this series been watched?

The nights are played through triage one after the other, each night seeing only those before it, and what one night
knows is carried to the next: the same pure function that the nightly job calls, with no database and nothing to
measure again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepwatch.core.course import TriageSettings
from stepwatch.core.model import Better, Evidence, Point, Regression, Step, SuspectRange
from stepwatch.core.sayings import Saying, Telling
from stepwatch.core.triage import DipNights, triage


@dataclass(frozen=True, kw_only=True)
class Said:
    """What was said on the night `on`."""

    on: str
    saying: Saying


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Everything said, in order, and what is known after the last night."""

    unit: str
    said: tuple[Said, ...]
    regressions: tuple[Regression, ...]
    dips: tuple[DipNights, ...]
    steps: tuple[Step, ...]


def replay(
    points: Sequence[Point],
    *,
    better: Better,
    unit: str = "",
    noise: float | None = None,
    settings: TriageSettings | None = None,
    exact: bool = False,
    evidence: Sequence[Evidence] = (),
    controls: Sequence[tuple[str, float]] = (),
    last: int | None = None,
) -> Replay:
    """Plays `points` (nights in order, gaps included).

    Re-measurements that were made are `evidence` from the night on that they were about. `last`: only so many last nights
    are played, and what is known when they begin is not said. ValueError: as for triage.
    """
    known: tuple[Regression, ...] = ()
    dips: tuple[DipNights, ...] = ()
    steps: tuple[Step, ...] = ()
    said: list[Said] = []
    quiet = 0 if last is None else max(0, len(points) - last)
    for n, point in enumerate(points, start=1):
        if n < quiet or (point.value is None and n != quiet):
            continue  # a night without a result can't change what the nights before it say
        seen = {each.label for each in points[:n]}
        night = triage(
            points[:n],
            known=known,
            evidence=[each for each in evidence if each.suspect.through in seen],
            controls=controls,
            better=better,
            noise=noise,
            settings=settings,
            exact=exact,
        )
        known, dips, steps = night.regressions, night.dips, night.detection.steps
        said += [Said(on=point.label, saying=saying) for saying in night.said if n > quiet]
    return Replay(unit=unit, said=tuple(said), regressions=known, dips=dips, steps=steps)


def replay_json(played: Replay) -> dict[str, list[dict[str, Any]]]:
    """The one object that `stepwatch replay --json` prints; changes are relative to `baseline` in the unit.

    An alert of kind `recovered` or `partly_recovered` gives the step back: its bracket, its own baseline and change.
    A step that brings several regressions back is one alert. A `drift` has the range in which it came, little by little.
    """
    alerts: dict[tuple[Telling, SuspectRange], dict[str, Any]] = {}
    for one in played.said:
        drifted = one.saying.kind is Telling.DRIFT
        suspect = one.saying.regression.suspect if drifted else one.saying.suspect
        if suspect is not None:
            alerts.setdefault((one.saying.kind, suspect), _alert(one, suspect))
    return {
        "alerts": list(alerts.values()),
        "dips": [{"first": d.first, "last": d.last, "change": d.change} for d in played.dips],
        "retracted": [
            {
                **_range(one.saying.regression.suspect),
                "raised": one.saying.regression.raised,
                "gone": one.on,
            }
            for one in played.said
            if one.saying.kind is Telling.RETRACTED
        ],
    }


def _alert(one: Said, suspect: SuspectRange) -> dict[str, Any]:
    return {
        **_range(suspect),
        "raised": one.on,
        "change": one.saying.after / one.saying.before - 1 if one.saying.before else None,
        "baseline": one.saying.before,
        "kind": one.saying.kind.value,
    }


def _range(suspect: SuspectRange) -> dict[str, str]:
    return {"after": suspect.after, "through": suspect.through}
