"""What can a keeper do: start programs, notice who ends, listen to its starter?

Over one pipe the keeper reads a line of JSON (the order), then `detach` or the end of the pipe, which is its own
end; over another it writes a line of JSON an event.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stepwatch.stack import processes
from stepwatch.stack.folders import Folders, StackError
from stepwatch.stack.processes import MARK, Process


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be started; `kind` says who asks: `demo`, `up`, `command` or `test`."""

    kind: str
    state: str
    throwaway: bool = False
    airflow: bool = False
    dags: str = ""
    clone: str = ""
    parallelism: int = 4
    pools: Mapping[str, int] = field(default_factory=dict)
    extra_env: Mapping[str, str] = field(default_factory=dict)

    def line(self) -> bytes:
        """The order as the keeper reads it."""
        return json.dumps(asdict(self)).encode() + b"\n"


class Ended(Exception):  # noqa: N818  # no error: the wish to stop, from wherever the keeper is
    """The starter is gone, or asked for the end."""


@dataclass(kw_only=True)
class Child:
    """A program that the keeper started; `code` once it has ended."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    code: int | None = None

    def sentence(self) -> str:
        """What is to be said when it ended by itself."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        last = f", which ends with: {lines[-1][:300]}" if lines else ""
        return f"{self.name} ended by itself (exit code {self.code}); its log is {self.log}{last}"


class Parent:
    """The parent: starts programs, waits for them and for its starter, and ends them all."""

    def __init__(self) -> None:
        self.folders = Folders(state=Path())
        self.children: dict[int, Child] = {}
        self.detached = False
        self._starter = os.getppid()
        self._asked = False
        self._heard = b""

    def listen(self) -> None:
        """End in order on a signal, and never die of a starter that has stopped reading."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._ask_to_end)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def read_order(self) -> Order:
        """The starter's first line."""
        while b"\n" not in self._heard:
            self._hear(None)
        line, _, self._heard = self._heard.partition(b"\n")
        return Order(**json.loads(line))

    def say(self, event: str, **details: Any) -> None:
        """Tell the starter; nobody may be listening any more."""
        with contextlib.suppress(OSError):
            os.write(1, json.dumps({"event": event, **details}).encode() + b"\n")

    def spawn(
        self,
        name: str,
        command: list[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        user: str | None = None,
        death: signal.Signals = signal.SIGKILL,
    ) -> Child:
        """Start a program in a session of its own, marked, with its own log."""
        log = self.folders.logs / f"{name}.log"
        with contextlib.suppress(FileNotFoundError):
            log.replace(log.with_suffix(".before.log"))
        with log.open("wb") as output:
            popen = subprocess.Popen(
                command,
                env={**environment, MARK: self.folders.identity},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: processes.end_with_parent(death),  # noqa: PLW1509  # there is one thread
                **_as_user(user),
            )
        child = Child(name=name, popen=popen, log=log)
        self.children[popen.pid] = child
        return child

    def finish(self, child: Child) -> None:
        """Wait until a program has ended, and insist on success."""
        while child.code is None:
            self.pause(0.05, expected=child)
        del self.children[child.popen.pid]
        if child.code != 0:
            raise StackError(child.sentence())

    def wait_until(self, what: str, is_so: Callable[[], bool], limit_s: float) -> None:
        """Ask until it is so; a service that ends meanwhile, or the limit, is an error."""
        deadline = time.monotonic() + limit_s
        while not is_so():
            if time.monotonic() > deadline:
                raise StackError(
                    f"{what} was not there after {limit_s:.0f} s; the logs are in {self.folders.logs}"
                )
            self.pause(0.1)

    def pause(self, wait_s: float, expected: Child | None = None) -> None:
        """Wait a moment, seeing whether the starter or a service has gone."""
        if self.detached:
            time.sleep(wait_s)
        elif not self._hear(wait_s) and os.getppid() != self._starter:
            raise Ended
        if self._asked:
            raise Ended
        self.reap()
        for child in self.children.values():
            if child.code is not None and child is not expected:
                raise StackError(child.sentence())

    def reap(self) -> None:
        """Take note of every child that has ended, orphans that came to us included."""
        for pid, code in processes.reap().items():
            if pid in self.children:
                self.children[pid].code = code

    def tree(self, *, of: Child | None = None, without: tuple[int, ...] = ()) -> list[Process]:
        """Our living descendants, or one child and its own; but not those of some."""
        spared = {
            pid for root in without for pid in (root, *(each.pid for each in processes.descendants(root)))
        }
        if of is None:
            found = processes.descendants(os.getpid())
        else:
            root = None if of.code is not None else processes.find(of.popen.pid)
            found = [*([root] if root else []), *processes.descendants(of.popen.pid)]
        return [process for process in found if process.pid not in spared]

    def _hear(self, wait_s: float | None) -> bool:
        """Whether the starter said something."""
        if not select.select([0], [], [], wait_s)[0]:
            return False
        text = os.read(0, 65536)
        if not text:
            raise Ended
        self._heard += text
        if self._heard.startswith(b"detach\n"):
            self.detached = True
        return True

    def _ask_to_end(self, _number: int, _frame: object) -> None:
        self._asked = True


def _as_user(name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    account = pwd.getpwnam(name)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
