"""What is remembered, table by table: the one truth of the schema.

Rules stand here as constraints, so that no process, however it is killed, can leave something that breaks them.
Times are `timestamptz`. The migrations in `storage/migrations` must give exactly this; a test compares the two.
"""

from __future__ import annotations

import enum

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION, JSONB, SMALLINT

from stepwatch.core import model

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

OPEN_BISECTION = "open"


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True)


def _ref(name: str, to: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, sa.ForeignKey(f"{to}.id"), nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _time(name: str, *, nullable: bool = False, now: bool = False) -> sa.Column[object]:
    default = sa.text("now()") if now else None
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable, server_default=default)


def _number(name: str, *, nullable: bool = True) -> sa.Column[float]:
    return sa.Column(name, DOUBLE_PRECISION, nullable=nullable)


def _one_of(column: str, words: type[enum.StrEnum], *, nullable: bool = False) -> sa.CheckConstraint:
    accepted = ", ".join(f"'{word.value}'" for word in words)
    test = f"{column} in ({accepted})"
    return sa.CheckConstraint(f"{column} is null or {test}" if nullable else test, name=f"{column}_known")


source = sa.Table(
    "source",
    metadata,
    _id(),
    _text("kind"),
    _text("name"),
    sa.UniqueConstraint("kind", "name"),
    _one_of("kind", model.SourceKind),
)

revision = sa.Table(
    "revision",
    metadata,
    _id(),
    _text("repository"),
    _text("ref"),
    _time("committed_at"),
    sa.UniqueConstraint("repository", "ref"),
    sa.CheckConstraint("repository in ('jax', 'xla')", name="repository_known"),
)

pair = sa.Table(
    "pair",
    metadata,
    _id(),
    _ref("jax_id", "revision"),
    _ref("xla_id", "revision"),
    sa.UniqueConstraint("jax_id", "xla_id"),
)

night = sa.Table(
    "night",
    metadata,
    _id(),
    _ref("source_id", "source"),
    _text("label"),
    _time("at"),
    _ref("pair_id", "pair", nullable=True),
    sa.Column("digests", JSONB, nullable=False, server_default=sa.text("'{}'::jsonb")),
    _text("gap_reason", nullable=True),
    sa.UniqueConstraint("source_id", "label"),
)

environment = sa.Table(
    "environment",
    metadata,
    _id(),
    _text("hash"),
    _ref("pair_id", "pair"),
    _text("image_digest", nullable=True),
    sa.Column("freeze", ARRAY(sa.Text), nullable=False),
    sa.Column("flags", JSONB, nullable=False),
    _text("base"),
    sa.UniqueConstraint("hash"),
)

machine = sa.Table(
    "machine", metadata, _id(), _text("name"), _text("accelerator"), sa.UniqueConstraint("name")
)

machine_state = sa.Table(
    "machine_state",
    metadata,
    _id(),
    _ref("machine_id", "machine"),
    sa.Column("fingerprint", JSONB, nullable=False),
    _text("fingerprint_hash"),
    _time("seen_at", now=True),
    sa.UniqueConstraint("machine_id", "fingerprint_hash"),
)

series = sa.Table(
    "series",
    metadata,
    _id(),
    _text("benchmark"),
    _text("version"),
    sa.Column("params", JSONB, nullable=False),
    _text("metric"),
    _text("unit"),
    _text("better"),
    _ref("machine_id", "machine"),
    _text("protocol"),
    _ref("source_id", "source"),
    sa.Column("judged", sa.Boolean, nullable=False),
    sa.UniqueConstraint(
        "benchmark", "version", "params", "metric", "unit", "better", "machine_id", "protocol", "source_id"
    ),
    _one_of("better", model.Better),
)

incident = sa.Table(
    "incident",
    metadata,
    _id(),
    _ref("machine_id", "machine"),
    _ref("source_id", "source"),
    _text("direction"),
    _ref("after_night_id", "night"),
    _ref("through_night_id", "night"),
    _time("opened_at", now=True),
    _time("recovered_at", nullable=True),
    _one_of("direction", model.Direction),
    sa.CheckConstraint("after_night_id <> through_night_id", name="range_not_empty"),
)

