"""The real services: Airflow runs two real nights, and carries `dags trigger bisect` and its REST twin to their end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stepwatch import settings as configuration
from stepwatch import wiring
from stepwatch.cli.airflow_client import Airflow, open_airflow
from stepwatch.stack import Services
from storage.engine import connect
from storage.reading import bisection, bisections, read, regressions
from storage.rows import Database

CLONE = Path(__file__).resolve().parent.parent
BENCHMARK = "reductions.RankEight.track_time(edge=4)"
LIMIT_S = 900
pytestmark = [pytest.mark.services, pytest.mark.install]


@dataclass(frozen=True)
class World:
    services: Services
    airflow: Airflow
    database: Database

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """An `airflow` command as a person types it."""
        program = Path(sys.executable).with_name("airflow")
        return subprocess.run(
            [str(program), *words],
            env={**os.environ, **self.services.environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def wait(self, dag: str, run: str) -> str:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            state, _ = self.airflow.state(dag, run)
            if state in {"success", "failed"}:
                return state
            time.sleep(0.5)
        raise TimeoutError(f"{dag} {run} has not ended")

    def rows(self, query: str) -> list[dict[str, object]]:
        with self.database.begin() as connection:
            return read(connection, query)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("services")
    config = folder / "stepwatch.toml"
    config.write_text(
        f'scheduled = false\nstate = "{folder / "state"}"\n'
        f'[sources.releases]\nladder = ["0.10.1", "0.10.2"]\n[suites.core]\nonly = "RankEight"\n',
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPWATCH_CONFIG", str(config))
        settings = configuration.load()
        with wiring.local_stack(settings).running() as services:
            settings = settings.model_copy(update={"database_url": services.database_url})
            with wiring.open_database(settings), open_airflow(services) as airflow:
                database = connect(services.database_url)
                airflow.wait_for_dags({"nightly", "bisect", "bisect_tick", "deliver"})
                for release in ("0.10.1", "0.10.2"):
                    here = World(services, airflow, database)
                    assert here.wait("nightly", airflow.trigger("nightly", {"release": release})) == "success"
                yield here
                database.dispose()


def test_no_dag_has_an_import_error(world):
    listed = world.command("dags", "list-import-errors", "--output", "json")
    assert json.loads(listed.stdout.strip().splitlines()[-1]) == []


def test_the_nights_are_stored_and_their_step_is_measured_again_and_alerted(world):
    with world.database.begin() as connection:
        found = [row for row in regressions(connection) if row["raised"]]
    assert {(row["after"], row["through"]) for row in found} == {("0.10.1", "0.10.2")}
    assert all(row["remeasured"] for row in found)
    assert {row["sent"] for row in world.rows("select sent_at is not null as sent from delivery")} == {True}


def test_the_command_line_trigger_ends_with_the_culprit(world):
    conf = {"benchmark": BENCHMARK, "good": "0.10.1", "bad": "0.10.2"}
    triggered = world.command("dags", "trigger", "bisect", "--conf", json.dumps(conf), "--run-id", "by_hand")
    assert triggered.returncode == 0, triggered.stderr
    assert world.wait("bisect", "by_hand") == "success"
    with world.database.begin() as connection:
        number = next(row["bisection_id"] for row in bisections(connection) if row["incident_id"] is None)
        found = bisection(connection, number)
    assert [(each["kind"], each["repository"], each["commit"]) for each in found["culprits"]] == [
        ("commit", "xla", "0.10.2")
    ]
    assert "jax 0.10.2 with jaxlib 0.10.1 is fast" in found["culprits"][0]["reason"]


def test_the_tick_starts_a_bisection_once_and_says_what_it_found(world):
    assert world.wait("bisect_tick", world.airflow.trigger("bisect_tick", {})) == "success"
    while running := world.airflow.runs("bisect"):
        assert world.wait("bisect", str(running[0]["dag_run_id"])) == "success"
    assert world.wait("bisect_tick", world.airflow.trigger("bisect_tick", {})) == "success"
    with world.database.begin() as connection:
        assert len([row for row in bisections(connection) if row["incident_id"] is not None]) == 1
    said = world.rows("select kind from reporting.messages where incident_id is not null order by message_id")
    assert [row["kind"] for row in said] == ["head", "bisection 2"]


@pytest.mark.parametrize(
    ("conf", "sentence"),
    [
        ({"bogus": 1}, "unknown key bogus"),
        ({"incident": 1, "good": "0.10.1"}, "incident goes without benchmark, good and bad"),
        (
            {"benchmark": "reductions.RankEight.track_time", "good": "0.10.1", "bad": "0.10.2"},
            "several series",
        ),
        ({}, "no alerted incident waits for a bisection"),
    ],
)
def test_the_first_task_refuses_in_one_sentence(world, conf, sentence):
    run = world.airflow.trigger("bisect", conf)
    assert world.wait("bisect", run) == "failed"
    log = (
        Path(world.services.environment["AIRFLOW_HOME"])
        / "logs/dag_id=bisect"
        / f"run_id={run}"
        / "task_id=open"
    )
    text = "".join(file.read_text(encoding="utf-8") for file in log.glob("*.log"))
    assert sentence in text
