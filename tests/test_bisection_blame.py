from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from dataclasses import dataclass, field

import pytest

from stepwatch.core.bisection.blame import Answer, Ask, PairTry, blame, distinct
from stepwatch.core.bisection.candidates import candidates
from stepwatch.core.bisection.plan import Bracket, Brackets, Next, Observation, Policy, PolicyKind, plan
from stepwatch.core.model import JAX, XLA, Better, CommitPair, Culprit, CulpritKind, Revision

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
POLICY = Policy(kind=PolicyKind.EXHAUSTIVE)
NEWER = "jaxlib 0.10.2 is newer than jax 0.10.1"


def revision(repository: str, ref: str, minutes: float = 0) -> Revision:
    return Revision(repository=repository, ref=ref, committed_at=START + dt.timedelta(minutes=minutes))


def crossed(jax: str, xla: str) -> CommitPair:
    return CommitPair(jax=revision(JAX, jax), xla=revision(XLA, xla))


def release_step(
    old: str, new: str, values: dict[tuple[str, str], tuple[float, ...] | str], policy: Policy = POLICY
) -> Answer | Ask:
    """Blame of one release step whose middle (the old jax with the new jaxlib) is broken."""
    path = [crossed(old, old), crossed(old, new), crossed(new, new)]
    seen = {
        crossed(*refs): Observation(broken=value) if isinstance(value, str) else Observation(values=value)
        for refs, value in values.items()
    }
    bracket = Bracket(
        after=0, through=2, broken=(1,), ratio=1.0, reason="none of the 1 between can be measured"
    )
    return blame(path, bracket, seen, policy)


FAST, SLOW = (0.38, 0.9, 1.4, 0.5, 0.6, 0.45, 0.7, 1.0), (4.9, 5.3, 7.2, 5.0, 6.1, 5.2, 5.5, 8.0)


def test_a_release_step_that_can_be_pinned_on_jaxlib() -> None:
    known = {("0.10.1", "0.10.1"): FAST, ("0.10.2", "0.10.2"): SLOW, ("0.10.1", "0.10.2"): NEWER}
    asked = release_step("0.10.1", "0.10.2", known)
    assert asked == Ask(tries=(PairTry(pair=crossed("0.10.2", "0.10.1"), repeats=5),))
    other = tuple(1.2 * value for value in reversed(FAST))
    answer = release_step("0.10.1", "0.10.2", known | {("0.10.2", "0.10.1"): other}, Policy(cap=8))
    assert isinstance(answer, Answer)
    (culprit,) = answer.culprits
    assert (culprit.kind, culprit.repository, culprit.commit) == (CulpritKind.COMMIT, XLA, "0.10.2")
    assert (culprit.after, culprit.through) == ("0.10.1", "0.10.2")
    assert culprit.reason == (
        "XLA (jaxlib 0.10.2): jax 0.10.2 with jaxlib 0.10.1 is fast; "
        f"jax 0.10.1 with jaxlib 0.10.2 can't be installed: {NEWER}"
    )
    assert culprit.change is not None
    assert 5 < culprit.change < 15


def test_a_large_step_is_attributed_on_a_machine_where_values_are_twice_each_other() -> None:
    corners = {("1", "1"): FAST, ("2", "1"): FAST[::-1], ("1", "2"): SLOW, ("2", "2"): (*SLOW[4:], *SLOW[:4])}
    louder = {
        refs: tuple(value ** (1.3 if refs[0] == "2" else 1.0) for value in row)
        for refs, row in corners.items()
    }
    assert named(release_step("1", "2", dict(louder), Policy(cap=8))) == [(CulpritKind.COMMIT, XLA, ())]


def test_a_release_step_that_cannot_be_split() -> None:
    low = tuple(value * 0.01 for value in SLOW)
    answer = release_step(
        "0.4.31",
        "0.4.33",
        {
            ("0.4.31", "0.4.31"): low[:3],
            ("0.4.33", "0.4.33"): SLOW[:3],
            ("0.4.31", "0.4.33"): "jaxlib is newer than jax",
            ("0.4.33", "0.4.31"): "jax needs jaxlib 0.4.33",
        },
    )
    assert isinstance(answer, Answer)
    (culprit,) = answer.culprits
    assert (culprit.kind, culprit.repository, culprit.commit) == (CulpritKind.RANGE, None, None)
    assert (culprit.after, culprit.through) == ("0.4.31", "0.4.33")
    assert culprit.reason == (
        "between 0.4.31 and 0.4.33, JAX or XLA: no crossed pair of the two can be installed, because "
        "jax 0.4.31 with jaxlib 0.4.33: jaxlib is newer than jax; "
        "jax 0.4.33 with jaxlib 0.4.31: jax needs jaxlib 0.4.33"
    )


