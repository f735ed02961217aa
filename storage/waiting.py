"""Which incidents are to be searched, in what order, and what has searching cost?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import sqlalchemy as sa

from stepwatch.core import model
from storage import tables as t
from storage.rows import Connection

BUILT = [
    model.SourceKind.RELEASES.value,
    model.SourceKind.COMMITS.value,
    model.SourceKind.REGISTRY.value,
]  # of the others nothing can be built
ATTEMPTS = 3  # an incident whose searches failed this often waits for a person


def waiting_incidents(connection: Connection) -> list[int]:
    """Alerted incidents without a finished bisection: regressions first, then the oldest; recovered ones among them.

    Imported series can't be run, what is dismissed or snoozed is left alone, and what failed too often waits for a
    person's own request.
    """
    ended = sa.select(sa.func.count()).where(
        t.bisection.c.incident_id == t.incident.c.id, t.bisection.c.state == "failed"
    )
    done = sa.select(t.bisection.c.id).where(
        t.bisection.c.incident_id == t.incident.c.id, t.bisection.c.state.in_(["finished", "cancelled"])
    )
    heard = sa.select(t.regression.c.id).where(
        t.regression.c.incident_id == t.incident.c.id,
        t.regression.c.gone_at.is_(None),
        t.regression.c.disposition != model.Disposition.DISMISSED.value,
        sa.func.coalesce(t.regression.c.snoozed_until <= sa.func.now(), sa.true()),
    )
    query = (
        sa.select(t.incident.c.id)
        .join(t.source)
        .where(
            t.source.c.kind.in_(BUILT),
            t.incident.c.direction != model.Direction.DRIFT.value,  # no commit did it
            ~done.exists(),
            heard.exists(),
            ended.scalar_subquery() < ATTEMPTS,
        )
        .order_by(
            t.incident.c.direction == model.Direction.IMPROVEMENT.value,
            t.incident.c.opened_at,
            t.incident.c.id,
        )
    )
    return [row.id for row in connection.execute(query)]


def by_priority(connection: Connection, waiting: Sequence[int]) -> list[tuple[int, str]]:
    """(incident, its machine), the most urgent first: standing before recovered ones, regressions before improvements.

    Then by size: the log ratios of all its benchmarks together.
    """
    size = (
        sa.select(sa.func.sum(sa.func.abs(sa.func.ln(t.regression.c.level / t.regression.c.baseline))))
        .where(
            t.regression.c.incident_id == t.incident.c.id,
            t.regression.c.baseline > 0,
            t.regression.c.level > 0,
        )
        .scalar_subquery()
    )
    query = (
        sa.select(t.incident.c.id, t.machine.c.name)
        .join(t.machine)
        .where(t.incident.c.id.in_(waiting))
        .order_by(
            t.incident.c.recovered_at.is_not(None),
            t.incident.c.direction == model.Direction.IMPROVEMENT.value,
            size.desc().nulls_last(),
            t.incident.c.id,
        )
    )
    return [(row.id, row.name) for row in connection.execute(query)]


def machine_minutes(connection: Connection, machine: str, *, hours: float = 24) -> float:
    """How many minutes of a machine the searches have taken whose measurements ended in the last `hours`."""
    began = sa.func.now() - dt.timedelta(hours=hours)
    minutes = 0.0
    for each, tables in (
        (t.probe, t.probe.join(t.candidate)),
        (t.sandwich, t.sandwich),
        (t.published, t.published),
    ):
        query = (
            sa.select(sa.func.coalesce(sa.func.sum(each.c.seconds), 0) / 60)
            .select_from(tables.join(t.bisection).join(t.series).join(t.machine))
            .where(t.machine.c.name == machine, each.c.finished_at > began)
        )
        minutes += float(connection.execute(query).scalar_one())
    return minutes
