"""Dense linear algebra: what do a product and a factorisation cost?

Both are checked by what they do to a random vector, in double precision, which costs n^2 where the thing itself
costs n^3 (Freivalds 1977). The vector is positive, so that errors of one sign add up; the tolerance leaves room for
a GPU's shortened products (TF32).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, difference, random_numbers


class MatMul(Timed):
    """The product of two square matrices in float32."""

    version = "1"
    unit = "s"
    better = "lower"
    group = "core"
    param_names = ("edge",)
    params = (by_size(smoke=(512,), full=(8192,)),)

    def setup(self, edge: int) -> None:
        """Two random matrices, and what their product does to a random vector."""
        random = random_numbers()
        left, right = random.standard_normal((2, edge, edge), dtype=np.float32)
        self.vector = random.random(edge)
        self.expected = left @ (right @ self.vector)
        self.arguments = jax.device_put((left, right))

    def function(self, left: Any, right: Any) -> Any:
        """The product."""
        return left @ right

    def check(self, result: Any) -> str | None:
        """(A B) x is A (B x)."""
        return difference(np.asarray(result) @ self.vector, self.expected, tolerance=2e-3)


class Cholesky(Timed):
    """The Cholesky factor of a positive definite matrix in float32."""

    version = "1"
    unit = "s"
    better = "lower"
    group = "core"
    param_names = ("edge",)
    params = (by_size(smoke=(512,), full=(4096,)),)

    def setup(self, edge: int) -> None:
        """A symmetric matrix with a heavy diagonal, and what it does to a random vector."""
        random = random_numbers()
        half = random.random((edge, edge), dtype=np.float32)
        matrix = (half + half.T) / 2 + edge * np.eye(edge, dtype=np.float32)
        self.vector = random.random(edge)
        self.expected = matrix @ self.vector
        self.arguments = (jax.device_put(matrix),)

    def function(self, matrix: Any) -> Any:
        """The lower factor."""
        return jnp.linalg.cholesky(matrix)

    def check(self, result: Any) -> str | None:
        """L is lower triangular, and L (L^T x) is A x."""
        factor = np.asarray(result)
        if np.triu(factor, 1).any():
            return "the factor is not lower triangular"
        return difference(factor @ (factor.T @ self.vector), self.expected, tolerance=2e-3)
