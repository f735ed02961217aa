from __future__ import annotations

import dataclasses
import itertools
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.core.bisection.plan import (
    Bracket,
    Brackets,
    GiveUp,
    Next,
    Observation,
    Policy,
    PolicyKind,
    Stretch,
    Try,
    hours_of,
    plan,
    plan_commits,
    plan_hours,
    still_to_try,
)
from stepwatch.core.model import Better, CulpritKind, Verdict

EXHAUSTIVE = Policy(kind=PolicyKind.EXHAUSTIVE)


@dataclass
class World:
    """Candidates with a level each, some of them broken, measured on a machine with noise and slow processes."""

    levels: list[float]
    broken: set[int] = field(default_factory=set)
    noise: float = 0.0
    slow: float = 0.0
    rng: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311
    seen: dict[int, Observation] = field(default_factory=dict)

    def measure(self, one: Try) -> None:
        if one.position in self.broken:
            self.seen[one.position] = Observation(broken="does not build")
            return
        before = self.seen.get(one.position, Observation()).values
        new = tuple(self.process(self.levels[one.position]) for _ in range(one.repeats))
        self.seen[one.position] = Observation(values=before + new)

    def process(self, level: float) -> float:
        factor = self.rng.uniform(1.3, 1.5) if self.rng.random() < self.slow else 1.0
        return level * factor * self.rng.lognormvariate(0, self.noise)

    def search(self, policy: Policy | None = None) -> Brackets | GiveUp:
        for _ in range(500):
            step = plan(len(self.levels), self.seen, policy or Policy())
            if not isinstance(step, Next):
                return step
            assert step.tries
            for one in step.tries:
                assert one.repeats > 0
                assert self.seen.get(one.position, Observation()).broken is None
                self.measure(one)
        pytest.fail("the search does not end")

    @property
    def steps(self) -> list[int]:
        return [at for at in range(1, len(self.levels)) if self.levels[at] != self.levels[at - 1]]


def stairs(count: int, steps: list[int], factors: list[float]) -> list[float]:
    levels = [1.0]
    for at in range(1, count):
        factor = factors[steps.index(at)] if at in steps else 1.0
        levels.append(levels[-1] * factor)
    return levels


def ends(found: Brackets | GiveUp) -> list[tuple[int, int]]:
    assert isinstance(found, Brackets)
    return [(one.after, one.through) for one in found.brackets]


def expected(world: World) -> list[tuple[int, int]]:
    """Each step as narrow as the broken candidates around it allow."""
    works = [at for at in range(len(world.levels)) if at not in world.broken]
    pairs = itertools.pairwise(works)
    return [(a, b) for a, b in pairs if world.levels[a] != world.levels[b]]


def test_the_worked_example() -> None:
    world = World(levels=stairs(9, [5], [1.2]), broken={3, 4})
    assert plan(9, {}, Policy()) == Next(tries=(Try(position=0, repeats=5), Try(position=8, repeats=5)))
    found = world.search()
    assert isinstance(found, Brackets)
    assert [dataclasses.replace(one, ratio=1.2) for one in found.brackets] == [
        Bracket(after=2, through=5, broken=(3, 4), ratio=1.2, reason="none of the 2 between can be measured")
    ]
    assert found.brackets[0].ratio == pytest.approx(1.2)
    assert found.stretches == (
        Stretch(first=0, last=2, verdict=Verdict.SAME, unmeasured=(1,)),
        Stretch(first=5, last=8, verdict=Verdict.SAME, unmeasured=(6, 7)),
    )
    assert set(world.seen) == {0, 2, 3, 4, 5, 8}


