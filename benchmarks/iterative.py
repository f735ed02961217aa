"""Solvers of jax.scipy.sparse.linalg: what do ten iterations of one cost?

The number of iterations is fixed, so that a version that stops earlier does not look quicker; the matrix is such that
ten of them suffice.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from benchmarks.benchmark import Timed, by_size, precise, random_numbers

ITERATIONS = 10


class Solver(Timed):
    """A x = b, where A is only seen through its products."""

    group = "scipy"
    param_names = ("edge",)
    params = (by_size(smoke=(256,), full=(8192,)),)
    tolerance = 4e-3

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """A symmetric matrix with eigenvalues between about 1/2 and 3/2, and a right-hand side."""
        random = random_numbers()
        half = random.standard_normal((edge, edge), dtype=np.float32)
        near = (half + half.T) / np.float32(4 * np.sqrt(2 * edge))
        return near + np.eye(edge, dtype=np.float32), random.random(edge, dtype=np.float32)

    def reference(self, _matrix: Any, right: Any) -> Any:
        """What A x must be."""
        return right

    def check(self, result: Any) -> str | None:
        """A x is b."""
        return super().check(precise(np.asarray(self.arguments[0])) @ precise(np.asarray(result)))


class CG(Solver):
    """Conjugate gradients."""

    version = "1"

    def function(self, matrix: Any, right: Any) -> Any:
        """The solution."""
        solver = jax.scipy.sparse.linalg.cg
        return solver(lambda x: matrix @ x, right, tol=0.0, maxiter=ITERATIONS)[0]


class BiCGStab(Solver):
    """Stabilised biconjugate gradients: two products an iteration, so half as many."""

    version = "1"

    def function(self, matrix: Any, right: Any) -> Any:
        """The solution."""
        solver = jax.scipy.sparse.linalg.bicgstab
        return solver(lambda x: matrix @ x, right, tol=0.0, maxiter=ITERATIONS // 2)[0]


class GMRES(Solver):
    """Generalised minimal residuals, without a restart."""

    version = "1"

    def function(self, matrix: Any, right: Any) -> Any:
        """The solution."""
        solver = jax.scipy.sparse.linalg.gmres
        return solver(lambda x: matrix @ x, right, tol=0.0, restart=ITERATIONS, maxiter=1)[0]
