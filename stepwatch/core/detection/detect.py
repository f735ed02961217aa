"""Where does a series change its level, and which nights only look like it?

Source: the penalised piecewise-constant fit with a bounded loss is that of Fearnhead and Rigaill, "Changepoint
Detection in the Presence of Outliers" (2019), solved here over a grid of levels; what is around it is our own.
Worked example, with noise 0.0005: the guide's values 587.7 x 5, 570.2 x 3, 587.5 x 2, 577.2 x 5 are a dip at
positions 5 to 7 and one step, at position 10, with ratio 0.982.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from stepwatch.core.detection.describe import Detection, describe
from stepwatch.core.detection.fit import Fit, Floats, Grid, Loss, fit_boundaries
from stepwatch.core.detection.noise import Noise, guess_noise
from stepwatch.core.detection.prune import REACH, Memo, Stretch, prune
from stepwatch.core.detection.settings import DetectionSettings
from stepwatch.core.model import Segment, Step

_TIE = 1e-9
LARGEST = 1e100


def detect(
    values: ArrayLike,
    *,
    noise: float | None = None,
    boundaries: Sequence[int] = (),
    held: Sequence[int] = (),
    settings: DetectionSettings | None = None,
    exact: bool = False,
) -> Detection:
    """The segments, steps and dips of `values`, an array of shape (n,) without its gaps, in any unit.

    `noise` is a known relative noise; `boundaries` are first positions of a new level that a re-measurement has
    proved, they are never removed; at `held` positions a step was alerted, there it takes less to keep one.
    `exact` values are counts of a deterministic program: each change of one is a step, and nothing else is asked.
    ValueError: a value is not positive (exact: is negative) or not finite, or a boundary is not a position after
    the first.
    """
    if exact:
        return detect_exact(values)
    settings = settings or DetectionSettings()
    values = _checked(values, zero=False)
    logs = np.log(values)
    forced = sorted(set(boundaries))
    if forced and not 0 < forced[0] <= forced[-1] < logs.size:
        raise ValueError(f"boundaries {forced} must be positions from 1 to {logs.size - 1}")
    if logs.size == 0:
        return Detection(
            segments=(),
            steps=(),
            dips=(),
            drifts=(),
            odd=frozenset(),
            noise=noise or 0.0,
            noise_source="no values",
        )
    if noise is None:
        guess = guess_noise(logs, forced, settings.noise_floor)
    else:
        guess = Noise(size=max(noise, settings.noise_floor), source="known")
    loss = Loss(bound=settings.bound, modes=guess.modes / guess.size)
    scaled = logs / guess.size
    penalties = np.full(scaled.size, settings.penalty, dtype=np.float64)
    penalties[forced] = 0.0
    found = fit_boundaries(scaled, loss=loss, penalties=penalties, forced=forced)
    return _conclude(
        values, scaled, found, noise=guess, loss=loss, forced=forced, held=held, settings=settings
    )


class Growing:
    """The detection of a series that grows night by night, its noise known: what `detect` says, without starting over.

    Only a value far from all before it (in a new cell of the grid of levels) makes the fit go over all of them once more.
    """

    def __init__(self, *, noise: float, settings: DetectionSettings | None = None) -> None:
        self._settings = settings or DetectionSettings()
        self._noise = Noise(size=max(noise, self._settings.noise_floor), source="known")
        self._loss = Loss(bound=self._settings.bound)
        self._values: list[float] = []
        self._fit: Fit | None = None
        self._memo = Memo()

    def append(self, value: float) -> Detection:
        """What there is to say after one more night. ValueError: `value` is not positive or not finite."""
        _checked([value], zero=False)
        self._values.append(value)
        values = np.array(self._values)
        scaled = np.log(values) / self._noise.size
        new = scaled[-1:]
        if self._fit is None or not self._fit.grid.has(new[0]):
            self._fit, new = Fit(Grid.of(scaled), self._loss), scaled
        self._fit.extend(
            new,
            penalties=np.full(new.size, self._settings.penalty),
            bounds=np.full(new.size, self._loss.bound),
        )
        return _conclude(
            values,
            scaled,
            self._fit.boundaries(),
            noise=self._noise,
            loss=self._loss,
            settings=self._settings,
            memo=self._memo,
        )


def detect_exact(values: ArrayLike) -> Detection:
    """The same of counts: one level as long as nothing changes, and no noise, so that no night is odd."""
    array = _checked(values, zero=True)
    starts = [0, *(int(i) + 1 for i in np.flatnonzero(np.diff(array)))] if array.size else []
    segments = tuple(
        Segment(start=start, stop=stop, level=float(array[start]))
        for start, stop in itertools.pairwise([*starts, array.size])
    )
    steps = tuple(
        Step(
            index=b.start,
            ratio=b.level / a.level if a.level else math.inf,
            level_before=a.level,
            level_after=b.level,
            confidence=1.0,
        )
        for a, b in itertools.pairwise(segments)
    )
    return Detection(
        segments=segments, steps=steps, dips=(), drifts=(), odd=frozenset(), noise=0.0, noise_source="exact"
    )


def _checked(values: ArrayLike, *, zero: bool) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"values must have one dimension, not {array.ndim}")
    # beyond the bounds no ratio of two values can be trusted to be a number
    odd = ~np.isfinite(array) | (array < 0) | (array > LARGEST) | ((array < 1 / LARGEST) & (not zero))
    bad = np.flatnonzero(odd)
    if bad.size:
        kind = "zero or a positive finite number" if zero else "a positive finite number"
        raise ValueError(f"value {array[bad[0]]} at position {bad[0]} is not {kind}")
    return array


def _conclude(
    values: Floats,
    scaled: Floats,
    found: Sequence[int],
    *,
    noise: Noise,
    loss: Loss,
    settings: DetectionSettings,
    forced: Sequence[int] = (),
    held: Sequence[int] = (),
    memo: Memo | None = None,
) -> Detection:
    """What is left of the boundaries that the fit has found, and what the series is made of with them."""
    memo = memo or Memo()
    kept, sureness = prune(
        scaled,
        found,
        loss=loss,
        noise=noise.size,
        settings=settings,
        forced=forced,
        held=held,
        memo=memo,
    )
    placed = _place(scaled, kept, loss, forced)
    return describe(
        values, placed, sureness, noise=noise, loss=loss, forced=forced, settings=settings, memo=memo
    )


def _place(scaled: Floats, kept: Sequence[Stretch], loss: Loss, forced: Sequence[int]) -> list[Stretch]:
    """The stretches, the boundary between two of them moved by up to `REACH` results to where it fits best.

    Nights on the way from one level to the other are odd to the fit and cost it the same in either. Here each counts
    for the level that it is nearer to, by how much (at most as much as a night on that level).
    """
    starts = [part.start for part in kept]
    for i, (old, new) in enumerate(itertools.pairwise(kept), start=1):
        if new.start in forced:
            continue
        first, stop = max(starts[i - 1] + 1, new.start - REACH), min(new.stop - 1, new.start + REACH) + 1
        low, high = sorted((old.level, new.level))
        nights = scaled[first - 1 : stop]
        for level in (old.level, new.level):
            nights = level + loss.fold(nights - level)
        nearer = nights.clip(low, high) - (low + high) / 2
        behind = np.cumsum(nearer if old.level > new.level else -nearer)[:-1]
        best = np.flatnonzero(behind >= behind.max() - _TIE) + first
        starts[i] = int(best[np.abs(best - new.start).argmin()])
    return [
        Stretch(start=start, stop=stop, level=part.level)
        for part, (start, stop) in zip(kept, itertools.pairwise([*starts, scaled.size]), strict=True)
    ]
