"""Which database do the tests use? One of random name, on a server that is theirs; never the service's own."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from docker_bed import Bed, running_bed, why_not
from sqlalchemy import make_url
from sqlalchemy.engine import URL
from terminal import NOWHERE, Terminal, variables
from worlds import emptied, one_schema

from stepwatch.stack import embedded_postgres
from storage.rows import Database

os.environ.pop("STEPWATCH_DATABASE_URL", None)


@pytest.fixture(scope="session")
def database_server() -> Iterator[URL]:
    """A server on which databases may be made: the one that is named, else one for this session."""
    if named := os.environ.get("STEPWATCH_TEST_DATABASE_URL"):
        yield make_url(named).set(drivername="postgresql+psycopg2")
        return
    with tempfile.TemporaryDirectory() as folder, embedded_postgres(Path(folder), throwaway=True) as url:
        yield make_url(url)


@pytest.fixture
def database_url(database_server: URL) -> Iterator[str]:
    """The URL (postgresql+psycopg2://) of a new, empty database, dropped at the end."""
    name = f"stepwatch_test_{secrets.token_hex(8)}"
    execute(database_server, f'CREATE DATABASE "{name}" TEMPLATE template0')
    yield database_server.set(database=name).render_as_string(hide_password=False)
    execute(database_server, f'DROP DATABASE "{name}" WITH (FORCE)')


def execute(url: URL, statement: str) -> None:
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with closing(psycopg2.connect(plain)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A Docker engine and a registry of the tests' own, where they can run."""
    if reason := why_not():
        pytest.skip(reason)
    with running_bed(tmp_path_factory.mktemp("bed")) as running:
        yield running


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    for variable in [each for each in os.environ if each.startswith("STEPWATCH_")]:
        monkeypatch.delenv(variable)
    (tmp_path / "stepwatch.toml").touch()
    monkeypatch.chdir(tmp_path)
    for name, value in variables(tmp_path, NOWHERE).items():
        monkeypatch.setenv(name, value)
    return Terminal(monkeypatch, capsys)


@pytest.fixture(scope="module")
def schema(database_server: URL) -> Iterator[Database]:
    with one_schema(database_server) as opened:
        yield opened


@pytest.fixture
def database(schema: Database, terminal: Terminal) -> Database:
    """The database that the terminal's settings lead to."""
    url = schema.url.render_as_string(hide_password=False)
    terminal.monkeypatch.setenv("STEPWATCH_DATABASE_URL", url)
    return emptied(schema)