def square(
    good: float, jax_alone: float | str, xla_alone: float | str, bad: float, **policy: Better
) -> Answer:
    def five(value: float | str) -> tuple[float, ...] | str:
        return value if isinstance(value, str) else (value, 1.01 * value, value, 0.99 * value, value)

    values = {
        ("1", "1"): five(good),
        ("2", "1"): five(jax_alone),
        ("1", "2"): five(xla_alone),
        ("2", "2"): five(bad),
    }
    answer = release_step("1", "2", values, Policy(**policy))
    assert isinstance(answer, Answer)
    return answer


def named(answer: Answer | Ask) -> list[tuple[CulpritKind, str | None, tuple[str, ...]]]:
    assert isinstance(answer, Answer)
    return [(one.kind, one.repository, one.partners) for one in answer.culprits]


def test_the_four_corners() -> None:
    jax, xla = (CulpritKind.COMMIT, JAX, ()), (CulpritKind.COMMIT, XLA, ())
    assert named(square(1.0, 2.0, 1.0, 2.0)) == [jax]
    assert named(square(1.0, 1.0, 2.0, 2.0)) == [xla]
    assert named(square(1.0, 1.5, 2.0, 3.0)) == [jax, xla]
    assert named(square(1.0, 1.0, 1.0, 2.0)) == [(CulpritKind.INTERACTION, JAX, ("xla@2",))]
    assert named(square(1.0, 2.0, 2.0, 2.0)) == [(CulpritKind.INTERACTION, JAX, ("xla@2",))]
    assert named(square(1.0, "no", 1.0, 2.0)) == [jax]
    assert named(square(1.0, "no", 2.0, 2.0)) == [xla]
    assert named(square(1.0, 2.0, "no", 2.0)) == [jax]
    assert named(square(1.0, 1.5, "no", 3.0)) == [jax, xla]


def test_each_of_two_culprits_carries_its_own_change() -> None:
    changes = [one.change for one in square(1.0, 1.5, 2.0, 3.0).culprits]
    assert changes == pytest.approx([0.5, 1.0])


def test_words_follow_the_direction() -> None:
    def said(good: float, bad: float, better: Better) -> str:
        return square(good, good, bad, bad, better=better).culprits[0].reason.split(";")[0]

    assert said(1.0, 2.0, Better.LOWER) == "XLA (jaxlib 2): jax 2 with jaxlib 1 is fast"
    assert said(2.0, 1.0, Better.LOWER) == "XLA (jaxlib 2): jax 2 with jaxlib 1 is slow"
    assert said(2.0, 1.0, Better.HIGHER) == "XLA (jaxlib 2): jax 2 with jaxlib 1 is fast"
    assert said(1.0, 2.0, Better.HIGHER) == "XLA (jaxlib 2): jax 2 with jaxlib 1 is slow"


