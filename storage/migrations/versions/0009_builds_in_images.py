"""Pairs are built in an image of a night; both published images are measured before, and a probe knows what it was built to."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def numbers(name: str) -> sa.Column:
    return sa.Column(name, ARRAY(DOUBLE_PRECISION), nullable=False, server_default="{}")


def upgrade() -> None:
    op.add_column("bisection", sa.Column("container", sa.Text))
    op.add_column("probe", sa.Column("program", sa.Text))
    op.add_column("probe", sa.Column("log", sa.Text))
    op.create_table(
        "published",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("bisection_id", sa.BigInteger(), nullable=False),
        numbers("old"),
        numbers("new"),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("differences", ARRAY(sa.Text), nullable=False, server_default="{}"),
        sa.Column("seconds", DOUBLE_PRECISION(), nullable=False, server_default="0"),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.ForeignKeyConstraint(["bisection_id"], ["bisection.id"], name=op.f("fk_published_bisection_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_published")),
        sa.UniqueConstraint("bisection_id", name=op.f("uq_published_bisection_id")),
    )


def downgrade() -> None:
    op.drop_table("published")
    op.drop_column("probe", "log")
    op.drop_column("probe", "program")
    op.drop_column("bisection", "container")
