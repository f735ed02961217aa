"""Exact series, warnings of a measurement, and the machine's conditions in a run.

What was counted about a program stands in series of its own from here on.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("series", sa.Column("exact", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("run", sa.Column("machine_state_id", sa.BigInteger(), nullable=True))
    op.create_foreign_key(
        op.f("fk_run_machine_state_id"), "run", "machine_state", ["machine_state_id"], ["id"]
    )
    op.add_column(
        "run",
        sa.Column(
            "conditions",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'::jsonb"),
            nullable=False,
        ),
    )
    op.add_column(
        "measurement",
        sa.Column("warnings", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    )
    op.drop_column("measurement", "counts")


def downgrade() -> None:
    op.add_column(
        "measurement",
        sa.Column(
            "counts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
    )
    op.alter_column("measurement", "counts", server_default=None)
    op.drop_column("measurement", "warnings")
    op.drop_column("run", "conditions")
    op.drop_column("run", "machine_state_id")
    op.drop_column("series", "exact")
