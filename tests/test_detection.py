from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stepwatch.core.detection import Detection, Growing, detect, noise_of_values
from stepwatch.core.detection.fit import Grid, Loss, fit_boundaries

GUIDE = [587.7] * 5 + [570.2] * 3 + [587.5] * 2 + [577.2] * 5


def series(seed: int, *levels: tuple[float, int], noise: float = 0.001) -> np.ndarray:
    random = np.random.default_rng(seed)
    logs = np.concatenate([np.full(n, np.log(level)) for level, n in levels])
    return np.exp(logs + random.normal(0, noise, logs.size))


def indices(detection: Detection) -> list[int]:
    return [step.index for step in detection.steps]


@pytest.mark.parametrize(
    ("scaled", "boundaries"),
    [
        ([0, 0, 0, 8, 0, 0], []),
        ([0, 0, 0, 8, 8], [3]),
        ([0, 0, 8, 8, 8, 0, 0], []),
        ([0, 0, 8, 8, 8, 8, 0, 0, 0, 0], [2, 6]),
    ],
)
def test_the_fit_weighs_odd_nights_against_changes(scaled: list[float], boundaries: list[int]) -> None:
    array = np.array(scaled, dtype=np.float64)
    assert fit_boundaries(array, loss=Loss(bound=9), penalties=np.full(array.size, 14.0)) == boundaries


def test_the_grid_moves_with_the_values() -> None:
    scaled = np.array([0.0, 0.1, 0.3, 0.6, 1.0, 5.0])
    assert Grid.of(scaled + 0.12).levels == pytest.approx(Grid.of(scaled).levels + 0.12)


def brute_force(scaled: np.ndarray, levels: np.ndarray) -> float:
    best = np.minimum((scaled[0] - levels) ** 2, 9)
    for value in scaled[1:]:
        best = np.minimum(best[:, None] + 14 * (levels[:, None] != levels[None, :]), np.inf).min(axis=0)
        best += np.minimum((value - levels) ** 2, 9)
    return float(best.min())


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=12))
def test_the_fit_is_exact(values: list[int]) -> None:
    scaled = np.array(values, dtype=np.float64)
    edges = [
        0,
        *fit_boundaries(scaled, loss=Loss(bound=9), penalties=np.full(scaled.size, 14.0)),
        scaled.size,
    ]
    levels = np.unique(scaled)
    cost = 14.0 * (len(edges) - 2)
    for a, b in itertools.pairwise(edges):
        cost += min(np.minimum((scaled[a:b] - level) ** 2, 9).sum() for level in levels)
    assert cost == pytest.approx(brute_force(scaled, levels))


@pytest.mark.parametrize("noise", [None, 0.0005])
def test_the_guides_start_is_a_dip_and_a_step(noise: float | None) -> None:
    found = detect(GUIDE, noise=noise)
    assert indices(found) == [10]
    assert found.steps[0].ratio == pytest.approx(577.2 / 587.7)
    assert [(dip.start, dip.stop) for dip in found.dips] == [(5, 8)]
    assert found.segments[0].level == 587.7
    assert found.odd == {5, 6, 7}


def test_a_clear_step_is_there_at_its_second_night_and_not_at_its_first() -> None:
    values = series(1, (100, 20), (110, 2))
    assert indices(detect(values[:21])) == []
    assert indices(detect(values)) == [20]


