"""One run a night: resolve, bench, record, detect, confirm, deliver; a backfill is the same run for an old date."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import CronDataIntervalTimetable, Param, TriggerRule, dag, task
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.timezone import datetime
from stepwatch_operators import BenchmarkOperator, refusals_fail

from stepwatch import wiring
from stepwatch.jobs import confirm, deliver, detect, record, resolve
from stepwatch.jobs.nightly import measure_night

ORIGIN = "{{ 'backfill' if dag_run.run_type == 'backfill' else 'nightly' }}"
WORD = {"type": ["null", "string"], "default": None}


@dag(
    dag_id="nightly",
    # a data interval, and not a bare cron: so a backfill plans both its ends, and a run's logical date is its date
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC") if wiring.scheduled() else None,
    start_date=datetime(2023, 1, 1),
    catchup=False,
    max_active_runs=1,
    render_template_as_native_obj=True,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=30)},
    params={
        "date": Param(**WORD, description="the UTC day of the night; default: the run's own"),
        "release": Param(**WORD, description="a release in place of a date"),
        "machine": Param(**WORD, description="one machine; default: all"),
        "source": Param(**WORD, description="default: as configured"),
        "suite": Param(**WORD, description="default: as configured"),
        "fresh": Param(default=False, type="boolean", description="measure again what has been measured"),
    },
    tags=["stepwatch"],
    description=__doc__,
    doc_md=__doc__,
)
def _nightly() -> None:
    @task(task_id="resolve")
    def find_night(machine: str, params: dict[str, Any], logical_date: Any = None) -> str:
        where = {"machine": machine, "source": params["source"], "suite": params["suite"]}
        with refusals_fail(), wiring.service(**where) as place:
            try:
                return resolve.resolve(place, resolve.asked_label(params, logical_date)).label
            except resolve.NoNightError as nothing:
                raise AirflowSkipException(str(nothing)) from None

    @task(task_id="record")
    def save(machine: str, run_key: str | None, params: dict[str, Any]) -> int:
        with wiring.service(machine=machine, source=params["source"], suite=params["suite"]) as place:
            return record.record(place, run_key) if run_key else 0

    @task(task_id="detect")
    def find_steps(machine: str, params: dict[str, Any]) -> int:
        with wiring.service(machine=machine, source=params["source"], suite=params["suite"]) as place:
            return detect.detect(place).suspects

    @task(task_id="deliver", trigger_rule=TriggerRule.NONE_FAILED)
    def say() -> int:
        with wiring.service() as place:
            return deliver.deliver(place.database, place.transports, place.say).sent

    said = say()
    for machine in wiring.machines():
        label = find_night.override(task_id=f"resolve_{machine}")(machine)
        measured = BenchmarkOperator(
            task_id=f"bench_{machine}",
            job=measure_night,
            machine=machine,
            arguments={"label": label, "fresh": "{{ params.fresh }}", "origin": ORIGIN},
        )
        kept = save.override(task_id=f"record_{machine}")(machine, measured.output)
        suspects = find_steps.override(task_id=f"detect_{machine}")(machine)
        confirmed = BenchmarkOperator(task_id=f"confirm_{machine}", job=confirm.confirm, machine=machine)
        label >> measured >> kept >> suspects >> confirmed >> said


_nightly()
