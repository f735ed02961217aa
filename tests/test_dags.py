"""Do the DAG files load, quietly, and with the tasks that the documentation names?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.airflow

# in a process of its own: Airflow reads its configuration once, when it is imported
PROGRAM = """
import json, sys, warnings
from datetime import UTC, datetime
from airflow.dag_processing.dagbag import DagBag
from airflow.utils.deprecation_tools import DeprecatedImportWarning
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("error", DeprecatedImportWarning)
warnings.filterwarnings("error", category=DeprecationWarning, module="nightly|bisection|bisection_tick|delivery|housekeeping|oversight|shadowing|standing|stepwatch")
bag = DagBag(sys.argv[1])
dags = {
    name: {
        "tasks": sorted(task.task_id for task in dag.tasks),
        "params": sorted(dag.params),
        "timetable": type(dag.timetable).__name__,
        "pools": sorted({task.pool for task in dag.tasks}),
    }
    for name, dag in bag.dags.items()
}
if "nightly" in dags and "--plan" in sys.argv:
    from airflow.models.backfill import _get_info_list
    from airflow.serialization.serialized_objects import DagSerialization
    nightly = DagSerialization.from_dict(DagSerialization.to_dict(bag.dags["nightly"]))
    first, last = (datetime(2024, 7, day, tzinfo=UTC) for day in (24, 26))
    infos = _get_info_list(from_date=first, to_date=last, reverse=False, dag=nightly)
    dags["nightly"]["planned"] = [str(info.logical_date.date()) for info in infos]
print(json.dumps({"errors": bag.import_errors, "dags": dags}))
"""


def load(
    folder: Path, tmp_path: Path, *options: str, **settings: str
) -> dict[str, dict[str, dict[str, list[str]]]]:
    environment = {
        **{
            name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "STEPWATCH"))
        },
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL",
        "PYTHONPATH": str(CLONE),
        **settings,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), *options],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, list[str]]]]:
    return load(CLONE / "dags", tmp_path_factory.mktemp("airflow"), "--plan")


def test_every_dag_loads_without_a_deprecated_import(bag):
    assert bag["errors"] == {}
    assert set(bag["dags"]) == {
        "nightly",
        "bisect",
        "bisect_tick",
        "deliver",
        "janitor",
        "oversee",
        "shadow",
        "triage",
    }


def test_a_deprecated_import_would_be_seen(tmp_path):
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "old.py").write_text("from airflow.decorators import dag, task\n", encoding="utf-8")
    assert "deprecated" in str(load(folder, tmp_path)["errors"]).lower()


def test_nightly_measures_in_the_pool_of_each_machine(bag):
    nightly = bag["dags"]["nightly"]
    steps = ["bench", "confirm", "detect", "record", "resolve"]
    assert nightly["tasks"] == sorted([*(f"{step}_local" for step in steps), "deliver"])
    assert "local" in nightly["pools"]
    assert nightly["params"] == ["date", "fresh", "machine", "release", "source", "suite"]


def test_nightly_plans_both_ends_of_a_backfill(bag):
    """As `airflow backfill create --dag-id nightly --from-date 2024-07-24 --to-date 2024-07-26` plans it."""
    assert bag["dags"]["nightly"]["planned"] == ["2024-07-24", "2024-07-25", "2024-07-26"]


def test_the_schema_of_bisect_is_that_of_its_requests(bag):
    from stepwatch.core.requests import KEYS

    assert bag["dags"]["bisect"]["params"] == sorted(KEYS)


def test_each_machine_has_its_own_tasks_and_nothing_runs_by_the_clock_when_that_is_off(tmp_path):
    config = tmp_path / "stepwatch.toml"
    config.write_text('scheduled = false\nmachine = "a"\n[machines.a]\n[machines.b]\n', encoding="utf-8")
    loaded = load(CLONE / "dags", tmp_path, STEPWATCH_CONFIG=str(config))["dags"]
    assert {"bench_a", "bench_b"} <= set(loaded["nightly"]["tasks"])
    assert {dag["timetable"] for dag in loaded.values()} == {"NullTimetable"}


def test_a_mistake_in_the_configuration_is_an_import_error_with_its_sentence(tmp_path):
    config = tmp_path / "stepwatch.toml"
    config.write_text("[thresholds]\nconfirm = 3\n", encoding="utf-8")
    errors = load(CLONE / "dags", tmp_path, STEPWATCH_CONFIG=str(config))["errors"]
    assert len(errors) == 7
    assert all("unknown key thresholds.confirm" in error for error in errors.values())
