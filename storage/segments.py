"""Which series go on where another one of the same benchmark ended?"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from stepwatch.core import model
from storage.rows import Connection

NEW = 4  # results up to which a series has just begun


def new_segments(connection: Connection, *, machine: str, source: model.Source) -> list[dict[str, Any]]:
    """The rows of `reporting.segments` of timed series that have just begun and whose overlap nobody has asked for."""
    query = sa.text(
        """
        select segments.* from reporting.segments
        where machine = :machine and source = :source and source_kind = :kind and timed and results <= :new
          and not exists (
              select 1 from evidence where evidence.series_id = segments.series_id
              and evidence.recheck_id in (
                  select recheck.id from recheck
                  join night after on after.id = recheck.after_night_id
                  join night through on through.id = recheck.through_night_id
                  where after.label = segments.after and through.label = segments.through))
        order by series_id
        """
    )
    found = connection.execute(
        query, {"machine": machine, "source": source.name, "kind": source.kind.value, "new": NEW}
    )
    return [dict(row) for row in found.mappings()]


def segments(connection: Connection) -> dict[int, dict[str, Any]]:
    """By series id: its row of `reporting.segments`, with the `overlap` (a row of `reporting.evidence`) where there is one."""
    query = sa.text(
        """
        select segments.*, evidence.verdict, evidence.ratio, evidence.reason as overlap_reason
        from reporting.segments
        left join reporting.evidence on evidence.series_id = segments.series_id
             and evidence.after = segments.after and evidence.through = segments.through
        """
    )
    return {row["series_id"]: dict(row) for row in connection.execute(query).mappings()}
