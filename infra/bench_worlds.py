"""Which simulated paths are searched, and how does the service search them?

A world is a path of candidates with a level each, some of them broken, on a machine where a process is now and then 1.3 to
1.5 times slow for its whole life.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from stepwatch.core.bisection.compare import FIRST_LOOK, SECOND_LOOK, compare, is_apart
from stepwatch.core.bisection.effort import effort_for
from stepwatch.core.bisection.plan import Brackets, Next, Observation, Policy, PolicyKind, plan
from stepwatch.core.model import Better, Verdict

COUNT = 49
SIZES = (0.15, 0.2, 0.3, 0.45, 0.6)  # of a step, relative; the least is five times the noise
NOISE = 0.03
LEVELS = (587.6, 577.3, 536.7)  # MLUPS, of the guide's August
NIGHTS = (dt.date(2023, 7, 21), dt.date(2023, 7, 25), dt.date(2023, 8, 24), dt.date(2023, 8, 26))
COMMITTED = 0.4  # of the hours that have a commit


@dataclass(frozen=True, kw_only=True)
class World:
    """Candidates in order."""

    levels: tuple[float, ...]
    broken: frozenset[int] = frozenset()
    noise: float = NOISE
    slow: float = 0.0
    better: Better = Better.LOWER

    @property
    def steps(self) -> list[int]:
        """The first candidates of new levels."""
        return [at for at in range(1, len(self.levels)) if self.levels[at] != self.levels[at - 1]]

    @property
    def brackets(self) -> list[tuple[int, int]]:
        """Each step, as narrow as the broken candidates around it allow."""
        works = [at for at in range(len(self.levels)) if at not in self.broken]
        return [(a, b) for a, b in itertools.pairwise(works) if self.levels[a] != self.levels[b]]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How worlds of one kind are made: so many steps upwards, or (with `widths`) a dip or hump of so many candidates."""

    name: str
    steps: int = 1
    sizes: tuple[float, ...] = SIZES
    broken: float = 0.0
    in_a_run: bool = False
    noise: float = NOISE
    slow: float = 0.0
    widths: tuple[int, int] | None = None

    def make(self, rng: random.Random) -> World:
        """One of them."""
        size = rng.choice(self.sizes)
        if self.widths is None:
            places = sorted(rng.sample(range(1, COUNT), self.steps))
            factors = [1 + size] * self.steps
        else:
            width = rng.randint(*self.widths)
            first = rng.randrange(1, COUNT - width)
            factor = rng.choice((1 + size, 1 / (1 + size)))
            places, factors = [first, first + width], [factor, 1 / factor]
        steps = list(zip(places, factors, strict=True))
        levels = [math.prod(factor for place, factor in steps if place <= at) for at in range(COUNT)]
        hole = round(self.broken * (COUNT - 2))
        start = rng.randrange(1, COUNT - hole)
        broken = range(start, start + hole) if self.in_a_run else rng.sample(range(1, COUNT - 1), hole)
        return World(levels=tuple(levels), broken=frozenset(broken), noise=self.noise, slow=self.slow)


@dataclass(frozen=True, kw_only=True)
class August:
    """The guide's summer, hour by hour: two regressions, each somewhere in the days that its nights leave open."""

    name: str = "the guide's August"

    def make(self, rng: random.Random) -> World:
        """One of them."""
        days = [(night - NIGHTS[0]).days for night in NIGHTS]
        last = 24 * days[-1]
        hours = [0, *(hour for hour in range(1, last) if rng.random() < COMMITTED), last]
        first = rng.choice([hour for hour in hours if 0 < hour <= 24 * days[1]])
        second = rng.choice([hour for hour in hours if 24 * days[2] < hour])
        levels = tuple(LEVELS[(hour >= first) + (hour >= second)] for hour in hours)
        return World(levels=levels, noise=0.0015, better=Better.HIGHER)


