"""How is a value found in the database, or put there when it is new?

Every `ensure_…` looks first, and makes what is missing in one statement (`insert … on conflict … returning id`): two
processes may do it at once, and what is there already is not locked, so they can't wait for each other in a ring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from stepwatch.core import model
from storage import tables as t

Database = sa.Engine
Connection = sa.Connection
Row = sa.RowMapping


@contextmanager
def exclusively(database: Database, *names: object) -> Iterator[Connection]:
    """One transaction that no other process with the same names is in at the same time."""
    with database.begin() as connection:
        connection.execute(
            sa.text("select pg_advisory_xact_lock(hashtext(:name))"),
            {"name": "/".join(str(name) for name in names)},
        )
        yield connection


def upsert(
    connection: Connection, table: sa.Table, keys: Mapping[str, Any], values: Mapping[str, Any] | None = None
) -> int:
    """The id of the row with these keys, made or brought up to these values."""
    known = [table.c[name] == value for name, value in keys.items()]
    known += [table.c[name].is_not_distinct_from(value) for name, value in (values or {}).items()]
    found = connection.execute(sa.select(table.c.id).where(*known)).scalar()
    if found is not None:
        return int(found)
    statement = insert(table).values({**keys, **(values or {})})
    update = values or {next(iter(keys)): statement.excluded[next(iter(keys))]}
    statement = statement.on_conflict_do_update(index_elements=list(keys), set_=dict(update))
    return int(connection.execute(statement.returning(table.c.id)).scalar_one())


def ensure_source(connection: Connection, source: model.Source) -> int:
    """The source's id."""
    return upsert(connection, t.source, {"kind": source.kind.value, "name": source.name})


def ensure_revision(connection: Connection, revision: model.Revision) -> int:
    """The revision's id; its commit time is what was seen last."""
    keys = {"repository": revision.repository, "ref": revision.ref}
    return upsert(connection, t.revision, keys, {"committed_at": revision.committed_at})


def ensure_pair(connection: Connection, pair: model.CommitPair) -> int:
    """The pair's id."""
    keys = {"jax_id": ensure_revision(connection, pair.jax), "xla_id": ensure_revision(connection, pair.xla)}
    return upsert(connection, t.pair, keys)


def ensure_environment(connection: Connection, environment: model.Environment) -> int:
    """The environment's id."""
    values = {
        "pair_id": ensure_pair(connection, environment.pair),
        "image_digest": environment.image_digest,
        "freeze": list(environment.freeze),
        "flags": environment.flags,
        "base": environment.base,
    }
    return upsert(connection, t.environment, {"hash": environment.hash}, values)


def ensure_machine(connection: Connection, machine: model.Machine) -> int:
    """The machine's id."""
    return upsert(connection, t.machine, {"name": machine.name}, {"accelerator": machine.accelerator})


def ensure_series(
    connection: Connection,
    benchmarks: Sequence[model.Benchmark],
    *,
    machine: str,
    protocol: str,
    source: model.Source,
) -> list[int]:
    """The id of each benchmark's series: one look for all that are known, one statement for each that is new."""
    where = {
        "machine_id": machine_id(connection, machine),
        "protocol": protocol,
        "source_id": ensure_source(connection, source),
    }
    query = sa.select(t.series).where(
        *(t.series.c[name] == value for name, value in where.items()),
        t.series.c.benchmark.in_({each.name for each in benchmarks}),
    )
    columns = ("benchmark", "version", "params", "metric", "unit", "better")
    known = {
        model.digest([row[name] for name in (*columns, "judged", "exact")]): int(row["id"])
        for row in connection.execute(query).mappings()
    }
    ids = []
    for each in benchmarks:
        keys = dict(
            zip(
                columns,
                (each.name, each.version, each.params, each.metric, each.unit, each.better.value),
                strict=True,
            )
        )
        values = {"judged": each.judged, "exact": each.exact}
        number = known.get(model.digest([*keys.values(), *values.values()]))
        ids.append(number or upsert(connection, t.series, {**keys, **where}, values))
    return ids


def machine_id(connection: Connection, name: str) -> int:
    """The id of a machine that has been seen (`ensure_machine` makes one)."""
    return int(connection.execute(sa.select(t.machine.c.id).where(t.machine.c.name == name)).scalar_one())


def load_pairs(connection: Connection, pair_ids: Collection[int]) -> dict[int, model.CommitPair]:
    """The pairs with these ids."""
    jax, xla = t.revision.alias("jax"), t.revision.alias("xla")
    rows = connection.execute(
        sa.select(
            t.pair.c.id,
            jax.c.ref.label("jax_ref"),
            jax.c.committed_at.label("jax_at"),
            xla.c.ref.label("xla_ref"),
            xla.c.committed_at.label("xla_at"),
        )
        .select_from(t.pair.join(jax, jax.c.id == t.pair.c.jax_id).join(xla, xla.c.id == t.pair.c.xla_id))
        .where(t.pair.c.id.in_(pair_ids))
    )
    return {
        row.id: model.CommitPair(
            jax=model.Revision(repository=model.JAX, ref=row.jax_ref, committed_at=row.jax_at),
            xla=model.Revision(repository=model.XLA, ref=row.xla_ref, committed_at=row.xla_at),
        )
        for row in rows
    }


def load_pair(connection: Connection, pair_id: int) -> model.CommitPair:
    """The pair with this id."""
    return load_pairs(connection, [pair_id])[pair_id]


def load_series(connection: Connection, series_id: int) -> model.Series:
    """The series with this id."""
    row = (
        connection.execute(
            sa.select(
                t.series,
                t.machine.c.name.label("machine"),
                t.source.c.kind.label("source_kind"),
                t.source.c.name.label("source"),
            )
            .select_from(t.series.join(t.machine).join(t.source))
            .where(t.series.c.id == series_id)
        )
        .mappings()
        .one()
    )
    return model.Series(
        benchmark=model.Benchmark(
            name=row["benchmark"],
            version=row["version"],
            params=row["params"],
            metric=row["metric"],
            unit=row["unit"],
            better=model.Better(row["better"]),
            judged=row["judged"],
            exact=row["exact"],
        ),
        machine=row["machine"],
        protocol=row["protocol"],
        source=model.Source(kind=model.SourceKind(row["source_kind"]), name=row["source"]),
    )


def clean(text: str | None) -> str | None:
    """Postgres takes no NUL in text; a log may hold one."""
    return None if text is None else text.replace("\x00", "\\0")