regression = sa.Table(
    "regression",
    metadata,
    _id(),
    _ref("series_id", "series"),
    _ref("incident_id", "incident", nullable=True),
    _ref("after_night_id", "night"),
    _ref("through_night_id", "night"),
    _text("direction"),
    _text("state"),
    sa.Column("disposition", sa.Text, nullable=False, server_default=model.Disposition.NONE.value),
    _number("baseline", nullable=False),
    _number("level", nullable=False),
    sa.Column("remeasured", sa.Boolean, nullable=False),
    _ref("raised_night_id", "night", nullable=True),
    _ref("eased_night_id", "night", nullable=True),
    _ref("recovered_night_id", "night", nullable=True),
    _time("first_seen_at", now=True),
    _time("gone_at", nullable=True),
    sa.CheckConstraint("after_night_id <> through_night_id", name="range_not_empty"),
    sa.CheckConstraint("raised_night_id is null or incident_id is not null", name="alerted_has_incident"),
    _one_of("direction", model.Direction),
    _one_of("state", model.State),
    _one_of("disposition", model.Disposition),
)
sa.Index(
    "ix_regression_one_a_boundary",
    regression.c.series_id,
    regression.c.through_night_id,
    unique=True,
    postgresql_where=regression.c.gone_at.is_(None),
)

step = sa.Table(
    "step",
    metadata,
    _id(),
    _ref("series_id", "series"),
    _text("kind"),
    _ref("after_night_id", "night"),
    _ref("through_night_id", "night"),
    _number("level_before", nullable=False),
    _number("level_after", nullable=False),
    _number("confidence", nullable=True),
    sa.UniqueConstraint("series_id", "kind", "through_night_id"),
    sa.CheckConstraint("kind in ('step', 'dip')", name="kind_known"),
)

recheck = sa.Table(
    "recheck",
    metadata,
    _id(),
    _ref("machine_id", "machine"),
    _ref("source_id", "source"),
    _ref("after_night_id", "night"),
    _ref("through_night_id", "night"),
    _time("asked_at", now=True),
    sa.UniqueConstraint("machine_id", "source_id", "after_night_id", "through_night_id"),
    sa.CheckConstraint("after_night_id <> through_night_id", name="range_not_empty"),
)

evidence = sa.Table(
    "evidence",
    metadata,
    _id(),
    _ref("recheck_id", "recheck"),
    _ref("series_id", "series"),
    _text("verdict", nullable=True),
    _number("ratio"),
    sa.Column("old", ARRAY(DOUBLE_PRECISION), nullable=False, server_default=sa.text("'{}'")),
    sa.Column("new", ARRAY(DOUBLE_PRECISION), nullable=False, server_default=sa.text("'{}'")),
    _text("reason", nullable=True),
    _time("decided_at", nullable=True),
    sa.UniqueConstraint("recheck_id", "series_id"),
    sa.CheckConstraint("(verdict is null) = (decided_at is null)", name="decided_has_verdict"),
    _one_of("verdict", model.Verdict, nullable=True),
)

bisection = sa.Table(
    "bisection",
    metadata,
    _id(),
    _ref("incident_id", "incident", nullable=True),
    sa.Column("attempt", sa.Integer, nullable=False),
    _ref("series_id", "series"),
    _ref("good_pair_id", "pair"),
    _ref("bad_pair_id", "pair"),
    _text("good"),
    _text("bad"),
    _text("policy"),
    sa.Column("state", sa.Text, nullable=False, server_default=OPEN_BISECTION),
    _text("reason", nullable=True),
    _time("opened_at", now=True),
    _time("finished_at", nullable=True),
    sa.CheckConstraint("state in ('open', 'finished', 'failed', 'cancelled')", name="state_known"),
    sa.CheckConstraint("(state = 'open') = (finished_at is null)", name="ended_has_time"),
    sa.CheckConstraint("good_pair_id <> bad_pair_id", name="range_not_empty"),
)
sa.Index(
    "ix_bisection_one_open_an_incident",
    bisection.c.incident_id,
    unique=True,
    postgresql_where=bisection.c.state == OPEN_BISECTION,
)

candidate = sa.Table(
    "candidate",
    metadata,
    _id(),
    _ref("bisection_id", "bisection"),
    sa.Column("position", sa.Integer, nullable=True),  # null: a crossed pair, which blame asked for
    _ref("pair_id", "pair"),
    sa.UniqueConstraint("bisection_id", "position"),
    sa.UniqueConstraint("bisection_id", "pair_id"),
)

