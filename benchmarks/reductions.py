"""Reductions over arrays of many dimensions: what does a broadcast, multiplied and summed, cost?"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.benchmark import Timed, by_size, difference, random_numbers

LEADING = (10, 4, 6)


class RankEight(Timed):
    """Rank 3 broadcast into rank 8, multiplied, summed over one axis, maximum, logarithm.

    The shape of jax issue 39257 and pymdp 417 (jaxlib 0.10.2: about 10 times slower on CPU). `edge` 5 is the
    reported (10, 4, 6, 5, 5, 5, 5, 5). The summed axis is the last: jaxlib 0.10.2 crashes on the third.
    """

    version = "1"
    unit = "s"
    better = "lower"
    group = "core"
    param_names = ("edge",)
    params = (by_size(smoke=(4, 5), full=(8, 10)),)

    def setup(self, edge: int) -> None:
        """Beliefs of rank 3 and likelihoods of rank 8, in [0, 1)."""
        random = random_numbers()
        beliefs = random.random(LEADING, dtype=np.float32)
        likelihoods = random.random((*LEADING, *(edge,) * 5), dtype=np.float32)
        broadcast = beliefs.reshape(*LEADING, *(1,) * 5)
        self.expected = np.log((broadcast * likelihoods).sum(axis=-1).max())
        self.arguments = jax.device_put((beliefs, likelihoods))

    def function(self, beliefs: Any, likelihoods: Any) -> Any:
        """The logarithm of the largest sum."""
        broadcast = jnp.broadcast_to(beliefs.reshape(*LEADING, *(1,) * 5), likelihoods.shape)
        return jnp.log((broadcast * likelihoods).sum(axis=-1).max())

    def check(self, result: Any) -> str | None:
        """One number in single precision."""
        return difference(result, self.expected, tolerance=1e-4)
