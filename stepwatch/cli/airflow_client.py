"""How is a running Airflow asked to do things, and how far it is?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from stepwatch.stack import Services

POLL_S = 1.0
DAGS_LIMIT_S = 120


class AirflowError(Exception):
    """Airflow refused something, or its DAGs can't be imported; the sentence says what."""


@dataclass(frozen=True, kw_only=True)
class Airflow:
    """Airflow's REST interface, and the folder that has its tasks' logs.

    Raises:
        AirflowError: it refuses what is asked.
    """

    client: httpx.Client
    logs: str

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        answer = self.client.request(method, f"/api/v2/{path}", json=body)
        if answer.status_code >= 400:
            raise AirflowError(f"Airflow refused {method} {path}: {answer.text[:300]}")
        return answer.json()

    def wait_for_dags(self, names: set[str]) -> None:
        """Until the DAGs are there; an import error ends the wait."""
        deadline = time.monotonic() + DAGS_LIMIT_S
        while time.monotonic() < deadline:
            known = {dag["dag_id"] for dag in self._ask("GET", "dags")["dags"]}
            if names <= known:
                return
            errors = self._ask("GET", "importErrors")["import_errors"]
            if errors:
                raise AirflowError(
                    f"a DAG can't be imported: {errors[0]['stack_trace'].strip().splitlines()[-1]}"
                )
            time.sleep(POLL_S)
        raise AirflowError(f"Airflow does not show the DAGs {', '.join(sorted(names))}")

    def end_leftovers(self) -> None:
        """Runs that an earlier, killed demo left unfinished are over: what they measured is stored."""
        for run in self._ask("GET", "dags/~/dagRuns?state=running&state=queued")["dag_runs"]:
            self._ask("PATCH", f"dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}", {"state": "failed"})

    def trigger(self, dag: str, conf: Mapping[str, Any]) -> str:
        """Start a run and return its id."""
        run = self._ask("POST", f"dags/{dag}/dagRuns", {"conf": dict(conf), "logical_date": None})
        return str(run["dag_run_id"])

    def state(self, dag: str, run: str) -> tuple[str, str]:
        """The run's state, and the task that it is at."""
        found = self._ask("GET", f"dags/{dag}/dagRuns/{run}")
        tasks = self._ask("GET", f"dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        active = [each["task_id"] for each in tasks if each["state"] in {"running", "up_for_reschedule"}]
        return str(found["state"]), ", ".join(active)

    def runs(self, dag: str) -> list[Mapping[str, Any]]:
        """All runs of a DAG that are not over yet."""
        return list(self._ask("GET", f"dags/{dag}/dagRuns?state=running&state=queued")["dag_runs"])


@contextlib.contextmanager
def open_airflow(services: Services) -> Iterator[Airflow]:
    """A client that is logged in."""
    with httpx.Client(base_url=services.airflow_url, timeout=60, trust_env=False) as client:
        answer = client.post("/auth/token", json={"username": services.login, "password": services.password})
        client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        yield Airflow(client=client, logs=f"{services.environment['AIRFLOW_HOME']}/logs")
