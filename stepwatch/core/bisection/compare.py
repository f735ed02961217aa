"""Are the values of two sides at one level, at two, or can that not be told yet?

Both sides are measured alternately, one value a process. A process is now and then 1.3 to 1.5 times slow for its
whole life and never quick for no reason, so a side's level is the quick end of its processes, and a process far
above it is set aside before ranks are compared (never as many as half of a side), unless the sides do not overlap at all.

The comparison is sequential: it looks at the first 3 processes a side, then at 5, 10, 20 ... up to the cap, and
the first look that decides stands. So appending values never changes a decision that was made.

    look at 3     DIFFERENT where even the closest processes are 1.6 times apart; otherwise more are asked for
    look at 5 on  DIFFERENT  an exact Mann-Whitney test says p < 0.01, and the levels are `min_effect` apart, and 3.5
                             standard errors: ranks alone call 1 of 126 pairs of five different by luck
                  SAME       the levels are closer than `min_effect` with two standard errors to spare
    before it     UNKNOWN    at once, where one may `give_up` and two standard errors more of an effect would still not make
                             it DIFFERENT at the cap, nor could the values there tell `min_effect` from nothing
    at the cap    SAME       ranks see nothing (p > 0.4) and the levels are closer than `min_effect`
                  UNKNOWN    otherwise

Worked example: 10, 10, 11 against 20, 21, 20 is decided at once, for 20 / 11 = 1.8. And 1.00 1.01 1.02 1.00 1.01
against 1.10 1.11 1.45 1.12 1.10: 1.45 is set aside; all 5 of one side lie under the 4 others, which has p = 2/126
= 0.016, so more are asked for.

Source of the rank test: Mann and Whitney, 1947, "On a test of whether one of two random variables is
stochastically larger than the other", with its exact distribution.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stepwatch.core.model import Better, Verdict

FIRST_LOOK = 3
SECOND_LOOK = 5
APART = 1.6  # above what slow processes (1.5) do between two equal sides
FEW = 10  # of so few values a quarter may be slow ones by chance
SLOW = 1.2  # a process this far above its side's quick end is a slow one
P_LOW = 0.01
P_HIGH = 0.4
ERRORS_DIFFERENT = 3.5
ERRORS_SAME = 2.0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What two sides are to each other.

    `ratio` is the new level / the old level over all values (None while a side is empty); `p` is the rank test's
    at the look that decided (1.0 before five a side); `more` > 0 asks for that many more processes on each side
    that has no more than the shorter one. SAME and DIFFERENT come with `more` = 0, as does UNKNOWN at the cap.
    """

    verdict: Verdict
    ratio: float | None
    p: float
    reason: str
    more: int


@dataclass(frozen=True, kw_only=True)
class Level:
    """One side's level: the mean over its quick processes (natural logarithms, as all of these).

    `kept` are the quick processes' values; `scatter` is their standard deviation, 0 where there is only one (or how
    far the quickest lies below the quarter's end, where that is as much as a slow process).
    """

    log: float
    scatter: float
    kept: tuple[float, ...]


def compare(
    old: Sequence[float],
    new: Sequence[float],
    *,
    noise: float | None = None,
    min_effect: float = 0.05,
    cap: int = 8,
    better: Better = Better.LOWER,
    give_up: bool = False,
    same_from: int = SECOND_LOOK,
) -> Comparison:
    """Say whether `new` is on another level than `old`.

    Args:
        old: one positive value a process, in the order of measuring, in any unit (or a ratio to a reference).
        new: likewise, in the same unit.
        noise: relative standard deviation of a quick process where it is known; the values' own, if larger, counts.
        min_effect: the smallest relative change of the level that matters, 0.05 for 5 %.
        cap: how many processes a side may be asked for.
        better: which direction is good, and so on which side of the level slow processes lie.
        give_up: whether to end with UNKNOWN as soon as the values scatter too much for the cap to help.
        same_from: how many processes a side it takes at the least to say SAME (the cap, if that is less).
    """
    size = min(len(old), len(new))
    ratio = _ratio(old, new, better) if size else None
    decided = Comparison(verdict=Verdict.UNKNOWN, ratio=ratio, p=1.0, reason="not measured yet", more=0)
    for look in looks(cap):
        if look > size:
            return _again(decided, look - size)
        sides = [level(values[:look], better) for values in (old, new)]
        decided = _judge(old[:look], new[:look], sides, ratio, noise, min_effect, last=look >= cap)
        if decided.verdict is Verdict.SAME and look < min(same_from, cap):
            decided = replace(decided, verdict=Verdict.UNKNOWN)
        if decided.verdict is not Verdict.UNKNOWN:
            break
        if give_up and _is_hopeless(sides, noise, min_effect, look / cap):
            break
    return decided


def looks(cap: int) -> list[int]:
    """How many processes a side the comparison looks at, in turn: 3, 5, then doubling up to `cap`."""
    sizes = [FIRST_LOOK, SECOND_LOOK]
    while sizes[-1] < cap:
        sizes.append(min(cap, 2 * sizes[-1]))
    return sizes


