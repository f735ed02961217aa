"""What do people and reports read? Only the views of the schema `reporting`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import OperationalError

from storage.engine import DatabaseUnreachableError
from storage.rows import Connection, Database
from storage.views import VIEWS

Rows = list[dict[str, Any]]


def read(connection: Connection, query: str, **parameters: Any) -> Rows:
    """The rows of a query on the views."""
    return [dict(row) for row in connection.execute(sa.text(query), parameters).mappings()]


def benchmarks(connection: Connection) -> Rows:
    """Every benchmark with its parameters and a judged metric, and the machines that measured it."""
    return read(
        connection,
        """
        select benchmark, params, metric, unit, better, array_agg(distinct machine order by machine) as machines
        from reporting.series where judged group by benchmark, params, metric, unit, better
        order by benchmark, params, metric
        """,
    )


def regressions(connection: Connection) -> Rows:
    """All regressions and improvements that stand, in the order of their nights."""
    return read(
        connection,
        """
        select regressions.* from reporting.regressions
        join reporting.nights on nights.source = regressions.source and nights.label = regressions.through
        order by nights.at, regressions.regression_id
        """,
    )


def regression(connection: Connection, regression_id: int) -> dict[str, Any] | None:
    """One regression with its points, its evidence and its culprits."""
    found = read(
        connection, "select * from reporting.regressions where regression_id = :id", id=regression_id
    )
    if not found:
        return None
    row = found[0]
    row["points"] = read(
        connection,
        "select label, at, outcome, coalesce(reason, gap_reason) as reason, value, low, high, warnings"
        " from reporting.series_nights where series_id = :id order by at, label",
        id=row["series_id"],
    )
    row["evidence"] = read(
        connection,
        "select * from reporting.evidence where series_id = :id order by decided_at",
        id=row["series_id"],
    )
    row["remarks"] = read(
        connection,
        "select * from reporting.remarks where regression_id = :id order by remark_id",
        id=regression_id,
    )
    row["culprits"] = read(
        connection,
        "select * from reporting.culprits where incident_id = :id order by bisection_id, position",
        id=row["incident_id"],
    )
    return row


def bisections(connection: Connection) -> Rows:
    """All bisections, the oldest first."""
    return read(connection, "select * from reporting.bisections order by bisection_id")


def bisection(connection: Connection, bisection_id: int) -> dict[str, Any] | None:
    """One bisection with its culprits and its probes in the order of the path."""
    found = read(connection, "select * from reporting.bisections where bisection_id = :id", id=bisection_id)
    if not found:
        return None
    row = found[0]
    return {
        "bisection": row["bisection_id"],
        "state": row["state"],
        "incident": row["incident_id"],
        "benchmark": row["benchmark"],
        "params": row["params"],
        "good": row["good"],
        "bad": row["bad"],
        "culprits": read(
            connection,
            "select kind, repository, commit, after, through, partners, change, low, high, baseline, reason, author,"
            " committed_at, subject, url, old, new from reporting.culprits where bisection_id = :id order by position",
            id=bisection_id,
        ),
        "probes": read(
            connection,
            "select jax, xla, at, hour, outcome, value, repeats, reason, log from reporting.probes"
            " where bisection_id = :id order by position nulls last, probe_id",
            id=bisection_id,
        ),
    }


@contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """A connection whose queries all see the same moment."""
    with database.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        yield connection


def coverage(connection: Connection) -> Rows:
    """For each source, in the order of their names: how many nights, how many measured, how many gaps."""
    return read(
        connection,
        """
        select nights.source, nights.source_kind, count(*) as nights,
               count(*) filter (where exists (
                   select 1 from reporting.points
                   where points.night_id = nights.night_id and points.outcome = 'ok')) as measured,
               count(nights.gap_reason) as gaps,
               (array_agg(nights.label order by nights.sequence))[1] as first,
               (array_agg(nights.label order by nights.sequence desc))[1] as last
        from reporting.nights group by 1, 2 order by 1, 2
        """,
    )


def gaps(connection: Connection) -> Rows:
    """The nights that could not be measured at all, each with its reason, in order."""
    return read(
        connection,
        "select source, source_kind, label, at, gap_reason as reason from reporting.nights"
        " where gap_reason is not null order by source, sequence",
    )


def failures(connection: Connection) -> Rows:
    """What failed in nights that are no gap, in order: whole runs (`benchmark` is null) and single benchmarks.

    A night that was tried again with success is not among them.
    """
    return read(
        connection,
        """
        with last as (
            select distinct on (source, label, machine, suite) * from reporting.runs
            where origin in ('nightly', 'backfill') and outcome is not null and gap_reason is null
            order by source, label, machine, suite, (outcome = 'ok') desc, attempt desc
        )
        select source, label, at, machine, suite, null as benchmark, null as params, outcome, reason
        from last where outcome <> 'ok'
        union all
        select distinct last.source, last.label, last.at, last.machine, last.suite, series.benchmark,
               series.params, points.outcome, points.reason
        from reporting.points
        join reporting.series using (series_id)
        join last using (run_key)
        where last.outcome = 'ok' and points.outcome <> 'ok'
        order by source, at, label, machine, suite, benchmark, params
        """,
    )


def incidents(connection: Connection) -> Rows:
    """Every incident, the newest range first: its `regressions`, `messages` and `bisections`."""
    found = read(
        connection,
        """
        select incidents.* from reporting.incidents
        join reporting.nights using (source, source_kind)
        where nights.label = incidents.through
        order by nights.at desc, incident_id desc
        """,
    )
    for row in found:
        row["regressions"] = _regressions_of(connection, row["incident_id"])
        row["messages"] = read(
            connection,
            "select kind, message, written_at from reporting.messages where incident_id = :id order by message_id",
            id=row["incident_id"],
        )
        row["bisections"] = searches(connection, row["incident_id"])
    return found


def _regressions_of(connection: Connection, incident_id: int) -> Rows:
    """The regressions of an incident, the largest first, each with the `evidence` about its boundary."""
    found = read(
        connection,
        "select * from reporting.regressions where incident_id = :id"
        " order by size desc nulls first, regression_id",
        id=incident_id,
    )
    for row in found:
        row["evidence"] = read(
            connection,
            "select * from reporting.evidence where series_id = :series and after_at < :through"
            " and :after < through_at order by decided_at nulls last",
            series=row["series_id"],
            after=row["after_at"],
            through=row["through_at"],
        )
    return found


def searches(connection: Connection, incident_id: int | None) -> Rows:
    """The bisections of an incident (None: those asked for by hand) with their `culprits` and `probes`."""
    found = read(
        connection,
        "select * from reporting.bisections where incident_id is not distinct from :id order by bisection_id",
        id=incident_id,
    )
    for row in found:
        row["culprits"] = read(
            connection,
            "select * from reporting.culprits where bisection_id = :id order by position",
            id=row["bisection_id"],
        )
        row["tried"] = read(
            connection,
            "select * from reporting.probes where bisection_id = :id order by position nulls last, probe_id",
            id=row["bisection_id"],
        )
    return found


def judged_series(connection: Connection) -> Rows:
    """The series in which steps are looked for, by benchmark: each with its `nights`, `steps` and `regressions`."""
    found = read(
        connection,
        "select * from reporting.series where judged order by source, machine, benchmark, params, series_id",
    )
    for row in found:
        for key, query in (
            ("nights", "select * from reporting.series_nights where series_id = :id order by at, label"),
            ("steps", "select * from reporting.steps where series_id = :id order by through_at, through"),
            ("regressions", "select * from reporting.regressions where series_id = :id order by through_at"),
        ):
            row[key] = read(connection, query, id=row["series_id"])
    return found


def schema(database: Database) -> tuple[str | None, str]:
    """The schema's version in the database (None: there is none, or its views are missing) and the newest one.

    Raises:
        DatabaseUnreachableError: the database does not answer.
    """
    script = ScriptDirectory(str(Path(__file__).parent / "migrations"))
    newest = str(script.get_current_head())
    try:
        with database.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
            query = "select table_name from information_schema.views where table_schema = 'reporting'"
            views = {row["table_name"] for row in read(connection, query)}
    except OperationalError as error:
        raise DatabaseUnreachableError(str(error.orig).strip().splitlines()[0]) from None
    return (found if views >= set(VIEWS) else None), newest


def unsent(connection: Connection, transport: str, *, before: dt.datetime) -> Rows:
    """The messages written before a time that a transport has not carried, oldest first."""
    return read(
        connection,
        """
        select messages.message_id, messages.incident_id, messages.written_at, deliveries.attempts,
               deliveries.error
        from reporting.messages
        left join reporting.deliveries
          on deliveries.message_id = messages.message_id and deliveries.transport = :transport
        where deliveries.sent_at is null and messages.written_at < :before
        order by messages.message_id
        """,
        transport=transport,
        before=before,
    )


def still_bisections(connection: Connection, *, since: dt.datetime) -> Rows:
    """The open bisections in which nothing has happened since a time, oldest first."""
    return read(
        connection,
        """
        select bisections.* from reporting.bisections
        where state = 'open' and opened_at < :since and not exists (
            select 1 from reporting.probes
            where probes.bisection_id = bisections.bisection_id
              and greatest(probes.started_at, probes.finished_at) >= :since)
        order by bisection_id
        """,
        since=since,
    )


def unended_runs(connection: Connection, *, before: dt.datetime) -> Rows:
    """The runs that were opened before a time and have no outcome, oldest first."""
    return read(
        connection,
        "select * from reporting.runs where outcome is null and created_at < :before order by run_id",
        before=before,
    )
