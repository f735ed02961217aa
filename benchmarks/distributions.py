"""Statistics of jax.scipy: what do a density, ranks and a kernel estimate cost?"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from benchmarks.benchmark import Timed, by_size, random_numbers


class Statistic(Timed):
    """Something of many random numbers."""

    group = "scipy"
    param_names = ("values",)
    params = (by_size(smoke=(2**16,), full=(2**24,)),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Normal numbers."""
        return (random_numbers().standard_normal(values, dtype=np.float32),)


class Logpdf(Statistic):
    """jax.scipy.stats.norm.logpdf, with a mean and a deviation for each number."""

    version = "1"

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Numbers, their means and deviations."""
        random = random_numbers()
        numbers, means = random.standard_normal((2, values), dtype=np.float32)
        return numbers, means, random.uniform(0.5, 2, values).astype(np.float32)

    def function(self, numbers: Any, means: Any, deviations: Any) -> Any:
        """The logarithm of each density."""
        return jax.scipy.stats.norm.logpdf(numbers, means, deviations)

    def reference(self, numbers: Any, means: Any, deviations: Any) -> Any:
        """The logarithm of each density."""
        return -(((numbers - means) / deviations) ** 2) / 2 - np.log(np.sqrt(2 * np.pi) * deviations)


class Rankdata(Statistic):
    """jax.scipy.stats.rankdata of numbers no two of which are equal."""

    version = "1"
    params = (by_size(smoke=(2**13,), full=(2**20,)),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """Whole numbers in random order."""
        return (random_numbers().permutation(values).astype(np.float32),)

    def function(self, numbers: Any) -> Any:
        """The rank of each number, from 1."""
        return jax.scipy.stats.rankdata(numbers)

    def reference(self, numbers: Any) -> Any:
        """The rank of each number, from 1."""
        return numbers + 1


class GaussianKDE(Statistic):
    """jax.scipy.stats.gaussian_kde: the density of a sample at as many points."""

    version = "1"
    params = (by_size(smoke=(512,), full=(8192,)),)
    tolerance = 2e-3

    def inputs(self, values: int) -> tuple[Any, ...]:
        """A sample, and points."""
        sample, points = random_numbers().standard_normal((2, values), dtype=np.float32)
        return sample, points

    def function(self, sample: Any, points: Any) -> Any:
        """The density at each point."""
        return jax.scipy.stats.gaussian_kde(sample)(points)

    def reference(self, sample: Any, points: Any) -> Any:
        """The mean of normal densities around the sample, as wide as Scott's rule says."""
        width = np.std(sample, ddof=1) * len(sample) ** (-1 / 5)
        apart = (points[:, None] - sample[None, :]) / width
        return np.exp(-(apart**2) / 2).mean(axis=1) / (np.sqrt(2 * np.pi) * width)
