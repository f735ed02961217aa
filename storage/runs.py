"""What was run, and what did it measure?

A run's key is made before the run is launched. Saving the measurements of a run twice, or by two processes at once,
is the same as saving them once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert

from stepwatch.core import model
from storage import tables as t
from storage.rows import Connection, clean, ensure_environment, ensure_series, machine_id, upsert


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A run as it is stored; `outcome` is None while it has not ended."""

    id: int
    run_key: str
    attempt: int
    outcome: model.Outcome | None
    environment_id: int | None
    night_id: int | None


def open_run(
    connection: Connection,
    *,
    run_key: str,
    machine: str,
    suite: str,
    origin: model.Origin,
    attempt: int = 1,
    night_id: int | None = None,
    recheck_id: int | None = None,
    probe_id: int | None = None,
) -> RunRow:
    """The run with this key, made when it is new; one that was opened before is returned as it stands."""
    values = {
        "run_key": run_key,
        "machine_id": machine_id(connection, machine),
        "suite": suite,
        "origin": origin.value,
        "night_id": night_id,
        "recheck_id": recheck_id,
        "probe_id": probe_id,
        "attempt": attempt,
    }
    connection.execute(insert(t.run).values(values).on_conflict_do_nothing(index_elements=["run_key"]))
    return _run(connection.execute(sa.select(t.run).where(t.run.c.run_key == run_key)).one())


def find_run(connection: Connection, run_key: str) -> RunRow | None:
    """The run with this key."""
    row = connection.execute(sa.select(t.run).where(t.run.c.run_key == run_key)).one_or_none()
    return None if row is None else _run(row)