@pytest.mark.parametrize("nights", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_a_short_dip_is_never_a_pair_of_steps(nights: int, seed: int) -> None:
    found = detect(series(seed, (100, 15), (90, nights), (100, 15)))
    assert indices(found) == []
    assert [(dip.start, dip.stop) for dip in found.dips] == [(15, 15 + nights)]
    assert found.dips[0].ratio == pytest.approx(0.9, rel=0.01)


def test_a_deep_dip_does_not_hide_the_step_after_it() -> None:
    found = detect(series(0, (100, 15), (200, 2), (95, 15)), noise=0.001)
    assert indices(found) == [17]
    assert found.steps[0].ratio == pytest.approx(0.95, rel=0.001)


def test_four_nights_are_a_pair_of_steps() -> None:
    assert indices(detect(series(0, (100, 15), (90, 4), (100, 15)))) == [15, 19]


def test_drift_makes_no_stairs() -> None:
    random = np.random.default_rng(2)
    drift = np.exp(np.linspace(0, 0.05, 120) + random.normal(0, 0.002, 120))
    assert indices(detect(drift)) == []
    drift[70:] *= 1.05
    assert indices(detect(drift)) == [70]


@pytest.mark.parametrize(("slope", "noise"), [(0.02, 0.002), (0.05, 0.005), (0.2, 0.005)])
def test_a_slope_is_no_step_however_well_the_noise_is_known(slope: float, noise: float) -> None:
    for seed in range(6):
        random = np.random.default_rng(seed)
        drift = np.exp(np.linspace(0, slope, 120) + random.normal(0, noise, 120))
        assert indices(detect(drift, noise=noise)) == []


def test_drift_is_reported_with_its_slope_and_total() -> None:
    random = np.random.default_rng(2)
    leaning = 100 * np.exp(0.0005 * np.arange(101) + random.normal(0, 0.002, 101))
    leaning[[10, 40]] *= 1.3
    values = np.concatenate([series(1, (80, 30), noise=0.002), leaning])
    (drift,) = detect(values).drifts
    assert (drift.start, drift.stop) == (30, 131)
    assert drift.slope == pytest.approx(0.0005, rel=0.1)
    assert drift.total == pytest.approx(np.expm1(0.05), rel=0.1)
    odd = detect(values).odd
    assert {40, 70} <= odd
    assert len(odd) < 6, "a night on the line is not odd, far from the middle level though it be"


@pytest.mark.parametrize("noise", [0.0005, 0.01])
def test_a_level_does_not_drift(noise: float) -> None:
    for seed in range(8):
        assert detect(series(seed, (100, 60), (110, 60), noise=noise)).drifts == ()
    assert detect(100 * np.exp(0.00002 * np.arange(100))).drifts == (), "0.2 % is below the minimum effect"


def two_modes(seed: int, share: float = 0.3, apart: float = 0.03) -> np.ndarray:
    random = np.random.default_rng(seed)
    return apart * (random.random(120) < share) + random.normal(0, 0.002, 120)


@pytest.mark.parametrize("apart", [0.03, -0.03, 0.3])
def test_visits_to_another_mode_are_no_steps_and_hide_none(apart: float) -> None:
    for seed in range(6):
        visits = two_modes(seed, apart=apart)
        found = detect(np.exp(visits))
        assert (indices(found), found.noise_source) == ([], "modes")
        assert found.noise == pytest.approx(abs(apart) / 2.5, rel=0.2)
        assert len(found.odd) < 5
        visits[70:] += 0.1
        assert indices(detect(np.exp(visits))) == [70]


def test_visits_down_hide_no_step() -> None:
    for seed in (1, 8, 9):
        random = np.random.default_rng(seed)
        away = [False]
        while len(away) < 120:
            away.append(away[-1] if random.random() < 0.3 else bool(random.random() < 0.15))
        visits = 0.4 * np.array(away) * (1 + 0.02 * random.normal(size=120))
        values = np.where(np.arange(120) >= 70, 0.08, 0) - visits + random.normal(0, 0.005, 120)
        assert indices(detect(np.exp(values))) == [70]


def test_nights_that_err_together_make_no_step() -> None:
    for seed in (5, 11, 18, 22):
        random = np.random.default_rng(seed)
        errors, news = np.zeros(120), random.normal(0, 0.0071, 120)
        for i in range(1, 120):
            errors[i] = 0.7 * errors[i - 1] + news[i]
        assert indices(detect(np.exp(errors))) == []


def test_an_alerted_step_takes_less_to_stay() -> None:
    values = series(3, (100, 20), (100.35, 20), noise=0.002)
    assert indices(detect(values)) == []
    assert indices(detect(values, held=[20])) == [20]


def test_a_stay_in_the_other_mode_becomes_a_step_when_it_lasts() -> None:
    visits = two_modes(4, share=0.2)
    visits[80:] = np.random.default_rng(4).normal(0.03, 0.002, 40)
    assert indices(detect(np.exp(visits[:90]))) == []
    assert len(indices(detect(np.exp(visits)))) == 1


def test_long_stays_are_levels_and_no_modes() -> None:
    levels = series(0, *[(100, 10), (103, 10)] * 5)
    found = detect(levels)
    assert (indices(found), found.noise_source) == (list(range(10, 100, 10)), "differences")


def test_rounded_values_are_as_noisy_as_their_changes() -> None:
    random = np.random.default_rng(0)
    values = np.round(75 + random.normal(0, 0.3, 100))
    found = detect(values)
    assert (indices(found), found.noise_source) == ([], "rounded")
    assert found.noise == pytest.approx(1.05 / 75, rel=0.3), "a change is one unit"
    assert indices(detect(np.concatenate([values, values + 15]))) == [100]
    quiet = detect([7.0] * 10 + [8.0] * 10)
    assert (indices(quiet), quiet.noise_source) == ([10], "differences")


def test_nights_on_the_way_belong_to_the_level_they_are_nearer_to() -> None:
    values = series(0, (100, 20), (120, 20))
    values[18:21] = 103, 106, 115
    assert indices(detect(values)) == [20]


def test_a_step_is_surer_with_each_night() -> None:
    values = series(0, (100, 20), (101, 20), noise=0.002)
    sure = [detect(values[:n]).steps[0].confidence for n in (26, 30, 40)]
    assert sure == sorted(sure)
    assert 0.5 <= sure[0] < sure[-1] < 1


@pytest.mark.parametrize("noise", [0.0005, 0.01, 0.03])
def test_noise_alone_makes_no_step(noise: float) -> None:
    for seed in range(8):
        assert indices(detect(series(seed, (100, 120), noise=noise))) == []


def test_a_step_below_the_minimum_effect_is_none() -> None:
    values = series(4, (100, 40), (100.2, 40), noise=0.0002)
    assert indices(detect(values, noise=0.0002)) == []


@pytest.mark.parametrize("values", [[], [3.0], [3.0, 9.0], [3.0, 3.0, 3.0], [7.0] * 50])
def test_short_and_equal_series_have_no_step(values: list[float]) -> None:
    found = detect(values)
    assert found.steps == ()
    assert [(s.start, s.stop) for s in found.segments] == ([(0, len(values))] if values else [])


def test_each_changed_unit_of_a_count_is_a_step_and_there_is_no_dip() -> None:
    found = detect([0, 0, 7, 7, 8, 7, 0], exact=True)
    assert [(s.index, s.ratio) for s in found.steps] == [
        (2, np.inf),
        (4, pytest.approx(8 / 7)),
        (5, pytest.approx(7 / 8)),
        (6, 0.0),
    ]
    assert [(s.start, s.stop, s.level) for s in found.segments][:2] == [(0, 2, 0.0), (2, 4, 7.0)]
    assert (found.dips, found.odd, found.noise, found.noise_source) == ((), frozenset(), 0.0, "exact")
    assert all(step.confidence == 1 for step in found.steps)
    assert detect([], exact=True).segments == ()


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_count_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=r"value .* at position 1 is not zero or a positive finite number"):
        detect([0.0, bad], exact=True)


