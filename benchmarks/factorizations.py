"""Factorisations of a dense matrix: what do QR, SVD and the eigenvalues of a symmetric matrix cost?

A factorisation is not unique, so it is checked by what its factors do to a random vector, one after the other, and by
whether those that should be orthogonal are. Cholesky's is in benchmarks/linear_algebra.py.
"""

from __future__ import annotations

import abc
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, differences, precise, random_numbers, vector


class Factorization(Timed):
    """The factors of a square matrix, for which `pairs` says what must be equal to what."""

    group = "linalg"
    param_names = ("edge",)
    params = (by_size(smoke=(128,), full=(2048,)),)
    tolerance = 4e-3

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A random matrix of numbers in [0, 1)."""
        return (random_numbers().random((edge, edge), dtype=np.float32),)

    def reference(self, matrix: Any) -> Any:
        """What the matrix does to a random vector."""
        return matrix @ vector(len(matrix))

    def check(self, result: Any) -> str | None:
        """The factors give the matrix, and are what they should be."""
        factors = [precise(np.asarray(factor)) for factor in result]
        return differences(self.pairs(self.expected[0], *factors), self.tolerance)

    @abc.abstractmethod
    def pairs(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """(actual, expected) of each identity, from A x and the factors in double precision."""


class QR(Factorization):
    """jnp.linalg.qr."""

    version = "1"

    def function(self, matrix: Any) -> Any:
        """An orthogonal and an upper triangular factor."""
        return tuple(jnp.linalg.qr(matrix))

    def pairs(self, applied: Any, q: Any, r: Any) -> list[tuple[Any, Any]]:
        """Q (R x) is A x, and Q^T (Q x) is x; R's lower part adds nothing."""
        x = vector(len(q))
        return [(q @ (r @ x), applied), (q.T @ (q @ x), x), (np.triu(r) @ x, r @ x)]


class SVD(Factorization):
    """jnp.linalg.svd, with vectors."""

    version = "1"

    def function(self, matrix: Any) -> Any:
        """Left vectors, singular values, right vectors."""
        return tuple(jnp.linalg.svd(matrix))

    def pairs(self, applied: Any, u: Any, s: Any, vt: Any) -> list[tuple[Any, Any]]:
        """U (S (V^T x)) is A x, U^T (U x) and V (V^T x) are x; the values go down."""
        x = vector(len(u))
        return [
            (u @ (s * (vt @ x)), applied),
            (u.T @ (u @ x), x),
            (vt.T @ (vt @ x), x),
            (s, np.sort(np.abs(s))[::-1]),
        ]


class Eigh(Factorization):
    """jnp.linalg.eigh of a symmetric matrix, with vectors."""

    version = "1"

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A symmetric matrix of numbers in [0, 1)."""
        (half,) = super().inputs(edge)
        return ((half + half.T) / 2,)

    def function(self, matrix: Any) -> Any:
        """Eigenvalues and eigenvectors."""
        return tuple(jnp.linalg.eigh(matrix))

    def pairs(self, applied: Any, values: Any, vectors: Any) -> list[tuple[Any, Any]]:
        """V (W (V^T x)) is A x, and V^T (V x) is x; the values go up."""
        x = vector(len(values))
        return [
            (vectors @ (values * (vectors.T @ x)), applied),
            (vectors.T @ (vectors @ x), x),
            (values, np.sort(values)),
        ]
