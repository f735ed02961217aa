"""What does each step of a series mean, read in order: a fall, a return, part of a return, or a gain?

Detection knows steps; here they get a direction, and a step in the good direction is set beside the regressions that
are open at that point. Worked example, in ms, lower is better:

    0.41  178  81  0.6    0.41 > 178 is a regression of log size 6.07; 178 > 81 undoes 13 % of it: *eased*;
                          81 > 0.6 leaves 0.38 of 6.07, less than a quarter: *back*
    1.0   0.4  5.0        1.0 > 0.4 comes out of the blue: a gain of its own; 0.4 > 5.0 is a regression

A step that nothing has confirmed yet (it is not *ripe*) closes what it returns from only once it is. A step of an exact
series (a count) needs no confirmation; it is worth telling only from `suspect_change` on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from stepwatch.core.detection import Detection, DetectionSettings
from stepwatch.core.model import Better, Direction, Step

LEAST = 2.0**-1022  # below any count, and its logarithm is finite
_EASED_SHARE = 0.1  # of a regression's log size that must be undone before it is called partly back


@dataclass(kw_only=True)
class Turn:
    """One step with its meaning.

    `own` says that it is a regression or an improvement in its own right, not the way back from one; `relevant`
    that people are to hear of it; `back` is the step with which the level before this one was reached again, `eased`
    the first that undid part of it; both are set only when that step is ripe.
    """

    step: Step
    direction: Direction
    ripe: bool
    base: float  # log level before, worse is larger
    level: float  # log level after, worse is larger
    tolerance: float  # what may remain of a step that is back
    own: bool = True
    relevant: bool = True
    back: Step | None = None
    eased: Step | None = None

    @property
    def size(self) -> float:
        """The step's log size."""
        return abs(self.level - self.base)


@dataclass(frozen=True, kw_only=True)
class TriageSettings:
    """When a step is believed, and what is measured again at once.

    `confirm` results must follow the first one on a new level, and its step have `confidence` (0.5 is that of one that
    detection just believes in, so that what is said is further from being taken back), or `doubt` times as many where a
    re-measurement of a small step has seen nothing; `suspect_change` is relative, and to be measured again
    a night must also be `suspect_noises` times the noise off; a re-fit may move what is known by `same_place` results.
    People are told of steps in the directions `told`; of the others nobody is, and with none nothing is measured again. A
    drift is told from `drift_change` (relative) on, against the level of the night `baseline` where one is pinned.
    """

    detection: DetectionSettings = field(default_factory=DetectionSettings)
    confirm: int = 4
    doubt: int = 2
    confidence: float = 0.6
    suspect_change: float = 0.10
    suspect_noises: float = 3.0
    same_place: int = 2
    drift_change: float = 0.05
    baseline: str | None = None
    told: frozenset[Direction] = frozenset({Direction.REGRESSION, Direction.IMPROVEMENT})

    @property
    def large(self) -> float:
        """`suspect_change` as a log size (a hair less: 1.1 / 1.0 must reach it)."""
        return math.log1p(self.suspect_change) * (1 - 1e-9)


def read_course(
    values: Sequence[float],
    detection: Detection,
    better: Better,
    settings: TriageSettings,
    *,
    exact: bool = False,
    doubted: Collection[int] = (),
) -> list[Turn]:
    """One Turn for each of the detection's steps, in order.

    What begins at `doubted` positions was measured again and not found: where it is no large step, it takes `doubt` times as
    many results.
    """
    turns = [
        _exact_turn(detection, i, better, settings)
        if exact
        else _turn(values, detection, i, better, settings, doubted)
        for i in range(len(detection.steps))
    ]
    open_: list[Turn] = []
    gains: list[Turn] = []
    closed: Turn | None = None
    for turn in turns:
        if turn.direction is Direction.REGRESSION:
            _lose(gains, turn)
            open_.append(turn)
            continue
        left = _close(open_, turn)
        if left:
            closed = left
            turn.own = not left.ripe and turn.level < left.base - left.tolerance
        elif open_:
            turn.own = not _ease(open_, turn)
        elif closed is not None and turn.base > closed.base + settings.detection.min_effect:
            turn.own = turn.level < closed.base - closed.tolerance
        if turn.own:
            gains.append(turn)
    return turns


