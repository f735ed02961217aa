"""What has a killed keeper left behind, and how is it ended?"""

from __future__ import annotations

import signal
from pathlib import Path

from stepwatch.stack import processes
from stepwatch.stack.folders import Folders
from stepwatch.stack.processes import PROC, Process, find

AIRFLOW_GRACE_S = 4.0
POSTGRES_GRACE_S = 5.0


def sweep(folders: Folders) -> list[Process]:
    """End every process of an earlier start of this state folder; Airflow's first, then Postgres.

    Postgres is told to stop at once (SIGQUIT): it recovers from its log at the next start.
    """

    def others() -> list[Process]:
        server = set(postgres_processes(folders))
        return [process for process in processes.marked(folders.identity) if process not in server]

    ended = processes.end(others, grace_s=AIRFLOW_GRACE_S)
    return ended + processes.end(
        lambda: postgres_processes(folders), first=signal.SIGQUIT, grace_s=POSTGRES_GRACE_S
    )


def postgres_processes(folders: Folders) -> list[Process]:
    """Postgres processes that work in this state folder's data (which is their current folder)."""
    data = folders.postgres / "data"
    if not data.exists():
        return []
    data = data.resolve()
    return [process for entry in PROC.glob("[0-9]*") if (process := _works_in(data, entry))]


def _works_in(data: Path, entry: Path) -> Process | None:
    try:
        program = (entry / "exe").readlink().name
        folder = (entry / "cwd").readlink()
    except OSError:
        return None
    ours = program.split(" ")[0] == "postgres" and folder == data
    return find(int(entry.name)) if ours else None
