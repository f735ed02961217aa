"""Which simulated repositories have their brackets attributed, and how does the service do it?

A world is two repositories whose commits have an effect, alone or together, so that a bracket has an owner.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench_worlds import Sums, confirmed

from stepwatch.core.bisection.blame import Answer, Ask, blame, distinct, unconfirmed
from stepwatch.core.bisection.candidates import candidates
from stepwatch.core.bisection.effort import CAP, effort_for
from stepwatch.core.bisection.plan import Bracket, Brackets, Next, Observation, Policy, PolicyKind, plan
from stepwatch.core.model import JAX, XLA, CommitPair, Culprit, CulpritKind, Revision

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
QUIET = 0.02  # the noise
EFFECTS = math.log1p(0.05), math.log(1.6)
ERRORS = 3.5  # standard errors that an effect is above what is looked for
STEP, CROSSED = (QUIET * math.sqrt(pairs / CAP) for pairs in (2, 4))  # the error of an effect at the cap

Name = tuple[str, ...]  # a commit, or the two of an interaction


@dataclass(frozen=True, kw_only=True)
class Effects:
    """How worlds of one kind are made: so many commits with an effect, and so many pairs with one together, at most."""

    name: str
    own: int
    together: int
    policy: PolicyKind = PolicyKind.EXHAUSTIVE
    apart: float = 0.0  # minutes that XLA's clock is late

    def make(self, rng: random.Random) -> Two:
        """One whose effects can be told."""
        while True:
            revisions = [
                Revision(
                    repository=repository,
                    ref=f"{repository[0]}{number}",
                    committed_at=START + dt.timedelta(minutes=minutes + self.apart * (repository == XLA)),
                )
                for repository in (JAX, XLA)
                for number, minutes in enumerate(
                    sorted(rng.uniform(0, 300) for _ in range(rng.randint(1, 5))), 1
                )
            ]
            jax, xla = ([one.ref for one in revisions if one.repository == each] for each in (JAX, XLA))
            both = list(itertools.product(jax, xla))
            own = rng.sample([*jax, *xla], min(len(revisions), rng.randint(self.own and 1, self.own)))
            together = rng.sample(both, min(len(both), rng.randint(self.together and 1, self.together)))
            world = Two(
                revisions=revisions,
                own={ref: _effect(rng) for ref in own},
                together={pair: _effect(rng) for pair in together},
            )
            if world.can_be_told():
                return world


def _effect(rng: random.Random) -> float:
    return rng.choice((-1, 1)) * rng.uniform(*EFFECTS)


@dataclass(frozen=True, kw_only=True)
class Two:
    """Two repositories whose commits multiply a value, alone or together (logs)."""

    revisions: list[Revision]
    own: dict[str, float]
    together: dict[tuple[str, str], float]

    def value(self, pair: CommitPair) -> float:
        """The log level of a pair."""
        jax, xla = int(pair.jax.ref[1:]), int(pair.xla.ref[1:])
        refs = {f"j{i}" for i in range(1, jax + 1)} | {f"x{i}" for i in range(1, xla + 1)}
        alone = math.fsum(effect for ref, effect in self.own.items() if ref in refs)
        return alone + math.fsum(effect for both, effect in self.together.items() if refs.issuperset(both))

    @property
    def path(self) -> tuple[CommitPair, ...]:
        """The candidates, in the order of their commit times."""
        good = [Revision(repository=each, ref=f"{each[0]}0", committed_at=START) for each in (JAX, XLA)]
        last = {one.repository: one for one in self.revisions}
        ends = CommitPair(jax=good[0], xla=good[1]), CommitPair(jax=last[JAX], xla=last[XLA])
        return tuple(one.pair for one in candidates(*ends, self.revisions))

    @property
    def names(self) -> set[Name]:
        """What is to be named: a commit that also acts together with another is named with that one."""
        paired = {ref for both in self.together for ref in both}
        return {(ref,) for ref in self.own if ref not in paired} | set(self.together)

    def can_be_told(self) -> bool:
        """Whether each effect, whichever partners are there, is as large as what is looked for and some errors more."""
        path = self.path
        whole = abs(self.value(path[-1]) - self.value(path[0])) / 10
        for ref in {*self.own, *itertools.chain(*self.together)}:
            partners = [effect for both, effect in self.together.items() if ref in both]
            parts = partners + [effect for own, effect in self.own.items() if own == ref]
            some = [
                abs(sum(each))
                for count in range(1, len(parts) + 1)
                for each in itertools.combinations(parts, count)
            ]
            error = CROSSED if partners else STEP
            looked_for = max(EFFECTS[0], whole, max(some) / 10, ERRORS * error)
            if min(some) < looked_for + ERRORS * error:
                return False
        return True


@dataclass(kw_only=True)
class Attribution:
    """A world of two repositories being searched, as the jobs do it."""

    world: Two
    kind: PolicyKind
    rng: random.Random
    seen: dict[CommitPair, Observation] = field(default_factory=dict)
    brackets: int = 0
    sandwiches: int = 0  # processes that went into them

    def values(self, pair: CommitPair, repeats: int) -> tuple[float, ...]:
        """So many processes of a pair."""
        level = math.exp(self.world.value(pair))
        return tuple(level * self.rng.lognormvariate(0, QUIET) for _ in range(repeats))

    def measure(self, pair: CommitPair, repeats: int) -> None:
        """Further processes of a pair."""
        before = self.seen.get(pair, Observation()).values
        self.seen[pair] = Observation(values=before + self.values(pair, repeats))

    def policy(self, path: Sequence[CommitPair]) -> Policy:
        """How it is searched, once the ends are measured."""
        ends = [self.seen.get(pair, Observation()).values for pair in (path[0], path[-1])]
        effort = effort_for(ends[0], ends[1])
        return Policy(kind=self.kind, cap=effort.cap, min_effect=effort.min_effect)

    def culprits(self) -> tuple[Culprit, ...]:
        """Whom it ends with."""
        path = self.world.path
        while isinstance(step := plan(len(path), self.on(path), self.policy(path)), Next):
            for one in step.tries:
                self.measure(path[one.position], one.repeats)
        found: list[Culprit] = []
        for bracket in step.brackets if isinstance(step, Brackets) else ():
            self.brackets += 1
            found += self.answer(path, bracket).culprits
        return distinct(found)

    def answer(self, path: Sequence[CommitPair], bracket: Bracket) -> Answer:
        """Whose one bracket is, if it stands side by side."""
        policy, sides = self.policy(path), (path[bracket.after], path[bracket.through])

        def beside(repeats: int) -> list[tuple[float, ...]]:
            self.sandwiches += 2 * repeats
            return [self.values(pair, repeats) for pair in sides]

        known = (self.seen[path[bracket.after]], self.seen[path[bracket.through]])
        if not confirmed(policy, bracket.after, *known, beside):
            return unconfirmed(path, bracket, self.seen, policy, "they are alike")
        while isinstance(answer := blame(path, bracket, self.seen, policy), Ask):
            for one in answer.tries:
                self.measure(one.pair, one.repeats)
        return answer

    def on(self, path: Sequence[CommitPair]) -> dict[int, Observation]:
        """What is known of the path's candidates."""
        return {at: self.seen[pair] for at, pair in enumerate(path) if pair in self.seen}


