"""What does a newcomer see first?

The main job from end to end: a ladder of released JAX versions goes night by night through the DAG `nightly` of a
real Airflow into a real Postgres; the steps are found, told, and searched by the DAGs `bisect_tick` and `bisect`.
Everything is started for the demo and ended with it, also when it is killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID

from alerts.message import text
from stepwatch import wiring
from stepwatch.cli.airflow_client import POLL_S, Airflow, open_airflow
from stepwatch.jobs.report import report
from stepwatch.jobs.workplace import Nights
from stepwatch.runners.protocol import Runner
from stepwatch.settings import Settings
from storage.reading import read
from storage.rows import Database

ENDED = {"success", "failed"}


def play(settings: Settings, display: Progress, *, fresh: bool) -> None:
    """Play the demo.

    Raises:
        AirflowError, StackError, UnreachableError: it could not go on.
    """
    ladder = wiring.releases(settings).ladder
    nights = wiring.nights(settings, settings.source)
    nights.night(ladder[0])  # no index, no nights: said before anything starts
    mine = settings.model_copy(
        update={
            "state": settings.state / "demo",
            "database_url": None,
            "scheduled": False,
        }
    )
    show = display.console.print
    begun = time.monotonic()
    starting = display.add_task("starting Postgres and Airflow", total=None)
    with (
        _installing(wiring.runner(mine, mine.machine, mine.source), nights, ladder, display) as installed,
        wiring.local_stack(mine).running(
            on_event=lambda line: display.update(starting, description=line)
        ) as services,
    ):
        mine = mine.model_copy(update={"database_url": services.database_url})
        with wiring.open_database(mine) as database, open_airflow(services) as airflow:
            airflow.wait_for_dags({"nightly", "bisect_tick", "bisect"})
            airflow.end_leftovers()
            display.remove_task(starting)
            show(
                f"Postgres and Airflow are up after {time.monotonic() - begun:.0f} s ({services.airflow_url})"
            )
            told = _Told(database, show)
            installed()
            _nights(mine, database, airflow, display, told, fresh=fresh)
            _search(database, airflow, display, told)
            _answers(database, show)
            path = report(database, mine.state / "report.html")
        show(f"report: {path}")
    _more(mine.state, show)


@contextmanager
def _installing(
    runner: Runner, nights: Nights, ladder: Sequence[str], display: Progress
) -> Iterator[Callable[[], None]]:
    """Install the ladder while something else is done; what is yielded waits for the end of it."""
    task = display.add_task("installing JAX releases", total=len(ladder))
    stopped = threading.Event()

    def install() -> None:
        for label in ladder:
            if stopped.is_set():
                return
            night = nights.night(label)
            if night is not None and night.pair is not None:
                runner.open(night.pair)  # where that can't be, the night says why
            display.advance(task)
        display.remove_task(task)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(install)
        try:
            yield done.result
        finally:
            stopped.set()
            runner.cancel()


class _Told:
    """Prints the messages that have been written since it looked last."""

    def __init__(self, database: Database, show: Any) -> None:
        self._database = database
        self._show = show
        self._seen = {row["message_id"] for row in self._messages()}

    def look(self) -> None:
        for row in self._messages():
            if row["message_id"] not in self._seen:
                self._seen.add(row["message_id"])
                self._show(f"[incident {row['incident_id']}] {text(row['message'])}")

    def _messages(self) -> list[dict[str, Any]]:
        with self._database.begin() as connection:
            return read(connection, "select * from reporting.messages order by message_id")


def _nights(
    settings: Settings, database: Database, airflow: Airflow, display: Progress, told: _Told, *, fresh: bool
) -> None:
    """Step 1: the ladder, one run of the DAG `nightly` a release, in order."""
    ladder = wiring.releases(settings).ladder
    task = display.add_task("nights", total=len(ladder))
    for number, label in enumerate(ladder, start=1):
        kept = not fresh and _settled(database, label)
        if not kept:
            conf = {"release": label, "fresh": fresh}
            _follow(
                airflow,
                display,
                task,
                "nightly",
                airflow.trigger("nightly", conf),
                f"night {label} ({number} of {len(ladder)})",
            )
        display.console.print(
            f"night {label}: {_night_line(database, label)}{' (kept from before)' if kept else ''}"
        )
        told.look()
        display.advance(task)
    display.remove_task(task)


def _tried(database: Database, run: str) -> str:
    """How far the bisection of a run `bisect__<bisection>` is."""
    query = "select count(*) as tried from reporting.probes where bisection_id = :number"
    with database.begin() as connection:
        return f", {read(connection, query, number=int(run.rpartition('__')[2]))[0]['tried']} pairs tried"


def _search(database: Database, airflow: Airflow, display: Progress, told: _Told) -> None:
    """Step 2: `bisect_tick` once, and every run of `bisect` that it starts."""
    task = display.add_task("looking for incidents that wait for a bisection", total=None)
    _follow(airflow, display, task, "bisect_tick", airflow.trigger("bisect_tick", {}), "bisect_tick")
    while running := airflow.runs("bisect"):
        run = str(running[0]["dag_run_id"])
        _follow(airflow, display, task, "bisect", run, run, more=partial(_tried, database, run))
        told.look()
    told.look()
    display.remove_task(task)


def _follow(
    airflow: Airflow,
    display: Progress,
    task: TaskID,
    dag: str,
    run: str,
    name: str,
    more: Callable[[], str] = str,
) -> None:
    """Wait for a run's end, showing the task that it is at; a failed run is said, and the demo goes on."""
    state, shown = "", ""
    while state not in ENDED:
        state, at = airflow.state(dag, run)
        doing = f"{name}: {at or state}{more()}"
        display.update(task, description=doing)
        if not display.console.is_terminal and doing != shown and at:
            display.console.print(f"  {doing}")  # no bar is drawn in a file
        shown = doing
        time.sleep(POLL_S)
    if state == "failed":
        display.console.print(f"{name}: the run failed; see {airflow.logs}/dag_id={dag}/run_id={run}")


