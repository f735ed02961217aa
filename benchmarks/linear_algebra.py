"""Dense linear algebra: what do a product and a factorisation cost?

Both are checked by what they do to a random vector, in double precision, which costs n^2 where the thing itself
costs n^3 (Freivalds 1977). The vector is positive, so that errors of one sign add up; the tolerance leaves room for
a GPU's shortened products (TF32).

Factorisations other than Cholesky's are in benchmarks/factorizations.py, what solves equations is in
benchmarks/equations.py.
"""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, difference, random_numbers, vector


class Product(Timed):
    """The product of two matrices, or of many at once."""

    def function(self, left: Any, right: Any) -> Any:
        """The product."""
        return left @ right

    def reference(self, left: Any, right: Any) -> Any:
        """What the product does to a random vector."""
        return left @ (right @ vector(right.shape[-1])[:, None])

    def check(self, result: Any) -> str | None:
        """(A B) x is A (B x)."""
        return super().check(np.asarray(result, dtype=np.float64) @ vector(result.shape[-1])[:, None])


class MatMul(Product):
    """The product of two square matrices in float32."""

    version = "1"
    group = "core"
    param_names = ("edge",)
    params = (by_size(smoke=(512,), full=(8192,)),)
    tolerance = 2e-3

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """Two random matrices."""
        left, right = random_numbers().standard_normal((2, edge, edge), dtype=np.float32)
        return left, right


SHAPES = {
    "square": by_size(smoke=((384, 384), (384, 384)), full=((4096, 4096), (4096, 4096))),
    "skinny": by_size(smoke=((16384, 16), (16, 64)), full=((2**20, 16), (16, 1024))),
    "batched": by_size(smoke=((256, 16, 16), (256, 16, 16)), full=((2**16, 32, 32), (2**16, 32, 32))),
}


class MatMulKinds(Product):
    """The product of matrices of other shapes and types: square, tall and narrow, many small ones at once."""

    version = "1"
    group = "linalg"
    param_names = ("dtype", "shape")
    params = (("float32", "bfloat16", "float64"), tuple(SHAPES))
    tolerance = 4e-3

    def inputs(self, dtype: str, shape: str) -> tuple[Any, ...]:
        """Two random arrays of matrices, rounded to the type."""
        random = random_numbers()
        kind = jnp.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
        left, right = (random.random(each, dtype=np.float32).astype(kind) for each in SHAPES[shape])
        return left, right

    def setup(self, *params: Any) -> None:
        """On the device in the type that was asked for: without its setting JAX halves float64."""
        self.dtype = params[0]
        self.doubled = self.dtype == "float64"
        with double_precision(enabled=self.doubled):
            super().setup(*params)

    def compile(self) -> None:
        """As everywhere, with float64 where it was asked for."""
        with double_precision(enabled=self.doubled):
            super().compile()

    def call(self) -> Any:
        """As everywhere, with float64 where it was asked for."""
        with double_precision(enabled=self.doubled):
            return super().call()

    def check(self, result: Any) -> str | None:
        """The type is the one asked for, and the product is right."""
        return super().check(result) if str(result.dtype) == self.dtype else f"the result is {result.dtype}"

    def facts(self) -> tuple[dict[str, float], dict[str, str]]:
        """As everywhere, with float64 where it was asked for."""
        with double_precision(enabled=self.doubled):
            return super().facts()


def double_precision(*, enabled: bool) -> contextlib.AbstractContextManager[Any]:
    """JAX with float64 for as long as it lasts: a setting of the process that no other benchmark must see."""
    if not enabled:
        return contextlib.nullcontext()
    # It moved out of jax.experimental in 2025.
    enable: Any = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    context: contextlib.AbstractContextManager[Any] = enable(True)  # noqa: FBT003 - JAX's own signature
    return context


class Cholesky(Timed):
    """The Cholesky factor of a positive definite matrix in float32."""

    version = "1"
    group = "core"
    param_names = ("edge",)
    params = (by_size(smoke=(512,), full=(4096,)),)

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A symmetric matrix with a heavy diagonal."""
        half = random_numbers().random((edge, edge), dtype=np.float32)
        return ((half + half.T) / 2 + edge * np.eye(edge, dtype=np.float32),)

    def function(self, matrix: Any) -> Any:
        """The lower factor."""
        return jnp.linalg.cholesky(matrix)

    def reference(self, matrix: Any) -> Any:
        """What the matrix does to a random vector."""
        return matrix @ vector(len(matrix))

    def check(self, result: Any) -> str | None:
        """L is lower triangular, and L (L^T x) is A x."""
        factor = np.asarray(result, dtype=np.float64)
        if np.triu(factor, 1).any():
            return "the factor is not lower triangular"
        applied = factor @ (factor.T @ vector(len(factor)))
        return difference(applied, self.expected[0], tolerance=2e-3)
