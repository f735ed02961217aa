"""What else is known of the range that an incident is about: of its nights, of sibling benchmarks, of other machines?"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from storage.rows import Connection

Rows = list[dict[str, Any]]


def nights_inside(connection: Connection, series_id: int, *, after: str, through: str) -> Rows:
    """`label` and `why` (nothing was measured: None) of the nights without a result inside (after, through]."""
    query = """
        select inside.label, coalesce(inside.gap_reason, inside.reason, inside.outcome) as why
        from reporting.series_nights inside
        join reporting.series_nights first on first.series_id = inside.series_id and first.label = :after
        join reporting.series_nights last on last.series_id = inside.series_id and last.label = :through
        where inside.series_id = :series and inside.value is null
          and (inside.at, inside.label) > (first.at, first.label) and (inside.at, inside.label) < (last.at, last.label)
        order by inside.at, inside.label
    """
    return _rows(connection, query, series=series_id, after=after, through=through)


def moved_the_other_way(connection: Connection, incident_id: int) -> Rows:
    """Steps in the incident's range of timed benchmarks of the same modules as its own, in the other direction."""
    query = """
        with bounds as (
            select incident.*, old.at as after_at, new.at as through_at from incident
            join night old on old.id = after_night_id join night new on new.id = through_night_id
            where incident.id = :incident
        ), modules as (
            select distinct split_part(benchmark, '.', 1) as module
            from regression join series on series.id = series_id where incident_id = :incident
        )
        select series.benchmark, series.params, series.unit, series.better, step.level_before, step.level_after
        from bounds
        join series on series.machine_id = bounds.machine_id and series.source_id = bounds.source_id
        join modules on modules.module = split_part(series.benchmark, '.', 1)
        join step on step.series_id = series.id and step.kind = 'step'
        join night old on old.id = step.after_night_id
        join night new on new.id = step.through_night_id
        where series.judged and not series.exact and old.at < bounds.through_at and new.at > bounds.after_at
          and ((step.level_after > step.level_before) = (series.better = 'lower')) = (bounds.direction = 'improvement')
        order by series.benchmark, series.params::text
    """
    return _rows(connection, query, incident=incident_id)


def revisions_between(connection: Connection, incident_id: int) -> Rows:
    """`repository`, `old` and `new` revision of each repository at the ends of an incident's range, where both are known."""
    query = """
        select repository, old, new from incident
        join night after on after.id = after_night_id
        join night through on through.id = through_night_id
        join pair old_pair on old_pair.id = after.pair_id
        join pair new_pair on new_pair.id = through.pair_id
        cross join lateral (
            select 'jax' as repository, o.ref as old, n.ref as new from revision o, revision n
            where o.id = old_pair.jax_id and n.id = new_pair.jax_id
            union all
            select 'xla', o.ref, n.ref from revision o, revision n
            where o.id = old_pair.xla_id and n.id = new_pair.xla_id
        ) each
        where incident.id = :incident
        order by repository
    """
    return _rows(connection, query, incident=incident_id)


def on_other_machines(connection: Connection, incident_id: int) -> list[tuple[int, str]]:
    """(incident, machine) of those of the same source and direction whose range has a part in common with this one."""
    query = """
        select other.id, machine.name
        from incident own
        join night own_after on own_after.id = own.after_night_id
        join night own_through on own_through.id = own.through_night_id
        join incident other on other.source_id = own.source_id and other.direction = own.direction
                           and other.machine_id <> own.machine_id
        join night after on after.id = other.after_night_id
        join night through on through.id = other.through_night_id
        join machine on machine.id = other.machine_id
        where own.id = :incident and after.at < own_through.at and through.at > own_after.at
          and exists (select from outbox where incident_id = other.id and kind = 'head')
        order by other.id
    """
    return [(row["id"], row["name"]) for row in _rows(connection, query, incident=incident_id)]


def _rows(connection: Connection, query: str, **parameters: Any) -> Rows:
    return [dict(row) for row in connection.execute(sa.text(query), parameters).mappings()]
