"""Fourier transforms: what do they cost in one to three dimensions, real, batched, and of a prime length?"""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, random_numbers


class Transform(Timed):
    """A transform of numpy.fft, of random complex numbers; `shape` makes an array's shape of the parameters."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What numpy calls it."""

    def shape(self, *params: Any) -> tuple[int, ...]:
        """One length an axis, from the parameters."""
        return params

    def inputs(self, *params: Any) -> tuple[Any, ...]:
        """Random numbers in complex64."""
        parts = random_numbers().standard_normal((2, *self.shape(*params)), dtype=np.float32)
        return ((parts[0] + 1j * parts[1]).astype(np.complex64),)

    def function(self, values: Any) -> Any:
        """The transform."""
        return getattr(jnp.fft, self.name)(values)

    def reference(self, values: Any) -> Any:
        """The transform."""
        return getattr(np.fft, self.name)(values)


class FFT2D(Transform):
    """The two-dimensional Fourier transform of a square image in complex64."""

    version = "1"
    group = "core"
    param_names = ("edge",)
    params = (by_size(smoke=(512,), full=(4096,)),)
    name = "fft2"

    def shape(self, edge: int) -> tuple[int, ...]:
        """A square."""
        return edge, edge


class FFT(Transform):
    """The one-dimensional transform, of a power of two and of a prime length."""

    version = "1"
    group = "fft"
    param_names = ("length",)
    params = (by_size(smoke=(2**16, 2**16 + 1), full=(2**24, 2**24 - 3)),)
    name = "fft"


class FFTBatched(Transform):
    """Many transforms of 1,024 at once, along the last axis."""

    version = "1"
    group = "fft"
    param_names = ("batch",)
    params = (by_size(smoke=(128,), full=(2**14,)),)
    name = "fft"

    def shape(self, batch: int) -> tuple[int, ...]:
        """One transform a row."""
        return batch, 1024


class FFT3D(Transform):
    """The three-dimensional transform of a cube."""

    version = "1"
    group = "fft"
    param_names = ("edge",)
    params = (by_size(smoke=(48,), full=(256,)),)
    name = "fftn"

    def shape(self, edge: int) -> tuple[int, ...]:
        """A cube."""
        return edge, edge, edge


class RFFT(Transform):
    """The transform of real numbers."""

    version = "1"
    group = "fft"
    param_names = ("length",)
    params = (by_size(smoke=(2**17,), full=(2**25,)),)
    name = "rfft"

    def inputs(self, length: int) -> tuple[Any, ...]:
        """Random numbers in float32."""
        return (random_numbers().standard_normal(length, dtype=np.float32),)


class IRFFT(Transform):
    """The transform back to real numbers, from `length` of them as half a spectrum."""

    version = "1"
    group = "fft"
    param_names = ("length",)
    params = (by_size(smoke=(2**17,), full=(2**25,)),)
    name = "irfft"

    def shape(self, length: int) -> tuple[int, ...]:
        """A real signal's spectrum is as its mirror image says."""
        return (length // 2 + 1,)


class DCT(RFFT):
    """The discrete cosine transform of jax.scipy.fft."""

    version = "1"
    params = (by_size(smoke=(2**16,), full=(2**24,)),)

    def function(self, values: Any) -> Any:
        """The transform of the second kind."""
        return jax.scipy.fft.dct(values)

    def reference(self, values: Any) -> Any:
        """By the Fourier transform of the values and their mirror image, half a step aside."""
        count = len(values)
        mirrored = np.fft.rfft(np.concatenate([values, values[::-1]]))[:count]
        return (mirrored * np.exp(-0.5j * np.pi * np.arange(count) / count)).real
