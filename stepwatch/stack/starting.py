"""In which order are the services started, and what is prepared only once?

Postgres, our database, Airflow's tables (only where they are missing or another version's: 10 s), then the three
Airflow services at once. Whatever is made only once is made under another name or noted when it is complete, so that a
start that was killed is simply done again.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shlex
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

from stepwatch.stack import airflow_setup, postgres, processes
from stepwatch.stack.airflow_setup import Airflow
from stepwatch.stack.folders import Folders, StackError, read_json, write_private
from stepwatch.stack.leftovers import postgres_processes
from stepwatch.stack.parent import Order, Parent
from stepwatch.stack.postgres import Server

POSTGRES_WAIT_S = 60.0
AIRFLOW_WAIT_S = 240.0


def start(parent: Parent, order: Order) -> dict[str, Any]:
    """Start what is ordered; what `Services` is made of."""
    folders = parent.folders
    server = postgres.open_server(folders, throwaway=order.throwaway)
    port = start_server(parent, server)
    server.create_database(port, postgres.DATABASE)
    services: dict[str, Any] = {"database_url": server.url(port)}
    if order.airflow:
        airflow = start_airflow(parent, server, port, order)
        services |= {
            "airflow_url": airflow.url,
            "login": airflow_setup.LOGIN,
            "password": airflow.password,
            "environment": airflow.settings(),
        }
        lines = [f"export {name}={shlex.quote(value)}" for name, value in airflow.settings().items()]
        write_private(folders.environment, "\n".join([*lines, ""]))
    me = processes.find(os.getpid())
    keeper = {"pid": os.getpid(), "started": me.started if me else ""}
    write_private(folders.record, json.dumps({"keeper": keeper, "kind": order.kind, "services": services}))
    return services


def start_server(parent: Parent, server: Server) -> int:
    """Start Postgres, making the cluster first where there is none; its port."""
    if not server.data.exists():
        parent.say("step", sentence="making the Postgres database")
        _make_cluster(parent, server)
    # The sweep has ended every Postgres that worked here: this is the note of a killed one, and its pid may be
    # somebody else's by now, which would keep the new server from starting.
    with contextlib.suppress(FileNotFoundError):
        if processes.PROC.exists() and not postgres_processes(server.folders):
            (server.data / "postmaster.pid").unlink()
    parent.say("step", sentence="starting Postgres")
    for last_try in (False, False, True):
        port = postgres.free_port(_port_before(server.folders, "postgres"))
        child = parent.spawn(
            "postgres",
            server.command(port),
            environment=server.environment(),
            folder=server.home,
            user=server.user,
            death=signal.SIGINT,
        )
        try:
            parent.wait_until("Postgres", partial(server.answers, port), POSTGRES_WAIT_S)
        except StackError:
            if (
                last_try
                or child.code is None
                or "Address already in use" not in child.log.read_text(errors="replace")
            ):
                raise
            del parent.children[child.popen.pid]
        else:
            _note_port(server.folders, "postgres", port)
            return port
    raise AssertionError("the last try returns or raises")


def start_airflow(parent: Parent, server: Server, port: int, order: Order) -> Airflow:
    """Bring Airflow's tables up to date, start its services, and wait until they are well."""
    folders = parent.folders
    airflow = Airflow(
        folders=folders,
        metadata_url=server.url(port, airflow_setup.DATABASE),
        database_url=server.url(port),
        port=postgres.free_port(_port_before(folders, "airflow")),
        dags=Path(order.dags),
        clone=Path(order.clone),
        parallelism=order.parallelism,
        extra=order.extra_env,
    )
    airflow.prepare()
    _migrate(parent, server, port, airflow)
    # No scheduler runs now: what an earlier one still claims to run is to be taken up by the new one at once, not
    # when its heartbeat is old enough.
    server.query(port, "UPDATE job SET state = 'failed' WHERE state = 'running'", airflow_setup.DATABASE)
    parent.say("step", sentence="starting Airflow")
    since = dt.datetime.now(dt.UTC)
    for name, arguments in airflow_setup.SERVICES.items():
        parent.spawn(
            name,
            airflow_setup.command(arguments),
            environment=airflow.environment(),
            folder=folders.airflow,
        )
    parent.wait_until("Airflow", lambda: airflow.is_well(since), AIRFLOW_WAIT_S)
    _note_port(folders, "airflow", airflow.port)
    airflow.set_pools(order.pools)
    return airflow


def _make_cluster(parent: Parent, server: Server) -> None:
    for half in server.home.glob("half-*"):
        shutil.rmtree(half, ignore_errors=True)
    half = server.home / f"half-{os.getpid()}"
    password_file = server.home / "password"
    write_private(password_file, server.password + "\n")
    if server.user:
        shutil.chown(password_file, server.user)
    child = parent.spawn(
        "initdb",
        server.initdb(half, password_file),
        environment=server.environment(),
        folder=server.home,
        user=server.user,
    )
    try:
        parent.finish(child)
    finally:
        password_file.unlink()
    half.rename(server.data)


def _migrate(parent: Parent, server: Server, port: int, airflow: Airflow) -> None:
    """Make or update Airflow's tables; the database itself bears the note for which version that was done."""
    name, wanted = airflow_setup.DATABASE, f"tables of Airflow {airflow_setup.version()}"
    notes = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'airflow'"
    note = server.query(port, notes)
    if note == wanted:
        return
    parent.say("step", sentence="making Airflow's tables")
    if not note:  # it was never complete: whatever is there is half of a killed start's
        server.query(port, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        server.create_database(port, name)
    child = parent.spawn(
        "migrate",
        airflow_setup.command(["db", "migrate"]),
        environment=airflow.environment(),
        folder=airflow.folders.airflow,
    )
    parent.finish(child)
    server.query(port, f"COMMENT ON DATABASE {name} IS '{wanted}'")


def _port_before(folders: Folders, service: str) -> int | None:
    """The port of the last start: a bookmark stays good where it can."""
    port = read_json(folders.up / "ports.json").get(service)
    return port if isinstance(port, int) else None


def _note_port(folders: Folders, service: str, port: int) -> None:
    write_private(
        folders.up / "ports.json", json.dumps(read_json(folders.up / "ports.json") | {service: port})
    )
