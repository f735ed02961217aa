"""What is a bracket's culprit called, once it is known whose it is?

The values that blame ends with are made here, from one bracket and what was measured of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stepwatch.core.bisection.crossing import Crossings
from stepwatch.core.bisection.plan import Bracket
from stepwatch.core.bisection.wording import Wording
from stepwatch.core.model import JAX, CommitPair, Culprit, CulpritKind, Revision


@dataclass(frozen=True, kw_only=True)
class Case:
    """One bracket with what is known about it."""

    path: Sequence[CommitPair]
    bracket: Bracket
    crossings: Crossings
    words: Wording

    @property
    def good(self) -> CommitPair:
        """The last candidate on the old level."""
        return self.path[self.bracket.after]

    @property
    def bad(self) -> CommitPair:
        """The first candidate on the new level."""
        return self.path[self.bracket.through]

    def narrowest(self) -> str:
        """Why the bracket is not narrower."""
        refusals = self.crossings.refusals([self.path[at] for at in self.bracket.broken])
        return f"{self.bracket.reason} ({self.words.because(refusals)})" if refusals else self.bracket.reason

    def block(self, revisions: Sequence[Revision], change: float, reason: str) -> Culprit:
        """All of one repository's revisions in the bracket: a commit where it is one, else a range."""
        first, last = side(self.good, revisions[0].repository), revisions[-1]
        if len(revisions) == 1:
            kind, commit, name = CulpritKind.COMMIT, last.ref, self.words.culprit(last)
        else:
            kind, commit = CulpritKind.RANGE, None
            between = f"between {self.words.revision(first)} and {self.words.revision(last)}"
            name = f"{self.words.title(last.repository)} ({between})"
        return Culprit(
            kind=kind,
            repository=last.repository,
            commit=commit,
            after=first.ref,
            through=last.ref,
            change=math.expm1(change),
            reason=f"{name}: {reason}",
        )

    def either(self, reason: str) -> Culprit:
        """The bracket as a range in both repositories."""
        after, through = self.words.label(self.good), self.words.label(self.bad)
        return Culprit(
            kind=CulpritKind.RANGE,
            after=after,
            through=through,
            change=math.expm1(self.crossings.step),
            reason=f"between {after} and {through}, JAX or XLA: {reason}",
        )

    def shown(self, pair: CommitPair) -> str:
        """What a crossed pair showed."""
        why = self.crossings.refusal(pair)
        if why is not None:
            return f"{self.words.refused(pair)}: {why}"
        return f"{self.words.pair(pair)} is {self.words.speed(self.crossings.change(self.good, pair))}"

    def told(self) -> str:
        """That more measuring is not allowed."""
        return f"can't be told at {self.crossings.policy.cap} repeats"


def interaction(
    *, commit: Revision, parent: Revision, partners: Sequence[Revision], step: float, reason: str
) -> Culprit:
    """A commit that makes its step only with its partners; `step` is the bracket's, as a log ratio."""
    return Culprit(
        kind=CulpritKind.INTERACTION,
        repository=commit.repository,
        commit=commit.ref,
        after=parent.ref,
        through=commit.ref,
        partners=tuple(str(partner) for partner in partners),
        change=math.expm1(step),
        reason=reason,
    )


def side(pair: CommitPair, repository: str) -> Revision:
    """The pair's revision of one repository."""
    return pair.jax if repository == JAX else pair.xla
