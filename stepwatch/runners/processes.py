"""What do all runners do around one process of a suite: its words, its document, and why it has left none?"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepwatch.core import documents
from stepwatch.core.model import Outcome
from stepwatch.runners import fingerprint
from stepwatch.runners.protocol import Failure, Process

ASV = "asv"  # the kind of a suite that needs asv to run it
CLONE = str(Path(__file__).parents[2])
THREADS = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}


# what a benchmark neither needs nor may see; PYTHONDONTWRITEBYTECODE would make each import compile all it loads
_PRIVATE = re.compile(r"_?AIRFLOW|STEPWATCH_(?!STACK$)|PYTHON(DONTWRITEBYTECODE|PATH|HOME)$|VIRTUAL_ENV$")


def public_variables() -> dict[str, str]:
    """The variables of this process that a benchmark may see: our settings have secrets in them."""
    return {name: value for name, value in os.environ.items() if not _PRIVATE.match(name)}


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Nobody else holds the lock meanwhile; it lasts no longer than this process."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def words(python: Path, process: Process) -> list[str]:
    """The words that run one process of a suite: of ours in its environment, of asv's around it."""
    suite = process.suite
    if suite.kind == ASV:
        command = [sys.executable, "-P", "-u", "-m", "stepwatch.runners.asv_suite", "--python", str(python)]
    else:
        command = [str(python), "-m", "benchmarks.worker"]
        command += ["--group", suite.group] if suite.group else []
        command += [] if process.first else ["--brief"]
    command += ["--size", suite.size, "--seed", str(process.seed)]
    only = process.only or suite.only
    return [*command, "--only", only] if only else command


def accept(
    process: Process,
    scratch: Path,
    status: int | None,
    before: fingerprint.State,
    doubts: Sequence[str] = (),
) -> None:
    """Give the document its name; what a process that crashed or hung had measured before counts, half a one not.

    `doubts` are what else a reader should know of it.
    """
    try:
        document = json.loads(scratch.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        scratch.unlink(missing_ok=True)
        return
    if status is None:
        document = documents.timed_out(document, process.suite.time_limit_s)
    nvml = fingerprint.load_nvml()
    machine, after = fingerprint.read_machine(nvml), fingerprint.read_conditions(nvml)
    # not into the same file, which may be another user's: that of a container
    beside = process.out.with_suffix(".whole")
    whole = fingerprint.witnessed(document, machine, before, after)
    beside.write_text(json.dumps({**whole, "warnings": [*whole["warnings"], *doubts]}), encoding="utf-8")
    beside.replace(process.out)
    scratch.unlink()


def explain(process: Process, log: Path, status: int | None) -> Failure | None:
    """Why a process has left no document."""
    if process.out.is_file():
        return None
    text = log.read_text(encoding="utf-8", errors="replace")
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")
    if status is None:
        outcome, how = Outcome.TIMED_OUT, f"not ended after {process.suite.time_limit_s:g} s"
    else:
        outcome = Outcome.BENCHMARK_FAILED
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    return Failure(outcome=outcome, reason=f"{how}: {last}", log=text[-20_000:])


def flags(autotuning: Path | None = None, found: Mapping[str, str] | None = None) -> dict[str, str]:
    """What reaches the compiler from outside (or is `found` elsewhere), and from a file of autotuning results."""
    found = dict(found if found is not None else _from_outside())
    if autotuning is not None:
        frozen = f"--xla_gpu_load_autotune_results_from={autotuning}"
        found["XLA_FLAGS"] = f"{found.get('XLA_FLAGS', '')} {frozen}".strip()
    return found


def _from_outside() -> dict[str, str]:
    return {name: os.environ[name] for name in ("XLA_FLAGS", "JAX_ENABLE_X64") if os.environ.get(name)}


def read(process: Process) -> Mapping[str, Any] | Failure:
    """The document that a process has left."""
    try:
        document: dict[str, Any] = json.loads(process.out.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        return Failure(outcome=Outcome.BENCHMARK_FAILED, reason=f"its document is not JSON: {error}")
    return document


def pinned_core(core: int | None) -> int:
    """The core to measure on: the configured one, else the last that this process may use."""
    allowed = os.sched_getaffinity(0)
    return core if core in allowed else max(allowed)