def _settled(database: Database, label: str) -> bool:
    """Whether a night was measured, or is known to be a gap."""
    query = """
        select 1 from reporting.runs where label = :label and outcome = 'ok'
        union all select 1 from reporting.nights where label = :label and gap_reason is not null
    """
    with database.begin() as connection:
        return bool(read(connection, query, label=label))


def _night_line(database: Database, label: str) -> str:
    with database.begin() as connection:
        night = read(connection, "select gap_reason from reporting.nights where label = :label", label=label)
        points = read(
            connection,
            "select count(*) filter (where value is not null) as measured, count(*) as known"
            " from reporting.points where label = :label",
            label=label,
        )
        again = read(
            connection,
            "select verdict, count(*) as count from reporting.evidence where through = :label group by 1 order by 1",
            label=label,
        )
    if night and night[0]["gap_reason"]:
        return f"a gap: {night[0]['gap_reason']}"
    said = f"{points[0]['measured']} of {points[0]['known']} series measured"
    if again:
        said += "; measured again: " + ", ".join(f"{row['count']} {row['verdict']}" for row in again)
    return said


def _answers(database: Database, show: Any) -> None:
    """Step 3: one line for each answer, and for each one that is missing, with the reason."""
    with database.begin() as connection:
        found = read(
            connection,
            """
            select bisections.good, bisections.bad, bisections.state, bisections.reason as failure, culprits.reason
            from reporting.bisections left join reporting.culprits using (bisection_id)
            order by bisection_id, culprits.position
            """,
        )
    show("answers:")
    for row in found:
        answer = row["reason"] or row["failure"] or row["state"]
        show(f"  ({row['good']}, {row['bad']}]: {answer}")
    if not found:
        show("  none: no regression was alerted")
    with database.begin() as connection:
        gaps = read(connection, "select label from reporting.nights where gap_reason is not null order by at")
    if gaps:
        labels = ", ".join(row["label"] for row in gaps)
        show(f"  missing: {labels} could not be measured (why: above), so what changed there has no answer;")
        show(
            "  where a Python is the reason, install one that has wheels beside this one and run with FRESH=1"
        )


def _more(state: Path, show: Any) -> None:
    where = f".venv/bin/stepwatch --state {state}"
    show("look further:")
    show(f"  {where} regressions list")
    show(f"  {where} regressions show 1")
    show(f"  {where} bisect status")
    show(f"  {where} bisect show 1")
