"""How does a program start, find and end the services of a state folder?"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from stepwatch.stack import processes
from stepwatch.stack.folders import Folders, StackError, read_json
from stepwatch.stack.leftovers import sweep
from stepwatch.stack.parent import Order
from stepwatch.stack.processes import MARK, Process

END_WAIT_S = 30.0
START_WAIT_S = 300.0
STAYING = {"up", "demo"}  # whose services others may use
_CLONE = Path(__file__).resolve().parents[2]

OnEvent = Callable[[str], None]
"""Is told one sentence for each step of a start, and one when a service has ended by itself."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """What a user of a running stack needs; `environment` is what `airflow` commands by hand need."""

    database_url: str
    airflow_url: str
    login: str
    password: str
    environment: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Postgres and Airflow of one state folder.

    `clone` goes on the services' PYTHONPATH, `extra_env` into their environment (over everything else),
    `pools` are Airflow's pools with their slots, `parallelism` is how many tasks run at once.
    """

    state: Path
    dags: Path
    clone: Path = _CLONE
    extra_env: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, int] = field(default_factory=dict)
    parallelism: int = 4
    throwaway: bool = False

    @contextlib.contextmanager
    def running(self, on_event: OnEvent = lambda _: None) -> Iterator[Services]:
        """Start everything; end it on leaving, or when this process dies, however it dies."""
        with _kept(self._order("demo"), on_event) as services:
            yield Services(**services)

    def up(self, on_event: OnEvent = lambda _: None) -> Services:
        """Start everything and leave it running; what is already up is returned as it is."""
        record = _record(self.state)
        if record.get("kind") == "up":
            return Services(**record["services"])
        link = _Link(self._order("up"), on_event)
        with link.ended_on_error():
            services = Services(**link.wait_until_ready())
        link.detach()
        return services

    def down(self) -> list[str]:
        """End whatever runs for this state folder; what that was, one line each."""
        return end_services(self.state)

    def status(self) -> Services | None:
        """The services if they are running and ready."""
        services = _record(self.state).get("services", {})
        return Services(**services) if "airflow_url" in services else None

    def failure(self) -> str | None:
        """The sentence about why the last start failed or which service ended by itself since."""
        path = Folders(state=self.state).failure
        return path.read_text() if path.exists() else None

    def _order(self, kind: str) -> Order:
        return Order(
            kind=kind,
            state=str(self.state.resolve()),
            throwaway=self.throwaway,
            airflow=True,
            dags=str(self.dags.resolve()),
            clone=str(self.clone.resolve()),
            parallelism=self.parallelism,
            pools=dict(self.pools),
            extra_env=dict(self.extra_env),
        )


@contextlib.contextmanager
def embedded_postgres(state: Path, *, throwaway: bool = False) -> Iterator[str]:
    """The URL of our database on a Postgres started for this block alone.

    `throwaway` is for tests: nothing is synced to disk, and the data are removed at the end.
    """
    kind = "test" if throwaway else "command"
    order = Order(kind=kind, state=str(state.resolve()), throwaway=throwaway)
    with _kept(order, lambda _: None) as services:
        yield services["database_url"]


@contextlib.contextmanager
def running_database(state: Path) -> Iterator[str]:
    """The URL of our database: the running stack's, else one that is started for this block."""
    _wait_while_starting(state)
    services = _record(state).get("services")
    if services and _record(state).get("kind") in STAYING:
        yield services["database_url"]
    else:
        with embedded_postgres(state) as url:
            yield url


def _wait_while_starting(state: Path) -> None:
    """Until services that will stay are ready, where a living keeper is just starting them."""
    folders = Folders(state=state)
    deadline = time.monotonic() + START_WAIT_S
    while time.monotonic() < deadline:
        holder = read_json(folders.lock)
        keeper = Process(pid=int(holder.get("pid", 0)), started=str(holder.get("started", "")))
        starting = holder.get("kind") in STAYING and holder.get("phase") == "starting"
        if not starting or not processes.is_alive(keeper):
            return
        time.sleep(0.2)