def level(values: Sequence[float], better: Better = Better.LOWER) -> Level:
    """The level of a side of one or more positive values, slow processes set aside.

    Slow are those `SLOW` times above the lower quartile (of five: the second best), but never half of the side.
    """
    sign = -1.0 if better is Better.HIGHER else 1.0
    logs = sorted(sign * math.log(value) for value in values)
    at = (len(logs) - 1) / 4
    low, high = logs[math.floor(at)], logs[math.ceil(at)]
    quick, slow = low + (at % 1) * (high - low), math.log(SLOW)
    kept = logs[: max(len(logs) // 2 + 1, sum(value <= quick + slow for value in logs))]
    mean = math.fsum(kept) / len(kept)
    squares = math.fsum((value - mean) ** 2 for value in kept)
    scatter = math.sqrt(squares / (len(kept) - 1)) if len(kept) > 1 else 0.0
    if quick - logs[0] > slow and len(logs) <= FEW:
        # Four of five may be slow ones, and the one below them is the level: that much is open.
        scatter = max(scatter, quick - logs[0])
    return Level(log=sign * mean, scatter=scatter, kept=tuple(sign * value for value in kept))


def is_apart(old: Sequence[float], new: Sequence[float]) -> bool:
    """Whether the closest values of two sides lie farther from each other than slow processes could put them."""
    return max(min(new) / max(old), min(old) / max(new)) >= APART


def error(levels: Sequence[Level], noise: float | None = None) -> float:
    """The standard error of a sum or difference of levels, from their pooled scatter.

    A scatter that comes from few values is widened, about as Student's t is; a known `noise` bounds it from below.
    """
    freedom = sum(len(side.kept) - 1 for side in levels)
    squares = math.fsum(side.scatter**2 * (len(side.kept) - 1) for side in levels)
    pooled = math.sqrt(squares / freedom) if freedom else 0.0
    scatter = pooled * (1 + 2.5 / max(1, freedom)) if noise is None else max(pooled, noise)
    return scatter * math.sqrt(math.fsum(1 / len(side.kept) for side in levels))


def rank_p(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided exact p of Mann and Whitney's test; ties count half and are rounded against a difference.

    >>> round(rank_p([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 4)
    0.0079
    """
    wins = sum((x > y) + 0.5 * (x == y) for x in a for y in b)
    smaller = math.ceil(min(wins, len(a) * len(b) - wins))
    counts = _ways(len(a), len(b))
    return min(1.0, 2 * sum(counts[: smaller + 1]) / sum(counts))


@functools.cache
def _ways(m: int, n: int) -> tuple[int, ...]:
    """In how many orders of m and n values the test's count U is 0, 1, 2 ... (the Gaussian binomial)."""
    row = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for u in range(m * n, n + i - 1, -1):
            row[u] -= row[u - n - i]
        for u in range(i, m * n + 1):
            row[u] += row[u - i]
    return tuple(row)


def _judge(
    old: Sequence[float],
    new: Sequence[float],
    sides: Sequence[Level],
    ratio: float | None,
    noise: float | None,
    min_effect: float,
    *,
    last: bool,
) -> Comparison:
    say = functools.partial(Comparison, ratio=ratio, more=0)
    size = len(old)
    if size < SECOND_LOOK:
        if is_apart(old, new):
            gap = max(min(new) / max(old), min(old) / max(new))
            return say(
                verdict=Verdict.DIFFERENT,
                p=1.0,
                reason=f"the closest of {size} processes a side are x {gap:.3g} apart",
            )
        return say(verdict=Verdict.UNKNOWN, p=1.0, reason=f"{size} processes a side overlap or are close")
    before, after = sides
    effect, unsure = abs(after.log - before.log), error(sides, noise)
    # what does not overlap at all needs nothing set aside, and three of five could never reach p < 0.01
    apart = min(new) > max(old) or min(old) > max(new)
    ranked = (old, new) if apart else (before.kept, after.kept)
    p, matters = rank_p(*ranked), math.log1p(min_effect)
    seen = f"{100 * math.expm1(after.log - before.log):+.1f} % with {size} processes a side (p = {p:.2g})"
    if p < P_LOW and effect >= max(matters, ERRORS_DIFFERENT * unsure):
        return say(verdict=Verdict.DIFFERENT, p=p, reason=seen)
    if effect + ERRORS_SAME * unsure < matters or (last and p > P_HIGH and effect < matters):
        return say(verdict=Verdict.SAME, p=p, reason=seen)
    return say(verdict=Verdict.UNKNOWN, p=p, reason=f"can't be told: {seen}")


def _is_hopeless(sides: Sequence[Level], noise: float | None, min_effect: float, share: float) -> bool:
    """Whether going on from a `share` of the cap to all of it would end without a word as well."""
    before, after = sides
    unsure = error(sides, noise)
    then, most = unsure * math.sqrt(share), abs(after.log - before.log) + ERRORS_SAME * unsure
    return most < ERRORS_DIFFERENT * then and math.log1p(min_effect) < ERRORS_SAME * then


def _again(decided: Comparison, more: int) -> Comparison:
    return Comparison(
        verdict=Verdict.UNKNOWN, ratio=decided.ratio, p=decided.p, reason=decided.reason, more=more
    )


def _ratio(old: Sequence[float], new: Sequence[float], better: Better) -> float:
    return math.exp(level(new, better).log - level(old, better).log)
