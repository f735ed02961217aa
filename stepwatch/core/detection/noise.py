"""How large is the noise of a series, when nobody has measured it?

The differences of neighbouring nights hold the noise twice and a step only once, so their median hardly sees steps,
dips or slopes: noise = 1.4826 / sqrt(2) * median |difference|. Worked example: the guide's first ten values (five
near 587.7, a dip of three at 570.2, two at 587.5) have nine differences, two of them large; the median is 0.0004.

Of few values the median is uncertain: it is widened by 1 + 4 / differences. Where at least half of the nights repeat the
one before, the values are rounded, and only the differences that are not zero tell anything. And a program may have two
modes (587, 604, 587, 587, 604, ...): it jumps by their distance and is back within three nights, again and again. That
distance is no noise, or one would see nothing smaller than it; the fit is told of it and lets a night be in either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepwatch.core.detection.fit import Floats

_MAD = 1.4826 / np.sqrt(2.0)
_JUMP = 4.0  # a difference of so many noises is a jump: nearly three times what differences have of their own
_ALIKE = 0.25  # of its size by which the jump back, or that of another visit, may differ
_VISIT_NIGHTS = 3  # that a visit to the other mode lasts at most; what lasts longer may be a step
_VISITS_MIN = 4  # that make modes; and of long series this share of the nights
_VISITS_SHARE = 0.05
_MODES = 2.5  # the distance of two modes, in the noise that they are told as
_CHANGES_MIN = 6  # nights that differ from the one before, without which repeated values are just quiet


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The relative noise (in each mode) and how it was got; `modes` is the log distance of two modes, 0 without.

    `source` is `known`, `differences`, `modes` or `rounded`.
    """

    size: float
    source: str
    modes: float = 0.0

    @property
    def with_modes(self) -> float:
        """The noise of a night that may be in either mode."""
        return max(self.size, abs(self.modes) / _MODES)


def noise_of_differences(logs: Floats, boundaries: Sequence[int] = ()) -> float:
    """The relative noise by neighbouring nights' differences, those across known `boundaries` left out."""
    return _of_differences(_differences(logs, boundaries))


def noise_of_values(values: Sequence[float], boundaries: Sequence[int] = ()) -> float:
    """The same of values in the series' unit."""
    return noise_of_differences(np.log(np.asarray(values, dtype=np.float64)), boundaries)


def guess_noise(logs: Floats, boundaries: Sequence[int], floor: float) -> Noise:
    """The relative noise, at least `floor`."""
    differences, source = _differences(logs, boundaries), "differences"
    changes = differences[differences != 0]
    if changes.size >= _CHANGES_MIN and 2 * changes.size <= differences.size + 1:
        differences, source = changes, "rounded"
    size = max(_of_differences(differences), floor)
    modes = _mode_distance(differences, size) if source == "differences" else 0.0
    return Noise(size=size, source="modes" if modes else source, modes=modes)


def _differences(logs: Floats, boundaries: Sequence[int]) -> Floats:
    return np.delete(np.diff(logs), [i - 1 for i in boundaries])


def _of_differences(differences: Floats) -> float:
    if differences.size == 0:
        return 0.0
    lower = (differences.size - 1) // 2  # of two in the middle, the lower: a quiet night rather than a step
    middle = np.partition(np.abs(differences), lower)[lower]
    return float(_MAD * middle * (1 + 4 / differences.size))


def _mode_distance(differences: Floats, noise: float) -> float:
    """The size of jump that is taken back within a few nights again and again, negative if down; 0 where none is.

    Of several sizes that are, the largest; and of the visits of that size, the one in the middle.
    """
    places = np.flatnonzero(np.abs(differences) > _JUMP * noise)
    there, back = differences[places[:-1]], differences[places[1:]]
    short = np.diff(places) <= _VISIT_NIGHTS
    visits = there[short & (np.abs(there + back) <= _ALIKE * np.abs(there))]
    sizes = np.sort(np.abs(visits))
    most, least = np.searchsorted(sizes, np.outer([1 + _ALIKE, 1 - _ALIKE], sizes))
    enough = most - least >= max(_VISITS_MIN, _VISITS_SHARE * differences.size)
    size = float(sizes[enough].max(initial=0.0))
    for _ in range(2 if size else 0):
        size = float(np.median(sizes[np.abs(sizes - size) <= _ALIKE * size]))
    up, down = (np.count_nonzero(np.abs(visits - way) <= _ALIKE * size) for way in (size, -size))
    return size if up >= down else -size
