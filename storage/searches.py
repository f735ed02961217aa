"""The tables of a search: its range, the path of candidates, what was tried and what it ended with."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION

from stepwatch.core import model
from storage.columns import document, identity, metadata, number, numbers, one_of, ref, text, time

OPEN_BISECTION = "open"

bisection = sa.Table(
    "bisection",
    metadata,
    identity(),
    ref("incident_id", "incident", nullable=True),
    sa.Column("attempt", sa.Integer, nullable=False),
    ref("series_id", "series"),
    ref("good_pair_id", "pair"),
    ref("bad_pair_id", "pair"),
    text("good"),
    text("bad"),
    text("policy"),
    sa.Column("pairing", sa.Text, nullable=False, server_default=model.Pairing.CLOCK.value),
    text("fix", nullable=True),
    text("container", nullable=True),  # the digest of the image in which pairs are built
    document("repositories", empty="{}"),  # what each is read from, where it was said in the request
    sa.Column("budget_probes", sa.Integer, nullable=True),
    number("budget_minutes"),
    sa.Column("state", sa.Text, nullable=False, server_default=OPEN_BISECTION),
    text("reason", nullable=True),
    time("opened_at", now=True),
    time("finished_at", nullable=True),
    sa.CheckConstraint("state in ('open', 'finished', 'failed', 'cancelled')", name="state_known"),
    sa.CheckConstraint("(state = 'open') = (finished_at is null)", name="ended_has_time"),
    sa.CheckConstraint("good_pair_id <> bad_pair_id", name="range_not_empty"),
    one_of("pairing", model.Pairing),
)
sa.Index(
    "ix_bisection_one_open_an_incident",
    bisection.c.incident_id,
    unique=True,
    postgresql_where=bisection.c.state == OPEN_BISECTION,
)

published = sa.Table(
    "published",
    metadata,
    identity(),
    ref("bisection_id", "bisection"),
    numbers("old"),
    numbers("new"),
    text("reason", nullable=True),  # why it has no values
    sa.Column("differences", ARRAY(sa.Text), nullable=False, server_default="{}"),
    sa.Column("seconds", DOUBLE_PRECISION, nullable=False, server_default="0"),  # of the machine
    time("finished_at", now=True),
    sa.UniqueConstraint("bisection_id"),
)

candidate = sa.Table(
    "candidate",
    metadata,
    identity(),
    ref("bisection_id", "bisection"),
    sa.Column("position", sa.Integer, nullable=True),  # null: a crossed pair, which blame asked for
    ref("pair_id", "pair"),
    time("hour", nullable=True),  # the UTC hour that ends with this pair
    sa.Column(
        "at_hand", sa.Boolean, nullable=False, server_default=sa.false()
    ),  # when the bisection was opened
    sa.UniqueConstraint("bisection_id", "position"),
    sa.UniqueConstraint("bisection_id", "pair_id"),
)

probe = sa.Table(
    "probe",
    metadata,
    identity(),
    ref("candidate_id", "candidate"),
    text("outcome", nullable=True),
    text("reason", nullable=True),
    text("log", nullable=True),  # of what failed, its end
    text("program", nullable=True),  # the digest of what was built: two with the same are one program
    numbers("ratios"),
    number("value"),
    time("started_at", now=True),
    time("finished_at", nullable=True),
    sa.Column(
        "seconds", DOUBLE_PRECISION, nullable=False, server_default="0"
    ),  # of the machine, all repeats together
    sa.UniqueConstraint("candidate_id"),
    sa.CheckConstraint("outcome is distinct from 'ok' or cardinality(ratios) > 0", name="no_empty_sample"),
    one_of("outcome", model.Outcome, nullable=True),
)

sandwich = sa.Table(
    "sandwich",
    metadata,
    identity(),
    ref("bisection_id", "bisection"),
    ref("after_pair_id", "pair"),
    ref("through_pair_id", "pair"),
    numbers("old"),
    numbers("new"),
    text("reason", nullable=True),  # why it has no values
    sa.Column("seconds", DOUBLE_PRECISION, nullable=False, server_default="0"),  # of the machine
    time("finished_at", now=True),
    sa.UniqueConstraint("bisection_id", "after_pair_id", "through_pair_id"),
)

culprit = sa.Table(
    "culprit",
    metadata,
    identity(),
    ref("bisection_id", "bisection"),
    sa.Column("position", sa.Integer, nullable=False),
    text("kind"),
    text("repository", nullable=True),
    text("commit", nullable=True),
    text("after"),
    text("through"),
    sa.Column("partners", ARRAY(sa.Text), nullable=False),
    number("change"),
    number("low"),
    number("high"),
    number("baseline"),
    text("reason"),
    text("author", nullable=True),
    time("committed_at", nullable=True),
    text("subject", nullable=True),
    text("url", nullable=True),
    numbers("old"),
    numbers("new"),
    sa.UniqueConstraint("bisection_id", "position"),
    one_of("kind", model.CulpritKind),
)
