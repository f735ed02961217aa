"""Does one revision make its step alone, or only together with a revision of the other repository?

Worked example, seconds, the revision j in question and the other repository held at x0 .. x3:

    held at          x0    x1    x2    x3
    without j        1.0   1.0   1.0   1.0
    with j           1.0   1.0   1.3   1.3     0 % at x0, 30 % at x3: not its own; 30 % at the middle, x2; 0 % at x1: x2
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from stepwatch.core.bisection.candidates import applied, changes
from stepwatch.core.bisection.case import Case, interaction, side
from stepwatch.core.model import JAX, XLA, CommitPair, Culprit, CulpritKind, Revision, Verdict


@dataclass(kw_only=True)
class Partners:
    """A bracket of one revision: its step, with the other repository at each of `held` (in path order)."""

    case: Case
    revision: Revision
    held: list[Revision] = field(init=False)
    unclear: bool = False

    def __post_init__(self) -> None:
        path, other = self.case.path, XLA if self.revision.repository == JAX else JAX
        later = changes(path, 0, len(path) - 1)
        self.held = [side(path[0], other), *(one for one in later if one.repository == other)]

    def culprits(self) -> list[Culprit]:
        """The commit, its interactions, or a range; of no meaning while the crossings ask for more."""
        ends = sorted({0, len(self.held) - 1})
        here = self.held.index(side(self.case.good, self.held[0].repository))
        if self.missing([*ends, here]):
            return []
        usable = [at for at in ends if not self.refusals(at)]
        if not usable:
            return [self.range("whether it needs a partner can't be told")]
        tops = sorted({*usable, here})
        found = [one for i, k in itertools.pairwise(tops) for one in self.partners(i, k)]
        if found:
            return [self.with_partner(i, k) for i, k in found]
        if self.unclear:
            return [self.range(f"whether it needs a partner {self.case.told()}")]
        own = "; ".join(self.shown(at) for at in [*usable, *(at for at in ends if at not in usable)])
        return [self.case.block([self.revision], self.case.crossings.step, own)]

    def partners(self, i: int, k: int) -> list[tuple[int, int]]:
        """Where between `held[i]` and `held[k]`, both measured, the revision's effect changes: half-open (i, k]."""
        crossings = self.case.crossings
        (old_parent, old_child), (new_parent, new_child) = self.step(i), self.step(k)
        verdict = crossings.effect([new_child, old_parent], [new_parent, old_child]).verdict
        if verdict is not Verdict.DIFFERENT:
            self.unclear |= verdict is Verdict.UNKNOWN
            return []
        between = sorted(range(i + 1, k), key=lambda at: (abs(2 * at - i - k), at))
        middle = next((at for at in between if not self.refusals(at)), None)
        if middle is None:
            return [(i, k)]
        if self.missing([middle]):
            return []
        return [*self.partners(i, middle), *self.partners(middle, k)] or [(i, k)]

    def step(self, at: int) -> tuple[CommitPair, CommitPair]:
        """The revision's parent and child with the other repository at `held[at]`."""
        return applied(self.case.good, self.held[at]), applied(self.case.bad, self.held[at])

    def refusals(self, at: int) -> dict[CommitPair, str]:
        """Which sides of that step can't be measured, and why."""
        return self.case.crossings.refusals(self.step(at))

    def missing(self, places: Sequence[int]) -> bool:
        """Whether a step lacks values; a step of which one side is broken needs none."""
        return self.case.crossings.missing(
            [pair for at in places if not self.refusals(at) for pair in self.step(at)]
        )

    def shown(self, at: int) -> str:
        """What the step is with the other repository held there, or why there is none."""
        words, refusals = self.case.words, self.refusals(at)
        if refusals:
            return "; ".join(f"{words.refused(pair)}: {why}" for pair, why in refusals.items())
        parent, child = self.step(at)
        change = self.case.crossings.change(parent, child)
        return f"{words.pair(parent)} is {words.speed(0.0)}, {words.pair(child)} is {words.speed(change)} ({words.change(change)})"

    def size(self, at: int) -> str:
        """How large the step is with the other repository held there."""
        words = self.case.words
        return (
            f"{words.change(self.case.crossings.change(*self.step(at)))} with {words.revision(self.held[at])}"
        )

    def range(self, reason: str) -> Culprit:
        """The step is this revision's on the path, but nothing shows that it is so without a partner."""
        shown = "; ".join(self.shown(at) for at in sorted({0, len(self.held) - 1}))
        parent = side(self.case.good, self.revision.repository)
        return Culprit(
            kind=CulpritKind.RANGE,
            repository=self.revision.repository,
            after=parent.ref,
            through=self.revision.ref,
            change=math.expm1(self.case.crossings.step),
            reason=f"{self.case.words.culprit(self.revision)}: {reason}: {shown}",
        )

    def with_partner(self, i: int, k: int) -> Culprit:
        """An interaction with a revision of the other repository in (i, k]; of two commits, JAX's is the one named.

        Where several are left, none of them is named: the reason lists them.
        """
        words, parent, commit = self.case.words, side(self.case.good, self.revision.repository), self.revision
        partners = self.held[i + 1 : k + 1]
        reason = f"{words.revision(commit)}: {self.size(i)}; {self.size(k)}"
        if len(partners) > 1:
            refusals = {pair: why for at in range(i + 1, k) for pair, why in self.refusals(at).items()}
            one_of = ", ".join(words.revision(partner) for partner in partners)
            reason += f"; its partner is one of {one_of}: {words.because(refusals) or self.case.told()}"
            partners = []
        elif commit.repository == XLA:
            commit, parent, partners = partners[0], self.held[i], [commit]
        return interaction(
            commit=commit, parent=parent, partners=partners, step=self.case.crossings.step, reason=reason
        )
