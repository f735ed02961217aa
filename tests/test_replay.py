from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pytest

from stepwatch.core.logs import log_points, parse_log
from stepwatch.core.model import Better, Point
from stepwatch.jobs.replay import replay, replay_json

GUIDE = (Path(__file__).parent / "data" / "mlups_2023.log").read_text(encoding="utf-8")
START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def play(text: str, noise: float | None = None) -> dict[str, list[dict[str, object]]]:
    nights = parse_log(text, r"MLUPS: ([\d.]+)", 2023).nights
    return replay_json(replay(log_points(nights), better=Better.HIGHER, unit="MLUPS", noise=noise))


@pytest.mark.parametrize("noise", [None, 0.0005])
def test_the_guides_log_night_by_night(noise: float | None) -> None:
    found = json.loads(json.dumps(play(GUIDE, noise)))
    assert list(found) == ["alerts", "dips", "retracted"]
    assert [(a["after"], a["through"], a["raised"], a["kind"]) for a in found["alerts"]] == [
        ("2023-07-21", "2023-07-25", "2023-07-29", "regression"),
        ("2023-08-24", "2023-08-26", "2023-08-30", "regression"),
    ]
    first, second = found["alerts"]
    assert list(first) == ["after", "through", "raised", "change", "baseline", "kind"]
    assert first["baseline"] == 587.6702557143142  # the median of seven nights, those of the dip left out
    assert first["change"] == pytest.approx(-0.0178, abs=0.0002)
    assert second["baseline"] == pytest.approx(577.29, abs=0.05)
    assert second["change"] == pytest.approx(-0.0702, abs=0.0002)
    (dip,) = found["dips"]
    assert (dip["first"], dip["last"]) == ("2023-07-17", "2023-07-19")
    assert dip["change"] == pytest.approx(-0.03, abs=0.001)
    assert found["retracted"] == []


def test_a_torn_line_and_a_repeated_tail_change_nothing() -> None:
    tail = "\n".join(GUIDE.splitlines()[-15:])
    assert play(f"0899164106\n{GUIDE}{tail}\n") == play(GUIDE)


def series(*levels: tuple[float, int]) -> list[Point]:
    random = np.random.default_rng(0)
    values = [level * float(np.exp(random.normal(0, 0.001))) for level, n in levels for _ in range(n)]
    return [
        Point(label=f"{i:02d}", at=START + dt.timedelta(days=i), value=value)
        for i, value in enumerate(values)
    ]


def test_a_recovery_is_told_with_the_step_back() -> None:
    points = series((10.0, 12), (12.0, 12), (10.0, 12))
    found = replay_json(replay(points, better=Better.LOWER))
    assert [(a["after"], a["through"], a["raised"], a["kind"]) for a in found["alerts"]] == [
        ("11", "12", "16", "regression"),
        ("23", "24", "28", "recovered"),
    ]
    assert found["alerts"][1]["baseline"] == pytest.approx(12, rel=0.001)
    assert (found["dips"], found["retracted"]) == ([], [])


def test_a_step_that_brings_two_back_is_one_alert() -> None:
    points = series((10.0, 12), (11.0, 12), (12.0, 12), (10.0, 12))
    played = replay(points, better=Better.LOWER)
    assert [s.saying.kind for s in played.said] == ["regression", "regression", "recovered", "recovered"]
    assert [a["kind"] for a in replay_json(played)["alerts"]] == ["regression", "regression", "recovered"]


def test_a_drift_is_told_with_the_range_in_which_it_came() -> None:
    slope = series(*((1.002**night, 1) for night in range(40)))
    said = replay_json(replay(slope, better=Better.LOWER))
    (alert,) = said["alerts"]
    assert (alert["kind"], alert["after"], said["retracted"]) == ("drift", "00", [])
    assert 0.05 <= alert["change"] < 0.06


def test_an_empty_history_says_nothing() -> None:
    assert replay_json(replay([], better=Better.LOWER)) == {"alerts": [], "dips": [], "retracted": []}
