"""Has a series become slower by no step at all, a little every night?

The level of the newest results is set beside a baseline: the level of a pinned night, else that of the first
results of the stretch that leans. What detection calls a step since then is taken out, for of that people are told by itself. Worked
example, 5 % being told and lower being better, with the baseline pinned at the first night:

    100 nights of 1.000, 1.0006, 1.0012, …      told on the night after some eighty, when the middle of the newest five is 5 % up
    10 nights of 1.0, then 90 of 1.2            a step, told as one; nothing remains that drifts
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from stepwatch.core.course import TriageSettings, badness
from stepwatch.core.detection import Detection
from stepwatch.core.model import Better, Direction, Regression, Segment, State, SuspectRange
from stepwatch.core.results import Results
from stepwatch.core.sayings import Saying, Telling, remaining

NEWEST = 5  # results whose middle is the present level
RESULTS = 14  # that a drift must last: weeks, for what moves in days is a step


def new_drift(
    results: Results,
    detection: Detection,
    followed: Sequence[Regression | None],
    better: Better,
    settings: TriageSettings,
    said: list[Saying],
) -> list[Regression]:
    """The drift that is new tonight, which is said at once; while one lasts there is no other."""
    drifts = [r for r in followed if r is not None and r.direction is Direction.DRIFT]
    if any(r.recovered in {None, results.tonight} for r in drifts):
        return []
    found = _find(results, detection, better, settings)
    if found is None:
        return []
    said.append(_of_drift(Telling.DRIFT, found, found.level))
    return [found]


def follow_drift(
    results: Results, known: Regression, better: Better, settings: TriageSettings, said: list[Saying]
) -> Regression:
    """What becomes of a told drift."""
    back = _back(results, known, better, settings) if known.recovered is None else None
    if back is None:
        return known
    said.append(_of_drift(Telling.RECOVERED, back, results.values[-1]))
    return back


def _of_drift(kind: Telling, drift: Regression, present: float) -> Saying:
    return Saying(
        kind=kind,
        regression=drift,
        suspect=None,
        before=drift.baseline if kind is Telling.DRIFT else drift.level,
        after=present,
        remaining=remaining(present, drift.baseline),
    )


def _find(
    results: Results, detection: Detection, better: Better, settings: TriageSettings
) -> Regression | None:
    """What has drifted for the worse by `drift_change` or more, as of tonight; its `baseline` is the level without it."""
    found = _since_pinned(results, detection, settings) or _leaning(results, detection)
    if found is None:
        return None
    start, ratio = found
    worse = badness(ratio, better)
    if len(results.values) - start < RESULTS or worse < math.log1p(settings.drift_change):
        return None
    level = _present(results)
    return Regression(
        suspect=SuspectRange(after=results.labels[start], through=results.labels[-1]),
        direction=Direction.DRIFT,
        state=State.CONFIRMED,
        baseline=level / ratio,
        level=level,
        raised=results.tonight,
    )


def _back(results: Results, known: Regression, better: Better, settings: TriageSettings) -> Regression | None:
    """A told drift whose level is back, as of tonight; None while it is not."""
    base = badness(known.baseline, better)
    size = badness(known.level, better) - base
    worse = badness(_present(results), better) - base
    if worse > max(settings.detection.back_share * size, settings.detection.min_effect):
        return None
    return replace(known, state=State.RECOVERED, recovered=results.tonight)


def _since_pinned(
    results: Results, detection: Detection, settings: TriageSettings
) -> tuple[int, float] | None:
    """(place of the pinned night, present level / its level without the steps since); None where it has no result."""
    start = results.places.get(settings.baseline or "", len(results.values))
    if start >= len(results.values):
        return None
    pinned = statistics.median(results.values[max(0, start - NEWEST // 2) : start + NEWEST // 2 + 1])
    steps = math.prod(
        _jump(results, old, new) for old, new in pairwise(detection.segments) if new.start > start
    )
    return start, _present(results) / pinned / steps


def _jump(results: Results, old: Segment, new: Segment) -> float:
    """The ratio of the results right behind a step to those right before it: whole stretches may lean."""
    before = results.values[max(old.start, old.stop - NEWEST) : old.stop]
    behind = results.values[new.start : min(new.stop, new.start + NEWEST)]
    return statistics.median(behind) / statistics.median(before)


def _leaning(results: Results, detection: Detection) -> tuple[int, float] | None:
    """(first place, present level / level of its first results) of the drift that lasts until tonight.

    The line itself may begin above all that was measured, where a stretch was level before it leant.
    """
    last = next((each for each in detection.drifts if each.stop == len(results.values)), None)
    if last is None:
        return None
    first = statistics.median(results.values[last.start : last.start + NEWEST])
    return last.start, _present(results) / first


def _present(results: Results) -> float:
    return statistics.median(results.values[-NEWEST:])