probe = sa.Table(
    "probe",
    metadata,
    _id(),
    _ref("candidate_id", "candidate"),
    _text("outcome", nullable=True),
    _text("reason", nullable=True),
    sa.Column("ratios", ARRAY(DOUBLE_PRECISION), nullable=False, server_default=sa.text("'{}'")),
    _number("value"),
    _time("started_at", now=True),
    _time("finished_at", nullable=True),
    sa.UniqueConstraint("candidate_id"),
    sa.CheckConstraint("outcome is distinct from 'ok' or cardinality(ratios) > 0", name="no_empty_sample"),
    _one_of("outcome", model.Outcome, nullable=True),
)

culprit = sa.Table(
    "culprit",
    metadata,
    _id(),
    _ref("bisection_id", "bisection"),
    sa.Column("position", sa.Integer, nullable=False),
    _text("kind"),
    _text("repository", nullable=True),
    _text("commit", nullable=True),
    _text("after"),
    _text("through"),
    sa.Column("partners", ARRAY(sa.Text), nullable=False),
    _number("change"),
    _number("baseline"),
    _text("reason"),
    sa.UniqueConstraint("bisection_id", "position"),
    _one_of("kind", model.CulpritKind),
)

run = sa.Table(
    "run",
    metadata,
    _id(),
    _text("run_key"),
    _ref("machine_id", "machine"),
    _ref("environment_id", "environment", nullable=True),
    _text("suite"),
    _text("origin"),
    _ref("night_id", "night", nullable=True),
    _ref("recheck_id", "recheck", nullable=True),
    _ref("probe_id", "probe", nullable=True),
    sa.Column("attempt", sa.Integer, nullable=False),
    _text("outcome", nullable=True),
    _text("reason", nullable=True),
    _text("log", nullable=True),
    sa.Column("warnings", ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'")),
    _time("created_at", now=True),
    _time("finished_at", nullable=True),
    sa.UniqueConstraint("run_key"),
    sa.CheckConstraint("(outcome is null) = (finished_at is null)", name="ended_has_outcome"),
    _one_of("origin", model.Origin),
    _one_of("outcome", model.Outcome, nullable=True),
)
sa.Index("ix_run_night_id", run.c.night_id)

measurement = sa.Table(
    "measurement",
    metadata,
    sa.Column("run_id", sa.BigInteger, sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("series_id", sa.BigInteger, sa.ForeignKey("series.id"), primary_key=True),
    _text("outcome"),
    _text("reason", nullable=True),
    _number("value"),
    _number("low"),
    _number("high"),
    _number("spread"),
    sa.Column("samples", ARRAY(DOUBLE_PRECISION), nullable=False),
    sa.Column("process", ARRAY(SMALLINT), nullable=False),
    sa.Column("counts", JSONB, nullable=False),
    sa.Column("hashes", JSONB, nullable=False),
    sa.CheckConstraint(
        "outcome <> 'ok' or (value is not null and cardinality(samples) > 0)", name="no_empty_sample"
    ),
    sa.CheckConstraint("cardinality(samples) = cardinality(process)", name="process_for_each_sample"),
    _one_of("outcome", model.Outcome),
)
sa.Index("ix_measurement_series_id", measurement.c.series_id)

outbox = sa.Table(
    "outbox",
    metadata,
    _id(),
    _ref("incident_id", "incident", nullable=True),
    _ref("bisection_id", "bisection", nullable=True),
    _text("kind"),
    sa.Column("message", JSONB, nullable=False),
    _time("written_at", now=True),
    sa.UniqueConstraint("incident_id", "kind"),
    sa.CheckConstraint("incident_id is not null or bisection_id is not null", name="about_something"),
)
sa.Index(
    "ix_outbox_one_a_bisection",
    outbox.c.bisection_id,
    unique=True,
    postgresql_where=outbox.c.incident_id.is_(None),
)

delivery = sa.Table(
    "delivery",
    metadata,
    sa.Column("outbox_id", sa.BigInteger, sa.ForeignKey("outbox.id"), primary_key=True),
    sa.Column("transport", sa.Text, primary_key=True),
    sa.Column("attempts", sa.Integer, nullable=False, server_default=sa.text("0")),
    _time("sent_at", nullable=True),
    _text("thread", nullable=True),
    _text("error", nullable=True),
)
