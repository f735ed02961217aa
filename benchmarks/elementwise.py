"""One number at a time: what do a choice and an interpolation cost?"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, random_numbers


class Where(Timed):
    """jnp.where: each number of one array or of the other."""

    version = "1"
    group = "numpy"
    param_names = ("values",)
    params = (by_size(smoke=(2**19,), full=(2**26,)),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """A choice, and what there is to choose from."""
        random = random_numbers()
        left, right = random.random((2, values), dtype=np.float32)
        return random.random(values, dtype=np.float32) < 1 / 2, left, right

    def function(self, chosen: Any, left: Any, right: Any) -> Any:
        """The chosen ones."""
        return jnp.where(chosen, left, right)

    def reference(self, chosen: Any, left: Any, right: Any) -> Any:
        """The chosen ones."""
        return np.where(chosen, left, right)


class Interp(Timed):
    """jnp.interp on 1,000 points (jaxlib 0.4.33: seven times slower)."""

    version = "1"
    group = "numpy"
    param_names = ("values",)
    params = (by_size(smoke=(2**15,), full=(2**24,)),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Where to interpolate, and the points between which: up and down by no more than one."""
        random = random_numbers()
        return (
            1000 * random.random(values, dtype=np.float32),
            np.arange(1000, dtype=np.float32),
            random.random(1000, dtype=np.float32),
        )

    def function(self, places: Any, points: Any, heights: Any) -> Any:
        """The height at each place."""
        return jnp.interp(places, points, heights)

    def reference(self, places: Any, points: Any, heights: Any) -> Any:
        """The height at each place."""
        return np.interp(places, points, heights)
