"""Which of the fitted changes of level are steps that one may speak of?

Weakest first, a change is taken away while it fails one of three: its size reaches the minimum effect; it is
`min_z` standard errors (of noise that may be autocorrelated) from nothing; and adding it to a straight line through
both stretches is worth it. The last is what keeps a slope from becoming stairs:

    0 1 2 3 4 5 6 7 as 0..3 | 4..7    the line alone leaves nothing to explain  -> no step
    0 0 0 0 4 4 4 4                   the line leaves much, line + step nothing  -> a step
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwatch.core.detection.fit import Floats, Loss, level_of, on_level
from stepwatch.core.detection.settings import DetectionSettings

REACH = 2  # results by which an alerted step may move and still be held, or a boundary to fit better
_FLAT = 1e-9  # a squared length below which a line takes over the whole step


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Positions [start, stop) with their level, in units of the noise."""

    start: int
    stop: int
    level: float


@dataclass(frozen=True, kw_only=True)
class Strength:
    """How far a change of level passes the criteria, 1 being just enough: its effect; its z, alone and over a line."""

    effect: float
    z: float
    line_z: float


class Memo:
    """What was worked out about stretches of a series that only grows: it stays true of those that end before its end."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Any] = {}

    def of(self, key: tuple[object, ...], work: Callable[[], Any], *, lasts: bool) -> Any:
        """What `work` says, asked for once where it `lasts`."""
        if not lasts:
            return work()
        if key not in self._known:
            self._known[key] = work()
        return self._known[key]


def stretches(scaled: Floats, boundaries: Sequence[int], loss: Loss, memo: Memo) -> list[Stretch]:
    """The stretches between `boundaries`, each with its own level."""

    def level(start: int, stop: int) -> float:
        found: float = memo.of(
            ("level", start, stop), lambda: level_of(scaled[start:stop], loss), lasts=stop < scaled.size
        )
        return found

    edges = [0, *boundaries, scaled.size]
    return [Stretch(start=a, stop=b, level=level(a, b)) for a, b in itertools.pairwise(edges)]


def prune(
    scaled: Floats,
    boundaries: Sequence[int],
    *,
    loss: Loss,
    noise: float,
    settings: DetectionSettings,
    forced: Sequence[int],
    held: Sequence[int],
    memo: Memo,
) -> tuple[list[Stretch], list[float]]:
    """The stretches that remain, and of each change between two how sure it is: its z over what is asked of one.

    `forced` boundaries stay; for the one nearest to each `held` place the thresholds are `hysteresis` times as high.
    """
    pruning = _Pruning(scaled, boundaries, loss, noise, settings, forced, held, memo)
    while (weakest := pruning.weakest()) is not None:
        pruning.join(weakest, weakest + 1)
    return pruning.kept, pruning.sureness()


class _Pruning:
    """The stretches that are left, and for each change of level its strength."""

    def __init__(
        self,
        scaled: Floats,
        boundaries: Sequence[int],
        loss: Loss,
        noise: float,
        settings: DetectionSettings,
        forced: Sequence[int],
        held: Sequence[int],
        memo: Memo,
    ) -> None:
        self._memo = memo
        self._scaled, self._loss, self._noise, self._settings = scaled, loss, noise, settings
        self._forced, self._held = frozenset(forced), held
        self.kept = stretches(scaled, boundaries, loss, memo)
        self._residuals = loss.fold(residuals_of(scaled, self.kept))
        self._strengths = [self._strength(i) for i in range(len(self.kept) - 1)]
        i = 1
        while i < len(self.kept) - 1:
            i = self._join_dip(i) or i + 1

    def weakest(self) -> int | None:
        """The stretch whose change to the next is weakest and too weak; None when all are strong enough."""
        if not self._strengths:
            return None
        factor = correlation_factor(self._residuals, self._settings.bound)
        eased = self._eased()
        passes = [self._passes(i, factor, eased) for i in range(len(self._strengths))]
        weakest = min(range(len(passes)), key=passes.__getitem__)
        return weakest if passes[weakest] < 1 else None

    def sureness(self) -> list[float]:
        """The z of each change that is left, over `min_z`."""
        factor = correlation_factor(self._residuals, self._settings.bound) if self._strengths else 1.0
        return [min(strength.z / factor, strength.line_z) for strength in self._strengths]

    def join(self, first: int, last: int, level: float | None = None) -> None:
        """Makes one stretch, on `level` or its best one, of `first` to `last`, and of a dip that this uncovers."""
        start, stop = self.kept[first].start, self.kept[last].stop
        if level is None:
            level = level_of(self._scaled[start:stop], self._loss)
        self.kept[first : last + 1] = [Stretch(start=start, stop=stop, level=level)]
        self._residuals[start:stop] = self._loss.fold(self._scaled[start:stop] - level)
        del self._strengths[first:last]
        for i in (first - 1, first):
            if 0 <= i < len(self._strengths):
                self._strengths[i] = self._strength(i)
        for i in (first - 1, first, first + 1):
            if self._join_dip(i) is not None:
                break

    def _join_dip(self, i: int) -> int | None:
        """Joins stretch i, of a few nights, with the one before where the level is back after it; their place.

        Back beside a deep dip may still be a step beside the noise: that change is kept, to be judged like any other.
        """
        if not 0 < i < len(self.kept) - 1:
            return None
        old, dip, new = self.kept[i - 1 : i + 2]
        size = min(abs(dip.level - old.level), abs(dip.level - new.level))
        back = abs(new.level - old.level) <= self._settings.back_share * size
        short = dip.stop - dip.start <= self._settings.dip_nights
        if not (back and short) or {dip.start, new.start} & self._forced:
            return None
        self.join(i - 1, i, old.level)
        return max(i - 1, 1)

    def _eased(self) -> set[int]:
        """The change nearest to each place where a step was alerted: a second one beside it is not eased."""
        starts = [part.start for part in self.kept[1:]]
        nearest = [(min(starts, key=lambda start: abs(start - place)), place) for place in self._held]
        return {start for start, place in nearest if abs(start - place) <= REACH}

    def _passes(self, i: int, factor: float, eased: Collection[int]) -> float:
        strength, start = self._strengths[i], self.kept[i + 1].start
        if start in self._forced:
            return math.inf
        ease = self._settings.hysteresis if start in eased else 1.0
        z = min(strength.z / factor, strength.line_z) / ease
        return min(z, strength.effect / ease)

    def _strength(self, i: int) -> Strength:
        old, new = self.kept[i], self.kept[i + 1]
        found: Strength = self._memo.of(
            ("strength", old, new), lambda: self._work_out(old, new), lasts=new.stop < self._scaled.size
        )
        return found

    def _work_out(self, old: Stretch, new: Stretch) -> Strength:
        settings = self._settings
        size = abs(new.level - old.level)
        spread = max(1.0, 1.4826 * middle(np.abs(self._residuals[old.start : new.stop])))
        error = spread * math.sqrt(1 / (old.stop - old.start) + 1 / (new.stop - new.start))
        return Strength(
            effect=size * self._noise / settings.min_effect,
            z=size / error / settings.min_z,
            line_z=_line_z(self._scaled, old, new, spread, settings.bound) / settings.min_line_z,
        )


def middle(values: Floats) -> float:
    """The median, of two in the middle the upper one: several times quicker than numpy's on a few values."""
    return float(np.partition(values, values.size // 2)[values.size // 2])


def residuals_of(scaled: Floats, kept: Sequence[Stretch]) -> Floats:
    """The values less their stretch's level."""
    residuals: Floats = scaled - np.repeat([s.level for s in kept], [s.stop - s.start for s in kept])
    return residuals


def correlation_factor(residuals: Floats, bound: float) -> float:
    """By how much nights that err together widen a mean's standard error: sqrt(1 + 2 r1 + 2 r2 + ...).

    The correlations r of nights up to the cube root of their number apart are taken from clipped residuals and
    weighted down to nothing with their distance (Newey and West, 1987).
    """
    clipped = residuals.clip(-math.sqrt(bound), math.sqrt(bound))
    power = float(clipped @ clipped)
    if power == 0:
        return 1.0
    lags = min(round(clipped.size ** (1 / 3)), clipped.size - 1)
    shared = sum((1 - k / (lags + 1)) * float(clipped[k:] @ clipped[:-k]) for k in range(1, lags + 1)) / power
    return math.sqrt(1 + 2 * max(shared, 0.0))


def _line_z(scaled: Floats, old: Stretch, new: Stretch, spread: float, bound: float) -> float:
    """By how many standard errors `line + step` explains both stretches better than a line alone."""
    start, stop = old.start, new.stop
    levels = np.repeat([old.level, new.level], [old.stop - old.start, new.stop - new.start])
    values = scaled[start:stop]
    near = on_level(values - levels, 0.0, bound * spread**2)
    time = np.flatnonzero(near).astype(np.float64)
    after = (time >= new.start - start).astype(np.float64)
    time -= time.sum() / time.size
    # What of the step no line can take over; what the values have in common with it is the step's own gain.
    rest = after - after.sum() / after.size
    if time.any():
        rest -= time * float(time @ rest) / float(time @ time)
    power = float(rest @ rest)
    if power < _FLAT:
        return 0.0
    return abs(float(rest @ values[near])) / math.sqrt(power) / spread
