"""jax.random: what do splitting a key, normal numbers and a permutation cost?

The numbers may be others in another version (JAX 0.5.0 changed how they are made), so it is their distribution that is
checked: a percent too wide is seen.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from benchmarks.benchmark import Timed, by_size, difference


class Sample(Timed):
    """`values` of something random from one key."""

    group = "random"
    param_names = ("values",)
    tolerance = 5e-3

    def inputs(self, values: int) -> tuple[Any, ...]:
        """A raw key of the default generator, as jax.random.PRNGKey makes one."""
        self.values = values
        return (np.array([0, 42], np.uint32),)


class Split(Sample):
    """jax.random.split into many keys."""

    version = "1"
    params = (by_size(smoke=(2**14,), full=(2**22,)),)

    def function(self, key: Any) -> Any:
        """The keys."""
        return jax.random.split(key, self.values)

    def reference(self, _key: Any) -> Any:
        """As many as were asked for."""
        return np.array(self.values)

    def check(self, result: Any) -> str | None:
        """No key is there twice."""
        keys = np.unique(np.asarray(result), axis=0)
        return None if len(keys) == self.values else f"{len(keys)} keys, expected {self.values}"


class Normal(Sample):
    """jax.random.normal."""

    version = "1"
    params = (by_size(smoke=(2**18,), full=(2**26,)),)

    def function(self, key: Any) -> Any:
        """The numbers."""
        return jax.random.normal(key, (self.values,))

    def reference(self, _key: Any) -> Any:
        """The deviation."""
        return np.array([1.0])

    def check(self, result: Any) -> str | None:
        """The mean is 0, the deviation is 1."""
        numbers = np.asarray(result, dtype=np.float64)
        if abs(numbers.mean()) > 5 / np.sqrt(self.values):
            return f"the mean is {numbers.mean():.3g}"
        return difference([numbers.std()], self.expected[0], tolerance=self.tolerance)


class Permutation(Sample):
    """jax.random.permutation of the whole numbers below `values`."""

    version = "1"
    params = (by_size(smoke=(2**14,), full=(2**22,)),)

    def function(self, key: Any) -> Any:
        """The numbers in random order."""
        return jax.random.permutation(key, self.values)

    def reference(self, _key: Any) -> Any:
        """The numbers in order."""
        return np.arange(self.values)

    def check(self, result: Any) -> str | None:
        """Each number once, and not in order."""
        numbers = np.asarray(result)
        if (numbers == self.expected[0]).mean() > 1 / 100:
            return "the numbers are in order"
        return difference(np.sort(numbers), self.expected[0], tolerance=0)
