"""Does the doctor see what is wrong, and is it silent where nothing is?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from alerts.console import ConsoleTransport
from stepwatch.core import model as m
from stepwatch.core.bisection.candidates import Candidate
from stepwatch.core.rules import Rulebook
from stepwatch.jobs import doctor
from stepwatch.jobs.doctor import GIB, Finding, Grade
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.local import LocalRunner
from stepwatch.runners.protocol import UnreachableError
from storage import bisections, incidents, nights, rows, runs
from storage.engine import connect, migrate
from storage.rows import Database

SOURCE = m.Source(kind=m.SourceKind.RELEASES, name="releases")
NOW = dt.datetime.now(tz=dt.UTC)
LATER = NOW + dt.timedelta(hours=5)


class Nights:
    """Nights of a source that answers, or does not."""

    source = SOURCE

    def __init__(self, *, answers: bool = True) -> None:
        self._answers = answers

    def check(self, _: dt.date) -> str:
        if not self._answers:
            raise UnreachableError("the package index does not answer for jax")
        return "it answers"


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Iterator[Workplace]:
    database = connect(database_url)
    migrate(database)
    nights_here: Any = Nights()
    yield Workplace(
        database=database,
        machine=m.Machine(name="local"),
        nights=nights_here,
        suite=m.Suite(name="core", kind="stepwatch", folder=".", processes=1, time_limit_s=60.0),
        runner=LocalRunner(
            environments=tmp_path / "not" / "there", python=(), requirements=(), lock=tmp_path / "lock"
        ),
        runs=tmp_path,
        rules=Rulebook(),
        policy="explore",
        comb=4,
        control=None,
        control_days=0,
        look_back_days=0,
        keep_images=0,
        pinned=(),
        transports=[ConsoleTransport()],
        say=print,
    )
    database.dispose()


def examine(place: Workplace, *, data: Path, now: dt.datetime | None = None) -> list[Finding]:
    return [
        *doctor.examine(place.runner, place.nights, data=data, now=now),
        *doctor.examine_stored(place, now=now),
    ]


def found(findings: list[Finding]) -> dict[str, Finding]:
    assert len({each.what for each in findings}) == len(findings)
    return {each.what: each for each in findings}


def store(database: Database) -> tuple[int, int]:
    """A run that was opened and an open bisection with a message: their ids."""

    def pair(ref: str) -> m.CommitPair:
        revisions = {each: m.Revision(repository=each, ref=ref, committed_at=NOW) for each in m.REPOSITORIES}
        return m.CommitPair(jax=revisions[m.JAX], xla=revisions[m.XLA])

    benchmark = m.Benchmark(name="a", version="1", metric="t", unit="s", better=m.Better.LOWER)
    with database.begin() as connection:
        rows.ensure_machine(connection, m.Machine(name="local"))
        night = nights.save_night(connection, m.Night(source=SOURCE, label="1", at=NOW, pair=pair("1")))
        run = runs.open_run(
            connection,
            run_key="releases/1/local/core/1",
            machine="local",
            suite="core",
            origin=m.Origin.NIGHTLY,
            night_id=night,
        )
        series = rows.ensure_series(connection, [benchmark], machine="local", protocol="1", source=SOURCE)
        number = bisections.open_bisection(
            connection,
            incident_id=None,
            series_id=series[0],
            path=[Candidate(pair=pair("1")), Candidate(pair=pair("2"))],
            good="1",
            bad="2",
            setup=bisections.Setup(policy="explore"),
        )
        incidents.write(
            connection, kind="bisection", message={"title": "t", "lines": []}, bisection_id=number
        )
    return run.id, number


def test_an_empty_database_in_its_newest_shape_is_fine(place: Workplace, tmp_path: Path) -> None:
    findings = found(examine(place, data=tmp_path, now=LATER))
    fine = {"database", "source releases", "messages to console", "bisections", "runs"}
    assert {what for what in fine if findings[what].grade is not Grade.OK} == set()
    assert set(findings) == fine | {
        "space for data",
        "space for environments",
        "interpreter",
        "load",
        "core",
        "frequency",
    }
    assert all(bool(each.remedy) is (each.grade is not Grade.OK) for each in findings.values())


@pytest.mark.parametrize(
    "damage", ["drop table alembic_version", "update alembic_version set version_num = '0000'"]
)
def test_another_schema_is_an_error_and_nothing_is_read_from_it(
    place: Workplace, tmp_path: Path, damage: str
) -> None:
    with place.database.begin() as connection:
        connection.execute(sa.text(damage))
    findings = found(examine(place, data=tmp_path))
    assert findings["database"].grade is Grade.ERROR
    assert findings["database"].remedy == "stepwatch db migrate"
    assert "runs" not in findings


def test_a_schema_without_its_views_is_an_error(place: Workplace, tmp_path: Path) -> None:
    with place.database.begin() as connection:
        connection.execute(sa.text("drop view reporting.probes"))
    assert found(examine(place, data=tmp_path))["database"].grade is Grade.ERROR


def test_a_database_that_does_not_answer_is_a_finding(place: Workplace, tmp_path: Path) -> None:
    silent = sa.create_engine("postgresql+psycopg2://nobody@127.0.0.1:1/none")
    findings = found(examine(replace(place, database=silent), data=tmp_path))
    assert findings["database"].grade is Grade.ERROR
    assert "does not answer" in findings["database"].sentence
    assert findings["source releases"].grade is Grade.OK


def test_an_index_that_does_not_answer_is_a_finding(place: Workplace, tmp_path: Path) -> None:
    unreachable: Any = Nights(answers=False)
    finding = found(examine(replace(place, nights=unreachable), data=tmp_path))["source releases"]
    assert finding.grade is Grade.ERROR
    assert finding.sentence == "the package index does not answer for jax"


def test_an_interpreter_is_looked_for_by_the_runner(
    place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(examine(place, data=tmp_path))["interpreter"].grade is Grade.ERROR
    monkeypatch.setattr(LocalRunner, "interpreter", lambda _: Path("/usr/bin/python3"))
    finding = found(examine(place, data=tmp_path))["interpreter"]
    assert finding.grade is Grade.OK
    assert "/usr/bin/python3" in finding.sentence


def test_what_has_just_begun_is_left_alone(place: Workplace, tmp_path: Path) -> None:
    store(place.database)
    findings = found(examine(place, data=tmp_path))
    assert {findings[what].grade for what in ("messages to console", "bisections", "runs")} == {Grade.OK}


def test_what_stands_still_for_hours_is_found(place: Workplace, tmp_path: Path) -> None:
    _, number = store(place.database)
    findings = found(examine(place, data=tmp_path, now=LATER))
    assert findings["messages to console"].grade is Grade.ERROR
    assert "it has not been tried" in findings["messages to console"].sentence
    assert findings["bisections"].grade is Grade.WARNING
    assert findings["bisections"].sentence.endswith(f": {number}")
    assert findings["runs"].grade is Grade.WARNING
    assert "releases/1/local/core/1" in findings["runs"].sentence
    assert findings["runs"].remedy.startswith("stepwatch nightly 1")


def test_a_run_may_take_as_long_as_its_suite(place: Workplace, tmp_path: Path) -> None:
    store(place.database)
    patient = replace(place, suite=replace(place.suite, time_limit_s=6 * 3600.0))
    assert found(examine(patient, data=tmp_path, now=LATER))["runs"].grade is Grade.OK


def test_what_has_come_to_its_end_is_no_finding(place: Workplace, tmp_path: Path) -> None:
    run, number = store(place.database)
    with place.database.begin() as connection:
        runs.finish_run(connection, run, outcome=m.Outcome.TIMED_OUT)
        bisections.finish_bisection(connection, number, state="cancelled")
        incidents.mark_sent(connection, 1, "console", thread=None, error=None)
    findings = found(examine(place, data=tmp_path, now=LATER))
    assert {findings[what].grade for what in ("messages to console", "bisections", "runs")} == {Grade.OK}


def test_the_last_error_of_a_delivery_is_said(place: Workplace, tmp_path: Path) -> None:
    store(place.database)
    with place.database.begin() as connection:
        incidents.mark_sent(connection, 1, "console", thread=None, error="channel_not_found")
    finding = found(examine(place, data=tmp_path, now=LATER))["messages to console"]
    assert finding.grade is Grade.ERROR
    assert "channel_not_found" in finding.sentence


def test_a_fresh_probe_keeps_a_bisection_alive(place: Workplace, tmp_path: Path) -> None:
    _, number = store(place.database)
    with place.database.begin() as connection:
        row = bisections.load_bisection(connection, number)
        assert row is not None
        probe = bisections.open_probe(connection, number, row.path[0])
        hours_ago = "update bisection set opened_at = now() - interval '9 hours'"
        connection.execute(sa.text(hours_ago))
    assert found(examine(place, data=tmp_path))["bisections"].grade is Grade.OK
    with place.database.begin() as connection:
        connection.execute(
            sa.text("update probe set started_at = now() - interval '8 hours' where id = :id"), {"id": probe}
        )
    assert found(examine(place, data=tmp_path))["bisections"].grade is Grade.WARNING


def test_without_a_transport_nobody_is_told(place: Workplace, tmp_path: Path) -> None:
    assert found(examine(replace(place, transports=[]), data=tmp_path))["messages"].grade is Grade.WARNING


@pytest.mark.parametrize(
    ("free", "grade"),
    [(5 * GIB, Grade.OK), (5 * GIB - 1, Grade.WARNING), (GIB, Grade.WARNING), (GIB - 1, Grade.ERROR)],
)
def test_free_space(free: int, grade: Grade) -> None:
    assert doctor.judge_space("data", Path("data"), free).grade is grade


@pytest.mark.parametrize(
    ("load", "cores", "grade"),
    [
        (1.0, 2, Grade.OK),
        (1.1, 2, Grade.WARNING),
        (7.0, 8, Grade.OK),
        (0.4, 1, Grade.OK),
        (0.6, 1, Grade.WARNING),
    ],
)
def test_a_core_is_to_be_left_over(load: float, cores: int, grade: Grade) -> None:
    assert doctor.judge_load(load, cores).grade is grade


@pytest.mark.parametrize(
    ("core", "allowed", "taskset", "grade"),
    [
        (None, {0, 1}, True, Grade.OK),
        (1, {0, 1}, True, Grade.OK),
        (7, {0, 1}, True, Grade.WARNING),
        (None, {0}, True, Grade.WARNING),
        (None, {0, 1}, False, Grade.WARNING),
    ],
)
def test_a_benchmark_wants_a_core_of_its_own(
    core: int | None,
    allowed: set[int],
    taskset: bool,
    grade: Grade,
) -> None:
    assert doctor.judge_core(core, allowed, taskset=taskset).grade is grade


@pytest.mark.parametrize(
    ("governor", "grade"), [(None, Grade.OK), ("performance", Grade.OK), ("powersave", Grade.WARNING)]
)
def test_a_core_keeps_its_frequency(governor: str | None, grade: Grade) -> None:
    assert doctor.judge_governor(0, governor).grade is grade
