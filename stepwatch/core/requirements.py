"""Which requirements stand beside a pair's jax and jaxlib, and where along the releases do they change?

A ladder of releases can need different versions of what lies below it: jax up to 0.4.25 needs numpy 1, jax 0.7 needs
numpy 2. Each set but the newest says up to which release, that one included, it holds; the older of the two libraries
decides. Worked example, numpy 1 through 0.4.25 and numpy 2 as the newest set:

    jax 0.4.25 + jaxlib 0.4.25    numpy 1
    jax 0.4.26 + jaxlib 0.4.25    numpy 1
    jax 0.4.26 + jaxlib 0.4.26    numpy 2: between it and the pair above a step may be numpy's
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepwatch.core.model import CommitPair


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """The requirements of all releases through one of them."""

    through: str
    requirements: tuple[str, ...]


def requirements_of(pair: CommitPair, newest: Sequence[str], earlier: Sequence[Earlier]) -> tuple[str, ...]:
    """The set that holds for a pair of releases: of those that reach it, the one that ends first."""
    release = min(_numbers(each.ref) for each in (pair.jax, pair.xla) if each.is_release)
    reaching = [each for each in earlier if release <= _numbers(each.through)]
    if not reaching:
        return tuple(newest)
    return min(reaching, key=lambda each: _numbers(each.through)).requirements


def _numbers(release: str) -> tuple[int, ...]:
    """A release as it is ordered: 0.4.9 before 0.4.10, 0.5 before 0.5.0."""
    return tuple(int(number) for number in release.split("."))
