"""Which night is worth the minutes of a re-measurement?"""

from __future__ import annotations

import datetime as dt

import pytest

from stepwatch.core.model import Better, Point, SuspectRange
from stepwatch.core.triage import triage

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def suspect(values: list[float], spreads: list[float]) -> SuspectRange | None:
    points = [
        Point(label=str(i), at=START + dt.timedelta(days=i), value=value, spread=spread)
        for i, (value, spread) in enumerate(zip(values, spreads, strict=True))
    ]
    return triage(points, better=Better.LOWER).suspect


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
