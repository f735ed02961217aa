"""A message may be about the detector itself: about no incident and no bisection."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

WHERE = sa.text("incident_id is null and bisection_id is null")


def upgrade() -> None:
    op.drop_constraint(op.f("ck_outbox_about_something"), "outbox")
    op.create_index("ix_outbox_one_of_a_kind", "outbox", ["kind"], unique=True, postgresql_where=WHERE)


def downgrade() -> None:
    op.execute(
        "delete from delivery where outbox_id in (select id from outbox where coalesce(incident_id, bisection_id) is null)"
    )
    op.execute("delete from outbox where coalesce(incident_id, bisection_id) is null")
    op.drop_index("ix_outbox_one_of_a_kind", "outbox")
    op.create_check_constraint(
        op.f("ck_outbox_about_something"), "outbox", "incident_id is not null or bisection_id is not null"
    )
