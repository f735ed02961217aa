"""One run a bisection: open, hours, commits, blame, conclude, deliver.

`airflow dags trigger bisect` takes the oldest alerted incident without a finished bisection; `--conf` names another
one, or a benchmark with its two ends.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param, TriggerRule, chain, dag, task
from stepwatch_operators import BisectionSensor, refusals_fail

from stepwatch import wiring
from stepwatch.jobs import bisect, deliver

WORD = {"type": ["null", "string"], "default": None}


@dag(
    dag_id="bisect",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    default_args={"retries": 2},
    params={
        "incident": Param(None, type=["null", "integer"], description="an alerted incident"),
        "benchmark": Param(**WORD, description="a benchmark, with good and bad, in place of an incident"),
        "good": Param(**WORD, description="the good end: a date, a release, or jax@…+xla@…"),
        "bad": Param(**WORD, description="the bad end"),
        "machine": Param(**WORD, description="default: the incident's, else as configured"),
        "source": Param(**WORD, description="default: the incident's, else as configured"),
        "policy": Param(
            None, enum=[None, "explore", "comb", "exhaustive"], description="default: as configured"
        ),
        "pairing": Param(
            None, enum=[None, "clock", "pinned"], description="which XLA a JAX commit is tried with: clock"
        ),
        "container": Param(
            **WORD, description="the image in which pairs are built: bad (default), good, a date, or sha256:…"
        ),
        "fix": Param(**WORD, description="what is held still: xla=jaxlib==0.4.20"),
        "budget_probes": Param(
            None, type=["null", "integer"], minimum=1, description="how many pairs may be tried"
        ),
        "budget_minutes": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=0,
            description="for how long, in minutes of the machine",
        ),
    },
    tags=["stepwatch"],
    description=__doc__,
    doc_md=__doc__,
)
def _bisect() -> None:
    @task(task_id="open")
    def start(params: dict[str, Any]) -> dict[str, Any]:
        with refusals_fail(), wiring.database() as (settings, database):
            return wiring.start_bisection(settings, database, params, say=print)

    @task(task_id="conclude", trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
    def conclude(bisection: dict[str, Any]) -> int:
        with refusals_fail(), wiring.bisection_service(bisection) as place:
            return len(bisect.conclude(place, bisection["bisection"]))

    @task(task_id="give_up", trigger_rule=TriggerRule.ONE_FAILED)
    def give_up(bisection: dict[str, Any] | None) -> None:
        if bisection is None:  # its request was refused: there is nothing to end
            return
        with wiring.bisection_service(bisection) as place:
            bisect.give_up(
                place, bisection["bisection"], "a task of its run failed; the run's page has the log"
            )

    @task(task_id="deliver")
    def say() -> int:
        with wiring.service() as place:
            return deliver.deliver(place.database, place.transports, place.say).sent

    bisection = start()
    concluded = conclude(bisection)
    phases = {"hours": bisect.search_hours, "commits": bisect.search_commits, "blame": bisect.attribute}
    for machine in wiring.machines():
        sensors = [
            BisectionSensor(task_id=f"{phase}_{machine}", job=job, machine=machine, bisection=bisection)
            for phase, job in phases.items()
        ]
        chain(*sensors, concluded)
    concluded >> [say(), give_up(bisection)]


_bisect()
