"""Every hour: open a bisection of each alerted incident without a finished one, and start the DAG `bisect` for it."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import dag, task
from airflow.sdk.timezone import datetime

from stepwatch import wiring


@dag(
    dag_id="bisect_tick",
    schedule="@hourly" if wiring.scheduled() else None,
    start_date=datetime(2023, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 1},
    tags=["stepwatch"],
    description=__doc__,
    doc_md=__doc__,
)
def _bisect_tick() -> None:
    @task(task_id="open_waiting")
    def open_waiting() -> list[dict[str, Any]]:
        with wiring.database() as (settings, database):
            return [
                {"trigger_run_id": f"bisect__{each['bisection']}", "conf": {"incident": each["incident"]}}
                for each in wiring.start_waiting(settings, database, say=print)
            ]

    # the run's id makes it happen once: a bisection that has a run already is not started again
    TriggerDagRunOperator.partial(
        task_id="start", trigger_dag_id="bisect", skip_when_already_exists=True
    ).expand_kwargs(open_waiting())


_bisect_tick()