def last_night_run(connection: Connection, *, night_id: int, machine: str, suite: str) -> RunRow | None:
    """The last attempt of a night's own run (nightly or backfill) on a machine."""
    query = (
        sa.select(t.run)
        .where(
            t.run.c.night_id == night_id,
            t.run.c.machine_id == machine_id(connection, machine),
            t.run.c.suite == suite,
            t.run.c.origin.in_([model.Origin.NIGHTLY.value, model.Origin.BACKFILL.value]),
        )
        .order_by(t.run.c.attempt.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else _run(row)


def attach_environment(
    connection: Connection, run_id: int, environment: model.Environment, notes: Sequence[str] = ()
) -> None:
    """Say in which environment a run is made, and what is to be doubted of that."""
    values = {"environment_id": ensure_environment(connection, environment), "warnings": list(notes)}
    connection.execute(sa.update(t.run).where(t.run.c.id == run_id).values(values))


def attach_machine_state(
    connection: Connection,
    run_id: int,
    fingerprint: Mapping[str, Any],
    conditions: Sequence[Mapping[str, Any]],
) -> None:
    """Say on what a run is made: the machine as it stays (a row of its own, once), and what moved, one a process."""
    machine = connection.execute(sa.select(t.run.c.machine_id).where(t.run.c.id == run_id)).scalar_one()
    keys = {"machine_id": machine, "fingerprint_hash": model.digest(fingerprint)}
    state = upsert(connection, t.machine_state, keys, {"fingerprint": fingerprint}) if fingerprint else None
    values = {"machine_state_id": state, "conditions": list(conditions)}
    connection.execute(sa.update(t.run).where(t.run.c.id == run_id).values(values))


def finish_run(
    connection: Connection,
    run_id: int,
    *,
    outcome: model.Outcome,
    reason: str | None = None,
    log: str | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Store how a run ended; `warnings` come after what is to be doubted of its environment."""
    values = {
        "outcome": outcome.value,
        "reason": clean(reason),
        "log": clean(log),
        "warnings": t.run.c.warnings + sa.cast([clean(warning) for warning in warnings], ARRAY(sa.Text)),
        "finished_at": sa.func.coalesce(t.run.c.finished_at, sa.func.now()),
    }
    connection.execute(sa.update(t.run).where(t.run.c.id == run_id).values(values))


def save_measurements(
    connection: Connection,
    run_id: int,
    measurements: Sequence[model.Measurement],
    *,
    machine: str,
    protocol: str,
    source: model.Source,
) -> int:
    """Store the measurements of a run, replacing what it had for the same series; returns how many."""
    # in one order everywhere, so that two processes that save the same series wait and don't deadlock
    ordered = sorted(
        measurements, key=lambda m: model.digest([m.benchmark.name, m.benchmark.params, m.benchmark.metric])
    )
    benchmarks = [each.benchmark for each in ordered]
    ids = ensure_series(connection, benchmarks, machine=machine, protocol=protocol, source=source)
    rows = [_measurement_row(run_id, number, each) for number, each in zip(ids, ordered, strict=True)]
    save_rows(connection, rows)
    return len(rows)


def save_rows(connection: Connection, rows: Sequence[dict[str, object]]) -> None:
    """Upsert rows of `measurement`."""
    if not rows:
        return
    statement = insert(t.measurement)
    changed = {
        column.name: statement.excluded[column.name] for column in t.measurement.c if not column.primary_key
    }
    statement = statement.on_conflict_do_update(index_elements=["run_id", "series_id"], set_=changed)
    connection.execute(statement, rows)


def _measurement_row(run_id: int, series_id: int, measurement: model.Measurement) -> dict[str, object]:
    return {
        "run_id": run_id,
        "series_id": series_id,
        "outcome": measurement.outcome.value,
        "reason": clean(measurement.reason),
        "value": measurement.value,
        "low": measurement.low,
        "high": measurement.high,
        "spread": measurement.spread,
        "samples": list(measurement.samples),
        "process": list(measurement.process),
        "hashes": measurement.hashes,
        "warnings": [clean(warning) for warning in measurement.warnings],
    }


def known_benchmarks(
    connection: Connection, *, machine: str, protocol: str, source_id: int
) -> list[tuple[int, model.Benchmark]]:
    """(series id, benchmark) of every series of a machine, protocol and source."""
    query = sa.select(t.series).where(
        t.series.c.machine_id == machine_id(connection, machine),
        t.series.c.protocol == protocol,
        t.series.c.source_id == source_id,
    )
    return [
        (
            row.id,
            model.Benchmark(
                name=row.benchmark,
                version=row.version,
                params=row.params,
                metric=row.metric,
                unit=row.unit,
                better=model.Better(row.better),
                judged=row.judged,
                exact=row.exact,
            ),
        )
        for row in connection.execute(query)
    ]


def value_of(connection: Connection, run_key: str, series_id: int) -> float | None:
    """What a run measured for a series."""
    query = (
        sa.select(t.measurement.c.value)
        .join(t.run)
        .where(t.run.c.run_key == run_key, t.measurement.c.series_id == series_id)
    )
    return connection.execute(query).scalar()


def known_values(
    connection: Connection, *, benchmark: model.Benchmark, machine: str, source: model.Source
) -> dict[str, float]:
    """Label -> value of every night that a benchmark has one for."""
    query = (
        sa.select(t.night.c.label, t.measurement.c.value)
        .select_from(t.measurement.join(t.run).join(t.night).join(t.series))
        .join(t.machine, t.machine.c.id == t.series.c.machine_id)
        .join(t.source, t.source.c.id == t.series.c.source_id)
        .where(
            t.series.c.benchmark == benchmark.name,
            t.series.c.version == benchmark.version,
            t.series.c.metric == benchmark.metric,
            t.series.c.unit == benchmark.unit,
            t.machine.c.name == machine,
            t.source.c.kind == source.kind.value,
            t.source.c.name == source.name,
            t.measurement.c.value.is_not(None),
        )
    )
    return {row.label: row.value for row in connection.execute(query)}


def _run(row: sa.Row[tuple[object, ...]]) -> RunRow:
    return RunRow(
        id=row.id,
        run_key=row.run_key,
        attempt=row.attempt,
        outcome=None if row.outcome is None else model.Outcome(row.outcome),
        environment_id=row.environment_id,
        night_id=row.night_id,
    )
