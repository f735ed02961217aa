"""How is one call timed, and what becomes of it when it fails?

The rules are part of a series' identity: values of two protocols are never compared, so any change to what is timed
or how is a new `PROTOCOL`.

1. Compiling is apart: `compile_s`, on the judged clock.
2. One call warms up, and its result is checked. A wrong result has no time.
3. Blocks of `number` calls grow until one of them lasts half of `block_s`; each call waits for its own result. The
   block that settled `number` warms up too and is dropped.
4. Further blocks are kept, at least `blocks_min`, until the interval of their median is narrower than `INTERVAL` to
   either side, or there are `blocks_max`, or `timed_s` of wall time is used up. Each is read on two clocks, CPU time of
   the whole process and wall time, in seconds a call.
5. The last result is checked again.
6. What is exact about the program (see benchmarks.facts) is read last, so that it disturbs no clock. Each count is a
   metric of its own.

On a CPU the CPU time is judged, because a shared machine's wall time says more about its neighbours; on any other
device the wall time is, because the device's work is in no process's CPU time. The interval is the judged clock's.

No public name here starts with `time_` or `track_`: asv would take it for a benchmark.

Worked example, `block_s` 20 ms: a call of 0.3 ms is run 1, then 10 times (3 ms, too short), then 67 times (20 ms:
dropped), then in blocks of 67. Five of them took 9.9, 10.0, 10.1, 10.2 and 10.4 ms: their median is 10.1 and the median
distance from it 0.1 ms, so the half-width is 3.64 x 0.1 x sqrt(5) / 4.2 = 0.19 ms, 1.9 % of the median. Blocks that go
on scattering like this end with the fifteenth, at 0.98 %. A call of 170 ms is run once (dropped), then in blocks of 1.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import statistics
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Protocol  # noqa: UP035 - what Python 3.9 can subscript

PROTOCOL = "2"
SIZES = ("smoke", "full")
CLOCKS = ("cpu_time", "wall_time")
# Half the width of a median's interval relative to the median: when blocks may end, and from where on it is told.
INTERVAL = 0.01
INTERVAL_TOLD = 0.04
# The counts that are metrics, with their units. Their steps are stored and nobody is told: they explain what a time or
# the memory of a program does, and from one version to the next most of them change.
EXACT = {
    "python_calls_eager": "calls",
    "python_calls_traced": "calls",
    "memory_bytes": "bytes",
    "executable_bytes": "bytes",
    "temp_bytes": "bytes",
    "jaxpr_equations": "equations",
    "stablehlo_operations": "operations",
    "hlo_instructions": "instructions",
    "hlo_fusions": "fusions",
    "flops": "flop",
    "bytes_accessed": "bytes",
    "bytes_per_update": "bytes",
}

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
    "smoke": Budget(block_s=0.02, timed_s=0.3, blocks_min=5, blocks_max=20),
    "full": Budget(block_s=0.1, timed_s=5.0, blocks_min=10, blocks_max=50),
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
        metrics = subject.metrics(timing, judged)
        counts, hashes = subject.facts()
    except Exception as error:  # noqa: BLE001 - the other benchmarks go on
        return failed(error)
    timed = not all(each.get("exact") for each in metrics)
    width = half_width(getattr(timing, judged))
    said = f"interval still {100 * width:.0f} % after {len(timing.wall_time)} samples"
    return {
        **unmeasured("ok", None, compile_s),
        "half_width": width if timed else None,
        "warnings": [said] if timed and width >= INTERVAL_TOLD else [],
        "metrics": metrics + exact_metrics(counts, known=[each["metric"] for each in metrics]),
        "hashes": hashes,
    }


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
            len(blocks) < budget.blocks_max
            and used_s < budget.timed_s
            and half_width([getattr(block, judged) for block in blocks]) >= INTERVAL
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


def half_width(values: list[float]) -> float:
    """Half the width of the 95 % interval of a median, relative to it; odd values widen it little.

    1.96 standard errors of a median, sqrt(pi / 2) s / sqrt(n) each for normal values. s = 1.4826 x the median distance
    from the median x n / (n - 0.8), the last factor for few values (Croux and Rousseeuw, COMPSTAT 1992, 411). Together
    3.64 x that distance x sqrt(n) / (n - 0.8). It is too narrow for few: of five it holds the true median in 84 of 100.
    """
    middle = statistics.median(values)
    distance = statistics.median(abs(value - middle) for value in values)
    if distance == 0:
        return 0.0
    count = len(values)
    return 1.96 * math.sqrt(math.pi / 2 * count) * 1.4826 * distance / (count - 0.8) / middle


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


def exact_metrics(counts: dict[str, float], *, known: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The counts that are not `known` as metrics of one block."""
    kind = {"better": "lower", "judged": False, "exact": True}
    return [
        {"metric": name, "unit": EXACT.get(name, "1"), **kind, "blocks": [value]}
        for name, value in counts.items()
        if name not in known
    ]


def leading(record: dict[str, Any]) -> dict[str, Any]:
    """The metric that an ok record is about: the first judged one, for what it counts about itself comes last."""
    return next(metric for metric in record["metrics"] if metric["judged"])


def headline(record: dict[str, Any]) -> dict[str, Any]:
    """The judged metric as asv takes it: every block a sample. A record that is not ok is an error."""
    if record["status"] != "ok":
        raise RuntimeError(f"{record['status']}: {record['reason']}")
    return {"samples": leading(record)["blocks"], "number": 1}


def unmeasured(status: str, reason: str | None, compile_s: float | None = None) -> dict[str, Any]:
    """A record without a measurement."""
    return {
        "status": status,
        "reason": reason,
        "compile_s": compile_s,
        "half_width": None,
        "warnings": [],
        "metrics": [],
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
