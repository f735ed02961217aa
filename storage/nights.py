"""Which nights does a source have, and what is known of each?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from stepwatch.core import model
from storage import tables as t
from storage.rows import Connection, ensure_pair, ensure_source, load_pair, upsert


def save_night(connection: Connection, night: model.Night) -> int:
    """The night's id; what is known of it now replaces what was known before."""
    keys = {"source_id": ensure_source(connection, night.source), "label": night.label}
    values = {
        "at": night.at,
        "pair_id": None if night.pair is None else ensure_pair(connection, night.pair),
        "gap_reason": night.gap_reason,
    }
    return upsert(connection, t.night, keys, values)


def save_gaps(connection: Connection, source: model.Source, nights: Sequence[model.Night]) -> None:
    """Store nights of which nothing but the reason of their gap is known; one that is known already stays."""
    if not nights:
        return
    source_id = ensure_source(connection, source)
    rows = [
        {"source_id": source_id, "label": night.label, "at": night.at, "gap_reason": night.gap_reason}
        for night in nights
    ]
    connection.execute(insert(t.night).on_conflict_do_nothing(index_elements=["source_id", "label"]), rows)


def find_night(connection: Connection, source: model.Source, label: str) -> tuple[int, model.Night] | None:
    """The id and the night with this label, where it has been seen."""
    query = (
        sa.select(t.night)
        .join(t.source)
        .where(t.source.c.kind == source.kind.value, t.source.c.name == source.name, t.night.c.label == label)
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    night = model.Night(
        source=source,
        label=label,
        at=row["at"],
        pair=None if row["pair_id"] is None else load_pair(connection, row["pair_id"]),
        gap_reason=row["gap_reason"],
    )
    return row["id"], night


def night_times(connection: Connection, source: model.Source) -> list[tuple[str, dt.datetime, str | None]]:
    """(label, time, gap reason) of every night of a source, in order."""
    query = (
        sa.select(t.night.c.label, t.night.c.at, t.night.c.gap_reason)
        .join(t.source)
        .where(t.source.c.kind == source.kind.value, t.source.c.name == source.name)
        .order_by(t.night.c.at, t.night.c.label)
    )
    return [(row.label, row.at, row.gap_reason) for row in connection.execute(query)]