def _close(open_: list[Turn], turn: Turn) -> Turn | None:
    """Takes what `turn` returns from out of `open_`; the earliest of them."""
    returned = [r for r in open_ if turn.level <= r.base + r.tolerance]
    for regression in returned:
        open_.remove(regression)
        if turn.ripe:
            regression.back = turn.step
    return returned[0] if returned else None


def _ease(open_: Sequence[Turn], turn: Turn) -> bool:
    """Whether `turn` undoes part of the open regression that came last."""
    last = open_[-1]
    if last.level - turn.level < _EASED_SHARE * last.size:
        return False
    if turn.ripe and last.eased is None:
        last.eased = turn.step
    return True


def _lose(gains: list[Turn], turn: Turn) -> None:
    """Takes the gains that a ripe `turn` has lost out of `gains`."""
    for gain in [g for g in gains if turn.ripe and turn.level >= g.base - g.tolerance]:
        gain.back = turn.step
        gains.remove(gain)


def _turn(
    values: Sequence[float],
    detection: Detection,
    i: int,
    better: Better,
    settings: TriageSettings,
    doubted: Collection[int],
) -> Turn:
    step = detection.steps[i]
    old, new = detection.segments[i], detection.segments[i + 1]
    base, level = badness(old.level, better), badness(new.level, better)
    size = abs(level - base)
    in_doubt = step.index in doubted and size < settings.large
    wanted = settings.confirm * (settings.doubt if in_doubt else 1)
    error = detection.noise * math.sqrt(1 / (old.stop - old.start) + 1 / (new.stop - new.start))
    direction = Direction.REGRESSION if level > base else Direction.IMPROVEMENT
    return Turn(
        step=step,
        direction=direction,
        ripe=(
            step.confidence >= settings.confidence
            and results_on(values, detection, i, settings.detection.back_share) > wanted
        )
        or (step.remeasured and size >= settings.large),
        relevant=direction in settings.told,
        base=base,
        level=level,
        tolerance=max(
            settings.detection.back_share * size, settings.detection.min_effect, min(2 * error, size / 2)
        ),
    )


def _exact_turn(detection: Detection, i: int, better: Better, settings: TriageSettings) -> Turn:
    step = detection.steps[i]
    base, level = badness(step.level_before, better), badness(step.level_after, better)
    size = abs(level - base)
    direction = Direction.REGRESSION if level > base else Direction.IMPROVEMENT
    return Turn(
        step=step,
        direction=direction,
        ripe=True,
        relevant=size >= settings.large and direction in settings.told,
        base=base,
        level=level,
        tolerance=settings.detection.back_share * size,
    )


def badness(level: float, better: Better) -> float:
    """The log of a level, worse being larger. Zero counts as the least number there is: far from any count."""
    return math.log(max(level, LEAST)) * (1 if better is Better.LOWER else -1)


def results_on(values: Sequence[float], detection: Detection, i: int, back_share: float) -> int:
    """How many results lie on the new side of step i, until a later level is back: within `back_share` of the step.

    An odd night counts while it is within half the step of its level: a small wobble is no night off a far level.
    """
    step = detection.steps[i]
    size = abs(math.log(step.ratio))
    reach = size / 2
    upward = step.ratio > 1
    count = 0
    for segment in detection.segments[i + 1 :]:
        beyond = math.log(segment.level / step.level_before)
        if (beyond if upward else -beyond) <= back_share * size:
            break
        count += sum(
            j not in detection.odd or abs(math.log(values[j] / segment.level)) < reach
            for j in range(segment.start, segment.stop)
        )
    return count
