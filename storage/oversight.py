"""What is needed to judge the detector itself?"""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa

from stepwatch.core import model
from stepwatch.core.units import direction
from storage import tables as t
from storage.rows import Connection
from storage.steps import READ_ORIGINS


def last_measurements(connection: Connection) -> dict[str, dt.datetime]:
    """Machine -> when a night was measured on it last; imported nights were not measured here."""
    query = (
        sa.select(t.machine.c.name, sa.func.max(t.run.c.finished_at).label("last"))
        .select_from(t.run.join(t.machine).join(t.night, t.night.c.id == t.run.c.night_id).join(t.source))
        .where(
            t.run.c.origin.in_(READ_ORIGINS),
            t.run.c.outcome == model.Outcome.OK.value,
            t.source.c.kind != model.SourceKind.LOGS.value,
        )
        .group_by(t.machine.c.name)
        .order_by(t.machine.c.name)
    )
    return {row.name: row.last for row in connection.execute(query)}


def step_directions(connection: Connection, machine: str) -> list[model.Direction]:
    """Which way each timed step on a machine went, in the order of their nights."""
    query = (
        sa.select(t.step.c.level_before, t.step.c.level_after, t.series.c.better)
        .select_from(
            t.step.join(t.series, t.series.c.id == t.step.c.series_id)
            .join(t.machine, t.machine.c.id == t.series.c.machine_id)
            .join(t.night, t.night.c.id == t.step.c.through_night_id)
        )
        .where(t.machine.c.name == machine, t.step.c.kind == "step", t.series.c.judged, ~t.series.c.exact)
        .order_by(t.night.c.at, t.step.c.id)
    )
    return [
        direction(old=row.level_before, new=row.level_after, better=model.Better(row.better))
        for row in connection.execute(query)
    ]


def verdicts(connection: Connection, machine: str) -> list[model.Verdict]:
    """What each re-measurement on a machine said, in the order in which they were decided."""
    query = (
        sa.select(t.evidence.c.verdict)
        .select_from(t.evidence.join(t.recheck).join(t.machine, t.machine.c.id == t.recheck.c.machine_id))
        .where(t.machine.c.name == machine, t.evidence.c.verdict.is_not(None), ~t.evidence.c.bridge)
        .order_by(t.evidence.c.decided_at, t.evidence.c.id)
    )
    return [model.Verdict(row.verdict) for row in connection.execute(query)]
