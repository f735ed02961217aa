"""Which pairs lie between a good and a bad pair, one revision at a time, and which of them end an hour?

`clock`: every revision of either repository after the good end's and up to the bad end's is applied in commit-time
order, so the pair at any time is the two main lines at that time. At one time XLA goes first, for a jax release needs
its jaxlib. Each repository's revisions come in history order and keep it: a commit time that goes backwards counts as
the latest one before it.

`pinned`: JAX's revisions are applied in their order, each with the XLA that its own tree asks for. What XLA gained
with a new pin is applied before the JAX revision that brings it, at its time.

Worked examples, j1 at 1 o'clock and so on, j2 the first that pins x2; what ends an hour is marked:

    good = j0 x0, bad = j3 x2, revisions x1 (01:00), j1 (01:00), x2 (02:00), j2 (02:30), j3 (03:00)
    clock     j0 x0* | j0 x1 | j1 x1* | j1 x2 | j2 x2* | j3 x2*
    pinned    j0 x0* | j1 x0* | j1 x1 | j1 x2 | j2 x2* | j3 x2*
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stepwatch.core.model import JAX, XLA, CommitPair, Revision

Steps = list[tuple[dt.datetime, Revision]]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A pair on the path; `hour` is the UTC hour (its beginning) that it is the last one of, None where it is none's.

    `at_hand` says that its environment was there when the bisection was opened: it is cheaper than its neighbours.
    """

    pair: CommitPair
    hour: dt.datetime | None = None
    at_hand: bool = False


def candidates(good: CommitPair, bad: CommitPair, revisions: Sequence[Revision]) -> tuple[Candidate, ...]:
    """The staircase from `good` to `bad` by the clock, both included; two neighbours differ in one repository.

    Args:
        good: the first candidate.
        bad: the last candidate. Equal to `good`, it is the only one.
        revisions: of both repositories mixed or in turn, each repository's in history order, oldest first (first
            parents, or releases). Those outside the two ends are left out. Where an end's revision is not among
            them, its commit time says where it stands; the bad end's is then applied last.
    """
    steps = [*_steps(good.xla, bad.xla, revisions), *_steps(good.jax, bad.jax, revisions)]
    steps.sort(key=lambda step: (step[0], step[1].repository == JAX))
    return _climb(good, steps)


def pinned_candidates(
    good: CommitPair, bad: CommitPair, revisions: Sequence[Revision], pins: Mapping[str, str | None]
) -> tuple[Candidate, ...]:
    """The staircase on which each JAX revision has the XLA that it pins; `pins` maps JAX's refs to XLA's.

    An XLA that is pinned and lies outside the ends' counts as the nearer end; a JAX revision without a known pin keeps
    the XLA that the one before it has.
    """
    xla = [revision for _, revision in _steps(good.xla, bad.xla, revisions)]
    place = {revision.ref: number for number, revision in enumerate(xla, start=1)}
    steps: Steps = []
    applied_ = 0
    for at, revision in _steps(good.jax, bad.jax, revisions):
        wanted = place.get(pins.get(revision.ref) or "", 0)
        steps += [(at, each) for each in xla[applied_:wanted]]
        applied_ = max(applied_, wanted)
        steps.append((at, revision))
    steps += [(max(bad.at, steps[-1][0]) if steps else bad.at, each) for each in xla[applied_:]]
    return _climb(good, steps)


def _climb(good: CommitPair, steps: Steps) -> tuple[Candidate, ...]:
    """The pairs that the steps lead through, in order."""
    path, times = [good], [good.at]
    for at, revision in steps:
        pair = applied(path[-1], revision)
        if pair != path[-1]:
            path.append(pair)
            times.append(at)
    hours = [at.replace(minute=0, second=0, microsecond=0) for at in times]
    later = [*hours[1:], None]
    return tuple(
        Candidate(pair=pair, hour=hour if hour != after else None)
        for pair, hour, after in zip(path, hours, later, strict=True)
    )


def changes(path: Sequence[CommitPair], after: int, through: int) -> tuple[Revision, ...]:
    """The revisions that turn the pair at position `after` into the one at `through`, in path order."""
    found: list[Revision] = []
    for before, pair in zip(path[after:through], path[after + 1 : through + 1], strict=True):
        found += [new for old, new in ((before.xla, pair.xla), (before.jax, pair.jax)) if old != new]
    return tuple(found)


def applied(pair: CommitPair, revision: Revision) -> CommitPair:
    """The pair with one of its two revisions replaced."""
    return replace(pair, xla=revision) if revision.repository == XLA else replace(pair, jax=revision)


def _steps(first: Revision, last: Revision, revisions: Sequence[Revision]) -> Steps:
    """The revisions of one repository in (first, last] in their order, each with a time that never falls."""
    if first.ref == last.ref:
        return []
    history = [one for one in revisions if one.repository == first.repository]
    refs = [one.ref for one in history]
    if first.ref in refs:
        inside = history[refs.index(first.ref) + 1 :]
    else:
        inside = [one for one in history if one.committed_at > first.committed_at]
    if last.ref in refs:
        ahead = set(
            refs[: refs.index(last.ref)]
        )  # empty of `inside` where the bad end's revision is the older one
        inside = [one for one in inside if one.ref in ahead]
    else:
        inside = [one for one in inside if one.committed_at <= last.committed_at]
    steps: Steps = []
    latest = first.committed_at
    for revision in (*inside, last):
        latest = max(latest, revision.committed_at)
        steps.append((latest, revision))
    return steps
