"""What does detection read, and what does it leave behind?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import distinct_on

from stepwatch.core import model
from storage import tables as t
from storage.rows import Connection, machine_id

READ_ORIGINS = (model.Origin.NIGHTLY.value, model.Origin.BACKFILL.value)


@dataclass(frozen=True, kw_only=True)
class NightRef:
    """One night as detection sees it."""

    id: int
    label: str


def source_id(connection: Connection, source: model.Source) -> int:
    """The id of a source that has been seen."""
    query = sa.select(t.source.c.id).where(
        t.source.c.kind == source.kind.value, t.source.c.name == source.name
    )
    return int(connection.execute(query).scalar_one())


def judged_series(
    connection: Connection, *, machine: str, source: model.Source, judged: bool = True
) -> list[int]:
    """The ids of the series whose steps are triaged, in a fixed order; else those of the counts that only explain."""
    query = (
        sa.select(t.series.c.id)
        .where(
            t.series.c.machine_id == machine_id(connection, machine),
            t.series.c.source_id == source_id(connection, source),
            t.series.c.judged if judged else sa.and_(~t.series.c.judged, t.series.c.exact),
        )
        .order_by(t.series.c.benchmark, t.series.c.id)
    )
    return [row.id for row in connection.execute(query)]


def night_refs(connection: Connection, source: model.Source) -> list[NightRef]:
    """The nights of a source in order."""
    query = (
        sa.select(t.night.c.id, t.night.c.label)
        .where(t.night.c.source_id == source_id(connection, source))
        .order_by(t.night.c.at, t.night.c.label)
    )
    return [NightRef(id=row.id, label=row.label) for row in connection.execute(query)]


def points(connection: Connection, series_id: int, *, until: str | None = None) -> list[model.Point]:
    """Every night of the series' source in order: its last OK attempt, else what happened, else a gap.

    `until` is the label of the last night to be read. Runs of a suite that has never measured the series say nothing of it.
    """
    suites = (
        sa.select(t.run.c.suite).join(t.measurement).where(t.measurement.c.series_id == series_id).distinct()
    )
    attempts = (
        sa.select(
            t.run.c.night_id,
            sa.func.coalesce(t.measurement.c.outcome, t.run.c.outcome).label("outcome"),
            t.measurement.c.value,
            t.measurement.c.spread,
            t.run.c.environment_id,
        )
        .select_from(
            t.run.join(t.series, t.series.c.machine_id == t.run.c.machine_id).outerjoin(
                t.measurement,
                sa.and_(t.measurement.c.run_id == t.run.c.id, t.measurement.c.series_id == t.series.c.id),
            )
        )
        .where(
            t.series.c.id == series_id,
            t.run.c.origin.in_(READ_ORIGINS),
            t.run.c.outcome.is_not(None),
            t.run.c.suite.in_(suites),
        )
        # an OK run without this series says nothing about it, unless nothing else does
        .order_by(
            t.run.c.night_id,
            sa.func.coalesce(t.measurement.c.outcome == model.Outcome.OK.value, sa.false()).desc(),
            t.run.c.attempt.desc(),
            t.run.c.id.desc(),
        )
        .ext(distinct_on(t.run.c.night_id))
        .subquery()
    )
    query = (
        sa.select(t.night.c.label, t.night.c.at, attempts)
        .select_from(
            t.series.join(t.night, t.night.c.source_id == t.series.c.source_id).outerjoin(
                attempts, attempts.c.night_id == t.night.c.id
            )
        )
        .where(t.series.c.id == series_id)
        .order_by(t.night.c.at, t.night.c.label)
    )
    found = []
    for row in connection.execute(query):
        ok = row.outcome == model.Outcome.OK.value and row.value is not None
        found.append(
            model.Point(
                label=row.label,
                at=row.at,
                value=row.value if ok else None,
                outcome=None if row.outcome is None else model.Outcome(row.outcome),
                environment=row.environment_id,
                spread=row.spread if ok else None,
            )
        )
        if row.label == until:
            break
    return found


def known_regressions(connection: Connection, series_id: int) -> list[tuple[int, model.Regression]]:
    """(id, regression or improvement) of all that stand for a series, in the order of their nights."""
    after, through, raised, eased, recovered = (t.night.alias(name) for name in "abrec")
    query = (
        sa.select(
            t.regression,
            after.c.label.label("after"),
            through.c.label.label("through"),
            raised.c.label.label("raised"),
            eased.c.label.label("eased"),
            recovered.c.label.label("recovered"),
        )
        .select_from(
            t.regression.join(after, after.c.id == t.regression.c.after_night_id)
            .join(through, through.c.id == t.regression.c.through_night_id)
            .outerjoin(raised, raised.c.id == t.regression.c.raised_night_id)
            .outerjoin(eased, eased.c.id == t.regression.c.eased_night_id)
            .outerjoin(recovered, recovered.c.id == t.regression.c.recovered_night_id)
        )
        .where(t.regression.c.series_id == series_id, t.regression.c.gone_at.is_(None))
        .order_by(through.c.at, through.c.label)
    )
    return [
        (
            row["id"],
            model.Regression(
                suspect=model.SuspectRange(after=row["after"], through=row["through"]),
                direction=model.Direction(row["direction"]),
                state=model.State(row["state"]),
                baseline=row["baseline"],
                level=row["level"],
                remeasured=row["remeasured"],
                raised=row["raised"],
                eased=row["eased"],
                recovered=row["recovered"],
            ),
        )
        for row in connection.execute(query).mappings()
    ]


def save_steps(connection: Connection, series_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace the current steps, dips and drifts of a series; detection is a pure function of the window."""
    connection.execute(sa.delete(t.step).where(t.step.c.series_id == series_id))
    if rows:
        connection.execute(sa.insert(t.step), [{"series_id": series_id, **row} for row in rows])


