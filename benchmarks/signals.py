"""Signal processing of jax.scipy: what do convolutions and a correlation cost?"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from benchmarks.benchmark import Timed, by_size, random_numbers


class Filter(Timed):
    """A signal of numbers in [0, 1) with a shorter one."""

    group = "scipy"
    tolerance = 2e-3


class Convolve(Filter):
    """jax.scipy.signal.convolve of an image with a kernel of 7 x 7."""

    version = "1"
    param_names = ("edge",)
    params = (by_size(smoke=(96,), full=(2048,)),)

    def inputs(self, edge: int) -> tuple[Any, ...]:
        """An image and a kernel."""
        random = random_numbers()
        return random.random((edge, edge), dtype=np.float32), random.random((7, 7), dtype=np.float32)

    def function(self, image: Any, kernel: Any) -> Any:
        """All of the overlap, edges included."""
        return jax.scipy.signal.convolve(image, kernel)

    def reference(self, image: Any, kernel: Any) -> Any:
        """By the Fourier transform."""
        shape = [a + b - 1 for a, b in zip(image.shape, kernel.shape)]  # noqa: B905 - 3.9
        return np.fft.irfft2(np.fft.rfft2(image, shape) * np.fft.rfft2(kernel, shape), shape)


class Correlate(Filter):
    """jax.scipy.signal.correlate of a signal with one of 64."""

    version = "1"
    param_names = ("values",)
    params = (by_size(smoke=(2**14,), full=(2**21,)),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """The two signals."""
        random = random_numbers()
        return random.random(values, dtype=np.float32), random.random(64, dtype=np.float32)

    def function(self, signal: Any, other: Any) -> Any:
        """One value a shift."""
        return jax.scipy.signal.correlate(signal, other)

    def reference(self, signal: Any, other: Any) -> Any:
        """One value a shift."""
        return np.correlate(signal, other, mode="full")


class FFTConvolve(Filter):
    """jax.scipy.signal.fftconvolve of two signals of one length."""

    version = "1"
    param_names = ("values",)
    params = (by_size(smoke=(2**14,), full=(2**22,)),)

    def inputs(self, values: int) -> tuple[Any, ...]:
        """The two signals."""
        left, right = random_numbers().random((2, values), dtype=np.float32)
        return left, right

    def function(self, left: Any, right: Any) -> Any:
        """Both ends included."""
        return jax.scipy.signal.fftconvolve(left, right)

    def reference(self, left: Any, right: Any) -> Any:
        """Both ends included."""
        length = len(left) + len(right) - 1
        return np.fft.irfft(np.fft.rfft(left, length) * np.fft.rfft(right, length), length)
