"""Where does a series change its level, and which nights only look like it?

Source: the penalised piecewise-constant fit with a bounded loss is that of Fearnhead and Rigaill, "Changepoint
Detection in the Presence of Outliers" (2019), solved here over a grid of levels; what is around it is our own.
Worked example, with noise 0.0005: the guide's values 587.7 x 5, 570.2 x 3, 587.5 x 2, 577.2 x 5 are a dip at
positions 5 to 7 and one step, at position 10, with ratio 0.982.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepwatch.core.detection.fit import Floats, fit_boundaries, on_level
from stepwatch.core.detection.noise import leaves_often, noise_of_differences
from stepwatch.core.detection.prune import Stretch, prune, residuals_of, stretches
from stepwatch.core.detection.settings import DetectionSettings
from stepwatch.core.model import Dip, Segment, Step

_HELD_REACH = 2  # results by which an alerted step may move and still be held
_WIDER = 1.5  # the factor by which the noise of a series with modes is raised at a time


@dataclass(frozen=True, kw_only=True)
class Detection:
    """What a series is made of. `odd` are the positions off their segment's level, those of dips included.

    `noise` is relative (of log values); `noise_source` says how it was got.
    """

    segments: tuple[Segment, ...]
    steps: tuple[Step, ...]
    dips: tuple[Dip, ...]
    odd: frozenset[int]
    noise: float
    noise_source: str


def detect(
    values: ArrayLike,
    *,
    noise: float | None = None,
    boundaries: Sequence[int] = (),
    held: Sequence[int] = (),
    settings: DetectionSettings | None = None,
) -> Detection:
    """The segments, steps and dips of `values`, an array of shape (n,) without its gaps, in any unit.

    `noise` is a known relative noise; `boundaries` are first positions of a new level that a re-measurement has
    proved, they are never removed; at `held` positions a step was alerted, there it takes less to keep one.
    ValueError: a value is not positive and finite, or a boundary is not a position after the first.
    """
    settings = settings or DetectionSettings()
    logs = _logs(values)
    values = np.asarray(values, dtype=np.float64)
    forced = sorted(set(boundaries))
    if forced and not 0 < forced[0] <= forced[-1] < logs.size:
        raise ValueError(f"boundaries {forced} must be positions from 1 to {logs.size - 1}")
    if logs.size == 0:
        return Detection(
            segments=(), steps=(), dips=(), odd=frozenset(), noise=noise or 0.0, noise_source="no values"
        )
    if noise is not None:
        scale = max(noise, settings.noise_floor)
        return _describe(values, _fit(logs, scale, forced, held, settings), scale, "known", forced, settings)
    scale, source = max(noise_of_differences(logs, forced), settings.noise_floor), "differences"
    while True:
        kept = _fit(logs, scale, forced, held, settings)
        if not leaves_often(residuals_of(logs / scale, kept) ** 2 >= settings.bound):
            return _describe(values, kept, scale, source, forced, settings)
        scale, source = scale * _WIDER, "modes"


def _logs(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"values must have one dimension, not {array.ndim}")
    bad = np.flatnonzero(~(np.isfinite(array) & (array > 0)))
    if bad.size:
        raise ValueError(f"value {array[bad[0]]} at position {bad[0]} is not a positive finite number")
    logs: Floats = np.log(array)
    return logs


def _easing(held: Sequence[int], settings: DetectionSettings) -> Callable[[int], float]:
    eased = {place + reach for place in held for reach in range(-_HELD_REACH, _HELD_REACH + 1)}
    return lambda i: settings.hysteresis if i in eased else 1.0


def _fit(
    logs: Floats,
    scale: float,
    forced: Sequence[int],
    held: Sequence[int],
    settings: DetectionSettings,
) -> list[Stretch]:
    """The stretches in units of `scale`."""
    scaled = logs / scale
    penalties = np.full(logs.size, settings.penalty)
    penalties[[i for i in held if 0 < i < logs.size]] *= settings.hysteresis
    penalties[list(forced)] = 0.0
    found = fit_boundaries(scaled, bound=settings.bound, penalties=penalties, forced=forced)
    found = _settle(scaled, found, forced, settings.bound)
    return prune(scaled, found, noise=scale, settings=settings, forced=forced, ease=_easing(held, settings))


def _settle(scaled: Floats, found: Sequence[int], forced: Sequence[int], bound: float) -> list[int]:
    """The boundaries, each moved to the first night of its level.

    Odd nights between two levels cost the fit the same in either: those nearer to the old level stay with it.
    """
    settled = set(forced)
    for old, new in itertools.pairwise(stretches(scaled, found, bound)):
        before = np.flatnonzero(on_level(scaled[old.start : old.stop], old.level, bound))
        after = np.flatnonzero(on_level(scaled[new.start : new.stop], new.level, bound))
        last, first = old.start + int(before[-1]), new.start + int(after[0])
        near = np.abs(scaled[last + 1 : first] - new.level) < abs(new.level - old.level) / 2
        place = last + 1 + int(near.argmax()) if near.any() else first
        settled.add(new.start if new.start in forced else place)
    return sorted(settled)


def _describe(
    values: Floats,
    kept: Sequence[Stretch],
    scale: float,
    source: str,
    forced: Sequence[int],
    settings: DetectionSettings,
) -> Detection:
    logs = np.log(values)
    scaled = logs / scale
    odd = residuals_of(scaled, kept) ** 2 >= settings.bound
    segments = tuple(
        Segment(start=s.start, stop=s.stop, level=_median(values[s.start : s.stop], odd[s.start : s.stop]))
        for s in kept
    )
    steps = tuple(
        Step(
            index=b.start,
            ratio=b.level / a.level,
            level_before=a.level,
            level_after=b.level,
            confidence=1.0 if b.start in forced else _confidence(scaled, kept[i], kept[i + 1], settings),
            remeasured=b.start in forced,
        )
        for i, (a, b) in enumerate(itertools.pairwise(segments))
    )
    return Detection(
        segments=segments,
        steps=steps,
        dips=tuple(_dips(logs, kept, scale, settings)),
        odd=frozenset(int(i) for i in np.flatnonzero(odd)),
        noise=scale,
        noise_source=source,
    )


def _median(values: Floats, odd: NDArray[np.bool_]) -> float:
    return float(np.median(values if odd.all() else values[~odd]))


def _confidence(scaled: Floats, old: Stretch, new: Stretch, settings: DetectionSettings) -> float:
    """1 - 2^-(loss saved by the step / its penalty): one half where a step just pays, near 1 after a few nights."""

    def loss(part: Stretch, level: float) -> float:
        return float(np.minimum((scaled[part.start : part.stop] - level) ** 2, settings.bound).sum())

    saved = min(loss(new, old.level) - loss(new, new.level), loss(old, new.level) - loss(old, old.level))
    return float(max(1 - 2 ** -(saved / settings.penalty), 0.01))


def _dips(logs: Floats, kept: Sequence[Stretch], scale: float, settings: DetectionSettings) -> list[Dip]:
    """Runs of at most `dip_nights` far on one side of a level, with nights that are not far before and after."""
    far = max(settings.min_effect, settings.min_z * scale)
    found = []
    for part in kept:
        offsets = logs[part.start : part.stop] - part.level * scale
        sides = np.sign(offsets) * (np.abs(offsets) >= far)
        edges = np.flatnonzero(np.diff(sides)) + 1
        for a, b in itertools.pairwise(edges):
            if sides[a] != 0 and sides[a - 1] == sides[b] == 0 and b - a <= settings.dip_nights:
                ratio = float(np.exp(np.median(offsets[a:b])))
                found.append(Dip(start=part.start + int(a), stop=part.start + int(b), ratio=ratio))
    return found
