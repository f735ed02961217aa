"""What do Grafana and reports read?

The schema `reporting` holds views only, made anew after each migration; nothing else in the database is read by
anything but stepwatch itself, so tables can change while the views keep their columns.
"""

from __future__ import annotations

import sqlalchemy as sa

from stepwatch.core.model import digest

VIEWS = {
    # the nights of each source in order; `sequence` is derived here so that a backfilled night just takes its place
    "nights": """
        select night.id as night_id, source.kind as source_kind, source.name as source, night.label, night.at,
               night.gap_reason, jax.ref as jax, xla.ref as xla,
               row_number() over (partition by night.source_id order by night.at, night.label) as sequence
        from night
        join source on source.id = night.source_id
        left join pair on pair.id = night.pair_id
        left join revision jax on jax.id = pair.jax_id
        left join revision xla on xla.id = pair.xla_id
    """,
    "series": """
        select series.id as series_id, benchmark, version, params, metric, unit, better,
               machine.name as machine, protocol, source.name as source, source.kind as source_kind, judged, exact,
               noise, noise_source
        from series
        join machine on machine.id = series.machine_id
        join source on source.id = series.source_id
    """,
    # a point is the last OK attempt of a night, else its last attempt
    "points": """
        select distinct on (measurement.series_id, run.night_id)
               measurement.series_id, run.night_id, night.label, night.at, measurement.outcome,
               measurement.reason, measurement.value, measurement.low, measurement.high,
               measurement.spread, measurement.warnings, cardinality(measurement.samples) as samples, run.run_key,
               run.environment_id
        from measurement
        join run on run.id = measurement.run_id
        join night on night.id = run.night_id
        where run.origin in ('nightly', 'backfill')
        order by measurement.series_id, run.night_id, (measurement.outcome = 'ok') desc, run.attempt desc
    """,
    # every night of a series' source: what it measured, what happened instead, why there is no such night, or nothing
    "series_nights": """
        select series.id as series_id, night.id as night_id, night.label, night.at, night.gap_reason,
               attempt.outcome, attempt.reason, attempt.value, attempt.low, attempt.high, attempt.warnings
        from series
        join night on night.source_id = series.source_id
        left join lateral (
            select coalesce(measurement.outcome, run.outcome) as outcome,
                   coalesce(measurement.reason, run.reason) as reason,
                   measurement.value, measurement.low, measurement.high, measurement.warnings
            from run
            left join measurement on measurement.run_id = run.id and measurement.series_id = series.id
            where run.night_id = night.id and run.machine_id = series.machine_id and run.outcome is not null
              and run.origin in ('nightly', 'backfill')
            order by (measurement.outcome is not distinct from 'ok') desc, run.attempt desc
            limit 1
        ) attempt on true
    """,
    # which series goes on where another one of the same benchmark ends, and what of its identity has changed
    "segments": """
        with spans as (
            select series_id, min(at) as first_at, max(at) as last_at, count(*) as results,
                   (array_agg(label order by at, label))[1] as first,
                   (array_agg(label order by at desc, label desc))[1] as last
            from reporting.points where outcome = 'ok' group by series_id
        )
        select own.series_id, own.benchmark, own.params, own.metric, own.machine, own.source, own.source_kind,
               own.judged and not own.exact as timed,
               own_span.results, earlier.series_id as before_id, earlier.last as after, own_span.first as through,
               concat_ws(', ',
                   case when earlier.version <> own.version
                        then 'benchmark version ' || earlier.version || ' -> ' || own.version end,
                   case when earlier.protocol <> own.protocol
                        then 'timing protocol ' || earlier.protocol || ' -> ' || own.protocol end,
                   case when earlier.unit <> own.unit then 'unit ' || earlier.unit || ' -> ' || own.unit end,
                   case when earlier.better <> own.better
                        then 'better ' || earlier.better || ' -> ' || own.better end) as reason
        from reporting.series own
        join spans own_span using (series_id)
        join lateral (
            select before.series_id, before.version, before.protocol, before.unit, before.better, spans.last
            from reporting.series before
            join spans on spans.series_id = before.series_id
            where before.benchmark = own.benchmark and before.params = own.params and before.metric = own.metric
              and before.machine = own.machine and before.source = own.source
              and before.source_kind = own.source_kind and spans.last_at < own_span.first_at
            order by spans.last_at desc
            limit 1
        ) earlier on true
    """,
    "runs": """
        select run.id as run_id, run.run_key, machine.name as machine, run.suite, run.origin, run.attempt,
               source.name as source, source.kind as source_kind, night.label, night.at, night.gap_reason,
               run.outcome, run.reason, run.warnings, machine_state.fingerprint, run.conditions, run.created_at,
               run.finished_at
        from run
        join machine on machine.id = run.machine_id
        left join machine_state on machine_state.id = run.machine_state_id
        left join night on night.id = run.night_id
        left join source on source.id = night.source_id
    """,
    "incidents": """
        select incident.id as incident_id, machine.name as machine, source.name as source,
               source.kind as source_kind, incident.direction, after_night.label as after,
               through_night.label as through, incident.opened_at, incident.recovered_at
        from incident
        join machine on machine.id = incident.machine_id
        join source on source.id = incident.source_id
        join night after_night on after_night.id = incident.after_night_id
        join night through_night on through_night.id = incident.through_night_id
    """,
    # the levels of each series as they are seen now; a dip's range is its first and its last night
    "steps": """
        select step.series_id, step.kind, after_night.label as after, through_night.label as through,
               step.level_before, step.level_after, step.confidence, through_night.at as through_at
        from step
        join night after_night on after_night.id = step.after_night_id
        join night through_night on through_night.id = step.through_night_id
    """,
    "failures": """
        select failure.id as failure_id, failure.incident_id, failure.series_id, series.benchmark, series.params,
               machine.name as machine, source.name as source, after_night.label as after,
               through_night.label as through, failure.outcome, failure.reason, raised_night.label as raised,
               recovered_night.label as recovered
        from failure
        join series on series.id = failure.series_id
        join machine on machine.id = series.machine_id
        join source on source.id = series.source_id
        join night after_night on after_night.id = failure.after_night_id
        join night through_night on through_night.id = failure.through_night_id
        join night raised_night on raised_night.id = failure.raised_night_id
        left join night recovered_night on recovered_night.id = failure.recovered_night_id
    """,
    "labels": """
        select label.series_id, after_night.label as after, through_night.label as through, label.verdict, label.note,
               label.author, label.said_at
        from label
        join night after_night on after_night.id = label.after_night_id
        join night through_night on through_night.id = label.through_night_id
    """,
    # `size` and `change` are null where a count comes from 0 (size: or goes there); `present` is the level of the series' last nights; null where it has no step any more
    "regressions": """
        select regression.id as regression_id, regression.incident_id, regression.series_id, series.benchmark,
               series.params, series.metric, series.unit, series.better, series.exact, machine.name as machine,
               source.name as source, regression.direction, regression.state,
               case when regression.snoozed_until <= now() then 'none' else regression.disposition end as disposition,
               regression.snoozed_until, regression.assignee,
               after_night.label as after, through_night.label as through, regression.baseline, regression.level,
               regression.level / nullif(regression.baseline, 0) - 1 as change, regression.remeasured,
               abs(ln(nullif(regression.level, 0) / nullif(regression.baseline, 0))) as size,
               (select step.level_after from step join night last on last.id = step.through_night_id
                where step.series_id = regression.series_id and step.kind = 'step'
                order by last.at desc, last.label desc limit 1) as present,
               raised_night.label as raised, recovered_night.label as recovered, regression.first_seen_at,
               after_night.at as after_at, through_night.at as through_at
        from regression
        join series on series.id = regression.series_id
        join machine on machine.id = series.machine_id
        join source on source.id = series.source_id
        join night after_night on after_night.id = regression.after_night_id
        join night through_night on through_night.id = regression.through_night_id
        left join night raised_night on raised_night.id = regression.raised_night_id
        left join night recovered_night on recovered_night.id = regression.recovered_night_id
        where regression.gone_at is null
    """,
    "remarks": """
        select remark.regression_id, remark.action, remark.until, remark.assignee, remark.reason, remark.author,
               remark.said_at, remark.id as remark_id
        from remark
    """,
    "evidence": """
        select evidence.series_id, after_night.label as after, through_night.label as through, evidence.verdict,
               evidence.ratio, evidence.old, evidence.new, evidence.reason, evidence.bridge, evidence.decided_at,
               after_night.at as after_at, through_night.at as through_at
        from evidence
        join recheck on recheck.id = evidence.recheck_id
        join night after_night on after_night.id = recheck.after_night_id
        join night through_night on through_night.id = recheck.through_night_id
    """,
    "messages": """
        select id as message_id, incident_id, bisection_id, kind, message, written_at from outbox
    """,
    "deliveries": """
        select outbox_id as message_id, transport, attempts, sent_at, error from delivery
    """,
    "bisections": """
        select bisection.id as bisection_id, bisection.incident_id, bisection.state, bisection.good, bisection.bad,
               bisection.policy, bisection.pairing, bisection.fix, bisection.budget_probes, bisection.budget_minutes,
               series.benchmark, series.params, machine.name as machine, bisection.opened_at,
               bisection.finished_at, bisection.reason,
               (select count(*) from probe join candidate on candidate.id = probe.candidate_id
                where candidate.bisection_id = bisection.id) as probes
        from bisection
        join series on series.id = bisection.series_id
        join machine on machine.id = series.machine_id
    """,
    "probes": """
        select candidate.bisection_id, probe.id as probe_id, candidate.position, jax.ref as jax, xla.ref as xla,
               probe.outcome, probe.reason, probe.value, cardinality(probe.ratios) as repeats, probe.ratios,
               greatest(jax.committed_at, xla.committed_at) as at, candidate.hour, probe.seconds, probe.started_at, probe.finished_at,
               probe.log
        from probe
        join candidate on candidate.id = probe.candidate_id
        join pair on pair.id = candidate.pair_id
        join revision jax on jax.id = pair.jax_id
        join revision xla on xla.id = pair.xla_id
    """,
    "culprits": """
        select culprit.bisection_id, bisection.incident_id, culprit.position, culprit.kind, culprit.repository,
               culprit.commit, culprit.after, culprit.through, culprit.partners, culprit.change, culprit.low,
               culprit.high, culprit.baseline, culprit.reason, culprit.author, culprit.committed_at, culprit.subject,
               culprit.url, culprit.old, culprit.new
        from culprit
        join bisection on bisection.id = culprit.bisection_id
    """,
}


def create_views(connection: sa.Connection) -> None:
    """Make the schema `reporting` anew, in the caller's transaction, where it does not hold exactly these views.

    Which ones it holds is kept as its comment. To drop a view is to wait for whoever reads it, so it is not done
    whenever a command starts.
    """
    version = digest(VIEWS)
    comment = sa.text("select obj_description(to_regnamespace('reporting')::oid, 'pg_namespace')")
    there = set(sa.inspect(connection).get_view_names("reporting"))
    if connection.execute(comment).scalar() == version and there == set(VIEWS):
        return
    connection.execute(sa.text("drop schema if exists reporting cascade"))
    connection.execute(sa.text("create schema reporting"))
    connection.execute(sa.text(f"comment on schema reporting is '{version}'"))
    for name, query in VIEWS.items():
        connection.execute(sa.text(f"create view reporting.{name} as {query}"))