@dataclass(kw_only=True)
class Named(Sums):
    """The sums over some worlds; of the names that are `missing`, those inside a range that was told are `told`."""

    brackets: int = 0
    pairs: int = 0
    repeats: int = 0
    names: int = 0
    wrong: int = 0
    missing: int = 0
    told: int = 0


def attribute(kind: Effects, brackets: int, seed: int, chunk: int) -> Named:
    """Worlds of one kind until so many brackets are attributed; a world is the same whatever the clocks say."""
    total = Named()
    while total.brackets < brackets:
        key = f"{seed} {kind.own} {kind.together} {chunk} {total.worlds}"
        world = kind.make(random.Random(key))  # noqa: S311
        search = Attribution(world=world, kind=kind.policy, rng=random.Random(f"{key} measured"))  # noqa: S311
        culprits = search.culprits()
        said = {_name(one) for one in culprits} - {()}
        missing = world.names - said
        ranges = {ref for one in culprits if not _name(one) for ref in _inside(one)}
        total.add(
            Named(
                worlds=1,
                brackets=search.brackets,
                pairs=len(search.seen),
                repeats=sum(len(seen.values) for seen in search.seen.values()) + search.sandwiches,
                names=len(world.names),
                wrong=len(said - world.names),
                missing=len(missing),
                told=sum(not ranges.isdisjoint(name) for name in missing),
            )
        )
    return total


def _name(culprit: Culprit) -> Name:
    """What a culprit names: a commit of its repository, both of an interaction, or nothing."""
    partners = tuple(partner.split("@")[1] for partner in culprit.partners)
    if culprit.commit is None or (culprit.kind is CulpritKind.INTERACTION) != bool(partners):
        return ()
    return (culprit.commit, *partners)


def _inside(culprit: Culprit) -> list[str]:
    """The commits in the range that a culprit is where it names none."""
    after, through = (re.findall(r"([jx])(\d+)", end or "") for end in (culprit.after, culprit.through))
    return [
        f"{repository}{number}"
        for (repository, old), (_, new) in zip(after, through, strict=True)
        for number in range(int(old) + 1, int(new) + 1)
    ]
