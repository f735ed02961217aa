from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.core.bisection.compare import compare, level, looks, rank_p
from stepwatch.core.model import Better, Verdict

positive = st.floats(min_value=0.01, max_value=100)


def processes(rng: random.Random, level: float, count: int, *, noise: float, slow: float) -> list[float]:
    def one() -> float:
        factor = rng.uniform(1.3, 1.5) if rng.random() < slow else 1.0
        return level * factor * rng.lognormvariate(0, noise)

    return [one() for _ in range(count)]


def settled(rng: random.Random, step: float, *, noise: float, slow: float = 0.15, cap: int = 8) -> Verdict:
    old = processes(rng, 1.0, 3, noise=noise, slow=slow)
    new = processes(rng, step, 3, noise=noise, slow=slow)
    while (compared := compare(old, new, cap=cap)).more:
        old += processes(rng, 1.0, compared.more, noise=noise, slow=slow)
        new += processes(rng, step, compared.more, noise=noise, slow=slow)
    return compared.verdict


def test_three_a_side_are_enough_for_a_large_step() -> None:
    compared = compare([10, 10, 11], [20, 21, 20])
    assert (compared.verdict, compared.more) == (Verdict.DIFFERENT, 0)
    assert compared.ratio == pytest.approx(1.97, rel=0.01)
    assert compare([178, 168, 174], [0.41, 0.43, 0.89]).verdict is Verdict.DIFFERENT


def test_three_a_side_never_say_more() -> None:
    assert compare([1, 1, 1], [1.5, 1.5, 1.5]).more == 2  # three slow processes look like this
    assert compare([1, 1, 1], [1, 1, 1]).more == 2
    assert compare([], [1.0]).more == 3
    assert compare([], [1.0]).ratio is None


def test_a_slow_process_is_set_aside() -> None:
    old, new = [1.0, 1.01, 1.02, 1.0, 1.45], [1.1, 1.11, 1.1, 1.12, 1.09, 1.1, 1.11, 1.12]
    assert level(old).log == pytest.approx(math.log(1.0075), abs=1e-3)
    compared = compare([*old, 1.0, 1.01, 1.0], new)
    assert compared.verdict is Verdict.DIFFERENT
    assert compared.ratio == pytest.approx(1.1, abs=0.01)


def test_sides_that_do_not_overlap_need_nothing_set_aside() -> None:
    """Seen on a busy machine, in microseconds: of either side two are slow, and three against three tell nothing."""
    old, new = [77.0, 144.0, 134.0, 127.0, 81.0], [248.0, 227.0, 369.0, 360.0, 271.0]
    assert compare(old, new, cap=5).verdict is Verdict.DIFFERENT
    touching = [*old[:4], 228.0]
    assert compare(touching, new, cap=5).verdict is Verdict.UNKNOWN


def test_one_quick_process_among_slow_ones_leaves_the_level_open() -> None:
    assert level([1.03, 1.49, 1.42, 1.45, 1.5]).scatter > math.log(1.35)
    assert level([1.03, 1.04, 1.42, 1.45, 1.5]).scatter < math.log(1.3)


def test_slow_processes_of_a_rate_lie_below() -> None:
    values = [100.0, 101.0, 99.0, 100.0, 70.0]
    assert math.exp(level(values, Better.HIGHER).log) == pytest.approx(100, rel=0.01)
    assert compare(values, values, better=Better.HIGHER).verdict is Verdict.SAME


@given(st.lists(positive, min_size=3, max_size=8), st.lists(positive, min_size=3, max_size=8))
def test_a_rate_is_a_time_turned_over(old: list[float], new: list[float]) -> None:
    times = compare(old, new)
    rates = compare([1 / x for x in old], [1 / x for x in new], better=Better.HIGHER)
    assert (times.verdict, times.more) == (rates.verdict, rates.more)
    assert times.ratio is not None
    assert rates.ratio == pytest.approx(1 / times.ratio)


@given(st.data())
def test_more_values_never_change_a_decision(data: st.DataObject) -> None:
    near = st.floats(min_value=0.9, max_value=1.6)
    old = data.draw(st.lists(near, min_size=3, max_size=8))
    new = data.draw(st.lists(near, min_size=3, max_size=8))
    compared = compare(old, new, cap=16)
    longer = compare(old + data.draw(st.lists(near)), new + data.draw(st.lists(near)), cap=16)
    assert compared.verdict is Verdict.UNKNOWN or longer.verdict is compared.verdict


def test_looks_end_at_the_cap_and_unknown_there_asks_for_no_more() -> None:
    assert looks(8) == [3, 5, 8]
    assert looks(32) == [3, 5, 10, 20, 32]
    old = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.1, 0.92]
    compared = compare(old, [1.09 * x for x in old])
    assert (compared.verdict, compared.more) == (Verdict.UNKNOWN, 0)


@pytest.mark.parametrize(("m", "n"), [(3, 4), (5, 5), (2, 6)])
def test_rank_p_is_the_share_of_orders_at_least_as_odd(m: int, n: int) -> None:
    def count(left: tuple[int, ...]) -> int:
        return sum(x > y for x in left for y in set(range(m + n)) - set(left))

    orders = list(itertools.combinations(range(m + n), m))
    for left in orders[:: max(1, len(orders) // 20)]:
        odd = min(count(left), m * n - count(left))
        share = sum(min(count(other), m * n - count(other)) <= odd for other in orders) / len(orders)
        assert rank_p(left, sorted(set(range(m + n)) - set(left))) == pytest.approx(share)


def test_known_noise_makes_it_more_careful() -> None:
    old, new = [1.0, 1.001, 1.002, 1.0, 1.001], [1.06, 1.061, 1.062, 1.06, 1.061]
    assert compare(old, new).verdict is Verdict.DIFFERENT
    assert compare(old, new, noise=0.05).verdict is Verdict.UNKNOWN


def test_what_no_further_process_would_decide_may_be_given_up() -> None:
    wild, calm = (10.0, 17.0, 11.0), (10.0, 10.5, 11.0)
    assert compare(wild, (11.0, 16.0, 10.5), cap=5).more == 2
    given_up = compare(wild, (11.0, 16.0, 10.5), cap=5, give_up=True)
    assert (given_up.verdict, given_up.more) == (Verdict.UNKNOWN, 0)
    assert compare(calm, (13.0, 13.5, 14.0), cap=5, give_up=True).more == 2, "this may still become DIFFERENT"
    assert compare((10.0, 10.01, 10.02), (10.0, 10.01, 10.03), cap=5, give_up=True).more == 2, "and this SAME"


def test_error_rates() -> None:
    rng = random.Random(7)  # noqa: S311
    null = [settled(rng, 1.0, noise=0.05) for _ in range(600)]
    assert null.count(Verdict.DIFFERENT) < 0.01 * len(null)
    step = [settled(rng, 1.1, noise=0.02) for _ in range(600)]
    assert step.count(Verdict.DIFFERENT) > 0.93 * len(step)  # .96 in 5,000
    assert step.count(Verdict.SAME) < 0.01 * len(step)
    clean = [settled(rng, 1 / 1.1, noise=0.02, slow=0.0) for _ in range(200)]
    assert clean.count(Verdict.DIFFERENT) > 0.99 * len(clean)
