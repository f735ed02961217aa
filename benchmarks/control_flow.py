"""Control flow whose body does next to nothing: what does a step cost, alone, in a batch, and differentiated?"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, differences, random_numbers, slope


class WhileLoop(Timed):
    """A while_loop that finds the largest of many numbers: a scalar maximum and a gather of one element a step.

    The shape of jax issue 25190 (jaxlib 0.4.33: hundreds of times slower on CPU).
    """

    version = "1"
    group = "core"
    param_names = ("steps",)
    params = (by_size(smoke=(2**14, 2**18), full=(2**12, 2**15)),)
    tolerance = 0

    def inputs(self, steps: int) -> tuple[Any, ...]:
        """As many numbers as steps."""
        self.steps = steps
        return (random_numbers().random(steps, dtype=np.float32),)

    def function(self, values: Any) -> Any:
        """The largest value, found one by one."""

        def unfinished(state: Any) -> Any:
            return state[0] < self.steps

        def take_one(state: Any) -> Any:
            position, largest = state
            return position + 1, jnp.maximum(largest, values[position])

        return jax.lax.while_loop(unfinished, take_one, (0, jnp.float32(0)))[1]

    def reference(self, values: Any) -> Any:
        """A maximum is exact."""
        return values.max()


class Batched(Timed):
    """Control flow under vmap, where each of many numbers goes its own way."""

    group = "control_flow"
    param_names = ("batch",)
    params = (by_size(smoke=(2**12,), full=(2**20,)),)

    def inputs(self, batch: int) -> tuple[Any, ...]:
        """Numbers between 1 and 1000."""
        return (random_numbers().uniform(1, 1000, batch).astype(np.float32),)


class VmapWhileLoop(Batched):
    """A while_loop under vmap: it goes on until the last of the batch is done."""

    version = "1"

    def function(self, values: Any) -> Any:
        """How often each value is halved until it is at most one, and what is left of it."""

        def halve(state: Any) -> Any:
            count, value = state
            return count + 1, value / 2

        def run(value: Any) -> Any:
            return jax.lax.while_loop(lambda state: state[1] > 1, halve, (jnp.int32(0), value))

        return jax.vmap(run)(values)

    def reference(self, values: Any) -> Any:
        """The power of two that is the next above."""
        counts = np.ceil(np.log2(values)).astype(int)
        return counts, values / 2.0**counts


class Cond(Timed):
    """One cond a step of a loop: either of two branches."""

    version = "1"
    group = "control_flow"
    param_names = ("steps",)
    params = (by_size(smoke=(2**12,), full=(2**15,)),)

    def inputs(self, steps: int) -> tuple[Any, ...]:
        """Numbers in [0, 1), half of which go each way."""
        return (random_numbers().random(steps, dtype=np.float32),)

    def function(self, values: Any) -> Any:
        """The sum of the square roots of the large ones less the squares of the small ones."""

        def step(total: Any, value: Any) -> Any:
            change = jax.lax.cond(value > 1 / 2, jnp.sqrt, lambda small: -small * small, value)
            return total + change, None

        return jax.lax.scan(step, jnp.float32(0), values)[0]

    def reference(self, values: Any) -> Any:
        """The sum."""
        return np.where(values > 1 / 2, np.sqrt(values), -values * values).sum()


class VmapCond(Batched):
    """A cond under vmap, which makes both branches and chooses."""

    version = "1"
    params = (by_size(smoke=(2**16,), full=(2**24,)),)

    def function(self, values: Any) -> Any:
        """The square root of large values, the square of small ones."""
        return jax.vmap(lambda value: jax.lax.cond(value > 500, jnp.sqrt, jnp.square, value))(values)

    def reference(self, values: Any) -> Any:
        """The square root of large values, the square of small ones."""
        return np.where(values > 500, np.sqrt(values), np.square(values))


class Scan(Timed):
    """A recurrent network under scan: a product of 32 x 32 a step."""

    version = "1"
    group = "control_flow"
    param_names = ("steps",)
    params = (by_size(smoke=(1024,), full=(8192,)),)
    tolerance = 4e-3

    def inputs(self, steps: int) -> tuple[Any, ...]:
        """Weights that neither explode nor die out, and an input a step."""
        return recurrent_inputs((steps, 32))

    def function(self, weights: Any, inputs: Any) -> Any:
        """The last state."""
        return scan(weights, inputs)

    def reference(self, weights: Any, inputs: Any) -> Any:
        """The last state."""
        return recur(weights, inputs)


class VmapScan(Scan):
    """The same network under vmap: `batch` sequences of 64 steps at once."""

    version = "1"
    param_names = ("batch",)
    params = (by_size(smoke=(64,), full=(4096,)),)

    def inputs(self, batch: int) -> tuple[Any, ...]:
        """The weights, and several sequences."""
        return recurrent_inputs((batch, 64, 32))

    def function(self, weights: Any, inputs: Any) -> Any:
        """The last states."""
        return jax.vmap(scan, in_axes=(None, 0))(weights, inputs)

    def reference(self, weights: Any, inputs: Any) -> Any:
        """The last states."""
        return recur(weights, np.moveaxis(inputs, 1, 0))


class ScanGradient(Scan):
    """The gradient through that scan, by the weights and by the inputs."""

    version = "1"
    params = (by_size(smoke=(256,), full=(4096,)),)

    def function(self, weights: Any, inputs: Any) -> Any:
        """Both gradients of the sum of the last state."""
        return jax.grad(lambda *both: scan(*both).sum(), argnums=(0, 1))(weights, inputs)

    def reference(self, weights: Any, inputs: Any) -> Any:
        """Where the gradients are taken; `check` takes the slopes there."""
        return weights, inputs

    def check(self, result: Any) -> str | None:
        """Each gradient is the slope along itself."""
        pairs = slope(lambda *both: recur(*both).sum(), tuple(self.expected), result)
        return differences(pairs, self.tolerance)


def recurrent_inputs(shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Weights of a network of 32, and its inputs."""
    random = random_numbers()
    weights = 0.5 * random.standard_normal((32, 32), dtype=np.float32) / np.float32(np.sqrt(32))
    return weights, random.random(shape, dtype=np.float32)


def scan(weights: Any, inputs: Any) -> Any:
    """The last state of the network, by jax.lax.scan over the first axis of the inputs."""

    def step(state: Any, entering: Any) -> Any:
        return jnp.tanh(state @ weights + entering), None

    return jax.lax.scan(step, jnp.zeros(len(weights)), inputs)[0]


def recur(weights: Any, inputs: Any) -> Any:
    """The last state of the network, by numpy."""
    state = np.zeros(len(weights))
    for entering in inputs:
        state = np.tanh(state @ weights + entering)
    return state
