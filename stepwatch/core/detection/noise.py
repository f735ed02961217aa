"""How large is the noise of a series, when nobody has measured it?

The differences of neighbouring nights hold the noise twice and a step only once, so their median hardly sees steps,
dips or slopes: noise = 1.4826 / sqrt(2) * median |difference|. Worked example: the guide's first ten values (five
near 587.7, a dip of three at 570.2, two at 587.5) have nine differences, two of them large; the median is 0.0004.

Two things make that too small. Of few values the median is uncertain: it is widened by 1 + 4 / differences. And a
program with two modes (587, 604, 587, 587, 604, ...) leaves its level again and again: many *excursions* after a fit
(not many odd nights: one dip is one excursion) mean that the distance of the modes is part of the noise, which is
then taken larger until they are few.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stepwatch.core.detection.fit import Floats

_MAD = 1.4826 / np.sqrt(2.0)
_EXCURSIONS_MIN = 4
_EXCURSIONS_SHARE = 0.06


def noise_of_differences(logs: Floats, boundaries: Sequence[int] = ()) -> float:
    """The relative noise by neighbouring nights' differences, those across known `boundaries` left out."""
    differences = np.abs(np.diff(logs))
    kept = np.delete(differences, [i - 1 for i in boundaries])
    if kept.size == 0:
        return 0.0
    middle = np.sort(kept)[(kept.size - 1) // 2]  # of two, the lower: a quiet night rather than a step
    return float(_MAD * middle * (1 + 4 / kept.size))


def noise_of_values(values: Sequence[float], boundaries: Sequence[int] = ()) -> float:
    """The same of values in the series' unit."""
    return noise_of_differences(np.log(np.asarray(values, dtype=np.float64)), boundaries)


def leaves_often(odd: NDArray[np.bool_]) -> bool:
    """Whether odd nights come in so many excursions that they belong to the noise; `odd` marks them."""
    entries = int(odd[0]) + int(np.count_nonzero(odd[1:] & ~odd[:-1]))
    return entries >= max(_EXCURSIONS_MIN, _EXCURSIONS_SHARE * odd.size)
