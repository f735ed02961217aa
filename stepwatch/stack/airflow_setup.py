"""How is Airflow configured, which programs is it, and when is it well?

Airflow is only ever started as a program and asked over HTTP; nothing of it is imported.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwatch.stack.folders import Folders, StackError, write_private

LOGIN = "admin"
DATABASE = "airflow"
SERVICES = {
    "api-server": ["api-server"],
    # The api-server reads the tasks' logs from the shared folder: no log server (140 MB) is needed.
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
}

ANSWER_WAIT_S = 2.0
"""Short, because the keeper hears nothing else meanwhile; a question that isn't answered is asked again."""

_FOREIGN = ("AIRFLOW", "_AIRFLOW", "PG", "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # 127.0.0.1 needs no proxy


@dataclass(frozen=True, kw_only=True)
class Airflow:
    """One Airflow: its metadata database, our database, its port and its DAGs."""

    folders: Folders
    metadata_url: str
    database_url: str
    port: int
    dags: Path
    clone: Path
    parallelism: int
    extra: Mapping[str, str]

    @property
    def url(self) -> str:
        """The page."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def password(self) -> str:
        """The password of `admin` on the page."""
        return self.folders.secret("airflow-password")

    def settings(self) -> dict[str, str]:
        """What an `airflow` command needs in its environment to belong to this Airflow."""
        home = self.folders.airflow
        settings = {
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": str(self.parallelism),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_FOLDER": str(self.dags),
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__FERNET_KEY": self.folders.secret("fernet-key", 32) + "=",
            "CORE__HOSTNAME_CALLABLE": "socket.gethostname",  # a look-up of the full name can take seconds
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{LOGIN}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
            "DATABASE__SQL_ALCHEMY_CONN": self.metadata_url,
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self.port),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "API__SECRET_KEY": self.folders.secret("api-secret", 32),
            "API_AUTH__JWT_SECRET": self.folders.secret("jwt-secret", 64),
            # A task may be started before the api-server is up, or while the benchmarks take every core: it waits minutes
            # for an answer before it counts as failed.
            "WORKERS__EXECUTION_API_TIMEOUT": "60",
            "WORKERS__EXECUTION_API_RETRIES": "60",
            "WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "5",
            "LOGGING__COLORED_CONSOLE_LOG": "False",
            # A new or changed file is seen within seconds; an unchanged one is left alone, because reading it again
            # would cost a core a second at a time beside the benchmarks.
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "2",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
            "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "120",
            "CORE__DAGBAG_IMPORT_TIMEOUT": "90",
            "CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "5",
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
        }
        return {
            "AIRFLOW_HOME": str(home),
            **{f"AIRFLOW__{name}": value for name, value in settings.items()},
            "PYTHONPATH": str(self.clone),
            "STEPWATCH_DATABASE_URL": self.database_url,
            **self.extra,
        }

    def environment(self) -> dict[str, str]:
        """The whole environment of the services: the caller's, without what is about another Airflow."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        # SPT_NOENV: without it a process title overwrites our mark in the process's environment.
        own = {"SPT_NOENV": "1", "PYTHONUNBUFFERED": "1"}
        direct = ",".join(filter(None, [kept.get("no_proxy") or kept.get("NO_PROXY"), "127.0.0.1,localhost"]))
        return kept | {"no_proxy": direct, "NO_PROXY": direct} | self.settings() | own

    def prepare(self) -> None:
        """Write the files that the services read."""
        write_private(self.folders.airflow / "passwords.json", json.dumps({LOGIN: self.password}))

    def is_well(self, since: dt.datetime) -> bool:
        """Whether all three answer, by heartbeats of this start and not of the one before.

        The tasks' own interface is only built when it is first asked for, which takes longer (8 s and more) than a
        task waits for its answer: so it is asked first.
        """
        if self._ask("GET", "/execution/health") is None:
            return False
        health = self._ask("GET", "/api/v2/monitor/health")
        return isinstance(health, dict) and all(
            _is_fresh(health.get(name), f"latest_{name}_heartbeat", since)
            for name in ("scheduler", "dag_processor")
        )

    def set_pools(self, pools: Mapping[str, int]) -> None:
        """Give each pool its number of slots."""
        if not pools:
            return
        granted = self._ask("POST", "/auth/token", {"username": LOGIN, "password": self.password})
        token = granted.get("access_token") if isinstance(granted, dict) else None
        for name, slots in pools.items():
            pool = {"name": name, "slots": slots, "description": "stepwatch", "include_deferred": False}
            if self._ask("POST", "/api/v2/pools", pool, token) is None:
                change = {"pool": name, "slots": slots, "include_deferred": False}
                if self._ask("PATCH", f"/api/v2/pools/{name}?update_mask=slots", change, token) is None:
                    raise StackError(f"the pool {name} can't be set; see {self.folders.logs}/api-server.log")

    def _ask(self, method: str, path: str, body: object = None, token: str | None = None) -> Any:
        """A JSON answer; None where there is none or it is a refusal."""
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)  # noqa: S310  # our own http address
        try:
            with _open(request, timeout=ANSWER_WAIT_S) as answer:
                return json.load(answer)
        except (OSError, ValueError, urllib.error.HTTPError):
            return None


def command(arguments: list[str]) -> list[str]:
    """An `airflow` command in our own interpreter (a script's first line breaks on spaces in a path).

    Its imports make millions of objects that stay: looking through them for garbage every 700 objects is a
    quarter of a start.
    """
    program = "import gc, runpy; gc.set_threshold(50_000, 20, 50); runpy.run_module('airflow', None, '__main__', True)"
    return [sys.executable, "-c", program, *arguments]


def version() -> str:
    """The version whose metadata tables are wanted."""
    return importlib.metadata.version("apache-airflow-core")


def _is_fresh(component: Any, heartbeat: str, since: dt.datetime) -> bool:
    if (
        not isinstance(component, dict)
        or component.get("status") != "healthy"
        or not component.get(heartbeat)
    ):
        return False
    return dt.datetime.fromisoformat(component[heartbeat]) >= since
