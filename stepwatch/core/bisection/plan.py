"""Which candidates are tried next, or between which of them does the level change?

A pure function of what was measured: killed anywhere, the search goes on from its observations. Candidates are
positions 0 .. count - 1 on a path; the first and the last are the range's ends.

The range is a tree of intervals (a, b] with both ends measured. An interval is split at its middle-most candidate
that builds, if its ends are DIFFERENT, or if it is longer than the policy's stride. So two culprits are two
brackets, and a level that fits neither end is one of its own. A candidate that is broken is stepped over. An
interval that is DIFFERENT while nothing inside it is stays the answer. Decisions of `compare` never change when
values are added, so neither does the tree.

Where hours are given the search has two levels: first only the candidates that end an hour are tried, then what lies
inside each bracket of those. A candidate whose build is at hand is preferred in the middle half of an interval.

Worked example, 9 candidates, one level up to 2 and another from 5 on, 3 and 4 broken:

    0 8     DIFFERENT, so 4 is asked for: broken; 3, the next one to the middle: broken; then 5
    0 5     DIFFERENT, so 2 is asked for (3 and 4 are known to be broken)
    5 8     SAME, left; 6 and 7 were not measured
    0 2     SAME, left;  2 5 DIFFERENT and nothing left between: Bracket(after=2, through=5, broken=(3, 4))
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stepwatch.core.bisection.compare import FIRST_LOOK, SECOND_LOOK, Comparison, compare
from stepwatch.core.model import Better, CulpritKind, Verdict

SURE = 10  # processes of each end at the least before it is said that they are the same


class PolicyKind(enum.StrEnum):
    """How thoroughly a range is searched."""

    EXPLORE = "explore"
    COMB = "comb"
    EXHAUSTIVE = "exhaustive"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How a range is searched.

    `explore` looks inside intervals whose ends differ; `comb` leaves no `every` candidates in a row untried and so
    sees dips of that many and more; `exhaustive` tries all. A candidate is first tried with `repeats` processes
    (at least 3) and gets more, up to `cap`, while it can't be told from a neighbour. `noise`, `min_effect` and
    `better` are those of `compare`.
    """

    kind: PolicyKind = PolicyKind.EXPLORE
    every: int = 4
    repeats: int = 5
    cap: int = 16
    noise: float | None = None
    min_effect: float = 0.05
    better: Better = Better.LOWER

    def stride(self, count: int) -> int:
        """How far apart two measured neighbours at one level may be, in candidates."""
        return {PolicyKind.EXPLORE: count, PolicyKind.COMB: self.every, PolicyKind.EXHAUSTIVE: 1}[self.kind]


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What is known of one candidate: values, one a process in the order of measuring, or why there can be none.

    Values are ratios to a reference pair that was measured alternately in the same job. A candidate that is broken
    may hold values too; they don't count. Two with the same `program` (the digest of what was built) are one program: they
    share their values, and are SAME.
    """

    values: tuple[float, ...] = ()
    broken: str | None = None
    program: str | None = None


@dataclass(frozen=True, kw_only=True)
class Try:
    """One candidate to measure, with `repeats` processes beyond those it has."""

    position: int
    repeats: int


@dataclass(frozen=True, kw_only=True)
class Next:
    """What to measure now, in any order or at once; then ask again."""

    tries: tuple[Try, ...]


@dataclass(frozen=True, kw_only=True)
class Bracket:
    """The level changes in (after, through]: positions on the path.

    `ratio` = level at `through` / level at `after`; `broken` are the positions between that can't be measured. It
    is exact where `through` - `after` = 1; where it is not, `reason` says why it can't be narrowed. (One that is too
    small to split has its halves among the stretches.)
    """

    after: int
    through: int
    broken: tuple[int, ...] = ()
    ratio: float
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Two measured neighbours that are no step, `first` and `last`; `unmeasured` between them was not tried.

    `verdict` is SAME, or UNKNOWN where the repeats did not suffice to tell.
    """

    first: int
    last: int
    verdict: Verdict
    unmeasured: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Brackets:
    """Every boundary that was found, in order, and the stretches without one."""

    brackets: tuple[Bracket, ...]
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, kw_only=True)
class GiveUp:
    """The search ends without a bracket.

    `kind` says what the bisection ends with: NOT_REPRODUCED where the ends don't differ, RANGE (all of it) where an
    end can't be measured.
    """

    kind: CulpritKind
    reason: str


