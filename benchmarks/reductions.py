"""Reductions: what do sums along an axis, running sums, and a broadcast that is multiplied and summed cost?"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, random_numbers

LEADING = (10, 4, 6)


class RankEight(Timed):
    """Rank 3 broadcast into rank 8, multiplied, summed over one axis, maximum, logarithm.

    The shape of jax issue 39257 and pymdp 417 (jaxlib 0.10.2: about 10 times slower on CPU). `edge` 5 is the
    reported (10, 4, 6, 5, 5, 5, 5, 5). The summed axis is the last: jaxlib 0.10.2 crashes on the third.
    """

    version = "1"
    group = "core"
    param_names = ("edge",)
    params = (by_size(smoke=(4, 5), full=(8, 10)),)

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """Beliefs of rank 3 and likelihoods of rank 8, in [0, 1)."""
        random = random_numbers()
        beliefs = random.random(LEADING, dtype=np.float32)
        return beliefs, random.random((*LEADING, *(edge,) * 5), dtype=np.float32)

    def function(self, beliefs: Any, likelihoods: Any) -> Any:
        """The logarithm of the largest sum."""
        broadcast = jnp.broadcast_to(beliefs.reshape(*LEADING, *(1,) * 5), likelihoods.shape)
        return jnp.log((broadcast * likelihoods).sum(axis=-1).max())

    def reference(self, beliefs: Any, likelihoods: Any) -> Any:
        """The logarithm of the largest sum."""
        return np.log((beliefs.reshape(*LEADING, *(1,) * 5) * likelihoods).sum(axis=-1).max())


class Reduction(Timed):
    """One reduction of a square of numbers in [0, 1): of all of it, of its columns (0), of its rows (1)."""

    group = "numpy"
    param_names = ("edge", "axis")
    params = (by_size(smoke=(512,), full=(8192,)), ("all", 0, 1))

    def inputs(self, edge: int, axis: Any) -> tuple[Any, ...]:
        """A square of numbers."""
        self.axis = None if axis == "all" else axis
        return (random_numbers().random((edge, edge), dtype=np.float32),)


class Sum(Reduction):
    """jnp.sum."""

    version = "1"

    def function(self, numbers: Any) -> Any:
        """The sums."""
        return jnp.sum(numbers, axis=self.axis)

    def reference(self, numbers: Any) -> Any:
        """The sums."""
        return np.sum(numbers, axis=self.axis)


class Argmax(Reduction):
    """jnp.argmax."""

    version = "1"
    tolerance = 0

    def function(self, numbers: Any) -> Any:
        """Where the first of the largest is."""
        return jnp.argmax(numbers, axis=self.axis)

    def reference(self, numbers: Any) -> Any:
        """Where the first of the largest is."""
        return np.argmax(numbers, axis=self.axis)


class Cumsum(Timed):
    """jnp.cumsum."""

    version = "1"
    group = "numpy"
    param_names = ("values",)
    params = (by_size(smoke=(2**16,), full=(2**24,)),)
    tolerance = 1e-3

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Numbers in [0, 1)."""
        return (random_numbers().random(values, dtype=np.float32),)

    def function(self, numbers: Any) -> Any:
        """The running sum."""
        return jnp.cumsum(numbers)

    def reference(self, numbers: Any) -> Any:
        """The running sum."""
        return np.cumsum(numbers)


class SquaredDifferences(Timed):
    """The sum of squares of jnp.diff along three axes (jax issue 37465: 3 to 10 times slower since jaxlib 0.8)."""

    version = "1"
    group = "numpy"
    param_names = ("edge",)
    params = (by_size(smoke=(64, 128), full=(192, 512)),)
    tolerance = 1e-3

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A cube of numbers in [0, 1)."""
        return (random_numbers().random((edge, edge, edge), dtype=np.float32),)

    def function(self, cube: Any) -> Any:
        """The sum."""
        return squared_differences(jnp, cube)

    def reference(self, cube: Any) -> Any:
        """The sum."""
        return squared_differences(np, cube)


def squared_differences(xp: Any, cube: Any) -> Any:
    """How rough a cube is; `xp` is jax.numpy or numpy."""
    return sum((xp.diff(cube, axis=axis) ** 2).sum() for axis in range(3))
