"""Which benchmarks give no result any more, and who has been told of it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from stepwatch.core import model
from stepwatch.core.failures import Failing
from storage import tables as t
from storage.rows import Connection


def save_failures(
    connection: Connection,
    series_id: int,
    stretches: Sequence[Failing],
    nights: Mapping[str, int],
    *,
    tonight: str,
    incident: Callable[[model.SuspectRange], int],
) -> tuple[list[int], list[int]]:
    """Store what lasts long enough to be told and what is over; returns the ids of either that are new tonight.

    `nights` maps labels to ids, `incident` gives the incident of a range. A stretch that was over before anybody was told
    is not stored.
    """
    known = {
        row.through_night_id: row
        for row in connection.execute(sa.select(t.failure).where(t.failure.c.series_id == series_id))
    }
    told, over = [], []
    lasting = {nights[each.suspect.through]: each for each in stretches if each.is_told}
    for through, each in lasting.items():
        if through not in known and each.over is None:
            told.append(_save(connection, series_id, each, nights, tonight=tonight, incident=incident))
    for through, row in known.items():
        ended = lasting[through].over is not None if through in lasting else True
        if ended and row.recovered_night_id is None:
            connection.execute(
                sa.update(t.failure)
                .where(t.failure.c.id == row.id)
                .values(recovered_night_id=nights[tonight])
            )
            over.append(row.id)
    return told, over


def _save(
    connection: Connection,
    series_id: int,
    each: Failing,
    nights: Mapping[str, int],
    *,
    tonight: str,
    incident: Callable[[model.SuspectRange], int],
) -> int:
    reason = connection.execute(
        sa.text("select reason from reporting.series_nights where series_id = :series and label = :night"),
        {"series": series_id, "night": each.suspect.through},
    ).scalar()
    values: dict[str, Any] = {
        "series_id": series_id,
        "incident_id": incident(each.suspect),
        "after_night_id": nights[each.suspect.after],
        "through_night_id": nights[each.suspect.through],
        "outcome": each.outcome.value,
        "reason": reason,
        "raised_night_id": nights[tonight],
    }
    return int(connection.execute(sa.insert(t.failure).values(values).returning(t.failure.c.id)).scalar_one())


def failures(connection: Connection, ids: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of `reporting.failures` with these ids."""
    query = sa.text(
        "select * from reporting.failures where failure_id = any(:ids) order by benchmark, failure_id"
    )
    return [dict(row) for row in connection.execute(query, {"ids": list(ids)}).mappings()]


def close_incident(connection: Connection, incident_id: int) -> bool:
    """End an incident of which every benchmark gives results again; says whether this call did it."""
    lasting = sa.select(t.failure.c.id).where(
        t.failure.c.incident_id == incident_id, t.failure.c.recovered_night_id.is_(None)
    )
    change = (
        sa.update(t.incident)
        .where(t.incident.c.id == incident_id, t.incident.c.recovered_at.is_(None), ~lasting.exists())
        .values(recovered_at=sa.func.now())
    )
    return connection.execute(change).rowcount == 1
