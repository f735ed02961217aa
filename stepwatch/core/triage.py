"""Of what detection sees in one series, what is known already, what is new, and what is said tonight?

A pure function of the series, of what was known, and of the re-measurements; replay and the nightly job both play it.
It is called again, with the new evidence, when the re-measurement that it asked for (`suspect`) is there.

    a newest result 10 % off its level           -> asks for a re-measurement of (last on the level, this one]
    re-measured DIFFERENT, 10 % or more          -> CONFIRMED and said tonight
    re-measured SAME                             -> an odd night; the same bracket is not asked for again
    re-measured SAME, both on the new level      -> ENVIRONMENT, never said: the machine did it, for the old program is
                                                    on the new level now as well; or across a bridge: what stands
                                                    beside the program
    the control moved by half as much            -> ENVIRONMENT likewise
    otherwise: a step                            -> SUSPECTED; CONFIRMED and said when `confirm` results followed its first
    gone before anything was said                -> forgotten (detection files a dip)
    said, and the level is back                  -> RECOVERED, said once; part of the way: said once
    said, and later nights show no step at all   -> RECOVERED, said once as retracted; but it stays where the nights on
                                                    both sides differ as before, and only the noise has grown
    said as a gain, and nights that came late
      show it to be the way back of a regression -> RECOVERED, said once
    a little slower every night                  -> a drift (stepwatch/core/drifts.py), said once it is 5 %

Worked example: the guide's step of 07-25 has results on 07-25, 26, 27, 28 and 29; the fourth after the first is on
07-29, and that night it is said.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from stepwatch.core.course import TriageSettings, Turn, badness, read_course
from stepwatch.core.detection import Detection, detect
from stepwatch.core.drifts import follow_drift, new_drift
from stepwatch.core.model import (
    Better,
    Direction,
    Evidence,
    Point,
    Regression,
    State,
    Step,
    SuspectRange,
)
from stepwatch.core.recheck import (
    asked_range,
    control_moved,
    doubted,
    proved_boundary,
    surroundings_moved,
)
from stepwatch.core.results import Results, collect_results
from stepwatch.core.sayings import RAISING, Saying, Telling, remaining


@dataclass(frozen=True, kw_only=True)
class DipNights:
    """A dip by its first and last label; `change` relative to the level around it."""

    first: str
    last: str
    change: float


@dataclass(frozen=True, kw_only=True)
class Triage:
    """What is known after tonight.

    `followed[i]` is what has become of `known[i]`, None where it is forgotten; `opened` are the new ones, oldest
    first. `suspect` is the bracket to be measured again at once.
    """

    detection: Detection
    followed: tuple[Regression | None, ...]
    opened: tuple[Regression, ...]
    dips: tuple[DipNights, ...]
    suspect: SuspectRange | None
    said: tuple[Saying, ...]

    @property
    def regressions(self) -> tuple[Regression, ...]:
        """All that is known now; what `known` is on the next night."""
        return (*(r for r in self.followed if r is not None), *self.opened)


def triage(
    points: Sequence[Point],
    *,
    known: Sequence[Regression] = (),
    evidence: Sequence[Evidence] = (),
    controls: Sequence[tuple[str, float]] = (),
    better: Better,
    noise: float | None = None,
    settings: TriageSettings | None = None,
    exact: bool = False,
    elsewhere: Collection[str] = (),
) -> Triage:
    """What is known, suspected and said after the last of `points` (nights in order, gaps and failures included).

    `noise` is a known relative noise; `controls` (night, value) are what a pinned old environment measured; `elsewhere` are
    nights from which on it is known that not the program is what moved. `exact`
    values are counts: a step is CONFIRMED on its first night without being measured again, and said if it is `suspect_change` large; a smaller one is filed and never said.
    ValueError: a value is not positive (exact: is negative) or not finite, or two points have one label.
    """
    settings = settings or TriageSettings()
    results = collect_results(points)
    proved = () if exact else [proved_boundary(results, e) for e in evidence]
    boundaries = sorted({i for i in proved if i is not None})
    held = [
        results.places[r.suspect.through]
        for r in known
        if r.raised and r.direction is not Direction.DRIFT and r.suspect.through in results.places
    ]
    moved = set() if exact else surroundings_moved(results, evidence)
    moved |= {results.places[label] for label in elsewhere if label in results.places}
    detection = detect(
        results.values,
        noise=noise,
        boundaries=boundaries,
        held=held,
        settings=settings.detection,
        exact=exact,
    )
    turns = read_course(
        results.values,
        detection,
        better,
        settings,
        exact=exact,
        doubted=() if exact else doubted(results, evidence),
    )
    if not exact:
        moved |= {t.step.index for t in turns if control_moved(results, t.step, controls)}
    matches = _match(results, known, turns, settings.same_place)
    said: list[Saying] = []
    followed = tuple(
        _followed(results, detection, r, matches[i], said, elsewhere=matches[i].step.index in moved)
        if i in matches
        else follow_drift(results, r, better, settings, said)
        if r.direction is Direction.DRIFT
        else _gone(results, detection, r, better, settings, said)
        for i, r in enumerate(known)
    )
    taken = [id(t) for t in matches.values()]
    opened = [
        _followed(results, detection, None, turn, said, elsewhere=turn.step.index in moved)
        for turn in turns
        if turn.own and id(turn) not in taken and not _told_as_return(results, known, turn, settings)
    ]
    alerted = [r for r in (*followed, *opened) if r is not None and r.raised]
    if not exact and Direction.REGRESSION in settings.told:
        opened += new_drift(results, detection, followed, better, settings, said)
    return Triage(
        detection=detection,
        followed=followed,
        opened=tuple(opened),
        dips=_dips(results, detection, alerted),
        suspect=None
        if exact or not settings.told
        else asked_range(results, detection, evidence, boundaries, noise, settings),
        said=tuple(said),
    )


def _match(
    results: Results, known: Sequence[Regression], turns: Sequence[Turn], reach: int
) -> dict[int, Turn]:
    """Which step each known regression is: the nearest of its direction, at most `reach` results outside of its bracket.

    Nights that came late may lie in the bracket by now: inside it, a step is where it was.
    """
    pairs = sorted(
        (not r.raised, _outside(results, r.suspect, turn.step.index), i, j)
        for i, r in enumerate(known)
        if {r.suspect.after, r.suspect.through} <= results.places.keys()
        for j, turn in enumerate(turns)
        if turn.direction is r.direction and (turn.own or r.raised)
    )
    matches: dict[int, Turn] = {}
    taken: set[int] = set()
    for _, distance, i, j in pairs:
        if distance <= reach and i not in matches and j not in taken:
            matches[i] = turns[j]
            taken.add(j)
    return matches


def _outside(results: Results, bracket: SuspectRange, place: int) -> int:
    """By how many results a step at `place` lies outside of a bracket."""
    first, last = results.places[bracket.after] + 1, results.places[bracket.through]
    return max(first - place, place - last, 0)


def _told_as_return(
    results: Results, known: Sequence[Regression], turn: Turn, settings: TriageSettings
) -> bool:
    """Whether people know this improvement as the way back of a regression, which a re-fit has since moved."""
    nights = [night for r in known if r.raised for night in (r.eased, r.recovered) if night in results.places]
    waits = [results.places[night] - turn.step.index for night in nights]
    return turn.direction is Direction.IMPROVEMENT and any(
        0 <= wait <= settings.confirm + settings.same_place for wait in waits
    )


def _followed(
    results: Results,
    detection: Detection,
    known: Regression | None,
    turn: Turn,
    said: list[Saying],
    *,
    elsewhere: bool,
) -> Regression:
    """The regression that `turn` is tonight, `known` before; what is new about it goes to `said`."""
    before = known or Regression(
        suspect=results.bracket(detection, turn.step),
        direction=turn.direction,
        state=State.SUSPECTED,
        baseline=turn.step.level_before,
        level=turn.step.level_after,
    )
    now = replace(
        before,
        suspect=results.bracket(detection, turn.step),
        baseline=turn.step.level_before,
        level=turn.step.level_after,
        remeasured=turn.step.remeasured,
    )
    if before.state in {State.RECOVERED, State.ENVIRONMENT}:
        return now
    if elsewhere and before.raised is None:
        return replace(now, state=State.ENVIRONMENT)
    if before.raised is None and turn.back is not None:
        return replace(now, state=State.RECOVERED, recovered=results.tonight)
    if before.state is State.SUSPECTED and (turn.ripe or turn.step.remeasured):
        now = replace(now, state=State.CONFIRMED)

    heard = _heard(before, turn)
    if heard is None:
        return now
    kind, step = heard
    if kind in RAISING:
        now = replace(now, raised=results.tonight, eased=results.tonight if turn.eased else None)
    elif kind is Telling.PARTLY_RECOVERED:
        now = replace(now, eased=results.tonight)
    else:
        now = replace(now, state=State.RECOVERED, recovered=results.tonight)
        if kind is Telling.RECOVERED and turn.direction is Direction.IMPROVEMENT:
            return now  # a gain that is lost again is a regression, and said as one
    said.append(
        Saying(
            kind=kind,
            regression=now,
            suspect=results.bracket(detection, step),
            before=step.level_before,
            after=step.level_after,
            remaining=remaining(step.level_after, now.baseline),
        )
    )
    return now


def _heard(before: Regression, turn: Turn) -> tuple[Telling, Step] | None:
    """What is new about a regression that stands, and the step that is the reason."""
    if before.raised is None:
        return (Telling(turn.direction.value), turn.step) if turn.ripe and turn.relevant else None
    if turn.direction is Direction.IMPROVEMENT and not turn.own:
        return Telling.WAY_BACK, turn.step
    if turn.back is not None:
        return Telling.RECOVERED, turn.back
    if before.eased is None and turn.eased is not None:
        return Telling.PARTLY_RECOVERED, turn.eased
    return None


def _gone(
    results: Results,
    detection: Detection,
    known: Regression,
    better: Better,
    settings: TriageSettings,
    said: list[Saying],
) -> Regression | None:
    """What becomes of a known regression that no step stands for any more."""
    closed = known.state in {State.RECOVERED, State.ENVIRONMENT}
    if closed or known.suspect.through not in results.places or not detection.segments:
        return known
    if known.raised is None:
        return None
    if _still_there(results, detection, known):
        return known
    present = detection.segments[-1].level
    base = badness(known.baseline, better)
    worse = badness(present, better) - base
    size = abs(badness(known.level, better) - base)
    back = worse <= max(settings.detection.back_share * size, settings.detection.min_effect)
    now = replace(known, state=State.RECOVERED, recovered=results.tonight)
    said.append(
        Saying(
            kind=Telling.RECOVERED if back and known.direction is Direction.REGRESSION else Telling.RETRACTED,
            regression=now,
            suspect=None,
            before=known.level,
            after=present,
            remaining=remaining(present, known.baseline),
        )
    )
    return now


def _still_there(results: Results, detection: Detection, known: Regression) -> bool:
    """Whether the nights around a step that no fit shows any more differ as before: then it is the noise that grew."""
    place = results.places[known.suspect.through]
    around = next((s for s in detection.segments if s.start < place < s.stop), None)
    if around is None:
        return False
    old, new = (
        statistics.median(results.values[a:b]) for a, b in ((around.start, place), (place, around.stop))
    )
    return (new - old) / (known.level - known.baseline) >= 0.5


def _dips(results: Results, detection: Detection, alerted: Sequence[Regression]) -> tuple[DipNights, ...]:
    """The dips by their labels; an alerted level that came back is none."""
    starts = {results.places[r.suspect.through] for r in alerted if r.suspect.through in results.places}
    return tuple(
        DipNights(first=results.labels[dip.start], last=results.labels[dip.stop - 1], change=dip.ratio - 1)
        for dip in detection.dips
        if not starts & set(range(dip.start, dip.stop))
    )
