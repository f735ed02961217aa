"""Is the pinned old environment measured when it is due, and does it tell the machine from the program?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import URL
from worlds import LADDER, RANK8, WHILE, ScriptedRunner, ask, one_schema, play_ladder, recorder, workplace

from stepwatch.core.model import Better, Point, State
from stepwatch.core.recheck import control_noise
from stepwatch.core.triage import triage
from stepwatch.jobs.control import control
from stepwatch.jobs.detect import detect
from stepwatch.jobs.workplace import Workplace
from storage.rows import Database

START = dt.datetime(2023, 7, 1, tzinfo=dt.UTC)
STEP = [1.0, 1.002, 0.998, 1.001, 0.999, 1.05, 1.052, 1.048, 1.051, 1.05]


def points(values: list[float]) -> list[Point]:
    return [
        Point(label=f"n{i}", at=START + dt.timedelta(days=i), value=value) for i, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("controls", "state"),
    [
        ([("n0", 1.0), ("n7", 1.05)], State.ENVIRONMENT),
        ([("n0", 1.0), ("n5", 1.03)], State.ENVIRONMENT),
        ([("n0", 1.0), ("n7", 1.01)], State.CONFIRMED),
        ([("n0", 1.0), ("n7", 0.95)], State.CONFIRMED),
        ([("n0", 1.0), ("n3", 1.05)], State.CONFIRMED),
        ([("n7", 1.05)], State.CONFIRMED),
        ([], State.CONFIRMED),
    ],
)
def test_a_step_that_the_control_makes_too_is_the_machines(
    controls: list[tuple[str, float]], state: State
) -> None:
    night = triage(points(STEP), better=Better.LOWER, controls=controls)
    (only,) = night.opened
    assert (only.state, len(night.said)) == (state, 0 if state is State.ENVIRONMENT else 1)


def test_five_controls_tell_the_noise() -> None:
    values = [("a", 1.0), ("b", 1.01), ("c", 1.0), ("d", 1.01)]
    assert control_noise(values) is None
    assert control_noise([*values, ("e", 1.0)]) == pytest.approx(0.00558, rel=0.01), "two of five are 1 % off"


class TestJob:
    @pytest.fixture
    def database(self, database_server: URL) -> Iterator[Database]:
        with one_schema(database_server) as opened:
            yield opened

    @pytest.fixture
    def runner(self) -> ScriptedRunner:
        return ScriptedRunner(table={(label, label): {WHILE: 1.0, RANK8: 1.0} for label in LADDER})

    @pytest.fixture
    def place(self, database: Database, tmp_path: Path, runner: ScriptedRunner) -> Workplace:
        return replace(workplace(database, tmp_path, runner), control_days=7)

    def age(self, place: Workplace, days: int) -> None:
        with place.database.begin() as connection:
            aged = "update run set finished_at = finished_at - make_interval(days => %s)"
            connection.exec_driver_sql(aged, (days,))

    def runs(self, place: Workplace) -> list[tuple[object, ...]]:
        return ask(
            place.database,
            "select night.label, environment.pair_id from run join night on night.id = night_id"
            " join environment on environment.id = environment_id where origin = 'control' order by 1",
        )

    def test_it_is_measured_once_in_so_many_days(self, place: Workplace, runner: ScriptedRunner) -> None:
        play_ladder(place, LADDER[:2])
        assert self.runs(place) == [], "the first night was measured just now"
        self.age(place, 8)
        play_ladder(place, LADDER[2:3])
        assert self.runs(place) == [("0.4.33", 1)], "the first night's pair, in the third night's name"
        assert len([pair for pair, name in runner.measured if name.startswith("control")]) == 3
        assert control(place) is False, "it is not due any more"
        assert ask(place.database, "select count(*) from reporting.points where label = '0.4.33'") == [(4,)]
        assert control(replace(place, control_days=0)) is False

    def test_the_configured_night_is_the_control(self, place: Workplace) -> None:
        place = replace(place, control="0.4.31")
        play_ladder(place, LADDER[:2])
        self.age(place, 8)
        assert control(place) is True
        assert self.runs(place) == [("0.4.31", 2)]

    def test_a_control_that_can_not_be_measured_is_said(
        self, place: Workplace, runner: ScriptedRunner
    ) -> None:
        said: list[str] = []
        play_ladder(place, LADDER[:2])
        self.age(place, 8)
        del runner.table["0.4.30", "0.4.30"]
        assert control(replace(place, say=said.append)) is False
        assert said[0].startswith("the control 0.4.30 can't be measured: ")

    def test_a_slower_machine_is_no_regression(self, place: Workplace, runner: ScriptedRunner) -> None:
        """From the third night on everything is 6 % slower, and so is the control."""
        play_ladder(place, LADDER[:2])
        self.age(place, 2)
        for label in LADDER[2:]:
            runner.table[label, label] = {WHILE: 1.06, RANK8: 1.0}
        runner.odd["control"] = {WHILE: 1.06, RANK8: 1.0}
        for number, label in enumerate(LADDER[2:]):
            play_ladder(place, [label])
            self.age(place, 2 if number < 3 else 0)
        assert self.runs(place), "a step was suspected, or the week was over"
        states = ask(place.database, "select benchmark, state, raised from reporting.regressions")
        assert states == [(WHILE, "environment", None)]
        titles = [said["title"] for _, said in recorder(place).said]
        assert titles == ["environment: 1 of 2 series moved on local, not by the program"]

    def test_the_noise_of_many_controls_is_stored_with_its_source(self, place: Workplace) -> None:
        play_ladder(place, LADDER[:1])
        for number in range(5):
            self.age(place, 8)
            with place.database.begin() as connection:
                renamed = "update run set run_key = run_key || %s where origin = 'control'"
                connection.exec_driver_sql(renamed, (f"-{number}",))
            assert control(place) is True
        detect(place)
        assert ask(place.database, "select distinct noise_source from reporting.series where judged") == [
            ("control",)
        ]