@dataclass(kw_only=True)
class Lab:
    """A world being measured."""

    world: World
    rng: random.Random
    seen: dict[int, Observation] = field(default_factory=dict)
    sandwiches: int = 0  # processes that went into them

    def measure(self, at: int, repeats: int) -> Observation:
        """What is known of a candidate after `repeats` further processes of it."""
        if at in self.world.broken:
            self.seen[at] = Observation(broken="it does not build")
        else:
            new = tuple(self._process(self.world.levels[at]) for _ in range(repeats))
            self.seen[at] = Observation(values=self.seen.get(at, Observation()).values + new)
        return self.seen[at]

    def beside(self, a: int, b: int, repeats: int) -> list[tuple[float, ...]]:
        """`repeats` processes of each of two candidates, alternately."""
        self.sandwiches += 2 * repeats
        return [tuple(self._process(self.world.levels[at]) for _ in range(repeats)) for at in (a, b)]

    def _process(self, value: float) -> float:
        slow = self.rng.uniform(1.3, 1.5) if self.rng.random() < self.world.slow else 1.0
        return value * slow * self.rng.lognormvariate(0, self.world.noise)

    def split(self, a: int, b: int, repeats: int) -> int | None:
        """The middle-most candidate between two that builds, measured; None where none does."""
        for at in sorted(range(a + 1, b), key=lambda each: abs(2 * each - a - b)):
            if self.seen.get(at, Observation()).broken is None and self.measure(at, repeats).values:
                return at
        return None


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search has ended with; `doubted` are brackets that did not stand side by side, `answered` is false where it gave up."""

    brackets: tuple[tuple[int, int], ...] = ()
    doubted: tuple[tuple[int, int], ...] = ()
    answered: bool = True


Search = Callable[[Lab], Found]


@dataclass(frozen=True, kw_only=True)
class Ours:
    """The search as the job runs it, each bracket measured side by side once more."""

    kind: PolicyKind = PolicyKind.EXPLORE
    every: int = 4

    def __call__(self, lab: Lab) -> Found:
        """Search to the end."""
        count = len(lab.world.levels)
        while isinstance(step := plan(count, lab.seen, self._policy(lab, count - 1)), Next):
            for one in step.tries:
                lab.measure(one.position, one.repeats)
        if not isinstance(step, Brackets):
            return Found(answered=False)
        policy = self._policy(lab, count - 1)
        found = [(one.after, one.through) for one in step.brackets]
        stands = [
            (a, b)
            for a, b in found
            if confirmed(policy, a, lab.seen[a], lab.seen[b], partial(lab.beside, a, b))
        ]
        return Found(brackets=tuple(stands), doubted=tuple(set(found) - set(stands)))

    def _policy(self, lab: Lab, last: int) -> Policy:
        ends = [lab.seen.get(at, Observation()).values for at in (0, last)]
        better = lab.world.better
        effort = effort_for(ends[0], ends[1], better)
        return Policy(
            kind=self.kind,
            every=self.every,
            cap=effort.cap,
            min_effect=effort.min_effect,
            better=better,
        )


def confirmed(
    policy: Policy,
    after: int,
    good: Observation,
    bad: Observation,
    measure: Callable[[int], list[tuple[float, ...]]],
) -> bool:
    """Whether two sides differ when they are measured alternately; `measure` gives so many further values of each.

    As the job does, what begins at the reference is not measured again where the first values leave no doubt.
    """
    if not after and is_apart(good.values[:FIRST_LOOK], bad.values[:FIRST_LOOK]):
        return True
    old: tuple[float, ...] = ()
    new: tuple[float, ...] = ()
    while True:
        said = compare(old, new, min_effect=policy.min_effect, cap=policy.cap, better=policy.better)
        more = max(said.more, SECOND_LOOK - len(old))
        if more <= 0:
            return said.verdict is Verdict.DIFFERENT
        further = measure(more)
        old, new = old + further[0], new + further[1]


@dataclass(kw_only=True)
class Sums:
    """What was counted over some worlds."""

    worlds: int = 0

    def add(self, other: Self) -> None:
        """Take in other worlds."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
