"""Sums of products: what do einsum, with and without jit, and a convolution cost?"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Eager, Timed, by_size, random_numbers


class Einsum(Timed):
    """jnp.einsum of three arrays: the scores of several heads, weighted."""

    version = "1"
    group = "numpy"
    param_names = ("length",)
    params = (by_size(smoke=(128,), full=(2048,)),)
    tolerance = 2e-3

    def inputs(self, length: int) -> tuple[Any, ...]:
        """Queries, keys and values in [0, 1), of 8 heads and 64 features."""
        return tuple(random_numbers().random((3, 8, length, 64), dtype=np.float32))

    def function(self, queries: Any, keys: Any, values: Any) -> Any:
        """One product after the other."""
        return jnp.einsum("hqf,hkf,hkv->hqv", queries, keys, values)

    def reference(self, queries: Any, keys: Any, values: Any) -> Any:
        """One product after the other."""
        return queries @ (np.swapaxes(keys, 1, 2) @ values)


class EagerEinsum(Eager):
    """jnp.einsum of two short vectors without jit: all of its time is Python's (three times slower since December 2023)."""

    version = "1"
    group = "numpy"
    param_names = ("values",)
    params = ((16,),)
    tolerance = 2e-3

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Two vectors in [0, 1)."""
        return tuple(random_numbers().random((2, values), dtype=np.float32))

    def function(self, left: Any, right: Any) -> Any:
        """Their product."""
        return jnp.einsum("i,i->", left, right)

    def reference(self, left: Any, right: Any) -> Any:
        """Their product."""
        return left @ right


class Convolve(Timed):
    """jnp.convolve of a signal with a kernel of 64."""

    version = "1"
    group = "numpy"
    param_names = ("values",)
    params = (by_size(smoke=(2**15,), full=(2**22,)),)
    tolerance = 2e-3

    def inputs(self, values: int) -> tuple[Any, ...]:
        """A signal and a kernel, in [0, 1)."""
        random = random_numbers()
        return random.random(values, dtype=np.float32), random.random(64, dtype=np.float32)

    def function(self, signal: Any, kernel: Any) -> Any:
        """Both ends included."""
        return jnp.convolve(signal, kernel)

    def reference(self, signal: Any, kernel: Any) -> Any:
        """Both ends included."""
        return np.convolve(signal, kernel)
