"""What have people said of regressions?"""

from __future__ import annotations

import sqlalchemy as sa

from stepwatch.core import model
from stepwatch.core.standing import Said, Standing
from storage import tables as t
from storage.rows import Connection


def standing_of(connection: Connection, regression_id: int) -> tuple[Standing, int | None] | None:
    """How a regression stands, and its incident; None where there is no such regression. Held until the transaction ends."""
    query = (
        sa.select(t.regression)
        .where(t.regression.c.id == regression_id, t.regression.c.gone_at.is_(None))
        .with_for_update()
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    standing = Standing(
        disposition=model.Disposition(row["disposition"]),
        until=row["snoozed_until"],
        assignee=row["assignee"],
    )
    return standing, row["incident_id"]


def regressions_in(connection: Connection, incident_id: int) -> list[int]:
    """The ids of the regressions of an incident."""
    query = (
        sa.select(t.regression.c.id)
        .where(t.regression.c.incident_id == incident_id, t.regression.c.gone_at.is_(None))
        .order_by(t.regression.c.id)
    )
    return list(connection.execute(query).scalars())


def save_standing(connection: Connection, regression_id: int, standing: Standing, said: Said) -> int:
    """Store what was said of a regression and how it stands now; returns the id of the remark."""
    connection.execute(
        sa.update(t.regression)
        .where(t.regression.c.id == regression_id)
        .values(
            disposition=standing.disposition.value,
            snoozed_until=standing.until,
            assignee=standing.assignee,
        )
    )
    remark = sa.insert(t.remark).values(
        regression_id=regression_id,
        action=said.action.value,
        until=said.until,
        assignee=said.assignee,
        reason=said.reason,
        author=said.author,
    )
    return int(connection.execute(remark.returning(t.remark.c.id)).scalar_one())