def save_noise(connection: Connection, series_id: int, noise: float, noise_source: str) -> None:
    """Store the relative noise by which a series was judged, and how it was got."""
    changed = sa.update(t.series).where(t.series.c.id == series_id)
    connection.execute(changed.values(noise=noise, noise_source=noise_source))


def save_regression(
    connection: Connection,
    regression: model.Regression,
    nights: Mapping[str, int],
    *,
    series_id: int,
    regression_id: int | None = None,
    incident_id: int | None = None,
) -> int:
    """Store what is known of a regression now, as a new row where it has no id; returns its id.

    `nights` maps labels to ids; `incident_id` is stored where it is given.
    """

    def night(label: str | None) -> int | None:
        return None if label is None else nights[label]

    values: dict[str, Any] = {
        "series_id": series_id,
        "after_night_id": nights[regression.suspect.after],
        "through_night_id": nights[regression.suspect.through],
        "direction": regression.direction.value,
        "state": regression.state.value,
        "baseline": regression.baseline,
        "level": regression.level,
        "remeasured": regression.remeasured,
        "raised_night_id": night(regression.raised),
        "eased_night_id": night(regression.eased),
        "recovered_night_id": night(regression.recovered),
    }
    if incident_id is not None:
        values["incident_id"] = incident_id
    if regression_id is None:
        made = sa.insert(t.regression).values(values).returning(t.regression.c.id)
        return int(connection.execute(made).scalar_one())
    connection.execute(sa.update(t.regression).where(t.regression.c.id == regression_id).values(values))
    return regression_id


def mark_gone(connection: Connection, regression_id: int) -> None:
    """A later fit has no such step, and nobody was told of it."""
    gone = sa.update(t.regression).where(t.regression.c.id == regression_id)
    connection.execute(gone.values(gone_at=sa.func.now()))


def incident_of(connection: Connection, regression_id: int) -> int | None:
    """The incident in which people were told of a regression."""
    query = sa.select(t.regression.c.incident_id).where(t.regression.c.id == regression_id)
    return connection.execute(query).scalar()
