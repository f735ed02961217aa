"""Which pairs lie between a good and a bad pair, one revision at a time?

The path is a staircase: every revision of either repository after the good end's and up to the bad end's is applied
in commit-time order. At one time XLA goes first, for a jax release needs its jaxlib. Each repository's revisions
come in history order and keep it: a commit time that goes backwards counts as the latest one before it.

Worked example, j1 at 1 o'clock and so on:

    good = j0 x0, bad = j3 x2, revisions x1 (01:00), j1 (01:00), x2 (02:00), j3 (03:00)
    j0 x0 | j0 x1 | j1 x1 | j1 x2 | j3 x2
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

from stepwatch.core.model import JAX, XLA, CommitPair, Revision


def candidates(good: CommitPair, bad: CommitPair, revisions: Sequence[Revision]) -> tuple[CommitPair, ...]:
    """The staircase from `good` to `bad`, both included; two neighbours differ in one repository.

    Args:
        good: the first candidate.
        bad: the last candidate. Equal to `good`, it is the only one.
        revisions: of both repositories mixed or in turn, each repository's in history order, oldest first (first
            parents, or releases). Those outside the two ends are left out. Where an end's revision is not among
            them, its commit time says where it stands; the bad end's is then applied last.
    """
    steps = [*_steps(good.xla, bad.xla, revisions), *_steps(good.jax, bad.jax, revisions)]
    steps.sort(key=lambda step: (step[0], step[1].repository == JAX))
    path = [good]
    for _, revision in steps:
        pair = applied(path[-1], revision)
        if pair != path[-1]:
            path.append(pair)
    return tuple(path)


def changes(path: Sequence[CommitPair], after: int, through: int) -> tuple[Revision, ...]:
    """The revisions that turn the pair at position `after` into the one at `through`, in path order."""
    found: list[Revision] = []
    for before, pair in zip(path[after:through], path[after + 1 : through + 1], strict=True):
        found += [new for old, new in ((before.xla, pair.xla), (before.jax, pair.jax)) if old != new]
    return tuple(found)


def applied(pair: CommitPair, revision: Revision) -> CommitPair:
    """The pair with one of its two revisions replaced."""
    return replace(pair, xla=revision) if revision.repository == XLA else replace(pair, jax=revision)


def _steps(
    first: Revision, last: Revision, revisions: Sequence[Revision]
) -> list[tuple[dt.datetime, Revision]]:
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
    steps: list[tuple[dt.datetime, Revision]] = []
    latest = first.committed_at
    for revision in (*inside, last):
        latest = max(latest, revision.committed_at)
        steps.append((latest, revision))
    return steps
