"""Alembic runs the migrations on the connection that `storage.engine.migrate` hands it."""

from alembic import context

from storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, compare_type=True
)
with context.begin_transaction():
    context.run_migrations()
