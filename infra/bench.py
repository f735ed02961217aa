"""How quick is stepwatch itself, beside a named peer in the same run?

Three rows: ingest beside a plain COPY of the same rows, detection beside `asv.step_detect`, and what Airflow adds to
a task. Run by `make bench`; the machine's load moves every figure, the ratios less.
"""

from __future__ import annotations

import io
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from asv.step_detect import detect_steps
from rich.console import Console
from rich.table import Table

from stepwatch import settings as configuration
from stepwatch import wiring
from stepwatch.cli.airflow_client import POLL_S, open_airflow
from stepwatch.core.detection import detect
from stepwatch.core.model import Benchmark, Better, Machine, Measurement, Origin, Outcome, Source, SourceKind
from stepwatch.stack import embedded_postgres
from storage.engine import connect, migrate
from storage.rows import Database, ensure_machine
from storage.runs import open_run, save_measurements

RUNS = 40
SERIES = 50
LENGTHS = (50, 365)
ROUNDS = 5


def main() -> None:
    """Measure and print the table."""
    table = Table("what", "stepwatch", "peer", "ratio", box=None)
    with tempfile.TemporaryDirectory() as folder:
        with embedded_postgres(Path(folder) / "ingest") as url:
            database = connect(url)
            migrate(database)
            ours, copy = _ingest(database)
            database.dispose()
        table.add_row(
            "ingest, rows/s", f"{ours:,.0f}", f"{copy:,.0f} (COPY, no keys looked up)", f"{ours / copy:.3f}"
        )
        for length in LENGTHS:
            mine, asv = _detection(length)
            table.add_row(
                f"detection, {length} nights, ms a series",
                f"{mine:.1f}",
                f"{asv:.1f} (asv.step_detect)",
                f"{mine / asv:.2f}",
            )
        overhead, tasks = _airflow(Path(folder) / "airflow")
        table.add_row(f"Airflow, s a task ({tasks} tasks)", f"{overhead:.2f}", "", "")
    Console(width=110).print(table)


def _ingest(database: Database) -> tuple[float, float]:
    """Rows a second of our upsert (every key looked up) and of a COPY into a table without any constraint."""
    source = Source(kind=SourceKind.LOGS, name="bench")
    with database.begin() as connection:
        ensure_machine(connection, Machine(name="bench"))
    begun = time.perf_counter()
    for number in range(RUNS):
        with database.begin() as connection:
            run = open_run(
                connection, run_key=f"bench/{number}", machine="bench", suite="bench", origin=Origin.CANARY
            )
            rows = [_measurement(series, number) for series in range(SERIES)]
            save_measurements(connection, run.id, rows, machine="bench", protocol="1", source=source)
    ours = RUNS * SERIES / (time.perf_counter() - begun)
    raw = database.raw_connection()
    with raw.cursor() as cursor:
        cursor.execute("create temporary table plain as select * from measurement")
        text = io.StringIO()
        cursor.copy_expert("copy plain to stdout", text)
        begun = time.perf_counter()
        text.seek(0)
        cursor.copy_expert("copy plain from stdin", text)
        raw.commit()
        copy = RUNS * SERIES / (time.perf_counter() - begun)
    raw.close()
    return ours, copy


def _measurement(series: int, run: int) -> Measurement:
    samples = tuple(1.0 + 0.01 * ((series * 7 + run * 3 + repeat) % 13) for repeat in range(15))
    return Measurement(
        benchmark=Benchmark(
            name=f"bench.Series{series}", version="1", metric="cpu_time", unit="s", better=Better.LOWER
        ),
        outcome=Outcome.OK,
        value=min(samples),
        low=min(samples),
        high=max(samples),
        samples=samples,
        process=tuple(repeat // 5 for repeat in range(15)),
    )


def _detection(length: int) -> tuple[float, float]:
    """Milliseconds a series of both detectors, the best of some rounds, the two alternately."""
    random = np.random.default_rng(length)
    values = np.exp(
        random.normal(0, 0.005, length) + np.repeat([0.0, 0.05], [length // 2, length - length // 2])
    )
    weights = [1.0] * length
    pairs = [
        (_ms(lambda: detect(values)), _ms(lambda: detect_steps(list(values), weights))) for _ in range(ROUNDS)
    ]
    return min(ours for ours, _ in pairs), min(asv for _, asv in pairs)


def _ms(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begun)


def _airflow(state: Path) -> tuple[float, int]:
    """Seconds that a run of the one-task DAG `deliver` takes, which itself has nothing to do."""
    settings = configuration.load().model_copy(
        update={"state": state, "scheduled": False, "database_url": None}
    )
    with wiring.local_stack(settings).running() as services:
        settings = settings.model_copy(update={"database_url": services.database_url})
        with wiring.open_database(settings), open_airflow(services) as airflow:
            airflow.wait_for_dags({"deliver"})
            times = []
            for _ in range(ROUNDS + 1):
                begun = time.perf_counter()
                run = airflow.trigger("deliver", {})
                while airflow.state("deliver", run)[0] not in {"success", "failed"}:
                    time.sleep(POLL_S / 10)
                times.append(time.perf_counter() - begun)
    return statistics.median(times[1:]), ROUNDS


if __name__ == "__main__":
    main()
