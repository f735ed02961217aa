"""Which boundary is to be measured again tonight, and what have re-measurements proved?

Worked example, 10 % being large: after 1.00, 1.01, 1.25 the bracket (2nd, 3rd] is asked for; DIFFERENT makes the
third night the first of a new level, SAME leaves it an odd night, and neither is asked again. A night whose own
processes disagree by 10 % must be 30 % off before it is worth the minutes; one that is three times off always is.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from stepwatch.core.course import TriageSettings
from stepwatch.core.detection import Detection, noise_of_values
from stepwatch.core.model import Evidence, Step, SuspectRange, Verdict
from stepwatch.core.results import Results

FAR = math.log(3)
CONTROL_SHARE = 0.5  # of a step that the control must move by, for the machine to have done it
CONTROLS_MIN = 5
EFFECT_MIN, EFFECT_MAX = 0.003, 0.05
MANY = 12  # nights from which on a series tells its own noise


def proved_boundary(results: Results, evidence: Evidence) -> int | None:
    """The first position of the new level that a re-measurement has proved, if it has.

    Where results have come in between since, the one is taken from which on they are nearer to the new end.
    """
    after, through = evidence.suspect.after, evidence.suspect.through
    if evidence.verdict is not Verdict.DIFFERENT or not {after, through} <= set(results.labels):
        return None
    start, stop = results.places[after], results.places[through]
    logs = [math.log(v) for v in results.values]

    def misfit(i: int) -> float:
        return sum(abs(logs[j] - logs[start if j < i else stop]) for j in range(start, stop))

    return min(range(stop, start, -1), key=misfit, default=None)


def surroundings_moved(results: Results, evidence: Sequence[Evidence]) -> set[int]:
    """The first positions of new levels that re-measurements have shown not to be the program's.

    SAME says that the two programs are alike now. Where both are nearer to the new night than to the old one, the machine
    has moved; where they are back, the night was an odd one. Across a bridge SAME is enough.
    """
    found = set()
    for each in evidence:
        after, through = each.suspect.after, each.suspect.through
        if each.verdict is not Verdict.SAME or not {after, through} <= set(results.labels):
            continue
        old, new = (math.log(results.values[results.places[label]]) for label in (after, through))
        sides = [statistics.median(map(math.log, side)) for side in (each.old, each.new) if side]
        if each.bridge or (sides and all(abs(side - new) < abs(side - old) for side in sides)):
            found.add(results.places[through])
    return found


def doubted(results: Results, evidence: Sequence[Evidence]) -> set[int]:
    """The first positions of new levels of which a re-measurement has said that both sides are alike."""
    return {
        results.places[each.suspect.through]
        for each in evidence
        if each.verdict is Verdict.SAME and each.suspect.through in results.labels
    }


def control_moved(results: Results, step: Step, controls: Sequence[tuple[str, float]]) -> bool:
    """Whether the pinned old environment, measured on (night, value), moved with a step: half of it or more."""
    places = [(results.places[night], value) for night, value in controls if night in results.places]
    before = [value for place, value in places if place < step.index]
    after = [value for place, value in places if place >= step.index]
    if not before or not after:
        return False
    moved = math.log(statistics.median(after) / statistics.median(before))
    return moved / math.log(step.level_after / step.level_before) >= CONTROL_SHARE


def control_noise(controls: Sequence[tuple[str, float]]) -> float | None:
    """The relative noise between runs of one environment; None where it was measured less than `CONTROLS_MIN` times.

    By the mean of the distances from the middle run: of a program with two modes a median would see one of them only.
    """
    values = [value for _, value in controls]
    if len(values) < CONTROLS_MIN or min(values) <= 0:
        return None
    logs = [math.log(value) for value in values]
    middle = statistics.median(logs)
    distance = statistics.fmean(abs(each - middle) for each in logs)
    return math.sqrt(math.pi / 2 * len(logs) / (len(logs) - 1)) * distance


def effect_sought(before: float, after: float) -> float:
    """The smallest change that a re-measurement of a step between two levels must be able to see: half of it, at most 5 %."""
    return min(EFFECT_MAX, max(EFFECT_MIN, abs(math.log(after / before)) / 2))


def asked_range(
    results: Results,
    detection: Detection,
    evidence: Sequence[Evidence],
    boundaries: Sequence[int],
    noise: float | None,
    settings: TriageSettings,
) -> SuspectRange | None:
    """The bracket to measure again: the newest result's, else the last step's, else one that was passed over."""
    if len(results.values) < 2:
        return None
    asked = {e.suspect for e in evidence}
    newest = _newest_range(results, detection, asked, boundaries, noise, settings)
    return newest or _passed_over(results, asked, boundaries)


def _newest_range(
    results: Results,
    detection: Detection,
    asked: set[SuspectRange],
    boundaries: Sequence[int],
    noise: float | None,
    settings: TriageSettings,
) -> SuspectRange | None:
    n = len(results.values)
    large = settings.large
    last = detection.segments[-1]
    earlier = list(range(last.start, n - 1))
    on = [j for j in earlier if j not in detection.odd] or earlier
    if on:
        logs = sorted(math.log(results.values[j]) for j in on)
        off = abs(math.log(results.values[-1]) - logs[len(logs) // 2])
        sigma = noise or _noise(results, detection, on, boundaries)
        if off >= min(max(large, settings.suspect_noises * sigma), FAR):
            bracket = SuspectRange(after=results.labels[on[-1]], through=results.labels[-1])
            return None if bracket in asked else bracket
    if not detection.steps:
        return None
    step = detection.steps[-1]
    bracket = results.bracket(detection, step)
    waits = n - step.index <= settings.confirm
    # of few nights a small step is only a guess
    small = abs(math.log(step.ratio)) < large and n < MANY
    return None if small or not waits or step.remeasured or bracket in asked else bracket


def _passed_over(
    results: Results, asked: set[SuspectRange], boundaries: Sequence[int]
) -> SuspectRange | None:
    """The first two neighbours that are far apart and were never the newest: nights that came late, or backfilled."""
    for i in range(1, len(results.values)):
        bracket = SuspectRange(after=results.labels[i - 1], through=results.labels[i])
        far = abs(math.log(results.values[i] / results.values[i - 1])) >= FAR
        if far and i not in boundaries and bracket not in asked:
            return bracket
    return None


def _noise(results: Results, detection: Detection, on: Sequence[int], boundaries: Sequence[int]) -> float:
    """How far nights of one level lie apart, as a log ratio.

    What a night's own processes disagree by tells it from the first night on; the series itself only after many:
    its few nights may all be on levels of their own.
    """
    spreads = [math.log1p(results.spreads[j]) for j in (*on, len(results.values) - 1)]
    own = max(sorted(spreads[:-1])[len(on) // 2], spreads[-1])
    if own and len(results.values) < MANY:
        return own
    if detection.noise_source == "modes":
        return max(own, detection.noise)
    last = len(results.values) - 1
    return max(own, noise_of_values(results.values[:-1], [b for b in boundaries if b < last]))
