"""Who is the parent of every service, and what happens when it or its starter dies?

`python -m stepwatch.stack.keeper` is started by `front.py`, on whose behalf it keeps the services.

    who is killed -9     what ends the services
    the starter          the keeper: its pipe ends (unless it was detached)
    the keeper           the warden, a fork of the keeper that waits on a pipe from it; and, at once, the
                         death signal that each service asked the kernel for
    both                 that death signal; what is left, the next start or `down` finds by its mark
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from stepwatch.stack import processes
from stepwatch.stack.folders import Folders, StackError
from stepwatch.stack.leftovers import AIRFLOW_GRACE_S, POSTGRES_GRACE_S, sweep
from stepwatch.stack.lock import Lock
from stepwatch.stack.parent import Ended, Order, Parent
from stepwatch.stack.starting import start

FULL_BYTES = 64 * 1024**2  # less than Postgres needs to start


def start_warden(folders: Folders, lock: Lock) -> tuple[int, int]:
    """Fork the process that ends everything marked when the keeper is killed; its pid and its pipe.

    It inherits the lock, so that nobody starts anew before it has finished.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(read)
        return pid, write
    os.close(write)
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    if not os.read(read, 1):
        lock.write("ending")
        sweep(folders)
    os._exit(0)


def end_all(parent: Parent, warden: int) -> None:
    """End the services; Postgres last, so that the others can say goodbye to it.

    The api-server keeps nothing and is killed first: a task that is interrupted can then not be reported as failed.
    It stays `running` in the metadata, and the next start runs it again.
    """
    named = {child.name: child for child in parent.children.values()}
    if api := named.get("api-server"):
        processes.end(lambda: parent.tree(of=api), first=signal.SIGKILL, grace_s=0, between=parent.reap)
    server = named.get("postgres")
    spared = (warden, *([server.popen.pid] if server else []))
    processes.end(lambda: parent.tree(without=spared), grace_s=AIRFLOW_GRACE_S, between=parent.reap)
    if server and (postmaster := processes.find(server.popen.pid)):
        processes.send(postmaster, signal.SIGINT)  # to it alone: it ends its own
        deadline = time.monotonic() + POSTGRES_GRACE_S
        while processes.is_alive(postmaster) and time.monotonic() < deadline:
            parent.reap()
            time.sleep(0.02)
    processes.end(
        lambda: parent.tree(without=(warden,)), first=signal.SIGQUIT, grace_s=1, between=parent.reap
    )


def keep(parent: Parent, order: Order, lock: Lock) -> int:
    """Start what is asked for and stay until the end is asked for; the exit code."""
    ready = False
    try:
        services = start(parent, order)
        lock.write("ready")
        ready = True
        parent.say("ready", services=services)
        while True:
            parent.pause(0.5)
    except Ended:
        return 0
    except (StackError, OSError) as error:
        sentence = str(error) + _space_note(parent.folders)
        with contextlib.suppress(OSError):
            parent.folders.failure.write_text(sentence)
        parent.say("crashed" if ready else "failed", sentence=sentence)
        return 1


def _space_note(folders: Folders) -> str:
    """A full disk breaks every program in its own words: the common reason is added to them."""
    for folder in (folders.state, folders.postgres):
        with contextlib.suppress(OSError):
            if shutil.disk_usage(folder).free < FULL_BYTES:
                return f"; the disk is full at {folder}"
    return ""


def main() -> int:
    """Keep what the order on standard input asks for."""
    parent = Parent()
    parent.listen()
    try:
        order = parent.read_order()
        folders = parent.folders = Folders(state=Path(order.state))
        folders.make()
        lock = Lock(folders, order)
        lock.take(parent)
    except Ended:
        return 1
    except (StackError, OSError) as error:
        parent.say("failed", sentence=str(error))
        return 1
    processes.adopt_orphans()
    folders.failure.unlink(missing_ok=True)
    sweep(folders)
    warden, pipe = start_warden(folders, lock)
    try:
        return keep(parent, order, lock)
    finally:
        lock.write("ending")
        folders.record.unlink(missing_ok=True)
        end_all(parent, warden)
        if order.throwaway:
            shutil.rmtree(folders.postgres, ignore_errors=True)
        os.write(pipe, b".")
        os.waitpid(warden, 0)


if __name__ == "__main__":
    sys.exit(main())
