"""Which boundaries are to be measured again, and what was said of them?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from stepwatch.core import model
from storage import tables as t
from storage.nights import load_night
from storage.rows import Connection, machine_id, upsert
from storage.steps import READ_ORIGINS, source_id


@dataclass(frozen=True, kw_only=True)
class Recheck:
    """Both sides of a boundary, to be measured again for the series (ids) that are not decided yet."""

    id: int
    suspect: model.SuspectRange
    old: model.Night
    new: model.Night
    series: tuple[int, ...]


def ask_recheck(
    connection: Connection,
    *,
    machine: str,
    source: model.Source,
    series_id: int,
    after_id: int,
    through_id: int,
) -> None:
    """Ask that both sides of a boundary be measured again for a series; asked before, it stays as it is."""
    recheck_id = _ensure_recheck(
        connection, machine=machine, source=source, after_id=after_id, through_id=through_id
    )
    asked = insert(t.evidence).values(recheck_id=recheck_id, series_id=series_id)
    connection.execute(asked.on_conflict_do_nothing(index_elements=["recheck_id", "series_id"]))


def ask_bridge(
    connection: Connection, *, machine: str, source: model.Source, after_id: int, through_id: int
) -> None:
    """Ask that all timed series be measured again at a boundary where what stands beside the pair moves."""
    recheck_id = _ensure_recheck(
        connection, machine=machine, source=source, after_id=after_id, through_id=through_id
    )
    both = (
        sa.select(t.measurement.c.series_id)
        .select_from(t.measurement.join(t.run).join(t.series))
        .where(
            t.series.c.machine_id == machine_id(connection, machine),
            t.series.c.source_id == source_id(connection, source),
            t.series.c.judged,
            ~t.series.c.exact,
            t.run.c.night_id.in_((after_id, through_id)),
            t.run.c.origin.in_(READ_ORIGINS),
            t.measurement.c.outcome == model.Outcome.OK.value,
        )
        .group_by(t.measurement.c.series_id)
        .having(sa.func.count(sa.distinct(t.run.c.night_id)) == 2)
    )
    asked = insert(t.evidence).from_select(
        ["recheck_id", "series_id"], sa.select(sa.literal(recheck_id), both.subquery().c.series_id)
    )
    connection.execute(asked.on_conflict_do_nothing(index_elements=["recheck_id", "series_id"]))


def measured_nights(
    connection: Connection, *, machine: str, source: model.Source
) -> list[tuple[int, model.Night]]:
    """(id, night) of the nights with a pair that have an OK run on a machine, in order."""
    query = (
        sa.select(t.night.c.id)
        .where(
            t.night.c.source_id == source_id(connection, source),
            t.night.c.pair_id.is_not(None),
            sa.exists().where(
                t.run.c.night_id == t.night.c.id,
                t.run.c.machine_id == machine_id(connection, machine),
                t.run.c.origin.in_(READ_ORIGINS),
                t.run.c.outcome == model.Outcome.OK.value,
            ),
        )
        .order_by(t.night.c.at, t.night.c.label)
    )
    return [(row.id, load_night(connection, row.id)) for row in connection.execute(query)]


def open_rechecks(connection: Connection, *, machine: str, source: model.Source) -> list[Recheck]:
    """The rechecks of which a series has still to be decided."""
    after, through = t.night.alias("a"), t.night.alias("b")
    query = (
        sa.select(
            t.recheck.c.id,
            after.c.label.label("after"),
            through.c.label.label("through"),
            after.c.id.label("old"),
            through.c.id.label("new"),
            sa.func.array_agg(t.evidence.c.series_id).label("series"),
        )
        .select_from(
            t.recheck.join(t.evidence)
            .join(after, after.c.id == t.recheck.c.after_night_id)
            .join(through, through.c.id == t.recheck.c.through_night_id)
        )
        .where(
            t.recheck.c.machine_id == machine_id(connection, machine),
            t.recheck.c.source_id == source_id(connection, source),
            t.evidence.c.verdict.is_(None),
        )
        .group_by(t.recheck.c.id, after.c.id, through.c.id)
        .order_by(t.recheck.c.id)
    )
    return [
        Recheck(
            id=row.id,
            suspect=model.SuspectRange(after=row.after, through=row.through),
            old=load_night(connection, row.old),
            new=load_night(connection, row.new),
            series=tuple(row.series),
        )
        for row in connection.execute(query)
    ]


def night_values(connection: Connection, recheck: Recheck) -> dict[int, tuple[float, float]]:
    """By series id: what its nights on both sides of the boundary measured, where both have a result."""
    query = sa.text(
        """
        select old.series_id, old.value as before, new.value as after from reporting.points old
        join reporting.points new on new.series_id = old.series_id and new.label = :through and new.outcome = 'ok'
        where old.series_id = any(:series) and old.label = :after and old.outcome = 'ok'
          and old.value > 0 and new.value > 0
        """
    )
    found = connection.execute(
        query,
        {
            "series": list(recheck.series),
            "after": recheck.suspect.after,
            "through": recheck.suspect.through,
        },
    )
    return {row.series_id: (row.before, row.after) for row in found}


def save_evidence(
    connection: Connection,
    *,
    recheck_id: int,
    series_id: int,
    verdict: model.Verdict,
    ratio: float | None,
    old: Sequence[float],
    new: Sequence[float],
    reason: str,
    bridge: bool = False,
) -> None:
    """Store what a recheck said about one series; `bridge`: with what stands beside the pair held still."""
    connection.execute(
        sa.update(t.evidence)
        .where(t.evidence.c.recheck_id == recheck_id, t.evidence.c.series_id == series_id)
        .values(
            verdict=verdict.value,
            ratio=ratio,
            old=list(old),
            new=list(new),
            reason=reason,
            bridge=bridge,
            decided_at=sa.func.now(),
        )
    )


def evidence(connection: Connection, series_id: int) -> list[model.Evidence]:
    """All decided evidence about a series, in the order in which it was had."""
    after, through = t.night.alias("a"), t.night.alias("b")
    query = (
        sa.select(t.evidence, after.c.label.label("after"), through.c.label.label("through"))
        .select_from(
            t.evidence.join(t.recheck)
            .join(after, after.c.id == t.recheck.c.after_night_id)
            .join(through, through.c.id == t.recheck.c.through_night_id)
        )
        .where(t.evidence.c.series_id == series_id, t.evidence.c.verdict.is_not(None))
        .order_by(t.evidence.c.decided_at, t.evidence.c.id)
    )
    return [
        model.Evidence(
            suspect=model.SuspectRange(after=row["after"], through=row["through"]),
            verdict=model.Verdict(row["verdict"]),
            ratio=row["ratio"],
            old=tuple(row["old"]),
            new=tuple(row["new"]),
            reason=row["reason"],
            bridge=row["bridge"],
        )
        for row in connection.execute(query).mappings()
    ]


def _ensure_recheck(
    connection: Connection, *, machine: str, source: model.Source, after_id: int, through_id: int
) -> int:
    keys = {
        "machine_id": machine_id(connection, machine),
        "source_id": source_id(connection, source),
        "after_night_id": after_id,
        "through_night_id": through_id,
    }
    return upsert(connection, t.recheck, keys)
