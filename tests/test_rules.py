"""Does the last rule that matches count, key by key, and does each value know where it comes from?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

from stepwatch.core.course import TriageSettings
from stepwatch.core.detection import DetectionSettings
from stepwatch.core.model import Better, Direction, Point
from stepwatch.core.rules import Rule, Rulebook
from stepwatch.core.sayings import Telling
from stepwatch.core.triage import triage

GENERAL = TriageSettings(detection=DetectionSettings(min_effect=0.004), confirm=4, suspect_change=0.1)
NAME = "linalg.Cholesky.track_time(edge=512)"
START = dt.datetime(2023, 7, 1, tzinfo=dt.UTC)


def points(values: Sequence[float]) -> list[Point]:
    return [
        Point(label=f"n{i:03d}", at=START + dt.timedelta(days=i), value=value)
        for i, value in enumerate(values)
    ]


def test_without_rules_the_general_settings_hold() -> None:
    book = Rulebook(triage=GENERAL, noise=0.01, origins={"noise": "thresholds.noise"})
    own = book.of(NAME)
    assert (own.triage, own.noise, own.owner) == (GENERAL, 0.01, None)
    said = book.settings(NAME)
    assert said["noise"] == (0.01, "thresholds.noise")
    assert said["min_effect"] == (0.004, "default")


def test_the_last_rule_that_matches_counts_key_by_key() -> None:
    book = Rulebook(
        triage=GENERAL,
        rules=(
            Rule(match="^linalg", says={"min_effect": 0.01, "owner": "@linear", "mute": True}, origin="1"),
            Rule(match=r"edge=512\)", says={"min_effect": 0.02, "mute": False}, origin="2"),
            Rule(match="cholesky", says={"min_effect": 0.5}, origin="3"),
            Rule(match="Cholesky", says={"noise": 0.1, "confirm_results": 7}, origin="4"),
            Rule(match="Cholesky", says={"direction": "regression"}, origin="5"),
        ),
    )
    own = book.of(NAME)
    assert own.triage.detection.min_effect == 0.02
    assert (own.triage.confirm, own.triage.suspect_change) == (7, 0.1)
    assert (own.noise, own.owner) == (0.1, "@linear")
    assert own.triage.told == {Direction.REGRESSION}
    small = book.of("linalg.Cholesky.track_time(edge=5)").triage
    assert (small.detection.min_effect, small.told) == (0.01, frozenset())
    assert book.of("fft.Plane.track_time()").triage == GENERAL
    assert book.settings(NAME)["min_effect"] == (0.02, "2")
    assert book.settings(NAME)["owner"] == ("@linear", "1")


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ({}, [Telling.REGRESSION, Telling.IMPROVEMENT]),
        ({"direction": "regression"}, [Telling.REGRESSION]),
        ({"direction": "improvement"}, [Telling.IMPROVEMENT]),
        ({"mute": True}, []),
        ({"confirm_results": 30}, []),
    ],
)
def test_people_are_told_of_what_a_rule_lets_through(says: dict[str, object], told: list[Telling]) -> None:
    book = Rulebook(rules=(Rule(match="", says=says, origin="1"),))
    heard: list[Telling] = []
    for level in (1.2, 0.9):
        values = [*[1.0, 1.001] * 8, *[level, level + 0.001] * 8]
        night = triage(points(values), better=Better.LOWER, settings=book.of("").triage)
        heard += [saying.kind for saying in night.said]
        assert len(night.detection.steps) == 1, "found in any case"
    assert heard == told


def test_what_nobody_is_told_of_is_not_measured_again() -> None:
    muted = Rulebook(rules=(Rule(match="", says={"mute": True}, origin="1"),))
    values = [*[1.0, 1.001] * 8, 2.0]
    assert triage(points(values), better=Better.LOWER, settings=Rulebook().of("").triage).suspect is not None
    assert triage(points(values), better=Better.LOWER, settings=muted.of("").triage).suspect is None
