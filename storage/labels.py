"""What have people said of steps?"""

from __future__ import annotations

from collections import defaultdict

import sqlalchemy as sa

from stepwatch.core import model
from storage import tables as t
from storage.rows import Connection, upsert


def judged_series(connection: Connection) -> list[int]:
    """The ids of all series that are judged, of every machine and source."""
    query = sa.select(t.series.c.id).where(t.series.c.judged).order_by(t.series.c.benchmark, t.series.c.id)
    return [row.id for row in connection.execute(query)]


def series_named(connection: Connection, name: str) -> list[int]:
    """The ids of the judged series of a benchmark, by its name alone or with its parameters."""
    query = sa.select(t.series.c.id, t.series.c.benchmark, t.series.c.params).where(t.series.c.judged)
    return sorted(
        row.id
        for row in connection.execute(query)
        if name in {row.benchmark, model.title(row.benchmark, row.params)}
    )


def save_label(
    connection: Connection,
    *,
    series_id: int,
    after: str,
    through: str,
    verdict: model.Label,
    author: str,
    note: str | None,
) -> None:
    """Store a verdict on the step in (after, through] of a series; the last one said counts."""
    nights = {
        row.label: row.id
        for row in connection.execute(
            sa.select(t.night.c.id, t.night.c.label)
            .select_from(t.night.join(t.series, t.series.c.source_id == t.night.c.source_id))
            .where(t.series.c.id == series_id, t.night.c.label.in_((after, through)))
        )
    }
    upsert(
        connection,
        t.label,
        {"series_id": series_id, "through_night_id": nights[through]},
        {
            "after_night_id": nights[after],
            "verdict": verdict.value,
            "author": author,
            "note": note,
        },
    )


def labels(connection: Connection) -> dict[int, dict[str, model.Label]]:
    """Series (id) -> first night on the new level -> what people say of that step."""
    query = (
        sa.select(t.label.c.series_id, t.night.c.label, t.label.c.verdict)
        .select_from(t.label.join(t.night, t.night.c.id == t.label.c.through_night_id))
        .order_by(t.label.c.series_id, t.night.c.at)
    )
    found: dict[int, dict[str, model.Label]] = defaultdict(dict)
    for row in connection.execute(query):
        found[row.series_id][row.label] = model.Label(row.verdict)
    return found
