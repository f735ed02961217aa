"""A search may be by hours, of pinned pairs, with a repository held still and within a budget; its boundaries are
measured side by side, and a culprit is told with what its repository says of it.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION, JSONB

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def numbers(name: str) -> sa.Column:
    return sa.Column(name, ARRAY(DOUBLE_PRECISION), nullable=False, server_default="{}")


def moment(name: str) -> sa.Column:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=True)


def of_bisection() -> list[sa.Column]:
    return [
        sa.Column("pairing", sa.Text, nullable=False, server_default="clock"),
        sa.Column("fix", sa.Text),
        sa.Column("repositories", JSONB, nullable=False, server_default="{}"),
        sa.Column("budget_probes", sa.Integer),
        sa.Column("budget_minutes", DOUBLE_PRECISION),
    ]


def of_culprit() -> list[sa.Column]:
    return [
        sa.Column("low", DOUBLE_PRECISION),
        sa.Column("high", DOUBLE_PRECISION),
        sa.Column("author", sa.Text),
        moment("committed_at"),
        sa.Column("subject", sa.Text),
        sa.Column("url", sa.Text),
        numbers("old"),
        numbers("new"),
    ]


def kinds(*words: str) -> None:
    op.drop_constraint(op.f("ck_source_kind_known"), "source")
    op.create_check_constraint(
        op.f("ck_source_kind_known"), "source", f"kind in ({', '.join(repr(word) for word in words)})"
    )


def upgrade() -> None:
    kinds("registry", "releases", "commits", "logs")
    for column in of_bisection():
        op.add_column("bisection", column)
    op.create_check_constraint(
        op.f("ck_bisection_pairing_known"), "bisection", "pairing in ('clock', 'pinned')"
    )
    op.add_column("candidate", moment("hour"))
    op.add_column("candidate", sa.Column("at_hand", sa.Boolean, nullable=False, server_default=sa.false()))
    for column in of_culprit():
        op.add_column("culprit", column)
    references = {"bisection_id": "bisection", "after_pair_id": "pair", "through_pair_id": "pair"}
    op.create_table(
        "sandwich",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in references),
        numbers("old"),
        numbers("new"),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("seconds", DOUBLE_PRECISION(), nullable=False, server_default="0"),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        *(
            sa.ForeignKeyConstraint([name], [f"{table}.id"], name=op.f(f"fk_sandwich_{name}"))
            for name, table in references.items()
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sandwich")),
        sa.UniqueConstraint(*references, name=op.f(f"uq_sandwich_{'_'.join(references)}")),
    )


def downgrade() -> None:
    op.drop_table("sandwich")
    for column in of_culprit():
        op.drop_column("culprit", column.name)
    op.drop_column("candidate", "at_hand")
    op.drop_column("candidate", "hour")
    op.drop_constraint(op.f("ck_bisection_pairing_known"), "bisection")
    for column in of_bisection():
        op.drop_column("bisection", column.name)
    op.execute("delete from source where kind = 'commits'")
    kinds("registry", "releases", "logs")
