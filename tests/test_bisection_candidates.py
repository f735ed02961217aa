from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from stepwatch.core.bisection.candidates import (
    Candidate,
    applied,
    candidates,
    changes,
    pinned_candidates,
)
from stepwatch.core.model import JAX, XLA, CommitPair, Revision

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def revision(repository: str, ref: str, hour: float) -> Revision:
    return Revision(repository=repository, ref=ref, committed_at=START + dt.timedelta(hours=hour))


def pair(jax: str, xla: str, hour: float = 0) -> CommitPair:
    return CommitPair(jax=revision(JAX, jax, hour), xla=revision(XLA, xla, hour))


def printed(path: tuple[Candidate, ...]) -> list[str]:
    return [f"{one.pair.jax.ref} {one.pair.xla.ref}" for one in path]


def marked(path: tuple[Candidate, ...]) -> str:
    """As the module's worked examples are written."""
    return " | ".join(
        f"{text}{'*' if one.hour else ''}" for text, one in zip(printed(path), path, strict=True)
    )


JAX_LINE = [revision(JAX, "j1", 1), revision(JAX, "j2", 2.5), revision(JAX, "j3", 3)]
XLA_LINE = [revision(XLA, "x1", 1), revision(XLA, "x2", 2)]
BAD = CommitPair(jax=JAX_LINE[-1], xla=XLA_LINE[-1])


def test_the_worked_examples() -> None:
    path = candidates(pair("j0", "x0"), BAD, [*JAX_LINE, *XLA_LINE])
    assert marked(path) == "j0 x0* | j0 x1 | j1 x1* | j1 x2 | j2 x2* | j3 x2*"
    assert path[2].hour == START + dt.timedelta(hours=1)
    pairs = [one.pair for one in path]
    assert [str(one) for one in changes(pairs, 1, 3)] == ["jax@j1", "xla@x2"]
    assert changes(pairs, 2, 2) == ()
    pins = {"j1": "x0", "j2": "x2", "j3": "x2"}
    path = pinned_candidates(pair("j0", "x0"), BAD, [*XLA_LINE, *JAX_LINE], pins)
    assert marked(path) == "j0 x0* | j1 x0* | j1 x1 | j1 x2 | j2 x2* | j3 x2*"


def test_a_pin_outside_the_ends_is_the_nearer_end() -> None:
    pins = {"j1": "older", "j2": None, "j3": "x1"}
    path = pinned_candidates(pair("j0", "x0"), BAD, [*XLA_LINE, *JAX_LINE], pins)
    assert printed(path) == ["j0 x0", "j1 x0", "j2 x0", "j2 x1", "j3 x1", "j3 x2"]
    assert path[-1].pair == BAD
    pins["j2"] = "x2"  # what is pinned never goes back on the path: each of XLA's is applied once
    path = pinned_candidates(pair("j0", "x0"), BAD, [*XLA_LINE, *JAX_LINE], pins)
    assert printed(path) == ["j0 x0", "j1 x0", "j1 x1", "j1 x2", "j2 x2", "j3 x2"]


def test_a_release_is_one_revision_of_each_repository() -> None:
    revisions = [
        revision(repo, ref, hour) for repo in (JAX, XLA) for ref, hour in (("0.10.1", 0), ("0.10.2", 9))
    ]
    path = candidates(pair("0.10.1", "0.10.1"), pair("0.10.2", "0.10.2", 9), revisions)
    assert printed(path) == ["0.10.1 0.10.1", "0.10.1 0.10.2", "0.10.2 0.10.2"]


def test_revisions_outside_the_ends_are_left_out() -> None:
    revisions = [revision(JAX, f"j{hour}", hour) for hour in range(6)]
    path = candidates(
        pair("j1", "x0", 1), CommitPair(jax=revisions[4], xla=revision(XLA, "x0", 1)), revisions
    )
    assert printed(path) == ["j1 x0", "j2 x0", "j3 x0", "j4 x0"]


def test_ends_that_are_not_in_the_history_stand_at_their_times() -> None:
    revisions = [revision(JAX, f"j{hour}", hour) for hour in range(6)]
    bad = CommitPair(jax=revision(JAX, "side", 3.5), xla=revision(XLA, "x0", 1.5))
    path = candidates(pair("other", "x0", 1.5), bad, revisions)
    assert printed(path) == ["other x0", "j2 x0", "j3 x0", "side x0"]
    assert path[-1].pair == bad


def test_a_commit_time_that_goes_backwards_keeps_the_history() -> None:
    jax = [revision(JAX, "j1", 2), revision(JAX, "j2", 1), revision(JAX, "j3", 4)]
    xla = [revision(XLA, "x1", 1.5), revision(XLA, "x2", 3)]
    path = candidates(pair("j0", "x0"), CommitPair(jax=jax[-1], xla=xla[-1]), [*jax, *xla])
    assert printed(path) == ["j0 x0", "j0 x1", "j1 x1", "j2 x1", "j2 x2", "j3 x2"]


def test_equal_ends_are_one_candidate_and_an_older_bad_end_is_one_step() -> None:
    revisions = [revision(JAX, f"j{hour}", hour) for hour in range(6)]
    assert len(candidates(pair("j1", "x0"), pair("j1", "x0"), revisions)) == 1
    back = CommitPair(jax=revisions[2], xla=revision(XLA, "x0", 4))
    assert printed(candidates(CommitPair(jax=revisions[4], xla=back.xla), back, revisions)) == [
        "j4 x0",
        "j2 x0",
    ]


@given(
    st.lists(st.integers(0, 20), max_size=8),
    st.lists(st.integers(0, 20), max_size=8),
)
def test_every_revision_is_applied_once_in_its_order(jax_hours: list[int], xla_hours: list[int]) -> None:
    jax = [revision(JAX, f"j{i}", hour) for i, hour in enumerate([0, *jax_hours])]
    xla = [revision(XLA, f"x{i}", hour) for i, hour in enumerate([0, *xla_hours])]
    good, bad = CommitPair(jax=jax[0], xla=xla[0]), CommitPair(jax=jax[-1], xla=xla[-1])
    path = [one.pair for one in candidates(good, bad, [*xla, *jax])]
    assert (path[0], path[-1]) == (good, bad)
    applied_ = changes(path, 0, len(path) - 1)
    assert [one for one in applied_ if one.repository == JAX] == jax[1:]
    assert [one for one in applied_ if one.repository == XLA] == xla[1:]
    walked = good
    for one, expected in zip(applied_, path[1:], strict=True):
        walked = applied(walked, one)
        assert walked == expected
