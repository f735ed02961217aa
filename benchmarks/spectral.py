"""Fourier transforms: what does one in two dimensions cost?"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, difference, random_numbers


class FFT2D(Timed):
    """The two-dimensional Fourier transform of a square image in complex64."""

    version = "1"
    unit = "s"
    better = "lower"
    group = "core"
    param_names = ("edge",)
    params = (by_size(smoke=(512,), full=(4096,)),)

    def setup(self, edge: int) -> None:
        """A random complex image."""
        parts = random_numbers().standard_normal((2, edge, edge), dtype=np.float32)
        image = (parts[0] + 1j * parts[1]).astype(np.complex64)
        self.expected = np.fft.fft2(image)
        self.arguments = (jax.device_put(image),)

    def function(self, image: Any) -> Any:
        """The transform."""
        return jnp.fft.fft2(image)

    def check(self, result: Any) -> str | None:
        """As numpy has it."""
        return difference(result, self.expected, tolerance=1e-4)
