"""Which pair of commits stands for a day, and what lies between two of them?

A day's pair is the head of each main line at its end, 00:00 UTC of the next; a repository that is held still has one
release all the time. Mirrors are brought up to date once, when they are first asked.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stepwatch.core.bisection.candidates import Candidate, candidates, pinned_candidates
from stepwatch.core.model import (
    JAX,
    REPOSITORIES,
    XLA,
    CommitInfo,
    CommitPair,
    Night,
    Pairing,
    Revision,
    Source,
    SourceKind,
)
from stepwatch.core.requests import DISTRIBUTIONS, parse_date
from stepwatch.runners.protocol import UnreachableError
from stepwatch.runners.releases import released
from stepwatch.runners.repositories import Mirror


@dataclass(kw_only=True)
class CommitNights:
    """Days of two repositories: `mirrors` has those that move, `fixed` the release of the one that is held still."""

    name: str
    mirrors: Mapping[str, Mirror]
    fixed: Mapping[str, str]
    say: Callable[[str], None] = lambda _: None
    _ready: set[str] = field(default_factory=set, init=False)

    @property
    def source(self) -> Source:
        """The source as it is stored."""
        return Source(kind=SourceKind.COMMITS, name=self.name)

    def labels(self) -> tuple[str, ...]:
        """The day that is run when nothing else is asked for: the last that is over, in UTC."""
        return ((_today() - dt.timedelta(days=1)).isoformat(),)

    def label_on(self, date: dt.date) -> str:
        """The date itself."""
        return date.isoformat()

    def check(self, date: dt.date) -> str:
        """That the repositories can be read.

        Raises:
            UnreachableError: one of them can't.
        """
        for mirror in self.mirrors.values():
            mirror.fetch()
        night = self.night(date.isoformat())
        return f"{', '.join(each.url for each in self.mirrors.values())} can be read; {night and night.pair}"

    def night(self, label: str) -> Night | None:
        """The pair of a day that is over; None for what is no such day.

        Raises:
            UnreachableError: a repository can't be read and has no mirror here.
        """
        date = parse_date(label)
        if date is None or date >= _today():
            return None
        found, at = self.heads(date), _end_of(date)
        if isinstance(found, str):
            return Night(source=self.source, label=label, at=at, gap_reason=found)
        return Night(source=self.source, label=label, at=at, pair=found)

    def heads(self, date: dt.date) -> CommitPair | str:
        """The heads of both repositories at the end of a day, or the sentence that says why there are none.

        Raises:
            UnreachableError: a repository can't be read and has no mirror here.
        """
        found = {each: self._at(each, _end_of(date)) for each in REPOSITORIES}
        reasons = [each for each in found.values() if isinstance(each, str)]
        return "; ".join(reasons) if reasons else _pair(found)

    def pair(self, jax: str, xla: str) -> CommitPair | str:
        """The pair of two refs, or the sentence that says why there is none.

        Raises:
            UnreachableError: a repository can't be read and has no mirror here.
        """
        found = {each: self._find(each, ref) for each, ref in ((JAX, jax), (XLA, xla))}
        reasons = [each for each in found.values() if isinstance(each, str)]
        return "; ".join(reasons) if reasons else _pair(found)

    def path(self, good: CommitPair, bad: CommitPair, pairing: Pairing) -> tuple[Candidate, ...] | str:
        """The commits of both main lines between two pairs; of one merge alone, those that it brought.

        Raises:
            UnreachableError: a repository can't be read and has no mirror here.
        """
        lines: dict[str, tuple[Revision, ...]] = {}
        for repository, first, last in ((JAX, good.jax, bad.jax), (XLA, good.xla, bad.xla)):
            if repository in self.fixed:
                lines[repository] = ()
                continue
            mirror = self._mirror(repository)
            found = mirror.between(first.ref, last.ref)
            if isinstance(found, str):
                return found
            if len(found) == 1 and (brought := mirror.merged(last.ref)):
                found = (*brought, *found)
            lines[repository] = tuple(each.revision for each in found)
        revisions = [*lines[XLA], *lines[JAX]]
        if pairing is Pairing.CLOCK:
            return candidates(good, bad, revisions)
        if self.fixed:
            return "with a repository held still nothing is pinned; accepted is pairing clock"
        pins = self._mirror(JAX).pins([each.ref for each in lines[JAX]])
        return pinned_candidates(good, bad, revisions, pins)

    def info(self, repository: str, ref: str) -> CommitInfo | None:
        """What a repository says of a commit."""
        mirror = self.mirrors.get(repository)
        found = mirror.find(ref) if mirror is not None else None
        if mirror is None or found is None or isinstance(found, str):
            return None
        return CommitInfo(
            author=found.author,
            committed_at=found.revision.committed_at,
            subject=found.subject,
            url=mirror.link(found.revision.ref),
        )

    def _at(self, repository: str, at: dt.datetime) -> Revision | str:
        if repository in self.fixed:
            return self._find(repository, self.fixed[repository])
        found = self._mirror(repository).head_at(at)
        return found if isinstance(found, str) else found.revision

    def _find(self, repository: str, ref: str) -> Revision | str:
        """The revision that is meant by a ref."""
        if repository not in self.fixed:
            found = self._mirror(repository).find(ref)
            return found if isinstance(found, str) else found.revision
        still = self.fixed[repository]
        project = DISTRIBUTIONS[repository]
        if ref != still:
            return f"{project} {ref} is not {still}, at which it is held still"
        release = released(repository).get(still)
        return f"{project} {still} was never released" if release is None else release.revision

    def _mirror(self, repository: str) -> Mirror:
        """The mirror of a repository, brought up to date; one that can't be is used as it is."""
        mirror = self.mirrors[repository]
        if repository not in self._ready:
            self.say(f"fetching {repository}")
            try:
                mirror.fetch()
            except UnreachableError as error:
                if not mirror.folder.is_dir():
                    raise
                self.say(f"{error}; its mirror is used as it is")
            self._ready.add(repository)
        return mirror


def _pair(found: Mapping[str, Revision | str]) -> CommitPair:
    jax, xla = found[JAX], found[XLA]
    if isinstance(jax, str) or isinstance(xla, str):
        raise TypeError("both are revisions here")
    return CommitPair(jax=jax, xla=xla)


def _end_of(date: dt.date) -> dt.datetime:
    return dt.datetime.combine(date + dt.timedelta(days=1), dt.time(), dt.UTC)


def _today() -> dt.date:
    return dt.datetime.now(dt.UTC).date()