@dataclass
class World:
    """Two repositories whose commits multiply a value, alone or together; off-path pairs may be broken."""

    revisions: list[Revision]
    own: dict[str, float]
    together: dict[tuple[str, str], float]
    refuse: float = 0.0
    noise: float = 0.01
    rng: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311
    seen: dict[CommitPair, Observation] = field(default_factory=dict)

    def value(self, pair: CommitPair) -> float:
        jax, xla = int(pair.jax.ref[1:]), int(pair.xla.ref[1:])
        refs = {f"j{i}" for i in range(1, jax + 1)} | {f"x{i}" for i in range(1, xla + 1)}
        logs = [effect for ref, effect in self.own.items() if ref in refs]
        logs += [effect for both, effect in self.together.items() if refs.issuperset(both)]
        return math.exp(sum(logs))

    def measure(self, pair: CommitPair, repeats: int, *, refuse: float = 0.0) -> None:
        before = self.seen.get(pair, Observation())
        if not before.values and self.rng.random() < refuse:
            self.seen[pair] = Observation(broken="does not build")
            return
        new = tuple(self.value(pair) * self.rng.lognormvariate(0, self.noise) for _ in range(repeats))
        self.seen[pair] = Observation(values=before.values + new)

    def path(self) -> tuple[CommitPair, ...]:
        good = CommitPair(jax=revision(JAX, "j0", -60), xla=revision(XLA, "x0", -60))
        last = {one.repository: one for one in self.revisions}
        found = candidates(good, CommitPair(jax=last[JAX], xla=last[XLA]), self.revisions)
        return tuple(one.pair for one in found)

    def culprits(self, holes: float = 0.0) -> tuple[Culprit, ...]:
        path = self.path()
        for end in (path[0], path[-1]):
            self.measure(end, 5)
        while isinstance(step := self.plan(path), Next):
            for one in step.tries:
                self.measure(path[one.position], one.repeats, refuse=holes)
        if not isinstance(step, Brackets):
            return ()
        return distinct([one for bracket in step.brackets for one in self.blame(path, bracket)])

    def plan(self, path: tuple[CommitPair, ...]) -> Next | Brackets | object:
        seen = {at: self.seen[pair] for at, pair in enumerate(path) if pair in self.seen}
        return plan(len(path), seen, POLICY)

    def blame(self, path: tuple[CommitPair, ...], bracket: Bracket) -> tuple[Culprit, ...]:
        for _ in range(100):
            step = blame(path, bracket, self.seen, POLICY)
            if isinstance(step, Answer):
                assert step.culprits
                assert all(one.reason for one in step.culprits)
                return step.culprits
            assert step.tries
            for one in step.tries:
                self.measure(one.pair, one.repeats, refuse=self.refuse)
        pytest.fail("blame does not end")

    def names(self, holes: float = 0.0) -> set[tuple[str, ...]]:
        found = self.culprits(holes)
        assert {one.kind for one in found} <= {CulpritKind.COMMIT, CulpritKind.INTERACTION, CulpritKind.RANGE}
        return {
            (one.commit, *(partner.split("@")[1] for partner in one.partners))
            for one in found
            if one.commit is not None
        }

    @property
    def truth(self) -> set[tuple[str, ...]]:
        paired = {ref for both in self.together for ref in both}
        return {(ref,) for ref in self.own if ref not in paired} | set(self.together)


def sums_are_clear(own: dict[str, float], together: dict[tuple[str, str], float]) -> bool:
    """Whether no commit's effect is nearly cancelled by the partners that happen to be there."""
    for ref in {*own, *(ref for both in together for ref in both)}:
        parts = [effect for both, effect in together.items() if ref in both] + [
            own[ref] for _ in (ref,) if ref in own
        ]
        for count in range(1, len(parts) + 1):
            if any(abs(sum(some)) < 0.09 for some in itertools.combinations(parts, count)):
                return False
    return True


def make_world(rng: random.Random) -> World:
    while True:
        jax, xla = rng.randint(1, 5), rng.randint(1, 5)
        times = {
            repository: sorted(rng.uniform(0, 300) for _ in range(count))
            for repository, count in ((JAX, jax), (XLA, xla))
        }
        revisions = [
            revision(repository, f"{repository[0]}{i}", at)
            for repository, hours in times.items()
            for i, at in enumerate(hours, 1)
        ]
        refs = [one.ref for one in revisions]

        def effect() -> float:
            return rng.choice((-1, 1)) * rng.uniform(0.1, 0.4)

        own = {ref: effect() for ref in rng.sample(refs, rng.randint(0, min(3, len(refs))))}
        both = [(f"j{i}", f"x{k}") for i in range(1, jax + 1) for k in range(1, xla + 1)]
        together = {pair: effect() for pair in rng.sample(both, rng.randint(0, min(2, len(both))))}
        if (own or together) and sums_are_clear(own, together):
            return World(revisions=revisions, own=own, together=together, rng=rng)


