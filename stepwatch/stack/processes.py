"""Which processes are ours, and how are they ended for certain?

A process is named by its pid and its start time: a bare pid may have been given to a stranger since. Everything that a
stack starts carries `STEPWATCH_STACK=<identity>` in its environment, which its children inherit, so that what a
killed keeper left behind is found again in /proc. Without /proc (not Linux) only direct children are known.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

MARK = "STEPWATCH_STACK"
PROC = Path("/proc")

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process; `started` in the kernel's own words, compared for equality only."""

    pid: int
    started: str


def find(pid: int) -> Process | None:
    """The living process with that pid; None where there is none, or only its zombie."""
    if not PROC.joinpath("self/stat").exists():
        shown = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return Process(pid=pid, started=shown.stdout.strip()) if shown.stdout.strip() else None
    fields = _stat(pid)
    if fields is None or fields[0] in {"Z", "X"}:
        return None
    return Process(pid=pid, started=fields[19])


def is_alive(process: Process) -> bool:
    """Whether that very process still runs."""
    return find(process.pid) == process


def descendants(pid: int) -> list[Process]:
    """The process's children, their children, and so on; those that left the session or group too."""
    children: dict[int, list[int]] = {}
    for each in _pids():
        fields = _stat(each)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(each)
    found, queue = [], list(children.get(pid, []))
    while queue:
        each = queue.pop()
        queue += children.get(each, [])
        if process := find(each):
            found.append(process)
    return found


def marked(identity: str) -> list[Process]:
    """Every process that carries exactly this stack's mark, without ourselves and those that started us."""
    wanted = f"{MARK}={identity}".encode()
    spared = _ancestry()
    found = []
    for pid in _pids():
        try:
            environment = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in environment and pid not in spared and (process := find(pid)):
            found.append(process)
    return found


def send(process: Process, number: signal.Signals) -> None:
    """Send a signal to that very process, or to nobody."""
    try:
        handle = os.pidfd_open(process.pid)
    except AttributeError:
        if is_alive(process):
            os.kill(process.pid, number)
        return
    except OSError:
        return
    try:
        if is_alive(process):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def end(
    list_them: Callable[[], Iterable[Process]],
    *,
    grace_s: float,
    first: signal.Signals = signal.SIGTERM,
    between: Callable[[], object] = lambda: None,
) -> list[Process]:
    """End what `list_them` names: `first`, then SIGKILL after the grace, until it names nothing more.

    It is asked again and again, because a process that is about to end may still start another one; a parent
    reaps its children `between`. Returns what was sent a signal.
    """
    told: set[Process] = set()
    deadline = time.monotonic() + grace_s
    while living := list(list_them()):
        late = time.monotonic() >= deadline
        for process in living:
            if late or process not in told:
                send(process, signal.SIGKILL if late else first)
                told.add(process)
        if time.monotonic() > deadline + 10:
            break  # in the kernel's hands (a disk that doesn't answer): nothing more can be done
        between()
        time.sleep(0.05)
    return sorted(told, key=lambda process: process.pid)


def reap() -> dict[int, int]:
    """The children that have ended since the last call: pid to exit code (negative: the signal)."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def adopt_orphans() -> None:
    """Become the parent of our descendants' orphans, so that none escapes by a double fork."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(number: signal.Signals) -> None:
    """Ask, in a new child, for this signal when the parent dies."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def end_with_make() -> None:
    """Where `make` is the parent: end with it, however it ends; the keeper then ends what this process started."""
    parent = Path("/proc") / str(os.getppid()) / "comm"
    if parent.is_file() and parent.read_text(encoding="utf-8").strip() == "make":
        end_with_parent(signal.SIGTERM)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat from the state on: [0] state, [1] parent, [19] start time."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # the name before it may hold anything, brackets too


def _pids() -> list[int]:
    try:
        return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _ancestry() -> set[int]:
    found, pid = set(), os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        fields = _stat(pid)
        pid = int(fields[1]) if fields else 0
    return found
