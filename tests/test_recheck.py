"""Which night is worth the minutes of a re-measurement?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

from stepwatch.core.model import Better, Evidence, Point, SuspectRange, Verdict
from stepwatch.core.triage import triage

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def suspect(
    values: list[float], spreads: list[float], asked: Sequence[SuspectRange] = ()
) -> SuspectRange | None:
    points = [
        Point(label=str(i), at=START + dt.timedelta(days=i), value=value, spread=spread)
        for i, (value, spread) in enumerate(zip(values, spreads, strict=True))
    ]
    evidence = [
        Evidence(suspect=each, verdict=Verdict.UNKNOWN, ratio=None, old=(), new=(), reason="")
        for each in asked
    ]
    return triage(points, better=Better.LOWER, evidence=evidence).suspect


def test_ten_percent_off_is_measured_again_where_processes_agree():
    assert suspect([1.0, 1.0, 1.12], [0.01, 0.01, 0.01]) == SuspectRange(after="1", through="2")


def test_it_is_not_where_they_disagree_by_as_much():
    assert suspect([1.0, 1.0, 1.12], [0.1, 0.1, 0.1]) is None
    assert suspect([1.0, 1.0, 1.12], [0.01, 0.01, 0.1]) is None


# two series of the demo on a busy machine: the step is the last night, and the levels before it are real ones too
@pytest.mark.parametrize(
    ("values", "spreads"),
    [
        ([0.125, 0.116, 0.0991, 0.103, 0.114, 0.107, 1.3], [0.15, 0.35, 0.23, 0.77, 0.05, 0.14, 0.94]),
        ([3.04, 0.903, 0.417, 0.735, 0.467, 0.28, 3.49], [0.04, 4.03, 6.64, 0.14, 0.1, 0.42, 0.34]),
    ],
)
def test_three_times_off_always_is(values, spreads):
    found = suspect(values, spreads)
    assert found is not None
    assert found.through == "6"


def test_the_jumps_that_late_nights_have_made_are_measured_again():
    # the newest release was run first, the ladder before it after: nothing was ever the newest at the first jump
    asked: list[SuspectRange] = []
    while (found := suspect([0.4, 0.4, 178.0, 0.5, 0.5], [0.01] * 5, asked)) is not None:
        asked.append(found)
    assert SuspectRange(after="1", through="2") in asked
    assert len(asked) == len(set(asked))
