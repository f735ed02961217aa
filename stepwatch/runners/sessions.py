"""How does everything end that a program has started, also what left its process group?

A program that was started in a session of its own shares the session's number with all its descendants, but for
those that made a session themselves. asv gives each of its processes a group of its own, so ending the program's group
is not enough. Without /proc (not Linux) it is all that can be done.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

_PROC = Path("/proc")
_PATIENCE_S = 10.0  # what hangs in a driver can't be ended, and must not hang us too


def end(running: subprocess.Popen[str] | None) -> None:
    """End a program, its process group and its session, also what its leader left behind."""
    if running is None:
        return
    try:
        os.killpg(running.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # the group is empty; the session need not be
    else:
        running.wait()
    until = time.monotonic() + _PATIENCE_S
    while (left := members(running.pid)) and time.monotonic() < until:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)


def members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for folder in _PROC.glob("[0-9]*"):
        try:
            # the name in parentheses may itself hold anything, half a letter too
            state, _, _, of = (folder / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[:4]
        except OSError:
            continue  # it has ended meanwhile
        if int(of) == session and state not in {"Z", "X"}:
            found.append(int(folder.name))
    return found
