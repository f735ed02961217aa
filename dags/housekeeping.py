"""Every hour: containers that nobody waits for and images that nobody needs are removed from each machine."""

from __future__ import annotations

from airflow.sdk import dag, task
from airflow.sdk.timezone import datetime

from stepwatch import wiring
from stepwatch.jobs import janitor


@dag(
    dag_id="janitor",
    schedule="@hourly" if wiring.scheduled() else None,
    start_date=datetime(2023, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["stepwatch"],
    description=__doc__,
    doc_md=__doc__,
)
def _janitor() -> None:
    @task
    def tidy(machine: str) -> list[str]:
        with wiring.service(machine=machine) as place:
            return janitor.tidy(place)

    for machine in wiring.machines():
        tidy.override(task_id=f"tidy_{machine}", queue=wiring.slot(machine).get("queue", "default"))(machine)


_janitor()
