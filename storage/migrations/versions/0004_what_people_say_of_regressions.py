"""Until when a regression is snoozed, whom it is for, each thing that was said of it; and what a probe costs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("regression", sa.Column("snoozed_until", sa.DateTime(timezone=True), nullable=True))
    op.add_column("regression", sa.Column("assignee", sa.Text(), nullable=True))
    op.create_check_constraint(
        op.f("ck_regression_snoozed_has_end"),
        "regression",
        "(disposition = 'snoozed') = (snoozed_until is not null)",
    )
    op.add_column("probe", sa.Column("seconds", sa.Double(), server_default="0", nullable=False))
    op.create_table(
        "remark",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("regression_id", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("assignee", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("said_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "action in ('ack', 'snooze', 'assign', 'dismiss', 'reopen')", name=op.f("ck_remark_action_known")
        ),
        sa.ForeignKeyConstraint(["regression_id"], ["regression.id"], name=op.f("fk_remark_regression_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_remark")),
    )


def downgrade() -> None:
    op.drop_table("remark")
    op.drop_column("probe", "seconds")
    op.drop_constraint(op.f("ck_regression_snoozed_has_end"), "regression")
    op.drop_column("regression", "assignee")
    op.drop_column("regression", "snoozed_until")
