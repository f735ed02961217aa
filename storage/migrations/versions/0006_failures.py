"""Benchmarks that give no result any more."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

OUTCOMES = (
    "ok",
    "skipped",
    "image_missing",
    "build_failed",
    "benchmark_failed",
    "wrong_result",
    "timed_out",
    "stale_build",
    "cancelled",
)
TABLES = ("incident", "regression")


def known(column: str, words: tuple[str, ...]) -> str:
    return f"{column} in ({', '.join(repr(word) for word in words)})"


def directions(*words: str) -> None:
    for table in TABLES:
        op.drop_constraint(op.f(f"ck_{table}_direction_known"), table)
        op.create_check_constraint(op.f(f"ck_{table}_direction_known"), table, known("direction", words))


def upgrade() -> None:
    directions("regression", "improvement", "failure")
    references = {
        "series_id": "series",
        "incident_id": "incident",
        "after_night_id": "night",
        "through_night_id": "night",
        "raised_night_id": "night",
        "recovered_night_id": "night",
    }
    op.create_table(
        "failure",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("series_id", sa.BigInteger(), nullable=False),
        sa.Column("incident_id", sa.BigInteger(), nullable=False),
        sa.Column("after_night_id", sa.BigInteger(), nullable=False),
        sa.Column("through_night_id", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("raised_night_id", sa.BigInteger(), nullable=False),
        sa.Column("recovered_night_id", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("after_night_id <> through_night_id", name=op.f("ck_failure_range_not_empty")),
        sa.CheckConstraint(known("outcome", OUTCOMES), name=op.f("ck_failure_outcome_known")),
        *(
            sa.ForeignKeyConstraint([column], [f"{table}.id"], name=op.f(f"fk_failure_{column}"))
            for column, table in references.items()
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_failure")),
        sa.UniqueConstraint(
            "series_id", "through_night_id", name=op.f("uq_failure_series_id_through_night_id")
        ),
    )


def downgrade() -> None:
    op.drop_table("failure")
    op.execute(
        "delete from delivery using outbox, incident where outbox.id = outbox_id"
        " and incident.id = outbox.incident_id and direction = 'failure'"
    )
    op.execute(
        "delete from outbox using incident where incident.id = outbox.incident_id and direction = 'failure'"
    )
    op.execute("delete from incident where direction = 'failure'")
    directions("regression", "improvement")
