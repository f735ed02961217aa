"""Which levels, changing as seldom as possible, explain the values?

The fit minimises, over all piecewise constant functions,

    sum of min(((value - level) / noise)^2, bound)  +  penalty for each change of level

exactly, over a grid of levels taken from the values themselves: one pass forward keeps, for each level, the least
cost of being there tonight, and whether one came from another level (Viterbi). Worked example, noise 1, bound 9,
penalty 14:

    0 0 0 8 0 0    one level: 9 (the odd night is bounded), two changes: 28     -> one level
    0 0 0 8 8      one level: 18, one change: 14                                -> a step at position 3
    0 0 8 8 8 0 0  one level: 27, two changes: 28                               -> one level with a dip

A series with two modes has a third kind of night: within a noise or so of the level's other mode it costs little,
so that many visits to it are no steps, and one that lasts (28 nights at 0.5) is.

A boundary that was measured again is forced: changing level there is free, and the value there is not bounded like
an odd night's, because a second measurement has said that it is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_GRID = 0.5  # spacing of the levels, in units of the noise
_LEVELS_MAX = 600  # above this many the grid is made coarser
_NIGHTS = 2048  # whose losses are worked out at a time, so that a long series needs little memory
_TRIED = 41  # levels tried for one stretch, evenly among its sorted values
_VISIT = 0.5  # the loss of a night in the other mode
_TRUSTED = 4.0  # the bound of a value that was measured again, in bounds: more than two changes of level


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What a night costs that lies off its level: the square, at most `bound`; `modes` apart is another mode (0: none).

    All in units of the noise.
    """

    bound: float
    modes: float = 0.0

    def of(self, residuals: Floats) -> Floats:
        """The losses of values less their level; they are not bounded yet, since not all have one bound."""
        losses: Floats = residuals * residuals
        if self.modes:
            np.minimum(losses, (residuals - self.modes) ** 2 + _VISIT, out=losses)
        return losses

    def fold(self, residuals: Floats) -> Floats:
        """The residuals, those of nights in the other mode taken from there."""
        if not self.modes:
            return residuals
        other = residuals - self.modes
        folded: Floats = np.where((residuals**2 >= self.bound) & (other**2 < self.bound), other, residuals)
        return folded


def level_grid(scaled: Floats) -> Floats:
    """The levels tried for `scaled` values (in units of the noise): cell means of the values present."""
    spacing = _GRID
    while True:
        cells, member = np.unique(np.round((scaled - scaled[0]) / spacing), return_inverse=True)
        if cells.size <= _LEVELS_MAX:
            return np.bincount(member, weights=scaled) / np.bincount(member)
        spacing *= 2


def fit_boundaries(scaled: Floats, *, loss: Loss, penalties: Floats, forced: Sequence[int] = ()) -> list[int]:
    """The first positions of all levels but the first, ascending, `forced` ones included.

    `penalties[i]` is the price of a change of level at position i.
    """
    grid = level_grid(scaled)
    bounds = np.full((scaled.size, 1), loss.bound, dtype=np.float64)
    bounds[list(forced)] *= _TRUSTED
    moved = np.zeros((scaled.size, grid.size), dtype=np.bool_)
    origin, change = [0], [math.inf]
    cost, spare = np.zeros(grid.size), np.empty(grid.size)
    for start in range(0, scaled.size, _NIGHTS):
        part = slice(start, start + _NIGHTS)
        before = cost
        costs = np.minimum(loss.of(scaled[part, None] - grid), bounds[part])
        for night, tonight in enumerate(costs, start=start):
            if night > 0:
                origin.append(int(cost.argmin()))
                change.append(float(cost[origin[-1]] + penalties[night]))
                np.add(tonight, np.minimum(cost, change[-1], out=spare), out=tonight)
            cost = tonight
        moved[part] = np.vstack([before, costs[:-1]]) > np.array(change[part])[:, None]
    return _walk_back(int(cost.argmin()), moved, origin, forced)


def _walk_back(
    level: int, moved: NDArray[np.bool_], origin: Sequence[int], forced: Sequence[int]
) -> list[int]:
    """Follows the levels back from the last night, jumping from one move of a level to the one before."""
    found = set(forced)
    i = len(origin)
    while (moves := np.flatnonzero(moved[:i, level])).size:
        i = int(moves[-1])
        found.add(i)
        level = origin[i]
    return sorted(found)


def level_of(scaled: Floats, loss: Loss) -> float:
    """The one level that explains a stretch best: the mean of its values without the odd ones."""
    tried = np.sort(scaled)[:: -(-scaled.size // _TRIED)]
    losses = np.minimum(loss.of(scaled - tried[:, None]), loss.bound).sum(axis=1)
    level = float(tried[losses.argmin()])
    for _ in range(3):
        near = scaled[on_level(scaled, level, loss.bound)]
        level = float(near.sum() / near.size)
    return level


def on_level(scaled: Floats, level: float, bound: float) -> NDArray[np.bool_]:
    """Which values lie on `level`, and are not odd nights."""
    near: NDArray[np.bool_] = (scaled - level) ** 2 < bound
    return near
