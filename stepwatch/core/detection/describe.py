"""What is a fitted series made of, in its own unit: segments, steps, dips, drifts and odd nights?

A stretch that leans is described by its line: worked example, with noise 0.001: 100.0, 100.1, ... 104.9 is one
segment and a drift of 0.1 % a night, 4.9 % in total, and no night of it is odd. A line is believed like a step: it
must be `min_effect` high and `min_z` standard errors steep.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stepwatch.core.detection.fit import Floats, Loss
from stepwatch.core.detection.noise import Noise
from stepwatch.core.detection.prune import Memo, Stretch, correlation_factor, middle
from stepwatch.core.detection.settings import DetectionSettings
from stepwatch.core.model import Dip, Segment, Step


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A slope that no single step explains: positions [start, stop); `slope` per night and `total` are relative."""

    start: int
    stop: int
    slope: float
    total: float


@dataclass(frozen=True, kw_only=True)
class Detection:
    """What a series is made of. `odd` are the positions off their segment's level, those of dips included.

    `noise` is relative (of log values); `noise_source` says how it was got: `known`, `exact`, or guessed from the
    `differences` of neighbours, from `modes` (then it is what their distance comes to) or from `rounded` values.
    """

    segments: tuple[Segment, ...]
    steps: tuple[Step, ...]
    dips: tuple[Dip, ...]
    drifts: tuple[Drift, ...]
    odd: frozenset[int]
    noise: float
    noise_source: str


def describe(
    values: Floats,
    kept: Sequence[Stretch],
    sureness: Sequence[float],
    *,
    noise: Noise,
    loss: Loss,
    forced: Sequence[int],
    settings: DetectionSettings,
    memo: Memo,
) -> Detection:
    """The Detection of `values` that are cut into `kept` stretches, each change between two being so sure."""
    scaled = np.log(values) / noise.size
    offsets = np.empty_like(scaled)
    drifts = []
    for part in kept:
        inside = scaled[part.start : part.stop]
        offsets[part.start : part.stop] = inside - part.level
        line = memo.of(
            ("line", part.start, part.stop),
            partial(_line, inside, noise.size, settings),
            lasts=part.stop < scaled.size,
        )
        if line is not None:
            offsets[part.start : part.stop] = inside - line
            drifts.append(_drift(part, line, noise.size))
    folded = loss.fold(offsets)
    away = offsets**2 >= loss.bound
    segments = tuple(
        Segment(start=s.start, stop=s.stop, level=_median(values[s.start : s.stop], away[s.start : s.stop]))
        for s in kept
    )
    steps = tuple(
        Step(
            index=b.start,
            ratio=b.level / a.level,
            level_before=a.level,
            level_after=b.level,
            confidence=1.0 if b.start in forced else min(max(1 - 2.0 ** -(sure**2), 0.01), 0.999),
            remeasured=b.start in forced,
        )
        for (a, b), sure in zip(itertools.pairwise(segments), sureness, strict=True)
    )
    return Detection(
        segments=segments,
        steps=steps,
        dips=tuple(_dips(folded, kept, noise.size, settings)),
        drifts=tuple(drifts),
        odd=frozenset(np.flatnonzero(folded**2 >= loss.bound).tolist()),
        noise=noise.with_modes,
        noise_source=noise.source,
    )


def _median(values: Floats, away: NDArray[np.bool_]) -> float:
    return float(np.median(values if away.all() else values[~away]))


def _line(scaled: Floats, noise: float, settings: DetectionSettings) -> Floats | None:
    """The straight line through a stretch, if it leans enough to be believed; its odd nights don't pull at it."""
    nights, half = scaled.size, scaled.size // 2
    if nights <= 2 * settings.dip_nights:
        return None
    time = np.arange(nights) - (nights - 1) / 2
    first, last = middle(scaled[:half]), middle(scaled[-half:])
    slope, level = (last - first) / (nights - half), (first + last) / 2
    if abs(slope) * nights * noise < settings.min_effect / 2:
        return None
    for _ in range(3):
        residuals = scaled - level - slope * time
        spread = max(1.0, 1.4826 * middle(np.abs(residuals)))
        near = residuals**2 < settings.bound * spread**2
        when, what = time[near], scaled[near]
        middle_night = float(when.sum()) / when.size
        power = float(when @ when) - when.size * middle_night**2
        slope = float((when - middle_night) @ what) / power
        level = float(what.sum()) / what.size - slope * middle_night
    line = np.asarray(level + slope * time, dtype=np.float64)
    factor = correlation_factor((scaled - line) / spread, settings.bound)
    steep = abs(slope) * math.sqrt(power) / spread / factor >= settings.min_z
    high = abs(slope) * (nights - 1) * noise >= settings.min_effect
    return line if steep and high else None


def _drift(part: Stretch, line: Floats, noise: float) -> Drift:
    total = float(line[-1] - line[0]) * noise
    return Drift(
        start=part.start,
        stop=part.stop,
        slope=math.expm1(total / (line.size - 1)),
        total=math.expm1(total),
    )


def _dips(offsets: Floats, kept: Sequence[Stretch], noise: float, settings: DetectionSettings) -> list[Dip]:
    """Runs of at most `dip_nights` far on one side of a level, with nights that are not far before and after."""
    far = max(settings.min_effect / noise, settings.min_z)
    found = []
    for part in kept:
        inside = offsets[part.start : part.stop]
        sides = np.sign(inside) * (np.abs(inside) >= far)
        edges = np.flatnonzero(np.diff(sides)) + 1
        for a, b in itertools.pairwise(edges):
            if sides[a] != 0 and sides[a - 1] == sides[b] == 0 and b - a <= settings.dip_nights:
                ratio = math.exp(np.median(inside[a:b]) * noise)
                found.append(Dip(start=part.start + int(a), stop=part.start + int(b), ratio=ratio))
    return found
