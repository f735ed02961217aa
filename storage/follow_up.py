"""The tables of what follows a step, and of failures; they belong to those of storage.tables."""

from __future__ import annotations

import sqlalchemy as sa

from stepwatch.core import model
from storage.columns import identity, metadata, one_of, ref, text, time

remark = sa.Table(
    "remark",
    metadata,
    identity(),
    ref("regression_id", "regression"),
    text("action"),
    time("until", nullable=True),
    text("assignee", nullable=True),
    text("reason", nullable=True),
    text("author"),
    time("said_at", now=True),
    one_of("action", model.Action),
)

label = sa.Table(
    "label",
    metadata,
    identity(),
    ref("series_id", "series"),
    ref("after_night_id", "night"),
    ref("through_night_id", "night"),
    text("verdict"),
    text("note", nullable=True),
    text("author"),
    time("said_at", now=True),
    sa.UniqueConstraint("series_id", "through_night_id"),
    sa.CheckConstraint("after_night_id <> through_night_id", name="range_not_empty"),
    one_of("verdict", model.Label),
)

failure = sa.Table(
    "failure",
    metadata,
    identity(),
    ref("series_id", "series"),
    ref("incident_id", "incident"),
    ref("after_night_id", "night"),
    ref("through_night_id", "night"),
    text("outcome"),
    text("reason", nullable=True),
    ref("raised_night_id", "night"),
    ref("recovered_night_id", "night", nullable=True),
    sa.UniqueConstraint("series_id", "through_night_id"),
    sa.CheckConstraint("after_night_id <> through_night_id", name="range_not_empty"),
    one_of("outcome", model.Outcome),
)
