"""How is the database reached, and in which shape is it?"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.exc import OperationalError

from storage.views import create_views

DRIVER = "postgresql+psycopg2"


DatabaseError = sa.exc.DBAPIError


class DatabaseUnreachableError(Exception):
    """Postgres did not answer; the message names the address without its password."""


def connect(url: str) -> sa.Engine:
    """An engine for a Postgres URL, whatever driver the URL names.

    Raises:
        DatabaseUnreachableError: the URL is no Postgres URL, or no server answers there.
    """
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise DatabaseUnreachableError(
            f"{url!r} is not a database URL: postgresql://user@host/name is"
        ) from None
    if parsed.get_backend_name() != "postgresql":
        raise DatabaseUnreachableError(
            f"{parsed.render_as_string()} is no Postgres URL: postgresql://user@host/name is"
        )
    engine = sa.create_engine(parsed.set(drivername=DRIVER), pool_pre_ping=True, future=True)
    try:
        with engine.connect():
            pass
    except OperationalError as error:
        first_line = str(error.orig).strip().splitlines()[0]
        raise DatabaseUnreachableError(f"no database at {parsed.render_as_string()}: {first_line}") from None
    return engine


def migrate(engine: sa.Engine) -> None:
    """Bring the schema to the newest version; safe when two processes do it at once, a no-op when it is there."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.begin() as connection:
        connection.execute(sa.text("select pg_advisory_xact_lock(hashtext('stepwatch migrate'))"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        create_views(connection)
