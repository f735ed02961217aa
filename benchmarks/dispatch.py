"""Calls that compute next to nothing: what does it cost to start a program?

jax.jit's own way from Python to the device is timed, not the compiled program's that the other benchmarks call.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import jax
import numpy as np

from benchmarks.benchmark import Eager, Timed, random_numbers


class Dispatch(Timed):
    """A call of what jax.jit returns."""

    group = "dispatch"

    def compile(self) -> None:
        """As everywhere; the first call compiles once more, behind jax.jit."""
        super().compile()
        self.jitted = jax.jit(self.function, donate_argnums=self.donate)

    def call(self) -> Any:
        """One call through jax.jit, which ends when its result is there."""
        return jax.block_until_ready(self.jitted(*self.arguments))


class JittedScalar(Dispatch):
    """One scalar in, one out."""

    version = "1"
    param_names = ()
    params = ()

    def inputs(self) -> tuple[Any, ...]:
        """A number."""
        return (np.array(1.5, np.float32),)

    def function(self, number: Any) -> Any:
        """One more."""
        return number + 1

    def reference(self, number: Any) -> Any:
        """One more."""
        return number + 1


class ManyArguments(Dispatch):
    """Many scalars in, their sum out."""

    version = "1"
    param_names = ("arguments",)
    params = ((100,),)

    def inputs(self, arguments: int) -> tuple[Any, ...]:
        """Numbers in [0, 1)."""
        return tuple(np.asarray(number) for number in random_numbers().random(arguments, dtype=np.float32))

    def function(self, *numbers: Any) -> Any:
        """The sum."""
        return functools.reduce(operator.add, numbers)

    def reference(self, *numbers: Any) -> Any:
        """The sum."""
        return sum(numbers)


class DonatedBuffers(Dispatch):
    """Many small buffers, each used up by the call and given back by it with one added, as a training step does."""

    version = "1"
    param_names = ("arguments",)
    params = ((32,),)

    def inputs(self, arguments: int) -> tuple[Any, ...]:
        """Zeros, and no call yet."""
        self.calls = 0
        self.donate = tuple(range(arguments))
        return tuple(np.zeros((arguments, 64), np.float32))

    def function(self, *buffers: Any) -> Any:
        """One more, everywhere."""
        return tuple(buffer + 1 for buffer in buffers)

    def reference(self, *buffers: Any) -> Any:
        """One, everywhere: a call's share."""
        return tuple(buffer + 1 for buffer in buffers)

    def call(self) -> Any:
        """On from where the last call ended."""
        self.arguments = super().call()
        self.calls += 1
        return self.arguments

    def check(self, result: Any) -> str | None:
        """As much as there were calls."""
        return super().check([np.asarray(each) / self.calls for each in result])


class EagerAdd(Eager):
    """The sum of two vectors of 16 without jit."""

    version = "1"
    group = "dispatch"
    param_names = ("values",)
    params = ((16,),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Two vectors in [0, 1)."""
        return tuple(random_numbers().random((2, values), dtype=np.float32))

    def function(self, left: Any, right: Any) -> Any:
        """The sum."""
        return left + right

    def reference(self, left: Any, right: Any) -> Any:
        """The sum."""
        return left + right
