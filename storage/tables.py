"""What is remembered, table by table: the one truth of the schema.

Rules stand here as constraints, so that no process, however it is killed, can leave something that breaks them.
Times are `timestamptz`. The migrations in `storage/migrations` must give exactly this; a test compares the two.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION, SMALLINT

from stepwatch.core import model
from storage import follow_up, searches
from storage.columns import document, identity, metadata, number, numbers, one_of, ref, text, texts, time

label, remark, failure = follow_up.label, follow_up.remark, follow_up.failure
bisection, candidate, probe = searches.bisection, searches.candidate, searches.probe
sandwich, published, culprit = searches.sandwich, searches.published, searches.culprit
OPEN_BISECTION = searches.OPEN_BISECTION

source = sa.Table(
    "source",
    metadata,
    identity(),
    text("kind"),
    text("name"),
    sa.UniqueConstraint("kind", "name"),
    one_of("kind", model.SourceKind),
)

revision = sa.Table(
    "revision",
    metadata,
    identity(),
    text("repository"),
    text("ref"),
    time("committed_at"),
    sa.UniqueConstraint("repository", "ref"),
    sa.CheckConstraint("repository in ('jax', 'xla')", name="repository_known"),
)

pair = sa.Table(
    "pair",
    metadata,
    identity(),
    ref("jax_id", "revision"),
    ref("xla_id", "revision"),
    sa.UniqueConstraint("jax_id", "xla_id"),
)

night = sa.Table(
    "night",
    metadata,
    identity(),
    ref("source_id", "source"),
    text("label"),
    time("at"),
    ref("pair_id", "pair", nullable=True),
    document("digests", empty="{}"),
    text("gap_reason", nullable=True),
    sa.UniqueConstraint("source_id", "label"),
)

environment = sa.Table(
    "environment",
    metadata,
    identity(),
    text("hash"),
    ref("pair_id", "pair"),
    text("image_digest", nullable=True),
    sa.Column("freeze", ARRAY(sa.Text), nullable=False),
    document("flags"),
    text("base"),
    sa.UniqueConstraint("hash"),
)

machine = sa.Table(
    "machine", metadata, identity(), text("name"), text("accelerator"), sa.UniqueConstraint("name")
)

machine_state = sa.Table(
    "machine_state",
    metadata,
    identity(),
    ref("machine_id", "machine"),
    document("fingerprint"),
    text("fingerprint_hash"),
    time("seen_at", now=True),
    sa.UniqueConstraint("machine_id", "fingerprint_hash"),
)

series = sa.Table(
    "series",
    metadata,
    identity(),
    text("benchmark"),
    text("version"),
    document("params"),
    text("metric"),
    text("unit"),
    text("better"),
    ref("machine_id", "machine"),
    text("protocol"),
    ref("source_id", "source"),
    sa.Column("judged", sa.Boolean, nullable=False),
    sa.Column("exact", sa.Boolean, nullable=False, server_default=sa.false()),
    number("noise"),  # relative, as the last detection took it, and how it got it
    text("noise_source", nullable=True),
    sa.UniqueConstraint(
        "benchmark", "version", "params", "metric", "unit", "better", "machine_id", "protocol", "source_id"
    ),
    one_of("better", model.Better),
)

incident = sa.Table(
    "incident",
    metadata,
    identity(),
    ref("machine_id", "machine"),
    ref("source_id", "source"),
    text("direction"),
    ref("after_night_id", "night"),
    ref("through_night_id", "night"),
    time("opened_at", now=True),
    time("recovered_at", nullable=True),
    one_of("direction", model.Direction),
    sa.CheckConstraint("after_night_id <> through_night_id", name="range_not_empty"),
)

regression = sa.Table(
    "regression",
    metadata,
    identity(),
    ref("series_id", "series"),
    ref("incident_id", "incident", nullable=True),
    ref("after_night_id", "night"),
    ref("through_night_id", "night"),
    text("direction"),
    text("state"),
    sa.Column("disposition", sa.Text, nullable=False, server_default=model.Disposition.NONE.value),
    time("snoozed_until", nullable=True),
    text("assignee", nullable=True),
    number("baseline", nullable=False),
    number("level", nullable=False),
    sa.Column("remeasured", sa.Boolean, nullable=False),
    ref("raised_night_id", "night", nullable=True),
    ref("eased_night_id", "night", nullable=True),
    ref("recovered_night_id", "night", nullable=True),
    time("first_seen_at", now=True),
    time("gone_at", nullable=True),
    sa.CheckConstraint("after_night_id <> through_night_id", name="range_not_empty"),
    sa.CheckConstraint("raised_night_id is null or incident_id is not null", name="alerted_has_incident"),
    sa.CheckConstraint("(disposition = 'snoozed') = (snoozed_until is not null)", name="snoozed_has_end"),
    one_of("direction", model.Direction),
    one_of("state", model.State),
    one_of("disposition", model.Disposition),
)
sa.Index(
    "ix_regression_one_a_boundary",
    regression.c.series_id,
    regression.c.through_night_id,
    unique=True,
    postgresql_where=sa.text("gone_at is null and direction <> 'drift' and recovered_night_id is null"),
)
sa.Index(
    "ix_regression_one_drift_at_a_time",
    regression.c.series_id,
    unique=True,
    postgresql_where=sa.text("gone_at is null and direction = 'drift' and recovered_night_id is null"),
)

step = sa.Table(
    "step",
    metadata,
    identity(),
    ref("series_id", "series"),
    text("kind"),
    ref("after_night_id", "night"),
    ref("through_night_id", "night"),
    number("level_before", nullable=False),
    number("level_after", nullable=False),
    number("confidence", nullable=True),
    sa.UniqueConstraint("series_id", "kind", "through_night_id"),
    sa.CheckConstraint("kind in ('step', 'dip', 'drift')", name="kind_known"),
)

recheck = sa.Table(
    "recheck",
    metadata,
    identity(),
    ref("machine_id", "machine"),
    ref("source_id", "source"),
    ref("after_night_id", "night"),
    ref("through_night_id", "night"),
    time("asked_at", now=True),
    sa.UniqueConstraint("machine_id", "source_id", "after_night_id", "through_night_id"),
    sa.CheckConstraint("after_night_id <> through_night_id", name="range_not_empty"),
)

evidence = sa.Table(
    "evidence",
    metadata,
    identity(),
    ref("recheck_id", "recheck"),
    ref("series_id", "series"),
    text("verdict", nullable=True),
    number("ratio"),
    numbers("old"),
    numbers("new"),
    text("reason", nullable=True),
    time("decided_at", nullable=True),
    sa.Column("bridge", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.UniqueConstraint("recheck_id", "series_id"),
    sa.CheckConstraint("(verdict is null) = (decided_at is null)", name="decided_has_verdict"),
    one_of("verdict", model.Verdict, nullable=True),
)

run = sa.Table(
    "run",
    metadata,
    identity(),
    text("run_key"),
    ref("machine_id", "machine"),
    ref("environment_id", "environment", nullable=True),
    ref("machine_state_id", "machine_state", nullable=True),
    text("suite"),
    text("origin"),
    ref("night_id", "night", nullable=True),
    ref("recheck_id", "recheck", nullable=True),
    ref("probe_id", "probe", nullable=True),
    sa.Column("attempt", sa.Integer, nullable=False),
    text("outcome", nullable=True),
    text("reason", nullable=True),
    text("log", nullable=True),
    texts("warnings"),
    document("conditions", empty="[]"),  # one a process: its settings, what was so before it and after it
    time("created_at", now=True),
    time("finished_at", nullable=True),
    sa.UniqueConstraint("run_key"),
    sa.CheckConstraint("(outcome is null) = (finished_at is null)", name="ended_has_outcome"),
    one_of("origin", model.Origin),
    one_of("outcome", model.Outcome, nullable=True),
)
sa.Index("ix_run_night_id", run.c.night_id)

measurement = sa.Table(
    "measurement",
    metadata,
    sa.Column("run_id", sa.BigInteger, sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("series_id", sa.BigInteger, sa.ForeignKey("series.id"), primary_key=True),
    text("outcome"),
    text("reason", nullable=True),
    number("value"),
    number("low"),
    number("high"),
    number("spread"),
    sa.Column("samples", ARRAY(DOUBLE_PRECISION), nullable=False),
    sa.Column("process", ARRAY(SMALLINT), nullable=False),
    document("hashes"),
    texts("warnings"),
    sa.CheckConstraint(
        "outcome <> 'ok' or (value is not null and cardinality(samples) > 0)", name="no_empty_sample"
    ),
    sa.CheckConstraint("cardinality(samples) = cardinality(process)", name="process_for_each_sample"),
    one_of("outcome", model.Outcome),
)
sa.Index("ix_measurement_series_id", measurement.c.series_id)

outbox = sa.Table(
    "outbox",
    metadata,
    identity(),
    ref("incident_id", "incident", nullable=True),
    ref("bisection_id", "bisection", nullable=True),
    text("kind"),
    document("message"),
    time("written_at", now=True),
    sa.UniqueConstraint("incident_id", "kind"),
)
sa.Index(
    "ix_outbox_one_a_bisection",
    outbox.c.bisection_id,
    unique=True,
    postgresql_where=outbox.c.incident_id.is_(None),
)
sa.Index(  # about neither: about the detector itself
    "ix_outbox_one_of_a_kind",
    outbox.c.kind,
    unique=True,
    postgresql_where=sa.and_(outbox.c.incident_id.is_(None), outbox.c.bisection_id.is_(None)),
)

delivery = sa.Table(
    "delivery",
    metadata,
    sa.Column("outbox_id", sa.BigInteger, sa.ForeignKey("outbox.id"), primary_key=True),
    sa.Column("transport", sa.Text, primary_key=True),
    sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
    time("sent_at", nullable=True),
    text("thread", nullable=True),
    text("error", nullable=True),
)
