"""How do figures that were measured elsewhere become a series?

The nights of a log are stored like any others: a value is a run with one measurement, a line that a failed run left
is a run that failed with that line as its reason, and a calendar night without any line is a gap.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from stepwatch.core.logs import LogNight
from stepwatch.core.model import Benchmark, Machine, Measurement, Night, Origin, Outcome, Source, SourceKind
from stepwatch.core.rules import Rulebook
from stepwatch.jobs.detect import detect_in
from storage.nights import save_gaps, save_night
from storage.rows import Connection, Database, ensure_machine, exclusively
from storage.runs import finish_run, known_values, open_run, save_measurements

PROTOCOL = "imported"
MACHINE = "imported"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """How many nights there are of each kind, and which had another value stored already (label, old, new).

    `told` is how many regressions and improvements of any series of the source people were told of just now.
    """

    nights: int
    measured: int
    failed: int
    gaps: int
    told: int
    conflicts: tuple[tuple[str, float, float], ...]


def import_logs(
    database: Database,
    nights: Sequence[LogNight],
    benchmark: Benchmark,
    *,
    source: str,
    machine: str = MACHINE,
    rules: Rulebook,
) -> Imported:
    """Store the nights and detect in them. What is stored already stays: importing twice changes nothing."""
    where = Source(kind=SourceKind.LOGS, name=source)
    conflicts = []
    with exclusively(database, "import", source, machine) as connection:
        ensure_machine(connection, Machine(name=machine, accelerator="unknown"))
        stored = known_values(connection, benchmark=benchmark, machine=machine, source=where)
        for night in nights:
            known = stored.get(night.label)
            if night.gap or known is not None:
                if known is not None and night.value is not None and known != night.value:
                    conflicts.append((night.label, known, night.value))
                continue
            _save(connection, night, benchmark, where, machine)
        gaps = [night for night in nights if night.gap]
        save_gaps(connection, where, [_night(where, night, "no line in the log") for night in gaps])
    found = detect_in(database, machine=machine, source=where, rules=rules)
    return Imported(
        nights=len(nights),
        measured=sum(night.value is not None for night in nights),
        failed=sum(night.failure is not None for night in nights),
        gaps=len(gaps),
        told=found.told,
        conflicts=tuple(conflicts),
    )


def _save(
    connection: Connection, night: LogNight, benchmark: Benchmark, source: Source, machine: str
) -> None:
    night_id = save_night(connection, _night(source, night, None))
    run = open_run(
        connection,
        run_key=f"import/{source.name}/{night.label}/{machine}/{benchmark.name}",
        machine=machine,
        suite=benchmark.name,
        origin=Origin.BACKFILL,
        night_id=night_id,
    )
    ok = night.value is not None
    outcome = Outcome.OK if ok else Outcome.BENCHMARK_FAILED
    measurement = Measurement(
        benchmark=benchmark,
        outcome=outcome,
        reason=night.failure,
        value=night.value,
        samples=(night.value,) if night.value is not None else (),
        process=(0,) if ok else (),
    )
    save_measurements(connection, run.id, [measurement], machine=machine, protocol=PROTOCOL, source=source)
    finish_run(connection, run.id, outcome=outcome, reason=night.failure)


def _night(source: Source, night: LogNight, gap_reason: str | None) -> Night:
    at = dt.datetime.combine(night.date, dt.time(), tzinfo=dt.UTC)
    return Night(source=source, label=night.label, at=at, gap_reason=gap_reason)
