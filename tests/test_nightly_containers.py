"""Does the DAG `nightly` find the known steps in real containers, by a real Airflow, and say why each other night has no result?

Three weeks of nightly images on the tests' own Docker engine and registry (docker_bed.py), with five real releases of JAX.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from bed_nights import Fault, heads, night_of
from docker_bed import Bed
from worlds import ask

from stepwatch import settings as configuration
from stepwatch import wiring
from stepwatch.cli.airflow_client import Airflow, open_airflow
from storage.engine import connect
from storage.rows import Database

pytestmark = [pytest.mark.docker, pytest.mark.services]

GOOD = [dt.date(2024, 2, number) for number in (6, 7, *range(10, 16))]
ODD = [dt.date(2024, 2, number) for number in (19, 20, 21, 24)]
EINSUM = "contractions.EagerEinsum.track_time"
SCATTER, WHILE = "scatter.ScatterAdd.track_time", "control_flow.WhileLoop.track_time"
ONLY = rf"{SCATTER}|{EINSUM}|{WHILE}\(steps=16384\)"
HANGS_S = 40  # longer than any process takes here, also where others use the machine
LIMIT_S = 1200


@dataclass(frozen=True)
class World:
    bed: Bed
    airflow: Airflow
    database: Database

    def wait(self, run: str) -> str:
        """The state in which a run of the DAG ends."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            state, _ = self.airflow.state("nightly", run)
            if state in {"success", "failed"}:
                return state
            time.sleep(0.5)
        raise TimeoutError(f"{run} has not ended")

    def rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return ask(self.database, query, **parameters)

    def containers(self, *more: str) -> list[str]:
        """Which containers of ours there are, running or not."""
        line = ("ps", "--all", "--quiet", "--filter", "label=stepwatch", *more)
        return self.bed.docker(*line).stdout.split()


