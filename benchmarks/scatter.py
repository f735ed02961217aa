"""Values by index: what do scattered additions and a gather cost?"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, random_numbers

SEGMENTS = 1_000


class SegmentSum(Timed):
    """segment_sum of many values into 1,000 segments (jax issue 26145; jaxlib 0.4.33: hundreds of times slower)."""

    version = "1"
    group = "core"
    param_names = ("values",)
    params = (by_size(smoke=(200_000,), full=(5_000_000, 50_000_000)),)
    tolerance = 1e-3

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Values in [0, 1), each with the segment it goes to, unsorted."""
        random = random_numbers()
        numbers = random.random(values, dtype=np.float32)
        return numbers, random.integers(SEGMENTS, size=values, dtype=np.int32)

    def function(self, numbers: Any, segments: Any) -> Any:
        """The sum of each segment."""
        return jax.ops.segment_sum(numbers, segments, num_segments=SEGMENTS)

    def reference(self, numbers: Any, segments: Any) -> Any:
        """The sum of each segment."""
        return np.bincount(segments, weights=numbers, minlength=SEGMENTS)


class ScatterAdd(Timed):
    """`.at[places].add(updates)`: as many updates as places, some of which get several."""

    version = "1"
    group = "numpy"
    param_names = ("values",)
    params = (by_size(smoke=(2**16,), full=(2**24,)),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """What is there, where something is added, and what."""
        random = random_numbers()
        numbers, updates = random.random((2, values), dtype=np.float32)
        return numbers, random.integers(values, size=values, dtype=np.int32), updates

    def function(self, numbers: Any, places: Any, updates: Any) -> Any:
        """The numbers with the updates added."""
        return numbers.at[places].add(updates)

    def reference(self, numbers: Any, places: Any, updates: Any) -> Any:
        """The numbers with the updates added."""
        return numbers + np.bincount(places, weights=updates, minlength=len(numbers))


class Take(Timed):
    """jnp.take of rows of 16 numbers, in random order."""

    version = "1"
    group = "numpy"
    param_names = ("rows",)
    params = (by_size(smoke=(2**14,), full=(2**22,)),)

    def inputs(self, rows: int) -> tuple[Any, ...]:
        """A table, and the rows to take from it."""
        random = random_numbers()
        return random.random((rows, 16), dtype=np.float32), random.integers(rows, size=rows, dtype=np.int32)

    def function(self, table: Any, places: Any) -> Any:
        """The rows at those places."""
        return jnp.take(table, places, axis=0)

    def reference(self, table: Any, places: Any) -> Any:
        """The rows at those places."""
        return table[places]
