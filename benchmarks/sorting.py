"""Order: what do sorting, searching and what is made of them cost?"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, random_numbers


class Ordered(Timed):
    """Something about the order of many numbers, no two of which are equal."""

    group = "numpy"
    param_names = ("values",)
    params = (by_size(smoke=(2**15,), full=(2**23,)),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Whole numbers in random order, as float32."""
        return (random_numbers().permutation(values).astype(np.float32),)


class Sort(Ordered):
    """jnp.sort."""

    version = "1"

    def function(self, numbers: Any) -> Any:
        """From the least to the largest."""
        return jnp.sort(numbers)

    def reference(self, numbers: Any) -> Any:
        """From the least to the largest."""
        return np.sort(numbers)


class Argsort(Ordered):
    """jnp.argsort."""

    version = "1"
    tolerance = 0

    def function(self, numbers: Any) -> Any:
        """The places of the numbers, from the least to the largest."""
        return jnp.argsort(numbers)

    def reference(self, numbers: Any) -> Any:
        """The places of the numbers, from the least to the largest."""
        return np.argsort(numbers)


class SearchSorted(Ordered):
    """jnp.searchsorted of as many numbers as there are sorted ones."""

    version = "1"
    tolerance = 0

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Sorted numbers, and others that lie between them."""
        (numbers,) = super().inputs(values)
        return np.sort(numbers), numbers - np.float32(0.5)

    def function(self, ordered: Any, numbers: Any) -> Any:
        """The place of each number among the ordered ones."""
        return jnp.searchsorted(ordered, numbers)

    def reference(self, ordered: Any, numbers: Any) -> Any:
        """The place of each number among the ordered ones."""
        return np.searchsorted(ordered, numbers)


class Percentile(Ordered):
    """jnp.percentile, three of them."""

    version = "1"
    tolerance = 1e-5

    def function(self, numbers: Any) -> Any:
        """The two tails and the middle."""
        return jnp.percentile(numbers, np.array([5, 50, 95], np.float32))

    def reference(self, numbers: Any) -> Any:
        """The two tails and the middle."""
        return np.percentile(numbers, [5, 50, 95])


class Histogram(Ordered):
    """jnp.histogram into 64 bins."""

    version = "1"
    tolerance = 5e-3

    def function(self, numbers: Any) -> Any:
        """How many there are in each bin."""
        return jnp.histogram(numbers, bins=64, range=(0, numbers.size))[0]

    def reference(self, numbers: Any) -> Any:
        """How many there are in each bin."""
        return np.histogram(numbers, bins=64, range=(0, numbers.size))[0]
