"""Which way is worse, and how is a value said?"""

from __future__ import annotations

import doctest
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.core import units
from stepwatch.core.model import Better, Direction
from stepwatch.core.units import direction, format_change, format_value, low_quantile, slowdown

values = st.floats(1e-3, 1e3)  # a wider range and the reciprocals below lose their digits
betters = st.sampled_from(Better)


def test_the_examples_in_the_docstring_are_right() -> None:
    assert doctest.testmod(units).attempted == 2
    assert doctest.testmod(units).failed == 0


@given(values, values, betters)
def test_worse_is_positive_either_way(old: float, new: float, better: Better) -> None:
    worse = slowdown(old=old, new=new, better=better)
    if old != new:
        assert (worse > 0) == (direction(old=old, new=new, better=better) is Direction.REGRESSION)
        other = Better.HIGHER if better is Better.LOWER else Better.LOWER
        assert direction(old=old, new=new, better=other) is not direction(old=old, new=new, better=better)
    assert worse > -1
    assert slowdown(old=new, new=old, better=better) == pytest.approx(1 / (1 + worse) - 1)


@given(values, values)
def test_a_rate_is_the_reciprocal_of_a_time(old: float, new: float) -> None:
    as_rate = slowdown(old=1 / old, new=1 / new, better=Better.HIGHER)
    assert as_rate == pytest.approx(slowdown(old=old, new=new, better=Better.LOWER))


@pytest.mark.parametrize(
    ("numbers", "better", "expected"),
    [
        ([3.0], Better.LOWER, 3.0),
        ([4.0, 2.0, 3.0], Better.LOWER, 2.0),
        ([4.0, 2.0, 3.0, 5.0], Better.LOWER, 2.0),
        ([4.0, 1.0, 3.0, 5.0, 2.0], Better.LOWER, 2.0),
        ([4.0, 2.0, 3.0], Better.HIGHER, 4.0),
        ([4.0, 1.0, 3.0, 5.0, 2.0], Better.HIGHER, 4.0),
    ],
)
def test_the_quick_end(numbers: list[float], better: Better, expected: float) -> None:
    assert low_quantile(numbers, better) == expected


@given(st.lists(values, min_size=1, max_size=9), st.floats(1.0, 2.0), betters)
def test_a_slow_process_does_not_move_the_quick_end(
    numbers: list[float], factor: float, better: Better
) -> None:
    slowest = max(numbers) * factor if better is Better.LOWER else min(numbers) / factor
    assert low_quantile([*numbers, slowest], better) in {
        low_quantile(numbers, better),
        sorted(numbers, reverse=better is Better.HIGHER)[min(1, len(numbers) - 1)],
    }


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.0021, "s", "2.1 ms"),
        (1.0, "s", "1 s"),
        (999e-6, "s", "999 us"),
        (2.5e-8, "s", "25 ns"),
        (90.0, "s", "90 s"),
        (587.67, "MLUPS", "587.7 MLUPS"),
        (3.0, "", "3"),
    ],
)
def test_a_value_is_said_in_its_scale(value: float, unit: str, expected: str) -> None:
    assert format_value(value, unit) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (577.29, 536.75, "-7.0 %"),
        (1.0, 1.1, "+10.0 %"),
        (1.0, 2.0, "+100.0 %"),
        (1.0, 294.0, "x 294"),
        (1.0, 0.004, "x 0.004"),
        (2.0, 1.0, "-50.0 %"),
    ],
)
def test_a_change_is_a_percentage_or_a_factor(old: float, new: float, expected: str) -> None:
    assert format_change(old=old, new=new) == expected


@given(values, values)
def test_every_change_can_be_said(old: float, new: float) -> None:
    assert re.fullmatch(r"x [\d.e+-]+|[+-][\d.]+ %", format_change(old=old, new=new))
