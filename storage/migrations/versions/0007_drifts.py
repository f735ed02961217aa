"""A series that became slower little by little is an incident of its own kind."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TABLES = ("incident", "regression")
BOUNDARY, LASTING = "ix_regression_one_a_boundary", "ix_regression_one_drift_at_a_time"


def directions(*words: str) -> None:
    known = f"direction in ({', '.join(repr(word) for word in words)})"
    for table in TABLES:
        op.drop_constraint(op.f(f"ck_{table}_direction_known"), table)
        op.create_check_constraint(op.f(f"ck_{table}_direction_known"), table, known)


def boundaries(where: str) -> None:
    op.drop_index(BOUNDARY, "regression")
    columns = ["series_id", "through_night_id"]
    op.create_index(BOUNDARY, "regression", columns, unique=True, postgresql_where=sa.text(where))


def upgrade() -> None:
    directions("regression", "improvement", "failure", "drift")
    boundaries("gone_at is null and direction <> 'drift' and recovered_night_id is null")
    lasting = sa.text("gone_at is null and direction = 'drift' and recovered_night_id is null")
    op.create_index(LASTING, "regression", ["series_id"], unique=True, postgresql_where=lasting)


def downgrade() -> None:
    op.execute(
        "delete from delivery using outbox, incident where outbox.id = outbox_id"
        " and incident.id = outbox.incident_id and direction = 'drift'"
    )
    op.execute(
        "delete from outbox using incident where incident.id = outbox.incident_id and direction = 'drift'"
    )
    op.execute(
        "delete from remark using regression where regression.id = regression_id and direction = 'drift'"
    )
    op.execute("delete from regression where direction = 'drift'")
    op.execute("delete from incident where direction = 'drift'")
    op.drop_index(LASTING, "regression")
    boundaries("gone_at is null")
    directions("regression", "improvement", "failure")