@pytest.fixture(scope="module")
def world(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """All nights have been run, in their order."""
    folder = tmp_path_factory.mktemp("containers")
    image = f"{bed.registry}/nvidia/{{container}}"
    suite = f'group = "all"\nonly = {json.dumps(ONLY)}\n'
    config = folder / "stepwatch.toml"
    config.write_text(
        f'scheduled = false\nstate = "{folder / "state"}"\ncache = "{folder / "cache"}"\n'
        'machine = "bench"\nsource = "nightlies"\nsuite = "steps"\n'
        f'[machines.bench]\nrunner = "docker"\nengine = "{bed.socket}"\ncontrol_days = 0\n'
        f'[sources.nightlies]\nkind = "registry"\nimage = "{image}:{{flavor}}-{{date}}"\nlook_back_days = 0\n'
        f'earlier_images = [{{through = 2024-02-09, image = "{image}:nightly-{{date}}"}}]\n'
        f"[suites.steps]\n{suite}processes = 2\ntime_limit_s = {HANGS_S}\n"
        f"[suites.patient]\n{suite}processes = 1\ntime_limit_s = 600\n",
        encoding="utf-8",
    )
    for date in (*GOOD, *ODD):
        bed.publish(night_of(date))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPWATCH_CONFIG", str(config))
        settings = configuration.load()
        with wiring.local_stack(settings).running() as services:
            settings = settings.model_copy(update={"database_url": services.database_url})
            with wiring.open_database(settings), open_airflow(services) as airflow:
                database = connect(services.database_url)
                airflow.wait_for_dags({"nightly"})
                here = World(bed, airflow, database)
                runs = [airflow.trigger("nightly", {"date": str(date)}) for date in (*GOOD, *ODD)]
                assert {here.wait(run) for run in runs} == {"success"}
                yield here
                database.dispose()


def test_each_good_night_was_measured_in_its_own_image(world: World) -> None:
    query = (
        "select label, run.outcome, jax.ref, xla.ref as xla, image_digest from run join night on night.id = run.night_id"
        " join environment on environment.id = run.environment_id join pair on pair.id = environment.pair_id"
        " join revision jax on jax.id = pair.jax_id join revision xla on xla.id = pair.xla_id"
        " where run.origin = 'nightly' and run.outcome = 'ok' order by label"
    )
    found = world.rows(query)
    wanted = {date: heads(night_of(date)) for date in GOOD}
    assert [row[:4] for row in found] == [
        (str(date), "ok", wanted[date]["jax"], wanted[date]["xla"]) for date in GOOD
    ]
    assert len({row[4] for row in found}) == len(GOOD)
    counted = "select count(*) from measurement where outcome <> 'ok'"
    assert world.rows(counted) == [(0,)]


def test_each_gap_has_its_reason(world: World) -> None:
    missing, foreign = (world.bed.reference(dt.date(2024, 2, number)) for number in (19, 21))
    query = "select label, gap_reason from reporting.nights where gap_reason is not null order by label"
    assert world.rows(query) == [
        ("2024-02-19", f"not published: {missing} is not in the registry"),
        ("2024-02-21", f"{foreign} was built for linux/arm64 only, and linux/amd64 is asked for"),
    ]


def test_each_failed_night_has_its_reason(world: World) -> None:
    query = "select label, outcome, reason from reporting.runs where outcome <> 'ok' and suite = 'steps' order by 1"
    (broken, hanging) = world.rows(query)
    assert broken[:2] == ("2024-02-20", "benchmark_failed")
    assert "ImportError: libcudart.so.12: cannot open shared object file" in broken[2]
    assert hanging == ("2024-02-24", "timed_out", f"not ended after {HANGS_S} s: no output")


@pytest.mark.parametrize(
    ("benchmark", "direction", "after", "through"),
    [
        (SCATTER, "regression", "2024-02-12", "2024-02-13"),
        (WHILE, "regression", "2024-02-12", "2024-02-13"),
    ],
)
def test_each_known_step_is_found_at_its_night(
    world: World, benchmark: str, direction: str, after: str, through: str
) -> None:
    steps = (
        "select after, through from reporting.steps join reporting.series using (series_id)"
        " where benchmark = :name and judged and kind = 'step'"
    )
    assert (after, through) in world.rows(steps, name=benchmark)
    told = (
        "select direction, after, through, state, remeasured from reporting.regressions"
        " where benchmark = :name and incident_id is not null"
    )
    # the way back of a regression, or a part of it, is told in its own thread
    assert (direction, after, through) in {row[:3] for row in world.rows(told, name=benchmark)}
    evidence = "select evidence.verdict from reporting.evidence join reporting.series using (series_id)"
    where = " where benchmark = :name and after = :after and through = :through"
    assert world.rows(evidence + where, name=benchmark, after=after, through=through) == [("different",)]


def test_the_slower_einsum_of_0_4_25_is_seen_in_what_python_does(world: World) -> None:
    """By a count, which no load can move: its time is only 2.4 times as long."""
    query = (
        "select after, through, level_before < level_after from reporting.steps join reporting.series using (series_id)"
        " where benchmark = :name and metric = 'python_calls_eager'"
    )
    assert ("2024-02-06", "2024-02-07", True) in world.rows(query, name=EINSUM)


def test_each_incident_has_one_head_message_that_was_sent_once(world: World) -> None:
    query = """
        select incident.id, incident.direction, after_night.label as after, through_night.label as through,
               (select count(*) from reporting.messages where incident_id = incident.id and kind = 'head') as heads,
               (select count(*) from reporting.messages join reporting.deliveries using (message_id)
                where incident_id = incident.id and kind = 'head' and sent_at is not null) as sent
        from incident
        join night after_night on after_night.id = after_night_id
        join night through_night on through_night.id = through_night_id
        where incident.direction <> 'failure'
        order by 1
    """
    found = world.rows(query)
    assert [row[4:] for row in found] == [(1, 1)] * len(found)
    assert ("regression", "2024-02-12", "2024-02-13") in {row[1:4] for row in found}


def test_no_container_is_left(world: World) -> None:
    assert world.containers() == []


def test_marking_the_task_failed_removes_its_container(world: World) -> None:
    world.bed.publish(replace(night_of(ODD[-1]), fault=Fault.HANGS))
    run = world.airflow.trigger("nightly", {"date": str(ODD[-1]), "suite": "patient"})
    until = time.monotonic() + 120
    while not world.containers("--filter", "status=running"):
        assert time.monotonic() < until, world.airflow.state("nightly", run)
        time.sleep(0.5)
    time.sleep(3)  # the first, which asks what is in an image, has asked it before
    marked = time.monotonic()
    task = f"dags/nightly/dagRuns/{run}/taskInstances/bench_bench"
    world.airflow._ask("PATCH", task, {"new_state": "failed"})
    while world.containers():
        assert time.monotonic() - marked < 60
        time.sleep(0.5)
    assert world.wait(run) == "failed"
    outcome = "select outcome from run where suite = 'patient'"
    assert world.rows(outcome) == [(None,)], "it stays open, and can go on"


def test_nothing_was_written_where_the_suite_lies() -> None:
    """Containers are root; what they could write beside the benchmarks would be root's."""
    assert not list(Path(configuration.CLONE, "benchmarks").glob("*.part"))