def plan(
    count: int,
    observations: Mapping[int, Observation],
    policy: Policy,
    *,
    at_hand: Collection[int] = (),
    stop: str | None = None,
) -> Next | Brackets | GiveUp:
    """Say what to try next among `count` candidates (2 or more), or what was found.

    `observations` holds what is known by position; those the tree does not reach are not looked at. A candidate
    that yields no value must be observed as broken, or it is asked for again for ever. `at_hand` are positions whose
    environment is at hand. With `stop`, the reason why nothing more may be tried, the answer is what is known by now.
    """
    ends = (0, count - 1)
    broken = [
        f"the {name} end can't be measured: {observations[at].broken}"
        for name, at in zip(("good", "bad"), ends, strict=True)
        if at in observations and observations[at].broken is not None
    ]
    if broken:
        return GiveUp(kind=CulpritKind.RANGE, reason="; ".join(broken))
    tree = _Tree(
        observations=observations,
        policy=policy,
        count=count,
        stride=policy.stride(count),
        at_hand=at_hand,
        stop=stop,
    )
    if tree.unmeasured(*ends):
        return GiveUp(kind=CulpritKind.RANGE, reason=stop) if stop else Next(tries=tuple(tree.tries))
    brackets = tree.search(*ends)
    if tree.tries:
        return Next(tries=tuple(sorted(_merge(tree.tries), key=lambda one: one.position)))
    if not brackets:
        whole = tree.comparison(*ends)
        told = "the ends are the same" if whole.verdict is Verdict.SAME else "the ends can't be told apart"
        return GiveUp(kind=CulpritKind.NOT_REPRODUCED, reason=f"{told}: {whole.reason}")
    return Brackets(brackets=tuple(brackets), stretches=tuple(tree.stretches))


def plan_hours(
    hours: Sequence[int],
    observations: Mapping[int, Observation],
    policy: Policy,
    *,
    at_hand: Collection[int] = (),
    stop: str | None = None,
) -> Next | Brackets | GiveUp:
    """The same for the candidates at the positions `hours` alone, in order, both ends among them."""
    among = {at: order for order, at in enumerate(hours)}
    found = plan(
        len(hours),
        {among[at]: seen for at, seen in observations.items() if at in among},
        policy,
        at_hand={among[at] for at in at_hand if at in among},
        stop=stop,
    )
    return _moved(found, hours)


def plan_commits(
    hours: Sequence[int],
    observations: Mapping[int, Observation],
    policy: Policy,
    *,
    at_hand: Collection[int] = (),
    stop: str | None = None,
) -> Next | Brackets | GiveUp:
    """The same for all candidates: first the `hours`, then what lies in each bracket of them."""
    found = plan_hours(hours, observations, policy, at_hand=at_hand, stop=stop)
    if not isinstance(found, Brackets):
        return found
    tries: list[Try] = []
    brackets: list[Bracket] = []
    stretches = list(found.stretches)
    for coarse in found.brackets:
        inside = range(coarse.after, coarse.through + 1)
        narrower = _moved(
            plan(
                len(inside),
                {at - coarse.after: seen for at, seen in observations.items() if at in inside},
                policy,
                at_hand={at - coarse.after for at in at_hand if at in inside},
                stop=stop,
            ),
            inside,
        )
        if isinstance(narrower, Next):
            tries += narrower.tries
        elif isinstance(narrower, Brackets):
            brackets += narrower.brackets
            stretches += narrower.stretches
        else:  # its ends differ, so there is an answer: the bracket itself
            brackets.append(coarse)
    if tries:
        return Next(tries=tuple(tries))
    stretches.sort(key=lambda one: one.first)
    return Brackets(brackets=tuple(brackets), stretches=tuple(stretches))


def hours_of(ends_an_hour: Sequence[bool]) -> list[int]:
    """The positions that are tried first: both ends, and each candidate that ends an hour."""
    last = len(ends_an_hour) - 1
    return [at for at, ends in enumerate(ends_an_hour) if ends or at in (0, last)]


def still_to_try(found: Next | Brackets | GiveUp, observations: Mapping[int, Observation], count: int) -> int:
    """About how many candidates are left to try: each that is asked for now halves the gap it lies in."""
    if not isinstance(found, Next):
        return 0
    known = sorted({0, count - 1, *(at for at, seen in observations.items() if seen.values)})
    new = {one.position for one in found.tries if one.position not in observations}
    gaps = [
        min((b for b in known if b > at), default=at) - max((a for a in known if a < at), default=at)
        for at in new
        if at not in (0, count - 1)
    ]
    ends = len(new & {0, count - 1})
    whole = math.ceil(math.log2(count)) if ends and count > 2 else 0
    return ends + whole + sum(max(1, math.ceil(math.log2(gap))) for gap in gaps)


def _moved(found: Next | Brackets | GiveUp, places: Sequence[int]) -> Next | Brackets | GiveUp:
    """What was found among some of the candidates, at their positions among all; `places[i]` is that of the i-th."""
    if isinstance(found, Next):
        return Next(tries=tuple(replace(one, position=places[one.position]) for one in found.tries))
    if isinstance(found, GiveUp):
        return found
    return Brackets(
        brackets=tuple(
            replace(
                one,
                after=places[one.after],
                through=places[one.through],
                broken=tuple(places[at] for at in one.broken),
            )
            for one in found.brackets
        ),
        stretches=tuple(
            replace(
                one,
                first=places[one.first],
                last=places[one.last],
                unmeasured=tuple(places[at] for at in one.unmeasured),
            )
            for one in found.stretches
        ),
    )


