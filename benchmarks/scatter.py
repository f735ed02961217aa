"""Many updates into few places: what does a scattered addition cost?"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from benchmarks.benchmark import Timed, by_size, difference, random_numbers

SEGMENTS = 1_000


class SegmentSum(Timed):
    """segment_sum of many values into 1,000 segments (jax issue 26145; jaxlib 0.4.33: hundreds of times slower)."""

    version = "1"
    unit = "s"
    better = "lower"
    group = "core"
    param_names = ("values",)
    params = (by_size(smoke=(200_000,), full=(5_000_000, 50_000_000)),)

    def setup(self, values: int) -> None:
        """Values in [0, 1), each with the segment it goes to, unsorted."""
        random = random_numbers()
        numbers = random.random(values, dtype=np.float32)
        segments = random.integers(SEGMENTS, size=values, dtype=np.int32)
        self.expected = np.bincount(segments, weights=numbers, minlength=SEGMENTS)
        self.arguments = jax.device_put((numbers, segments))

    def function(self, numbers: Any, segments: Any) -> Any:
        """The sum of each segment."""
        return jax.ops.segment_sum(numbers, segments, num_segments=SEGMENTS)

    def check(self, result: Any) -> str | None:
        """Sums in single precision, in any order."""
        return difference(result, self.expected, tolerance=1e-3)