def test_a_hundred_thousand_values_have_an_answer() -> None:
    values = series(0, (100, 30_000), (104, 40_000), (99, 30_000), noise=0.005)
    assert indices(detect(values)) == [30_000, 70_000]


def test_a_table_is_no_series() -> None:
    with pytest.raises(ValueError, match="must have one dimension, not 2"):
        detect(np.ones((2, 2)))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_value_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=r"value .* at position 2 is not a positive finite number"):
        detect([1.0, 1.0, bad])


@pytest.mark.parametrize("boundaries", [[0], [3], [-1]])
def test_a_boundary_outside_is_refused(boundaries: list[int]) -> None:
    with pytest.raises(ValueError, match="must be positions from 1 to 2"):
        detect([1.0, 1.0, 1.0], boundaries=boundaries)


def test_a_proved_boundary_needs_no_second_night() -> None:
    found = detect([0.41, 0.41, 178, 81, 0.6], boundaries=[2, 3, 4])
    assert [step.level_after for step in found.steps] == [178, 81, 0.6]
    assert all(step.remeasured and step.confidence == 1 for step in found.steps)


def test_after_a_proved_night_the_way_back_is_seen_at_its_second_night() -> None:
    found = detect([1.0, 1.0, 5.0, 1.0, 1.0], boundaries=[2])
    assert [(s.index, s.remeasured) for s in found.steps] == [(2, True), (3, False)]


def test_the_noise_does_not_see_steps() -> None:
    quiet = series(5, (100, 60), noise=0.002)
    stepped = series(5, (100, 20), (150, 20), (90, 20), noise=0.002)
    assert noise_of_values(quiet) == pytest.approx(0.002, rel=0.3)
    assert noise_of_values(stepped) == pytest.approx(noise_of_values(quiet), rel=0.2)


