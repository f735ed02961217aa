"""Which levels, changing as seldom as possible, explain the values?

The fit minimises, over all piecewise constant functions,

    sum of min(((value - level) / noise)^2, bound)  +  penalty for each change of level

exactly, over a grid of levels where the values lie: one pass forward keeps, for each level, the least
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


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The levels that are tried: the middles of the cells, `spacing` wide from `origin` on, in which values lie."""

    origin: float
    spacing: float
    cells: NDArray[np.int64]

    @classmethod
    def of(cls, scaled: Floats) -> Grid:
        """The grid of some values (in units of the noise)."""
        spacing = _GRID
        while True:
            cells = np.unique(np.rint((scaled - scaled[0]) / spacing).astype(np.int64))
            if cells.size <= _LEVELS_MAX:
                return cls(origin=float(scaled[0]), spacing=spacing, cells=cells)
            spacing *= 2

    @property
    def levels(self) -> Floats:
        """The levels, ascending."""
        levels: Floats = np.asarray(self.origin + self.spacing * self.cells, dtype=np.float64)
        return levels

    def has(self, scaled: float) -> bool:
        """Whether the cell of a value is among these."""
        return bool(np.isin(np.rint((scaled - self.origin) / self.spacing), self.cells))


class Fit:
    """The cheapest levels of some nights; more nights are added without going over the earlier ones again."""

    def __init__(self, grid: Grid, loss: Loss) -> None:
        self.grid = grid
        self._loss = loss
        self._levels = grid.levels
        self._cost = np.zeros(grid.cells.size)
        self._moved = np.zeros((64, grid.cells.size), dtype=np.bool_)
        self._origin: list[int] = []

    def extend(self, scaled: Floats, *, penalties: Floats, bounds: Floats) -> None:
        """Add nights: their values, the price of a change of level at each, and how much each may cost.

        The values must lie in cells of the grid.
        """
        count = len(self._origin)
        while self._moved.shape[0] < count + scaled.size:
            self._moved = np.vstack([self._moved, np.zeros_like(self._moved)])
        spare = np.empty_like(self._cost)
        for start in range(0, scaled.size, _NIGHTS):
            part = slice(start, start + _NIGHTS)
            before, change = self._cost, []
            costs = np.minimum(self._loss.of(scaled[part, None] - self._levels), bounds[part, None])
            for tonight, penalty in zip(costs, penalties[part], strict=True):
                origin = int(self._cost.argmin()) if self._origin else 0
                change.append(float(self._cost[origin] + penalty) if self._origin else math.inf)
                if self._origin:
                    np.add(tonight, np.minimum(self._cost, change[-1], out=spare), out=tonight)
                self._origin.append(origin)
                self._cost = tonight
            here = slice(count + start, count + start + len(change))
            self._moved[here] = np.vstack([before, costs[:-1]]) > np.array(change)[:, None]

    def boundaries(self, forced: Sequence[int] = ()) -> list[int]:
        """The first positions of all levels but the first, ascending, `forced` ones included.

        Follows the levels back from the last night, jumping from one move of a level to the one before.
        """
        found = set(forced)
        i, level = len(self._origin), int(self._cost.argmin())
        while (moves := np.flatnonzero(self._moved[:i, level])).size:
            i = int(moves[-1])
            found.add(i)
            level = self._origin[i]
        return sorted(found)


def fit_boundaries(scaled: Floats, *, loss: Loss, penalties: Floats, forced: Sequence[int] = ()) -> list[int]:
    """The first positions of all levels but the first, ascending, `forced` ones included.

    `penalties[i]` is the price of a change of level at position i.
    """
    bounds = np.full(scaled.size, loss.bound, dtype=np.float64)
    bounds[list(forced)] *= _TRUSTED
    fit = Fit(Grid.of(scaled), loss)
    fit.extend(scaled, penalties=penalties, bounds=bounds)
    return fit.boundaries(forced)


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
