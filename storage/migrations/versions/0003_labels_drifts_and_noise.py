"""What people say of steps, drifts beside steps and dips, each series' noise, and bridges."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "label",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("series_id", sa.BigInteger(), nullable=False),
        sa.Column("after_night_id", sa.BigInteger(), nullable=False),
        sa.Column("through_night_id", sa.BigInteger(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("said_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("after_night_id <> through_night_id", name=op.f("ck_label_range_not_empty")),
        sa.CheckConstraint(
            "verdict in ('real', 'noise', 'environment')", name=op.f("ck_label_verdict_known")
        ),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_label_series_id")),
        sa.ForeignKeyConstraint(["after_night_id"], ["night.id"], name=op.f("fk_label_after_night_id")),
        sa.ForeignKeyConstraint(["through_night_id"], ["night.id"], name=op.f("fk_label_through_night_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_label")),
        sa.UniqueConstraint(
            "series_id", "through_night_id", name=op.f("uq_label_series_id_through_night_id")
        ),
    )
    op.add_column("series", sa.Column("noise", sa.Double(), nullable=True))
    op.add_column("series", sa.Column("noise_source", sa.Text(), nullable=True))
    op.add_column("evidence", sa.Column("bridge", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.drop_constraint(op.f("ck_step_kind_known"), "step")
    op.create_check_constraint(op.f("ck_step_kind_known"), "step", "kind in ('step', 'dip', 'drift')")


def downgrade() -> None:
    op.execute("delete from step where kind = 'drift'")
    op.drop_constraint(op.f("ck_step_kind_known"), "step")
    op.create_check_constraint(op.f("ck_step_kind_known"), "step", "kind in ('step', 'dip')")
    op.drop_column("evidence", "bridge")
    op.drop_column("series", "noise_source")
    op.drop_column("series", "noise")
    op.drop_table("label")
