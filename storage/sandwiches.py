"""What has a search measured side by side: the published images of its ends, and both sides of each boundary?"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from stepwatch.core import model
from stepwatch.core.bisection.ends import Published
from storage import tables as t
from storage.rows import Connection, ensure_pair, load_pairs, upsert


@dataclass(frozen=True, kw_only=True)
class Sandwich:
    """Both sides of a boundary measured alternately, one value a process, in `seconds` of the machine; `reason` where there are none."""

    old: tuple[float, ...]
    new: tuple[float, ...]
    reason: str | None = None
    seconds: float = 0.0


def save_published(connection: Connection, bisection_id: int, found: Published, *, seconds: float) -> None:
    """Store what the published images of both ends gave, in place of a shorter look, and the `seconds` of the machine beside earlier ones."""
    known = sa.select(t.published.c.seconds).where(t.published.c.bisection_id == bisection_id)
    values = {
        "old": list(found.old),
        "new": list(found.new),
        "reason": found.reason,
        "differences": list(found.differences),
        "seconds": (connection.execute(known).scalar() or 0.0) + seconds,
    }
    upsert(connection, t.published, {"bisection_id": bisection_id}, values)


def load_published(connection: Connection, bisection_id: int) -> tuple[Published, float]:
    """What the published images of both ends gave by now, and in how many seconds of the machine."""
    query = sa.select(t.published).where(t.published.c.bisection_id == bisection_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        return Published(), 0.0
    found = Published(
        old=tuple(row.old), new=tuple(row.new), reason=row.reason, differences=tuple(row.differences)
    )
    return found, row.seconds


def save_sandwich(
    connection: Connection,
    bisection_id: int,
    after: model.CommitPair,
    through: model.CommitPair,
    found: Sandwich,
) -> None:
    """Store what both sides of a boundary gave side by side, in place of a shorter look."""
    keys = {
        "bisection_id": bisection_id,
        "after_pair_id": ensure_pair(connection, after),
        "through_pair_id": ensure_pair(connection, through),
    }
    values = {
        "old": list(found.old),
        "new": list(found.new),
        "reason": found.reason,
        "seconds": found.seconds,
    }
    upsert(connection, t.sandwich, keys, values)


def sandwiches(
    connection: Connection, bisection_id: int
) -> dict[tuple[model.CommitPair, model.CommitPair], Sandwich]:
    """What has been measured side by side, by the two pairs."""
    rows = connection.execute(
        sa.select(t.sandwich).where(t.sandwich.c.bisection_id == bisection_id).order_by(t.sandwich.c.id)
    ).all()
    pairs = load_pairs(connection, [at for row in rows for at in (row.after_pair_id, row.through_pair_id)])
    return {
        (pairs[row.after_pair_id], pairs[row.through_pair_id]): Sandwich(
            old=tuple(row.old), new=tuple(row.new), reason=row.reason, seconds=row.seconds
        )
        for row in rows
    }
