"""Every day: what would the thresholds of [shadow] have said of the newest night that the live ones did not?"""

from __future__ import annotations

from airflow.sdk import dag, task
from airflow.sdk.timezone import datetime

from stepwatch import wiring


@dag(
    dag_id="shadow",
    schedule="0 12 * * *" if wiring.scheduled() else None,
    start_date=datetime(2023, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["stepwatch"],
    description=__doc__,
    doc_md=__doc__,
)
def _shadow() -> None:
    @task(task_id="compare")
    def compare() -> int:
        return wiring.try_shadow()

    compare()


_shadow()
