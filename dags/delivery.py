"""Every five minutes: what has been decided but not yet said is sent."""

from __future__ import annotations

from airflow.sdk import dag, task
from airflow.sdk.timezone import datetime

from stepwatch import wiring
from stepwatch.jobs import deliver


@dag(
    dag_id="deliver",
    schedule="*/5 * * * *" if wiring.scheduled() else None,
    start_date=datetime(2023, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["stepwatch"],
    description=__doc__,
    doc_md=__doc__,
)
def _deliver() -> None:
    @task(task_id="deliver")
    def say() -> int:
        with wiring.service() as place:
            return deliver.deliver(place.database, place.transports, place.say).sent

    say()


_deliver()
