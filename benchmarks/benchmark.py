"""What is a benchmark made of?

A benchmark is an asv class: `setup(*params)` makes the inputs with numpy (never with jax.random, whose values and
costs change between versions), `function` is what gets compiled, `check` says what is wrong with its result. The base
classes bring the one `track_*` method that asv finds; they are abstract, so that asv does not take them for benchmarks.

    Compared    the result is compared with numpy's answer to the same inputs
      Timed     seconds a call of the compiled program; most benchmarks are one of these
        Eager   seconds a call without jit

A name is `<module>.<Class>.track_time`, or `track_<rate>`, `track_bytes` where that is the point.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any, Callable  # noqa: UP035 - what Python 3.9 can subscript

import jax
import numpy as np

from benchmarks import protocol
from benchmarks.facts import read_facts

SEED = 20230824


class Benchmark(abc.ABC):
    """One program under several parameters.

    A benchmark sets `version` itself; the base of its family may set `group`, `param_names` and `params` for all.
    None has a default here, because they make a series. `setup` sets `arguments` (on the device); `donate` lists
    those that a call uses up.
    """

    version: str
    unit: str
    better: str
    group: str
    param_names: tuple[str, ...]
    params: tuple[tuple[Any, ...], ...]
    timeout = 600.0
    donate: tuple[int, ...] = ()
    brief = False  # whether what takes long and is not judged is left out

    arguments: tuple[Any, ...]
    lowered: Any
    compiled: Any

    @abc.abstractmethod
    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Make the inputs for these parameters; NotImplementedError where they make no sense here."""

    @abc.abstractmethod
    def function(self, *args: Any, **kwargs: Any) -> Any:
        """What is compiled and timed, from device arrays to device arrays."""

    @abc.abstractmethod
    def check(self, result: Any) -> str | None:
        """What is wrong with a result, in one line; None where it is right."""

    @abc.abstractmethod
    def metrics(self, timing: protocol.Timing, judged: str) -> list[dict[str, Any]]:
        """The document's metrics of a timing."""

    def compile(self) -> None:
        """Trace, lower and compile ahead of time, so that nothing compiles in a timed block."""
        self.lowered = jax.jit(self.function, donate_argnums=self.donate).lower(*self.arguments)
        self.compiled = self.lowered.compile()

    def call(self) -> Any:
        """One call, which ends when its result is there."""
        return jax.block_until_ready(self.compiled(*self.arguments))

    def facts(self) -> tuple[dict[str, float], dict[str, str]]:
        """What is exact about the program, as far as this version tells it."""
        return read_facts(
            self.function, self.arguments, self.lowered, self.compiled, python_calls=not self.brief
        )

    def headline(self) -> dict[str, Any]:
        """The judged metric for asv, which has called `setup` already."""
        budget = protocol.BUDGETS[protocol.read_size()]
        judged = protocol.judged_clock(jax.devices()[0].platform)
        return protocol.headline(protocol.observe(self, budget=budget, judged=judged))


class Compared(Benchmark):
    """A benchmark whose result is compared with what numpy makes of the same inputs in double precision."""

    tolerance = 1e-4

    @abc.abstractmethod
    def inputs(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The arguments as numpy arrays, for these parameters."""

    @abc.abstractmethod
    def reference(self, *args: Any, **kwargs: Any) -> Any:
        """What `function` should return, from the inputs with every float in double precision."""

    def setup(self, *params: Any) -> None:
        """The inputs on the device, and numpy's answer."""
        inputs = self.inputs(*params)
        self.expected = jax.tree_util.tree_leaves(self.reference(*map(precise, inputs)))
        self.arguments = jax.device_put(inputs)

    def check(self, result: Any) -> str | None:
        """Each array as numpy has it."""
        return differences(zip(jax.tree_util.tree_leaves(result), self.expected), self.tolerance)  # noqa: B905 - 3.9


class Timed(Compared):
    """A benchmark whose metric is the time of a call."""

    unit = "s"
    better = "lower"

    def metrics(self, timing: protocol.Timing, judged: str) -> list[dict[str, Any]]:
        """Seconds a call on both clocks."""
        return protocol.duration_metrics(timing, judged)

    def track_time(self, *_params: Any) -> dict[str, Any]:
        """What asv runs: seconds a call."""
        return self.headline()


class Eager(Timed):
    """A benchmark of a program that is not compiled as a whole: each operation is dispatched from Python."""

    def call(self) -> Any:
        """One call without jit, which ends when its result is there."""
        return jax.block_until_ready(self.function(*self.arguments))


def by_size(*, smoke: tuple[Any, ...], full: tuple[Any, ...]) -> tuple[Any, ...]:
    """A parameter's values in the size that the environment asks for."""
    return smoke if protocol.read_size() == "smoke" else full


def random_numbers() -> np.random.Generator:
    """The generator of all inputs, the same in every process."""
    return np.random.default_rng(SEED)


def vector(length: int) -> Any:
    """The random vector, positive and in double precision, on which a matrix of that width is tried."""
    return np.random.default_rng(SEED + 1).random(length)


def precise(array: Any) -> Any:
    """The array in double precision; whole numbers and truths as they are."""
    if array.dtype.kind in "biu":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def difference(actual: Any, expected: Any, *, tolerance: float) -> str | None:
    """What sets `actual` apart from `expected`; None where all differ by less than `tolerance` x the largest."""
    actual, expected = precise(np.asarray(actual)), precise(np.asarray(expected))
    if actual.shape != expected.shape:
        return f"the shape is {actual.shape}, expected {expected.shape}"
    odd = int(np.size(actual) - np.count_nonzero(np.isfinite(actual)))
    if odd:
        return f"not finite: {odd} of {np.size(actual)} values"
    error = float(
        np.max(np.abs(np.subtract(actual, expected, dtype=np.result_type(actual, expected, float))))
    )
    allowed = tolerance * float(np.max(np.abs(expected)))
    if not error <= allowed:  # not even where what was expected is no number
        return f"off by up to {error:.3g}, allowed {allowed:.3g}"
    return None


def differences(pairs: Iterable[tuple[Any, Any]], tolerance: float) -> str | None:
    """The first difference of several (actual, expected); None where there is none."""
    found = (difference(actual, expected, tolerance=tolerance) for actual, expected in pairs)
    return next((each for each in found if each is not None), None)


def slope(
    value: Callable[..., Any], inputs: tuple[Any, ...], gradients: tuple[Any, ...]
) -> list[tuple[Any, Any]]:
    """The pairs (actual, expected) that say whether `gradients` are those of the function `value` at `inputs`.

    A gradient g is the slope along itself: (value(x + e g/|g|) - value(x - e g/|g|)) / 2e is |g|, in double precision.
    """
    pairs = []
    for position, gradient in enumerate(map(precise, map(np.asarray, gradients))):
        size = np.linalg.norm(gradient.ravel())
        ends = []
        for step in (1e-4, -1e-4):
            moved = [np.asarray(each, dtype=np.float64) for each in inputs]
            moved[position] = moved[position] + step * gradient / size
            ends.append(value(*moved))
        pairs.append((size, (ends[0] - ends[1]) / 2e-4))
    return pairs