@given(st.integers(2, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))))
def test_one_step_is_found_exactly_like_a_binary_search(case: tuple[int, int]) -> None:
    count, at = case
    world = World(levels=stairs(count, [at], [1.1]))
    assert ends(world.search()) == [(at - 1, at)]
    assert len(world.seen) <= 2 + (count - 1).bit_length()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_steps_of_one_direction_are_all_found_and_only_broken_builds_make_ranges(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 49))
    steps = sorted(data.draw(st.sets(st.integers(1, count - 1), min_size=1, max_size=4)))
    broken = (
        data.draw(st.sets(st.integers(1, max(1, count - 2)), max_size=count // 3)) if count > 2 else set()
    )
    factor = data.draw(st.sampled_from([1.1, 1 / 1.1, 3.0]))
    world = World(levels=stairs(count, steps, [factor] * len(steps)), broken=broken)
    found = world.search()
    assert ends(found) == expected(world)
    assert isinstance(found, Brackets)
    for one in found.brackets:
        assert one.broken == tuple(range(one.after + 1, one.through))
        assert bool(one.reason) == bool(one.broken)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_exhaustive_finds_every_level_in_any_direction(data: st.DataObject) -> None:
    levels = data.draw(st.lists(st.sampled_from([1.0, 1.1, 1.21, 2.0]), min_size=2, max_size=20))
    broken = data.draw(st.sets(st.integers(1, len(levels) - 2), max_size=5)) if len(levels) > 2 else set()
    world = World(levels=levels, broken=broken)
    found, wanted = world.search(EXHAUSTIVE), expected(world)
    assert set(world.seen) == set(range(len(levels)))
    if wanted:
        assert ends(found) == wanted
    else:
        assert isinstance(found, GiveUp)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_comb_finds_dips_of_its_width_and_more(data: st.DataObject) -> None:
    every = data.draw(st.integers(1, 8))
    count = data.draw(st.integers(every + 2, 49))
    width = data.draw(st.integers(every, count - 2))
    first = data.draw(st.integers(1, count - 1 - width))
    levels = [1.2 if first <= at < first + width else 1.0 for at in range(count)]
    comb = Policy(kind=PolicyKind.COMB, every=every)
    assert ends(World(levels=levels).search(comb)) == [(first - 1, first), (first + width - 1, first + width)]
    assert isinstance(World(levels=levels).search(), GiveUp)  # explore sees equal ends only


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_comb_leaves_no_wide_gap_beside_broken_candidates(data: st.DataObject) -> None:
    broken = data.draw(st.sets(st.integers(1, 28), max_size=12))
    world = World(levels=[1.0] * 30, broken=broken)
    world.search(Policy(kind=PolicyKind.COMB, every=4))
    measured = [at for at in range(30) if at in world.seen and at not in broken]
    for a, b in itertools.pairwise(measured):
        assert b - a <= 4 or set(range(a + 1, b)) <= broken


def test_opposite_directions() -> None:
    levels = stairs(33, [5, 20, 28], [1.2, 1 / 1.2, 1.2])
    assert ends(World(levels=levels).search(EXHAUSTIVE)) == [(4, 5), (19, 20), (27, 28)]
    # The first and the middle differ (5 in between), and so do the middle and the last, in different directions.
    levels = stairs(33, [5, 20, 28], [1.3, 1.3, 1 / 1.2])
    assert ends(World(levels=levels).search()) == [(4, 5), (19, 20), (27, 28)]


def test_ends_that_are_broken_or_the_same_end_it() -> None:
    world = World(levels=[1.0, 1.0, 2.0], broken={2})
    found = world.search()
    assert found == GiveUp(kind=CulpritKind.RANGE, reason="the bad end can't be measured: does not build")
    same = World(levels=[1.0, 5.0, 1.0]).search()
    assert isinstance(same, GiveUp)
    assert same.kind is CulpritKind.NOT_REPRODUCED
    assert same.reason.startswith("the ends are the same")


def test_a_level_that_fits_neither_end_is_its_own() -> None:
    world = World(levels=stairs(20, [7, 13], [577 / 587, 537 / 577]))
    found = world.search(Policy(min_effect=0.01, better=Better.HIGHER))
    assert ends(found) == [(6, 7), (12, 13)]
    assert isinstance(found, Brackets)
    assert [one.ratio for one in found.brackets] == pytest.approx([577 / 587, 537 / 577])


def test_a_different_interval_never_vanishes() -> None:
    """A ramp whose parts are all too small: the whole is the answer, and it says why."""
    world = World(levels=[1 + 0.005 * at for at in range(13)])
    found = world.search()
    assert ends(found) == [(0, 12)]
    assert isinstance(found, Brackets)
    assert found.brackets[0].reason == "too small to split at 5 repeats"
    assert world.seen.keys() == {0, 6, 12}


def test_the_less_measured_end_is_measured_again_up_to_the_cap() -> None:
    unclear = (1.0, 1.1, 0.9, 1.05, 0.95)
    seen = {0: Observation(values=unclear), 1: Observation(values=(*unclear, 1.0, 1.0))}
    assert plan(2, seen, Policy(cap=10)) == Next(
        tries=(Try(position=0, repeats=5), Try(position=1, repeats=3))
    )
    assert plan(2, seen, Policy(cap=7)) == Next(tries=(Try(position=0, repeats=2),))
    at_cap = plan(2, seen, Policy(cap=5, min_effect=0.01, noise=0.2))
    assert isinstance(at_cap, GiveUp)
    assert at_cap.kind is CulpritKind.NOT_REPRODUCED


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(list(PolicyKind)))
def test_a_killed_search_goes_on_from_its_observations(seed: int, kind: PolicyKind) -> None:
    """Losing the rest of a batch after any probe changes neither the candidates tried nor the answer."""
    rng = random.Random(seed)  # noqa: S311
    levels = stairs(30, sorted(rng.sample(range(1, 30), 2)), [1.2, 1.3])
    broken = set(rng.sample(range(1, 29), 4))
    whole, killed = World(levels=levels, broken=broken), World(levels=levels, broken=broken)
    policy = Policy(kind=kind)
    answer = whole.search(policy)
    while isinstance(step := plan(30, killed.seen, policy), Next):
        killed.measure(rng.choice(step.tries))
    assert step == answer
    assert killed.seen == whole.seen


def simulate(
    count: int, *, steps: int, share: float = 0.0, run: bool = False, slow: float = 0.0
) -> tuple[float, int, int, int]:
    """Mean probes, missed steps, false brackets and brackets too wide; 10 % steps, 2 % noise, 49 candidates."""
    rng = random.Random(f"{steps} {share} {run} {slow}")  # noqa: S311
    probes, missed, false, wide = [], 0, 0, 0
    for _ in range(count):
        hole = round(share * 47)
        first = rng.randrange(1, 49 - hole)
        broken = set(range(first, first + hole)) if run else set(rng.sample(range(1, 48), hole))
        at = sorted(rng.sample(range(1, 49), steps))
        world = World(levels=stairs(49, at, [1.1] * steps), broken=broken, noise=0.02, slow=slow, rng=rng)
        found = world.search()
        brackets = found.brackets if isinstance(found, Brackets) else ()
        probes.append(len(world.seen))
        missed += sum(not any(one.after < step <= one.through for one in brackets) for step in at)
        false += sum(not any(one.after < step <= one.through for step in at) for one in brackets)
        wide += sum(len(one.broken) != one.through - one.after - 1 for one in brackets)
    return statistics.mean(probes), missed, false, wide


@pytest.mark.parametrize(
    ("probes_max", "steps", "share", "run"),
    [(8, 1, 0.0, False), (12, 2, 0.0, False), (17, 3, 0.2, False), (21, 3, 0.2, True)],
)
def test_simulated_searches_are_exact_and_cheap(
    probes_max: float, steps: int, share: float, run: bool
) -> None:
    probes, missed, false, wide = simulate(200, steps=steps, share=share, run=run)
    assert (missed, false, wide) == (0, 0, 0)
    assert probes <= probes_max


def test_slow_processes_hide_and_invent_next_to_nothing() -> None:
    _, missed, false, wide = simulate(200, steps=2, slow=0.15)
    assert missed <= 2  # of 400
    assert false <= 2
    assert wide <= 4


class TestHours:
    LEVELS: ClassVar = stairs(40, [7, 29], [1.5, 1.5])
    HOURS: ClassVar = hours_of([at % 5 == 4 for at in range(40)])

    def search(self, world: World, *, commits: bool, at_hand: Sequence[int] = ()) -> Brackets | GiveUp:
        look = plan_commits if commits else plan_hours
        while isinstance(step := look(self.HOURS, world.seen, Policy(), at_hand=at_hand), Next):
            for one in step.tries:
                world.measure(one)
        return step

    def test_only_pairs_that_end_an_hour_are_tried_until_the_hours_are_known(self) -> None:
        world = World(self.LEVELS)
        assert ends(self.search(world, commits=False)) == [(4, 9), (24, 29)]
        assert set(world.seen) <= set(self.HOURS)
        tried = set(world.seen)
        assert ends(self.search(world, commits=True)) == [(6, 7), (28, 29)]
        assert world.seen.keys() - tried <= {5, 6, 7, 8, 25, 26, 27, 28}  # inside those two hours alone

    def test_a_broken_hour_leaves_its_neighbours_commits_to_the_second_level(self) -> None:
        world = World(self.LEVELS, broken={4, 9})
        (first, _) = ends(self.search(world, commits=False))
        assert first == (0, 14)
        assert ends(self.search(world, commits=True)) == [(6, 7), (28, 29)]

    def test_a_pair_whose_build_is_at_hand_splits_its_interval(self) -> None:
        world = World(stairs(33, [3], [1.5]))
        world.measure(Try(position=0, repeats=5))
        world.measure(Try(position=32, repeats=5))
        for at_hand, asked in (((10,), 10), ((7, 25), 16), ((22, 9), 22), ((), 16)):
            step = plan(33, world.seen, Policy(), at_hand=at_hand)
            assert isinstance(step, Next)
            assert [one.position for one in step.tries] == [asked]

    def test_with_nothing_left_to_spend_the_answer_is_what_is_known(self) -> None:
        world = World(self.LEVELS)
        why = "the budget of 3 probes is used up"
        empty = plan_commits(self.HOURS, {}, Policy(), stop=why)
        assert empty == GiveUp(kind=CulpritKind.RANGE, reason=why)
        for at in (0, 19, 39):
            world.measure(Try(position=at, repeats=5))
        found = plan_commits(self.HOURS, world.seen, Policy(), stop=why)
        assert ends(found) == [(0, 19), (19, 39)]
        assert isinstance(found, Brackets)
        assert {one.reason for one in found.brackets} == {why}

    def test_what_is_left_is_about_the_halvings_of_each_gap(self) -> None:
        world = World(stairs(33, [3], [1.5]))
        assert still_to_try(plan(33, {}, Policy()), {}, 33) == 8
        tried = [0, 32]
        for at in tried:
            world.measure(Try(position=at, repeats=5))
        left = []
        while isinstance(step := plan(33, world.seen, Policy()), Next):
            left.append(still_to_try(step, world.seen, 33))
            for one in step.tries:
                world.measure(one)
        assert left == [5, 4, 3, 2, 1]
        assert still_to_try(step, world.seen, 33) == 0


def test_that_nothing_is_reproduced_is_said_after_ten_processes_of_each_end() -> None:
    world = World([1.0] * 9, noise=0.001)
    found = world.search(Policy(cap=16))
    assert isinstance(found, GiveUp)
    assert found.kind is CulpritKind.NOT_REPRODUCED
    assert {at: len(seen.values) for at, seen in world.seen.items()} == {0: 10, 8: 10}
    few = World([1.0] * 9, noise=0.001)
    assert isinstance(few.search(Policy(cap=8)), GiveUp)
