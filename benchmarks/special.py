"""Special functions of jax.scipy: what does one of them cost an element?

What they should be comes from the standard library and from sums that say the same, not from scipy: JAX takes parts
of its own library from there.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from benchmarks.benchmark import Timed, by_size, random_numbers


class Special(Timed):
    """One function of many numbers, which lie between 1/2 and 20 and are never near a root of it."""

    group = "scipy"
    param_names = ("values",)
    params = (by_size(smoke=(2**14,), full=(2**22,)),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Random numbers."""
        return (random_numbers().uniform(0.5, 20, values).astype(np.float32),)


class Gammaln(Special):
    """The logarithm of the gamma function."""

    version = "1"

    def function(self, numbers: Any) -> Any:
        """One value a number."""
        return jax.scipy.special.gammaln(numbers)

    def reference(self, numbers: Any) -> Any:
        """One value a number."""
        return np.vectorize(math.lgamma)(numbers)


class Digamma(Special):
    """The derivative of that logarithm."""

    version = "1"

    def function(self, numbers: Any) -> Any:
        """One value a number."""
        return jax.scipy.special.digamma(numbers)

    def reference(self, numbers: Any) -> Any:
        """Bernoulli's series where it converges, at 10 and more (Abramowitz and Stegun 6.3.18), and back by 6.3.6."""
        far = numbers + 10
        series = np.log(far) - 1 / (2 * far) - far**-2 / 12 + far**-4 / 120 - far**-6 / 252
        return series - sum(1 / (numbers + step) for step in range(10))


class Erf(Special):
    """The error function."""

    version = "1"

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Random numbers between -3 and 3."""
        return (random_numbers().uniform(-3, 3, values).astype(np.float32),)

    def function(self, numbers: Any) -> Any:
        """One value a number."""
        return jax.scipy.special.erf(numbers)

    def reference(self, numbers: Any) -> Any:
        """One value a number."""
        return np.vectorize(math.erf)(numbers)


class Betainc(Special):
    """The regularised incomplete beta function, of whole a and b up to 10."""

    version = "1"
    params = (by_size(smoke=(2**12,), full=(2**20,)),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """a, b, and x in (0, 1)."""
        random = random_numbers()
        a, b = random.integers(1, 11, (2, values)).astype(np.float32)
        return a, b, random.uniform(0.01, 0.99, values).astype(np.float32)

    def function(self, a: Any, b: Any, x: Any) -> Any:
        """One value a triple."""
        return jax.scipy.special.betainc(a, b, x)

    def reference(self, a: Any, b: Any, x: Any) -> Any:
        """How likely at least a of a + b - 1 throws succeed, each with x (Abramowitz and Stegun 26.5.24)."""
        throws = (a + b - 1).astype(int)
        choose = np.array([[math.comb(n, k) for k in range(20)] for n in range(20)])
        return sum(
            np.where(
                (a <= k) & (k <= throws), choose[throws, k] * x**k * (1 - x) ** np.maximum(throws - k, 0), 0
            )
            for k in range(1, 20)
        )


class Logsumexp(Special):
    """logsumexp of each row of 128."""

    version = "1"
    param_names = ("rows",)
    params = (by_size(smoke=(2**11,), full=(2**18,)),)

    def inputs(self, rows: int) -> tuple[Any, ...]:
        """Random numbers."""
        return (10 * random_numbers().standard_normal((rows, 128), dtype=np.float32),)

    def function(self, numbers: Any) -> Any:
        """One value a row."""
        return jax.scipy.special.logsumexp(numbers, axis=1)

    def reference(self, numbers: Any) -> Any:
        """One value a row."""
        return np.log(np.exp(numbers).sum(axis=1))
