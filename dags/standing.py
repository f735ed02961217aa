"""What a person says of a regression or an incident: ack, snooze, assign, dismiss or reopen."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param, dag, task
from airflow.sdk.timezone import datetime
from stepwatch_operators import refusals_fail

from stepwatch import wiring

WORD = {"type": ["null", "string"], "default": None}


@dag(
    dag_id="triage",
    schedule=None,
    start_date=datetime(2023, 1, 1),
    catchup=False,
    params={
        "action": Param(enum=wiring.ACTIONS, default="ack", type="string", description="what is said"),
        "regression": Param(type=["null", "integer"], default=None, description="the regression's number"),
        "incident": Param(
            type=["null", "integer"], default=None, description="in its place: all of an incident"
        ),
        "until": Param(**WORD, description="snooze: the UTC day on which it ends"),
        "to": Param(**WORD, description="assign: whom it is for"),
        "reason": Param(**WORD, description="dismiss: why; else a remark"),
        "by": Param(**WORD, description="who says so; default: Airflow"),
    },
    tags=["stepwatch"],
    description=__doc__,
    doc_md=__doc__,
)
def _triage() -> None:
    @task(task_id="say")
    def say(params: dict[str, Any]) -> list[int]:
        with refusals_fail():
            return wiring.say_of_regressions(params)

    say()


_triage()
