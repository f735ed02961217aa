"""How is the database reached, and in which shape is it?"""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.exc import OperationalError

from storage.views import create_views

DRIVER = "postgresql+psycopg2"


DatabaseError = sa.exc.DBAPIError


def without_password(url: str) -> str:
    """A database URL as it may be shown: what stands between the first colon of the login and the last @ is hidden."""
    return re.sub(r"(?<=://)([^:/@]*):.*@", r"\1:***@", url)


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
            f"{without_password(url)!r} is not a database URL: postgresql://user@host/name is"
        ) from None
    if parsed.get_backend_name() != "postgresql":
        raise DatabaseUnreachableError(
            f"{without_password(url)} is no Postgres URL: postgresql://user@host/name is"
        )
    if "@" in (parsed.host or ""):
        raise DatabaseUnreachableError(
            f"{without_password(url)}: an @ in a password is written %40 (and : / ? # as %3A %2F %3F %23)"
        )
    engine = sa.create_engine(
        parsed.set(drivername=DRIVER), pool_pre_ping=True, executemany_mode="values_plus_batch"
    )
    try:
        with engine.connect():
            pass
    except OperationalError as error:
        first_line = str(error.orig).strip().splitlines()[0]
        raise DatabaseUnreachableError(f"no database at {without_password(url)}: {first_line}") from None
    return engine


def migrate(engine: sa.Engine) -> None:
    """Bring the schema to the newest version; safe when two processes do it at once, a no-op when it is there.

    Raises:
        DatabaseUnreachableError: a newer version of stepwatch has been at it.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.begin() as connection:
        connection.execute(sa.text("select pg_advisory_xact_lock(hashtext('stepwatch migrate'))"))
        config.attributes["connection"] = connection
        there = MigrationContext.configure(connection).get_current_revision()
        known = {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
        if there is not None and there not in known:
            raise DatabaseUnreachableError(
                f"the database has the schema {there} of a newer stepwatch; accepted is one up to {max(known)}: update this one"
            )
        command.upgrade(config, "head")
        create_views(connection)
