"""Every hour: is there something odd about the detector itself? If so it is told."""

from __future__ import annotations

from airflow.sdk import dag, task
from airflow.sdk.timezone import datetime

from stepwatch import wiring
from stepwatch.jobs import oversee


@dag(
    dag_id="oversee",
    schedule="@hourly" if wiring.scheduled() else None,
    start_date=datetime(2023, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["stepwatch"],
    description=__doc__,
    doc_md=__doc__,
)
def _oversee() -> None:
    @task(task_id="look")
    def look() -> list[str]:
        with wiring.database() as (_, database):
            return oversee.oversee(database)

    look()


_oversee()