@dataclass(kw_only=True)
class _Tree:
    """One walk over the tree of intervals; what is still to be measured collects in `tries`."""

    observations: Mapping[int, Observation]
    policy: Policy
    count: int
    stride: int
    at_hand: Collection[int] = ()
    stop: str | None = None
    tries: list[Try] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)

    def search(self, a: int, b: int) -> list[Bracket]:
        """The brackets inside (a, b], both ends of which have values."""
        compared = self.comparison(a, b)
        if compared.more and not self.stop:
            self.repeat(a, b, compared.more)
            return []
        different = compared.verdict is Verdict.DIFFERENT
        middle = self.middle(a, b) if different or b - a > self.stride else None
        if middle is None:
            return self.leaf(a, b, compared)
        if self.unmeasured(middle):
            return []
        waiting = len(self.tries)
        found = [*self.search(a, middle), *self.search(middle, b)]
        if different and not found and len(self.tries) == waiting:
            # The evidence for (a, b] stands although neither half shows it: a half is never preferred by guess.
            return [self.bracket(a, b, compared)]
        return found

    def middle(self, a: int, b: int) -> int | None:
        """The candidate between a and b that splits it: not known to be broken, at hand or middle-most."""
        fit = [at for at in self.inside(a, b) if self.seen(at).broken is None]
        if self.stop:
            fit = [at for at in fit if self.seen(at).values]
        near = (at for at in fit if at in self.at_hand and 4 * min(at - a, b - at) >= b - a)
        return next(near, fit[0] if fit else None)

    def leaf(self, a: int, b: int, compared: Comparison) -> list[Bracket]:
        """An interval that is not split any more: a bracket or a stretch."""
        if compared.verdict is Verdict.DIFFERENT:
            return [self.bracket(a, b, compared)]
        left = tuple(at for at in range(a + 1, b) if at not in self.observations)
        self.stretches.append(Stretch(first=a, last=b, verdict=compared.verdict, unmeasured=left))
        return []

    def inside(self, a: int, b: int) -> Iterator[int]:
        """The candidates between a and b, middle-most first; those on the stride's grid before the others."""
        between = range(a + 1, b)
        on_grid = [at for at in between if b - a > self.stride and at % self.stride == 0]
        off_grid = [at for at in between if at not in set(on_grid)]
        for part in (on_grid, off_grid):
            yield from sorted(part, key=lambda at: (abs(2 * at - a - b), at))

    def comparison(self, a: int, b: int) -> Comparison:
        policy = self.policy
        one = self.seen(a).program
        if one is not None and one == self.seen(b).program:
            return Comparison(
                verdict=Verdict.SAME, ratio=1.0, p=1.0, reason="they are built to the same", more=0
            )
        whole = (a, b) == (0, self.count - 1)
        return compare(
            self.seen(a).values,
            self.seen(b).values,
            noise=policy.noise,
            min_effect=policy.min_effect,
            cap=policy.cap,
            better=policy.better,
            same_from=SURE if whole else SECOND_LOOK,
        )

    def seen(self, at: int) -> Observation:
        return self.observations.get(at, Observation())

    def unmeasured(self, *positions: int) -> bool:
        """Whether any of them has no first values yet; those are asked for."""
        missing = [at for at in positions if not self.seen(at).values]
        self.tries += [Try(position=at, repeats=max(FIRST_LOOK, self.policy.repeats)) for at in missing]
        return bool(missing)

    def repeat(self, a: int, b: int, more: int) -> None:
        """Ask for the less-measured end again, or for both where they have as many."""
        sizes = {at: len(self.seen(at).values) for at in (a, b)}
        wanted = min(sizes.values()) + more
        self.tries += [Try(position=at, repeats=wanted - size) for at, size in sizes.items() if size < wanted]

    def bracket(self, a: int, b: int, compared: Comparison) -> Bracket:
        between = range(a + 1, b)
        broken = tuple(at for at in between if self.seen(at).broken is not None)
        reason = ""
        if len(broken) < len(between) and self.stop:
            reason = self.stop
        elif len(broken) < len(between):
            sizes = [len(seen.values) for at in range(a, b + 1) if (seen := self.seen(at)).values]
            reason = f"too small to split at {max(sizes)} repeats"
        elif broken:
            reason = f"none of the {len(broken)} between can be measured"
        return Bracket(after=a, through=b, broken=broken, ratio=compared.ratio or 1.0, reason=reason)


def _merge(tries: list[Try]) -> list[Try]:
    """One entry a position, with the most repeats that any interval wants of it."""
    most: dict[int, int] = {}
    for one in tries:
        most[one.position] = max(one.repeats, most.get(one.position, 0))
    return [Try(position=at, repeats=repeats) for at, repeats in most.items()]
