"""Does a search look as closely as its range allows, and no closer than it is worth?"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from stepwatch.core.bisection.effort import CAP_MAX, MIN_EFFECT, Effort, effort_for


def values(level: float, noise: float, count: int, *, seed: int) -> list[float]:
    rng = random.Random(seed)  # noqa: S311
    return [level * rng.lognormvariate(0, noise) for _ in range(count)]


def worth(step: float, noise: float, count: int = CAP_MAX, *, seed: int = 1) -> Effort:
    return effort_for(values(1.0, noise, count, seed=seed), values(1.0 + step, noise, count, seed=seed + 1))


@pytest.mark.parametrize(
    ("step", "noise", "effect", "cap"),
    [
        (1.4, 0.2, lambda found: 0.05 < found < 0.15, lambda cap: cap <= 40),
        (0.07, 0.05, lambda found: 0.01 < found <= MIN_EFFECT + 1e-9, lambda cap: cap >= 40),
        (-0.087, 0.0015, lambda found: 0.008 < found < 0.01, lambda cap: cap <= 20),
        (0.3, 0.01, lambda found: 0.02 < found < 0.03, lambda cap: cap <= 20),
    ],
)
def test_the_worked_examples(
    step: float, noise: float, effect: Callable[[float], bool], cap: Callable[[int], bool]
) -> None:
    for seed in range(1, 41, 2):
        found = worth(step, noise, seed=seed)
        assert effect(found.min_effect), found
        assert cap(found.cap), found


def test_it_stays_the_same_when_the_ends_get_more_values() -> None:
    for seed in range(1, 41, 2):
        found = {worth(0.2, 0.03, count, seed=seed) for count in (20, 40, 80, 128)}
        assert len(found) == 1


def test_until_the_ends_are_told_apart_all_is_allowed() -> None:
    assert effort_for([], [1.0]) == effort_for([1.0] * 3, [1.01] * 3) == Effort()
    assert worth(0.0, 0.03) == Effort(min_effect=MIN_EFFECT, cap=CAP_MAX)
    assert worth(0.07, 0.05, 3) == Effort()
