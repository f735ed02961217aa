"""How is one call timed, and what becomes of it when it fails?

The rules are part of a series' identity: values of two protocols are never compared, so any change to what is timed
or how is a new `PROTOCOL`.

1. Compiling is apart: `compile_s`, on the judged clock.
2. One call warms up, and its result is checked. A wrong result has no time.
3. Blocks of `number` calls grow until one of them lasts half of `block_s`; each call waits for its own result. The
   block that settled `number` warms up too and is dropped.
4. Further blocks are kept until `timed_s` of wall time is used up, at least `blocks_min`, at most `blocks_max`. Each
   is read on two clocks, CPU time of the whole process and wall time, in seconds a call.
5. The last result is checked again.

On a CPU the CPU time is judged, because a shared machine's wall time says more about its neighbours; on any other
device the wall time is, because the device's work is in no process's CPU time.

No public name here starts with `time_` or `track_`: asv would take it for a benchmark.

Worked example, `block_s` 20 ms: a call of 0.3 ms is run 1, then 10 times (3 ms, too short), then 67 times (20 ms:
dropped), then in up to `blocks_max` blocks of 67. A call of 170 ms is run once (dropped), then in 3 blocks of 1.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable, Protocol  # noqa: UP035 - what Python 3.9 can subscript

PROTOCOL = "1"
SIZES = ("smoke", "full")
CLOCKS = ("cpu_time", "wall_time")

_GROWTH_MAX = 10
_REASON_LENGTH_MAX = 300


@dataclass(frozen=True)
class Budget:
    """How long a benchmark may be timed: seconds a block, wall seconds of all kept blocks, and how many."""

    block_s: float
    timed_s: float
    blocks_min: int
    blocks_max: int


BUDGETS = {
    "smoke": Budget(block_s=0.02, timed_s=0.2, blocks_min=3, blocks_max=8),
    "full": Budget(block_s=0.1, timed_s=3.0, blocks_min=5, blocks_max=20),
}


@dataclass(frozen=True)
class Instant:
    """Both clocks read at once, in seconds: `cpu_time` of all threads of the process, and `wall_time`."""

    cpu_time: float
    wall_time: float

    def since(self, start: Instant) -> Instant:
        """How much of either clock went by from `start` to here."""
        return Instant(self.cpu_time - start.cpu_time, self.wall_time - start.wall_time)


ReadClocks = Callable[[], Instant]


@dataclass(frozen=True)
class Timing:
    """What was kept: calls a block, and seconds a call for each block on either clock."""

    number: int
    cpu_time: list[float]
    wall_time: list[float]


class Subject(Protocol):
    """What the protocol needs of a benchmark (see benchmarks.benchmark.Benchmark)."""

    def compile(self) -> None:
        """Trace and compile, without running."""

    def call(self) -> Any:
        """Run once, and return the result when it is there."""

    def check(self, result: Any) -> str | None:
        """One line that says what is wrong with a result; None where it is right."""

    def metrics(self, timing: Timing, judged: str) -> list[dict[str, Any]]:
        """The document's metrics, from the blocks and the name of the judged clock."""

    def facts(self) -> tuple[dict[str, float], dict[str, str]]:
        """Exact counts and hashes of the compiled program, as far as this version tells them."""


def read_clocks() -> Instant:
    """Now, on both clocks."""
    return Instant(time.process_time(), time.perf_counter())


def read_size() -> str:
    """The size asked for by the environment, `smoke` where nothing was asked."""
    asked = os.environ.get("STEPWATCH_SIZE", SIZES[0])
    if asked not in SIZES:
        raise ValueError(f"STEPWATCH_SIZE is {asked!r}, but must be one of {', '.join(SIZES)}")
    return asked


def judged_clock(platform: str) -> str:
    """Which clock counts on a JAX platform (`cpu`, `gpu`, ...)."""
    return "cpu_time" if platform == "cpu" else "wall_time"


def observe(
    subject: Subject, *, budget: Budget, judged: str, read: ReadClocks = read_clocks
) -> dict[str, Any]:
    """The record of one benchmark that is set up: its status, and all that was measured.

    Never raises: whatever a benchmark throws is the record's `reason` (and its traceback is on stderr).
    """
    try:
        start = read()
        subject.compile()
        compile_s = getattr(read().since(start), judged)
        wrong = subject.check(subject.call())
        if wrong is not None:
            return unmeasured("wrong_result", wrong, compile_s)
        timing, last = run_blocks(subject.call, budget=budget, judged=judged, read=read)
        wrong = subject.check(last)
        if wrong is not None:
            return unmeasured("wrong_result", f"after timing: {wrong}", compile_s)
        counts, hashes = subject.facts()
        metrics = subject.metrics(timing, judged)
    except Exception as error:  # noqa: BLE001 - the other benchmarks go on
        return failed(error)
    return {**unmeasured("ok", None, compile_s), "metrics": metrics, "counts": counts, "hashes": hashes}


