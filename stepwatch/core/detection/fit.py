"""Which levels, changing as seldom as possible, explain the values?

The fit minimises, over all piecewise constant functions,

    sum of min(((value - level) / noise)^2, bound)  +  penalty for each change of level

exactly, over a grid of levels taken from the values themselves: one pass forward keeps, for each level, the least
cost of being there tonight, and whether one came from another level (Viterbi). Worked example, noise 1, bound 9,
penalty 14:

    0 0 0 8 0 0    one level: 9 (the odd night is bounded), two changes: 28     -> one level
    0 0 0 8 8      one level: 18, one change: 14                                -> a step at position 3
    0 0 8 8 8 0 0  one level: 27, two changes: 28                               -> one level with a dip

A boundary that was measured again is forced: changing level there is free, and the value there is not bounded like
an odd night's, because a second measurement has said that it is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_GRID = 0.25  # spacing of the levels, in units of the noise
_LEVELS_MAX = 600  # above this many the grid is made coarser
_TRIED = 41  # levels tried for one stretch, evenly among its sorted values
_TRUSTED = 4.0  # the bound of a value that was measured again, in bounds: more than two changes of level


def level_grid(scaled: Floats) -> Floats:
    """The levels tried for `scaled` values (in units of the noise): cell means of the values present."""
    spacing = _GRID
    while True:
        cells, member = np.unique(np.round((scaled - scaled[0]) / spacing), return_inverse=True)
        if cells.size <= _LEVELS_MAX:
            return np.bincount(member, weights=scaled) / np.bincount(member)
        spacing *= 2


def fit_boundaries(
    scaled: Floats, *, bound: float, penalties: Floats, forced: Sequence[int] = ()
) -> list[int]:
    """The first positions of all levels but the first, ascending, `forced` ones included.

    `penalties[i]` is the price of a change of level at position i.
    """
    grid = level_grid(scaled)
    bounds = np.full(scaled.size, bound)
    bounds[list(forced)] = _TRUSTED * bound
    moved = np.zeros((scaled.size, grid.size), dtype=np.bool_)
    origin = np.zeros(scaled.size, dtype=np.int64)
    cost = np.minimum((scaled[0] - grid) ** 2, bounds[0])
    for i in range(1, scaled.size):
        origin[i] = cost.argmin()
        change = cost[origin[i]] + penalties[i]
        np.greater(cost, change, out=moved[i])
        cost = np.minimum(cost, change) + np.minimum((scaled[i] - grid) ** 2, bounds[i])
    return _walk_back(int(cost.argmin()), moved, origin, forced)


def _walk_back(
    level: int, moved: NDArray[np.bool_], origin: NDArray[np.int64], forced: Sequence[int]
) -> list[int]:
    found = set(forced)
    for i in range(len(origin) - 1, 0, -1):
        if moved[i, level]:
            found.add(i)
            level = int(origin[i])
    return sorted(found)


def level_of(scaled: Floats, bound: float) -> float:
    """The one level that explains a stretch best: the mean of its values without the odd ones."""
    tried = np.sort(scaled)[:: -(-scaled.size // _TRIED)]
    losses = np.minimum((scaled[:, None] - tried[None, :]) ** 2, bound).sum(axis=0)
    level = float(tried[losses.argmin()])
    for _ in range(3):
        near = np.abs(scaled - level) < np.sqrt(bound)
        level = float(scaled[near].mean())
    return level


def on_level(scaled: Floats, level: float, bound: float) -> NDArray[np.bool_]:
    """Which values lie on `level`, and are not odd nights."""
    near: NDArray[np.bool_] = (scaled - level) ** 2 < bound
    return near
