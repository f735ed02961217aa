"""Loops whose body does next to nothing: what does a step of control flow cost?"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, difference, random_numbers


class WhileLoop(Timed):
    """A while_loop that finds the largest of many numbers: a scalar maximum and a gather of one element a step.

    The shape of jax issue 25190 (jaxlib 0.4.33: hundreds of times slower on CPU).
    """

    version = "1"
    unit = "s"
    better = "lower"
    group = "core"
    param_names = ("steps",)
    params = (by_size(smoke=(2**14, 2**18), full=(2**12, 2**15)),)

    def setup(self, steps: int) -> None:
        """As many numbers as steps."""
        values = random_numbers().random(steps, dtype=np.float32)
        self.steps = steps
        self.expected = values.max()
        self.arguments = (jax.device_put(values),)

    def function(self, values: Any) -> Any:
        """The largest value, found one by one."""

        def unfinished(state: Any) -> Any:
            return state[0] < self.steps

        def take_one(state: Any) -> Any:
            position, largest = state
            return position + 1, jnp.maximum(largest, values[position])

        return jax.lax.while_loop(unfinished, take_one, (0, jnp.float32(0)))[1]

    def check(self, result: Any) -> str | None:
        """A maximum is exact."""
        return difference(result, self.expected, tolerance=0)