def end_services(state: Path) -> list[str]:
    """End the keeper of a state folder and every process left over from a killed one."""
    folders = Folders(state=state)
    ended: list[str] = []
    if not folders.lock.exists():
        return ended
    holder = read_json(folders.lock)
    keeper = Process(pid=int(holder.get("pid", 0)), started=str(holder.get("started", "")))
    with folders.lock.open("a") as lock:
        if not _is_free(lock) and processes.is_alive(keeper):
            processes.send(keeper, signal.SIGTERM)
            ended.append(f"services of `stepwatch` ({holder.get('kind')}, process {keeper.pid})")
        deadline = time.monotonic() + END_WAIT_S
        while not _is_free(lock) or processes.is_alive(keeper):
            if time.monotonic() > deadline:
                if not processes.is_alive(keeper):
                    raise StackError(f"{folders.lock} is held by a process that doesn't end")
                processes.send(keeper, signal.SIGKILL)  # its warden does the rest
                deadline += END_WAIT_S
            time.sleep(0.05)
        ended += [f"left-over process {process.pid}" for process in sweep(folders)]
        folders.record.unlink(missing_ok=True)
    return ended


@contextlib.contextmanager
def _kept(order: Order, on_event: OnEvent) -> Iterator[dict[str, Any]]:
    link = _Link(order, on_event)
    try:
        yield link.wait_until_ready()
    finally:
        link.end()


class _Link:
    """The starter's side of the two pipes to a keeper."""

    def __init__(self, order: Order, on_event: OnEvent) -> None:
        self._folders = Folders(state=Path(order.state))
        self._folders.make()
        self._on_event = on_event
        with (self._folders.logs / "keeper.log").open("ab") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "stepwatch.stack.keeper"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folders.state,
                env={**os.environ, "PYTHONPATH": str(_CLONE), MARK: self._folders.identity},
                start_new_session=True,
            )
        self._to_keeper = cast("IO[bytes]", self._keeper.stdin)
        self._from_keeper = cast("IO[bytes]", self._keeper.stdout)
        self._say(order.line())

    def wait_until_ready(self) -> dict[str, Any]:
        """The services; a start that failed is a StackError."""
        for event in self._events():
            match event["event"]:
                case "step":
                    self._on_event(event["sentence"])
                case "ready":
                    threading.Thread(target=self._watch, daemon=True).start()
                    services: dict[str, Any] = event["services"]
                    return services
                case _:
                    raise StackError(event["sentence"])
        raise StackError(
            f"the services' keeper ended by itself; its log is {self._folders.logs / 'keeper.log'}"
        )

    def detach(self) -> None:
        """Leave the services running."""
        self._say(b"detach\n")
        self._close()

    def end(self) -> None:
        """End the services and wait until they have ended."""
        self._close()
        try:
            self._keeper.wait(END_WAIT_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()  # its warden does the rest
            self._keeper.wait()

    @contextlib.contextmanager
    def ended_on_error(self) -> Iterator[None]:
        """End the services if the block fails."""
        try:
            yield
        except BaseException:
            self.end()
            raise

    def _events(self) -> Iterator[dict[str, Any]]:
        for line in self._from_keeper:
            yield json.loads(line)

    def _watch(self) -> None:
        for event in self._events():
            self._on_event(event["sentence"])

    def _say(self, text: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._to_keeper.write(text)
            self._to_keeper.flush()

    def _close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._to_keeper.close()


def _record(state: Path) -> dict[str, Any]:
    """What a living keeper wrote down when its services were ready."""
    record = read_json(Folders(state=state).record)
    keeper = record.get("keeper", {})
    alive = bool(keeper) and processes.is_alive(Process(pid=keeper["pid"], started=keeper["started"]))
    return record if alive else {}


def _is_free(lock: Any) -> bool:
    """Whether the lock is now ours."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
