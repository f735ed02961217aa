"""Which nights does a source have, and what is known of each?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

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
        "digests": {} if night.image is None else _document(night.image),
        "gap_reason": night.gap_reason,
    }
    return upsert(connection, t.night, keys, values)


def load_night(connection: Connection, night_id: int) -> model.Night:
    """The night with this id."""
    query = (
        sa.select(t.night, t.source.c.kind, t.source.c.name).join(t.source).where(t.night.c.id == night_id)
    )
    row = connection.execute(query).mappings().one()
    return model.Night(
        source=model.Source(kind=model.SourceKind(row["kind"]), name=row["name"]),
        label=row["label"],
        at=row["at"],
        pair=None if row["pair_id"] is None else load_pair(connection, row["pair_id"]),
        image=_image(row["digests"]),
        gap_reason=row["gap_reason"],
    )


def recent_labels(
    connection: Connection, source: model.Source, *, since: dt.datetime
) -> list[tuple[str, bool]]:
    """(label, whether it is a gap) of the nights since a time, in order."""
    query = (
        sa.select(t.night.c.label, t.night.c.gap_reason)
        .join(t.source)
        .where(t.source.c.kind == source.kind.value, t.source.c.name == source.name, t.night.c.at >= since)
        .order_by(t.night.c.at, t.night.c.label)
    )
    return [(row.label, row.gap_reason is not None) for row in connection.execute(query)]


def is_measured(connection: Connection, night_id: int) -> bool:
    """Whether any machine has an OK run of a night."""
    query = sa.select(
        sa.exists().where(t.run.c.night_id == night_id, t.run.c.outcome == model.Outcome.OK.value)
    )
    return bool(connection.execute(query).scalar_one())


def _document(image: model.Image) -> dict[str, Any]:
    return {**asdict(image), "created": image.created and image.created.isoformat()}


def _image(document: dict[str, Any]) -> model.Image | None:
    if not document:
        return None
    created = document["created"]
    return model.Image(
        **{
            **document,
            "platforms": tuple(document["platforms"]),
            "created": dt.datetime.fromisoformat(created) if created else None,
        }
    )


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
        sa.select(t.night.c.id)
        .join(t.source)
        .where(t.source.c.kind == source.kind.value, t.source.c.name == source.name, t.night.c.label == label)
    )
    night_id = connection.execute(query).scalar()
    return None if night_id is None else (night_id, load_night(connection, night_id))


def find_image(connection: Connection, source: model.Source, digest: str) -> model.Image | None:
    """The image with this digest, where a night of the source has it."""
    query = (
        sa.select(t.night.c.digests)
        .join(t.source)
        .where(
            t.source.c.kind == source.kind.value,
            t.source.c.name == source.name,
            t.night.c.digests["digest"].astext == digest,
        )
        .limit(1)
    )
    found = connection.execute(query).scalar()
    return None if found is None else _image(found)


def night_times(connection: Connection, source: model.Source) -> list[tuple[str, dt.datetime, str | None]]:
    """(label, time, gap reason) of every night of a source, in order."""
    query = (
        sa.select(t.night.c.label, t.night.c.at, t.night.c.gap_reason)
        .join(t.source)
        .where(t.source.c.kind == source.kind.value, t.source.c.name == source.name)
        .order_by(t.night.c.at, t.night.c.label)
    )
    return [(row.label, row.at, row.gap_reason) for row in connection.execute(query)]
