"""Who holds a state folder, and may somebody else wait for it?"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import IO

from stepwatch.stack import processes
from stepwatch.stack.folders import Folders, StackError, read_json
from stepwatch.stack.parent import Order, Parent

LOCK_WAIT_S = 20.0
REMEDIES = {
    "up": "`stepwatch down` ends it",
    "demo": "wait until it has ended",
    "command": "wait until it has ended; after `stepwatch up` several commands work at once",
}


class Lock:
    """The state folder's lock; its text says who holds it and how far that one is."""

    def __init__(self, folders: Folders, order: Order) -> None:
        self._folders = folders
        self._kind = order.kind
        self._file: IO[str] = folders.lock.open("a+")

    def take(self, parent: Parent) -> None:
        """Take it; wait for a holder that ends soon, refuse beside one that stays."""
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = read_json(self._folders.lock)
                stays = holder.get("kind") in {"demo", "up"} and holder.get("phase") == "ready"
                if stays or time.monotonic() > deadline:
                    kind = holder.get("kind", "unknown")
                    remedy = REMEDIES.get(kind, "wait until it has ended")
                    raise StackError(
                        f"{self._folders.state} is in use by `stepwatch` ({kind}, process {holder.get('pid', 'unknown')}, "
                        f"{holder.get('phase', 'unknown')}): {remedy}"
                    ) from None
                parent.pause(0.1)
            else:
                self.write("starting")
                return

    def write(self, phase: str) -> None:
        """Say who we are."""
        me = processes.find(os.getpid())
        holder = {"pid": os.getpid(), "started": me.started if me else "", "kind": self._kind, "phase": phase}
        self._file.truncate(0)
        self._file.write(json.dumps(holder))
        self._file.flush()
