"""How does a program that wants an interpreter on this machine get the one inside a container?

    python -m stepwatch.runners.container_python ENGINE CONTAINER PYTHON WORDS…

runs `PYTHON WORDS…` in a running container, in the same working directory, which must be mounted there under the same path, and with
the variables that reach a benchmark; what it prints and how it ends is passed on, a signal as that signal. It is what a
suite of asv is given as its interpreter (`write_interpreter`). When it is ended itself, so is what it runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import secrets
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import docker

PASSED = re.compile(r"(TMPDIR|STEPWATCH_SIZE|(JAX|XLA|ASV|OMP|OPENBLAS|MKL)_\w+)$")
MARK = "STEPWATCH_CALL"  # tells one call's processes from all others in the container


def write_interpreter(file: Path, *, engine: str, container: str, python: Path) -> None:
    """Write the program that stands for the container's interpreter."""
    words = [sys.executable, "-P", "-m", "stepwatch.runners.container_python", engine, container, str(python)]
    clone = Path(__file__).parents[2]
    line = f"PYTHONPATH_INSIDE=$PYTHONPATH PYTHONPATH={shlex.quote(str(clone))} exec {shlex.join(words)}"
    file.write_text(f'#!/bin/sh\n{line} "$@"\n', encoding="utf-8")
    file.chmod(0o755)


def lent() -> list[Path]:
    """The folders that a container needs of asv and of ours: nothing is installed there. asv itself is not imported here."""
    specs = (importlib.util.find_spec(name) for name in ("asv", "asv_runner"))
    origins = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    return [*(Path(each).parent for each in origins), Path(__file__).parent]


def main(words: list[str]) -> int:
    """Run the words; the exit code."""
    engine, container, *command = words
    client = docker.DockerClient(base_url=engine or None) if engine else docker.from_env()
    call = secrets.token_hex(8)
    variables = {name: value for name, value in os.environ.items() if PASSED.match(name)}
    variables |= {"PYTHONPATH": os.environ.get("PYTHONPATH_INSIDE", ""), MARK: call}

    def end(number: int, _: Any) -> None:
        with contextlib.suppress(docker.errors.APIError):
            client.containers.get(container).exec_run(["sh", "-c", _KILL.format(mark=f"{MARK}={call}")])
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    started = client.api.exec_create(container, command, environment=variables, workdir=str(Path.cwd()))
    for out, err in client.api.exec_start(started["Id"], stream=True, demux=True):
        for stream, data in ((sys.stdout, out), (sys.stderr, err)):
            if data:
                stream.buffer.write(data)
                stream.flush()
    status = int(client.api.exec_inspect(started["Id"])["ExitCode"])
    if status > 128:
        signal.signal(status - 128, signal.SIG_DFL)
        os.kill(os.getpid(), status - 128)
    return status


# every process that has the mark among its variables
_KILL = "for each in /proc/[0-9]*; do tr '\\0' '\\n' < $each/environ 2>/dev/null | grep -qx {mark} && kill -9 ${{each#/proc/}}; done"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