def measure(
    subject: Any, params: tuple[Any, ...], *, budget: Budget, judged: str, read: ReadClocks = read_clocks
) -> dict[str, Any]:
    """Set a benchmark up with `params` and observe it; a setup that raises NotImplementedError skips it."""
    try:
        subject.setup(*params)
    except NotImplementedError as error:
        return unmeasured("skipped", _describe(error))
    except Exception as error:  # noqa: BLE001 - the other benchmarks go on
        return failed(error)
    return observe(subject, budget=budget, judged=judged, read=read)


def run_blocks(
    call: Callable[[], Any], *, budget: Budget, judged: str, read: ReadClocks = read_clocks
) -> tuple[Timing, Any]:
    """Time `call` by rules 3 and 4; returns the kept blocks and the result of the last call."""
    with _garbage_collection_paused():
        number = calibrate(call, budget=budget, judged=judged, read=read)
        blocks: list[Instant] = []
        used_s = 0.0
        while len(blocks) < budget.blocks_min or (
            len(blocks) < budget.blocks_max and used_s < budget.timed_s
        ):
            block, last = _run_block(call, number, read)
            blocks.append(block)
            used_s += block.wall_time
    cpu_time = [block.cpu_time / number for block in blocks]
    wall_time = [block.wall_time / number for block in blocks]
    return Timing(number, cpu_time, wall_time), last


def calibrate(call: Callable[[], Any], *, budget: Budget, judged: str, read: ReadClocks = read_clocks) -> int:
    """How many calls make a block of about `block_s` on the judged clock.

    The judged clock decides, so that a busy machine does not shorten the blocks; a block that uses up the
    whole budget of wall time ends the search whatever the judged clock says.
    """
    number = 1
    while True:
        block, _ = _run_block(call, number, read)
        seconds = getattr(block, judged)
        if seconds >= budget.block_s / 2 or block.wall_time >= budget.timed_s:
            return number
        wanted = math.ceil(number * budget.block_s / seconds) if seconds > 0 else number * _GROWTH_MAX
        number = max(number + 1, min(number * _GROWTH_MAX, wanted))


def duration_metrics(timing: Timing, judged: str) -> list[dict[str, Any]]:
    """Seconds a call on both clocks, the judged one first."""
    return [
        {
            "metric": clock,
            "unit": "s",
            "better": "lower",
            "judged": clock == judged,
            "blocks": getattr(timing, clock),
        }
        for clock in sorted(CLOCKS, key=lambda clock: clock != judged)
    ]


def rate_metrics(name: str, unit: str, work: float, timing: Timing, judged: str) -> list[dict[str, Any]]:
    """`work` (in the unit's own amount a call) over the judged clock's seconds, and over wall seconds."""
    clocks = {name: judged, f"{name}_wall": "wall_time"}
    return [
        {
            "metric": metric,
            "unit": unit,
            "better": "higher",
            "judged": metric == name,
            "blocks": [work / seconds for seconds in getattr(timing, clock)],
        }
        for metric, clock in clocks.items()
    ]


def headline(record: dict[str, Any]) -> dict[str, Any]:
    """The judged metric as asv takes it: every block a sample. A record that is not ok is an error."""
    if record["status"] != "ok":
        raise RuntimeError(f"{record['status']}: {record['reason']}")
    (judged,) = (metric for metric in record["metrics"] if metric["judged"])
    return {"samples": judged["blocks"], "number": 1}


def unmeasured(status: str, reason: str | None, compile_s: float | None = None) -> dict[str, Any]:
    """A record without a measurement."""
    return {
        "status": status,
        "reason": reason,
        "compile_s": compile_s,
        "metrics": [],
        "counts": {},
        "hashes": {},
    }


def failed(error: Exception) -> dict[str, Any]:
    """The record of an exception; its traceback goes to stderr."""
    traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
    return unmeasured("failed", _describe(error))


def _describe(error: Exception) -> str:
    """An exception's type and the last line of what it says."""
    lines = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {lines[-1].strip()}" if lines else type(error).__name__
    return said[:_REASON_LENGTH_MAX]


def _run_block(call: Callable[[], Any], number: int, read: ReadClocks) -> tuple[Instant, Any]:
    """Run `call` `number` times; what it took on both clocks, and the last result."""
    result = None
    start = read()
    for _ in range(number):
        result = call()
    return read().since(start), result


@contextlib.contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Collect now rather than in the middle of a block."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
