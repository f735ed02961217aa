"""Linear equations and functions of a matrix: what do solving, inverting, a determinant and an exponential cost?

What solves something is checked by putting the answer back, in double precision.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, precise, random_numbers, vector


class Equations(Timed):
    """A x = b with a well-conditioned matrix; the result is checked by what A makes of it."""

    group = "linalg"
    param_names = ("edge",)
    params = (by_size(smoke=(256,), full=(4096,)),)
    tolerance = 4e-3

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A matrix that is heavy on its diagonal, and a right-hand side in [0, 1)."""
        random = random_numbers()
        return near_one(random, edge), random.random(edge, dtype=np.float32)

    def reference(self, _matrix: Any, right: Any) -> Any:
        """What A x must be."""
        return right

    def check(self, result: Any) -> str | None:
        """A x is b."""
        return super().check(precise(np.asarray(self.arguments[0])) @ precise(np.asarray(result)))


class Solve(Equations):
    """jnp.linalg.solve with one right-hand side."""

    version = "1"

    def function(self, matrix: Any, right: Any) -> Any:
        """The solution."""
        return jnp.linalg.solve(matrix, right)


class TriangularSolve(Equations):
    """jax.scipy.linalg.solve_triangular with one right-hand side."""

    version = "1"

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A lower triangular matrix and a right-hand side."""
        matrix, right = super().inputs(edge)
        return np.tril(matrix), right

    def function(self, matrix: Any, right: Any) -> Any:
        """The solution."""
        return jax.scipy.linalg.solve_triangular(matrix, right, lower=True)


class Lstsq(Equations):
    """jnp.linalg.lstsq with twice as many equations as unknowns, which all agree."""

    version = "1"
    params = (by_size(smoke=(96,), full=(1024,)),)

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A tall matrix, and what it makes of a random vector."""
        upper, right = super().inputs(edge)
        matrix = np.concatenate([upper, upper.T + 1])
        return matrix, (matrix @ right).astype(np.float32)

    def function(self, matrix: Any, right: Any) -> Any:
        """The solution that leaves the least."""
        return jnp.linalg.lstsq(matrix, right)[0]


class OfMatrix(Timed):
    """A function of one square matrix."""

    group = "linalg"
    param_names = ("edge",)
    tolerance = 4e-3


class Inv(OfMatrix):
    """jnp.linalg.inv."""

    version = "1"
    params = (by_size(smoke=(256,), full=(4096,)),)

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A matrix that is heavy on its diagonal."""
        return (near_one(random_numbers(), edge),)

    def function(self, matrix: Any) -> Any:
        """The inverse."""
        return jnp.linalg.inv(matrix)

    def reference(self, matrix: Any) -> Any:
        """What A (A^-1 x) must be."""
        return vector(len(matrix))

    def check(self, result: Any) -> str | None:
        """A (A^-1 x) is x."""
        return super().check(
            precise(np.asarray(self.arguments[0])) @ (precise(np.asarray(result)) @ vector(len(result)))
        )


class Det(OfMatrix):
    """jnp.linalg.det."""

    version = "1"
    params = (by_size(smoke=(256,), full=(4096,)),)

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A matrix near one, so that its determinant is a number that float32 can hold."""
        return (near_one(random_numbers(), edge),)

    def function(self, matrix: Any) -> Any:
        """The determinant."""
        return jnp.linalg.det(matrix)

    def reference(self, matrix: Any) -> Any:
        """The determinant."""
        return np.linalg.det(matrix)


class Expm(OfMatrix):
    """jax.scipy.linalg.expm of a symmetric matrix."""

    version = "1"
    params = (by_size(smoke=(64,), full=(1024,)),)

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A symmetric matrix with eigenvalues between about -1 and 1."""
        half = random_numbers().standard_normal((edge, edge), dtype=np.float32)
        return ((half + half.T) / np.float32(2 * np.sqrt(2 * edge)),)

    def function(self, matrix: Any) -> Any:
        """The exponential."""
        return jax.scipy.linalg.expm(matrix)

    def reference(self, matrix: Any) -> Any:
        """The exponential, by way of the eigenvalues."""
        values, vectors = np.linalg.eigh(matrix)
        return (vectors * np.exp(values)) @ vectors.T


def near_one(random: np.random.Generator, edge: int) -> Any:
    """The unit matrix with a little added everywhere."""
    return random.random((edge, edge), dtype=np.float32) / edge + np.eye(edge, dtype=np.float32)