def test_the_noise_of_few_nights_is_widened() -> None:
    few = [1.0, 1.01, 1.0, 1.01, 1.0]
    assert noise_of_values(few) == pytest.approx(2 * 1.4826 / np.sqrt(2) * np.log(1.01))
    assert noise_of_values([*few * 20]) < 1.1 * noise_of_values(few) / 2


@st.composite
def histories(draw: st.DrawFn) -> np.ndarray:
    parts = draw(
        st.lists(
            st.tuples(st.sampled_from([90, 95, 100, 110, 150]), st.integers(1, 25)), min_size=1, max_size=4
        )
    )
    noise = draw(st.sampled_from([0.0, 0.0005, 0.01]))
    return series(draw(st.integers(0, 1000)), *parts, noise=noise)


@settings(max_examples=40, deadline=None)
@given(histories(), st.sampled_from([0.001, 0.5, 1024.0, 3e6]))
def test_scaling_moves_no_step(values: np.ndarray, factor: float) -> None:
    one, other = detect(values), detect(values * factor)
    assert indices(one) == indices(other)
    assert other.segments[-1].level == pytest.approx(one.segments[-1].level * factor)


@st.composite
def clear_histories(draw: st.DrawFn) -> np.ndarray:
    """Levels at least 20 noises apart, each of at least six nights."""
    lengths = draw(st.lists(st.integers(6, 25), min_size=1, max_size=5))
    jumps = draw(st.lists(st.sampled_from([0.8, 0.95, 1.05, 1.2, 2.0]), min_size=5, max_size=5))
    levels = 100 * np.cumprod([1.0, *jumps])
    parts = list(zip(levels, lengths, strict=False))
    return series(draw(st.integers(0, 1000)), *parts, noise=draw(st.sampled_from([0.0005, 0.002])))


@settings(max_examples=40, deadline=None)
@given(clear_histories())
def test_reversing_time_mirrors_the_steps(values: np.ndarray) -> None:
    mirrored = [values.size - i for i in reversed(indices(detect(values[::-1])))]
    assert indices(detect(values)) == mirrored


@settings(max_examples=40, deadline=None)
@given(clear_histories(), st.integers(1, 40), st.integers(0, 100))
def test_nights_on_the_level_take_no_step_back(values: np.ndarray, nights: int, seed: int) -> None:
    before = indices(detect(values))
    more = series(seed, (detect(values).segments[-1].level, nights), noise=0.0005)
    assert set(before) <= set(indices(detect(np.concatenate([values, more]), held=before)))


def test_an_alerted_step_makes_none_beside_it_easier() -> None:
    values = [*series(34, (100, 14), (120, 11), noise=0.002), *series(34, (120, 24), noise=0.0005)]
    assert indices(detect(values, held=[14])) == [14]


@settings(max_examples=40, deadline=None)
@given(histories(), st.data())
def test_a_proved_boundary_is_never_removed(values: np.ndarray, data: st.DataObject) -> None:
    assume(values.size > 1)
    places = data.draw(st.sets(st.integers(1, values.size - 1), min_size=1, max_size=3))
    assert places <= set(indices(detect(values, boundaries=sorted(places))))


@settings(max_examples=40, deadline=None)
@given(histories())
def test_segments_cover_all_and_steps_lie_between(values: np.ndarray) -> None:
    found = detect(values)
    edges = [s.start for s in found.segments] + [found.segments[-1].stop]
    assert edges == [0, *indices(found), values.size]
    assert all(0 < step.confidence <= 1 for step in found.steps)
    assert all(dip.stop - dip.start <= 3 for dip in found.dips)


@pytest.mark.parametrize("seed", range(4))
def test_a_night_is_appended_with_the_answer_of_all_of_them(seed: int) -> None:
    values = series(seed, (100, 25), (103, 2), (100, 15), (108, 40), (95, 30), noise=0.004)
    growing = Growing(noise=0.004)
    for n, value in enumerate(values, start=1):
        assert growing.append(value) == detect(values[:n], noise=0.004)


def test_appending_refuses_what_detect_refuses() -> None:
    growing = Growing(noise=0.01)
    growing.append(1.0)
    with pytest.raises(ValueError, match="not a positive finite number"):
        growing.append(0.0)
    assert growing.append(1.0) == detect([1.0, 1.0], noise=0.01), "and stays as it was"