@pytest.mark.parametrize("seed", range(30))
def test_every_name_is_right_whatever_the_clocks_say(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    for _ in range(10):
        world = make_world(rng)
        assert world.names() == world.truth
        shifted = [
            Revision(
                repository=one.repository,
                ref=one.ref,
                committed_at=one.committed_at + dt.timedelta(minutes=30) * (one.repository == XLA),
            )
            for one in world.revisions
        ]
        later = World(revisions=shifted, own=world.own, together=world.together, rng=rng)
        assert later.names() == world.truth


@pytest.mark.parametrize("seed", range(20))
def test_what_cannot_be_built_never_makes_a_wrong_name(seed: int) -> None:
    """A name may be missing then (a range says so), but no innocent commit is named."""
    rng = random.Random(1000 + seed)  # noqa: S311
    for _ in range(10):
        world = make_world(rng)
        world.refuse = 0.3
        involved = {ref for name in world.truth for ref in name}
        assert {ref for name in world.names(holes=0.2) for ref in name} <= involved


def test_a_commit_whose_step_is_seen_at_neither_end_is_a_range() -> None:
    revisions = [revision(XLA, "x1", 1), revision(JAX, "j1", 2), revision(XLA, "x2", 3)]
    world = World(revisions=revisions, own={"j1": 0.3}, together={}, refuse=1.0)
    (culprit,) = world.culprits()
    assert (culprit.kind, culprit.repository, culprit.commit) == (CulpritKind.RANGE, JAX, None)
    assert (culprit.after, culprit.through) == ("j0", "j1")
    assert (
        "JAX (jax@j1): whether it needs a partner can't be told: jax@j1 with xla@x0 can't be built"
        in culprit.reason
    )


def test_broken_commits_of_one_repository_stay_a_range_with_the_reasons() -> None:
    path = [CommitPair(jax=revision(JAX, f"j{i}", i), xla=revision(XLA, "x0")) for i in range(4)]
    seen = {
        path[0]: Observation(values=(1.0, 1.0, 1.0)),
        path[1]: Observation(broken="a missing header"),
        path[2]: Observation(broken="timed out"),
        path[3]: Observation(values=(2.0, 2.0, 2.0)),
    }
    bracket = Bracket(
        after=0, through=3, broken=(1, 2), ratio=2.0, reason="none of the 2 between can be measured"
    )
    answer = blame(path, bracket, seen, POLICY)
    assert isinstance(answer, Answer)
    (culprit,) = answer.culprits
    assert (culprit.kind, culprit.repository, culprit.after, culprit.through) == (
        CulpritKind.RANGE,
        JAX,
        "j0",
        "j3",
    )
    assert culprit.reason == (
        "JAX (between jax@j0 and jax@j3): none of the 2 between can be measured "
        "(jax@j1 with xla@x0: a missing header; jax@j2 with xla@x0: timed out)"
    )


def test_an_interaction_is_asked_for_one_partner_at_a_time() -> None:
    revisions = [revision(XLA, f"x{i}", i) for i in range(1, 5)] + [revision(JAX, "j1", 10)]
    world = World(revisions=revisions, own={"x1": 0.2}, together={("j1", "x3"): 0.3}, noise=0.0)
    culprits = world.culprits()
    assert world.names() == {("x1",), ("j1", "x3")}
    interaction = next(one for one in culprits if one.kind is CulpritKind.INTERACTION)
    assert (interaction.repository, interaction.after, interaction.through) == (JAX, "j0", "j1")
    assert interaction.partners == ("xla@x3",)
    assert interaction.reason == "jax@j1: +0.0 % with xla@x2; +35.0 % with xla@x3"


def test_a_partner_that_cannot_be_told_from_others_is_not_named() -> None:
    revisions = [revision(XLA, f"x{i}", i) for i in range(1, 4)] + [revision(JAX, "j1", 10)]
    world = World(revisions=revisions, own={}, together={("j1", "x2"): 0.3})
    for middle in ("x1", "x2"):
        pair = next(one for one in world.path() if one.xla.ref == middle)
        world.seen[CommitPair(jax=revisions[-1], xla=pair.xla)] = Observation(broken="does not build")
    (culprit,) = world.culprits()
    assert (culprit.kind, culprit.commit, culprit.partners) == (CulpritKind.INTERACTION, "j1", ())
    assert (
        "its partner is one of xla@x1, xla@x2, xla@x3: jax@j1 with xla@x1: does not build" in culprit.reason
    )
