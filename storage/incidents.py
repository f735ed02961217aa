"""What is one alarm about, and what has been said of it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from stepwatch.core import model
from storage import tables as t
from storage.rows import Connection, machine_id
from storage.steps import source_id


@dataclass(frozen=True, kw_only=True)
class OutboxRow:
    """One message and where it stands with one transport; `thread` is the reference of its incident's head."""

    id: int
    incident_id: int | None
    kind: str
    message: dict[str, Any]
    thread: str | None


def overlapping_incident(
    connection: Connection,
    *,
    machine: str,
    source: model.Source,
    direction: model.Direction,
    order: Sequence[int],
    after_id: int,
    through_id: int,
) -> int | None:
    """The incident whose range has a common part with this one; its range becomes that common part.

    `order` lists the ids of the source's nights in order.
    """
    place = {night: position for position, night in enumerate(order)}
    query = (
        sa.select(t.incident)
        .where(
            t.incident.c.machine_id == machine_id(connection, machine),
            t.incident.c.source_id == source_id(connection, source),
            t.incident.c.direction == direction.value,
            t.incident.c.recovered_at.is_(None),
        )
        .order_by(t.incident.c.id)
    )
    for row in connection.execute(query).mappings():
        after = max(row["after_night_id"], after_id, key=place.__getitem__)
        through = min(row["through_night_id"], through_id, key=place.__getitem__)
        if place[after] < place[through]:
            connection.execute(
                sa.update(t.incident)
                .where(t.incident.c.id == row["id"])
                .values(after_night_id=after, through_night_id=through)
            )
            return int(row["id"])
    return None


def open_incident(
    connection: Connection,
    *,
    machine: str,
    source: model.Source,
    direction: model.Direction,
    after_id: int,
    through_id: int,
) -> int:
    """A new incident's id."""
    values = {
        "machine_id": machine_id(connection, machine),
        "source_id": source_id(connection, source),
        "direction": direction.value,
        "after_night_id": after_id,
        "through_night_id": through_id,
    }
    return int(
        connection.execute(sa.insert(t.incident).values(values).returning(t.incident.c.id)).scalar_one()
    )


def regressions_of(connection: Connection, incident_id: int) -> list[dict[str, Any]]:
    """The rows of `reporting.regressions` of an incident, the largest change first."""
    query = sa.text(
        "select * from reporting.regressions where incident_id = :incident"
        " order by size desc nulls first, benchmark, params::text"
    )
    return [dict(row) for row in connection.execute(query, {"incident": incident_id}).mappings()]


def mark_recovered(connection: Connection, incident_id: int) -> bool:
    """Close an incident of which every regression has recovered; says whether this call did it."""
    standing = sa.select(t.regression.c.id).where(
        t.regression.c.incident_id == incident_id,
        t.regression.c.gone_at.is_(None),
        t.regression.c.state != model.State.RECOVERED.value,
    )
    change = (
        sa.update(t.incident)
        .where(t.incident.c.id == incident_id, t.incident.c.recovered_at.is_(None), ~standing.exists())
        .values(recovered_at=sa.func.now())
    )
    return connection.execute(change).rowcount == 1


def mark_explained(connection: Connection, incident_id: int) -> None:
    """A bisection has named what did it."""
    connection.execute(
        sa.update(t.regression)
        .where(t.regression.c.incident_id == incident_id, t.regression.c.state == model.State.CONFIRMED.value)
        .values(state=model.State.EXPLAINED.value)
    )


def write(
    connection: Connection,
    *,
    kind: str,
    message: Mapping[str, Any],
    incident_id: int | None = None,
    bisection_id: int | None = None,
) -> bool:
    """Put a message into the outbox, in the transaction of the decision; said before, it isn't said again. Says whether it was new."""
    values = {
        "kind": kind,
        "message": dict(message),
        "incident_id": incident_id,
        "bisection_id": bisection_id,
    }
    return connection.execute(insert(t.outbox).values(values).on_conflict_do_nothing()).rowcount == 1


def unsent(connection: Connection, transport: str) -> list[OutboxRow]:
    """Messages that a transport has still to carry, oldest first."""
    sent = sa.and_(t.delivery.c.outbox_id == t.outbox.c.id, t.delivery.c.transport == transport)
    query = (
        sa.select(t.outbox, t.delivery.c.sent_at)
        .select_from(t.outbox.outerjoin(t.delivery, sent))
        .where(t.delivery.c.sent_at.is_(None))
        .order_by(t.outbox.c.id)
    )
    return [
        OutboxRow(
            id=row.id,
            incident_id=row.incident_id,
            kind=row.kind,
            message=row.message,
            thread=_thread(connection, row.incident_id, transport),
        )
        for row in connection.execute(query)
    ]


def mark_sent(
    connection: Connection, outbox_id: int, transport: str, *, thread: str | None, error: str | None
) -> None:
    """Store how one delivery went."""
    values = {"outbox_id": outbox_id, "transport": transport, "attempts": 1, "thread": thread, "error": error}
    sent_at = None if error else sa.func.now()
    statement = insert(t.delivery).values({**values, "sent_at": sent_at})
    again = {
        "attempts": t.delivery.c.attempts + 1,
        "thread": statement.excluded.thread,
        "error": statement.excluded.error,
        "sent_at": statement.excluded.sent_at,
    }
    connection.execute(statement.on_conflict_do_update(index_elements=["outbox_id", "transport"], set_=again))


def _thread(connection: Connection, incident_id: int | None, transport: str) -> str | None:
    query = (
        sa.select(t.delivery.c.thread)
        .join(t.outbox, t.outbox.c.id == t.delivery.c.outbox_id)
        .where(
            t.outbox.c.incident_id == incident_id,
            t.delivery.c.transport == transport,
            t.delivery.c.thread.is_not(None),
        )
        .order_by(t.outbox.c.id)
        .limit(1)
    )
    return None if incident_id is None else connection.execute(query).scalar()
