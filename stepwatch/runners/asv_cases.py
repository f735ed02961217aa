"""What did one process of asv say about its benchmark?

A case is one benchmark with one combination of its parameters; asv measures it in one process a round. Worked example:
`time_sum` with `params = [[10, 20]]` is the cases `time_sum-0` and `time_sum-1`, asv's names for them. Two rounds that
end with exit status 0 and `{"samples": [2.0, 3.0], "number": 1}`, `{"samples": [4.0], "number": 1}` make the first one
ok with the blocks 2, 3, 4. Had either ended with exit status 3, the case had failed, whatever the other one said.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import signal
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from asv.util import TIMEOUT_RETCODE

from stepwatch.core.documents import ENDED, UNREACHED
from stepwatch.core.model import Better, digest
from stepwatch.runners.asv_child import DIRECTIONS, SKIPPED

NOT_REACHED = "the process ended before this was reached"
REASON_LENGTH_MAX = 500
_METRICS = {"time": "time", "peakmemory": "peakmem", "memory": "mem"}


@dataclass(frozen=True, kw_only=True)
class Said:
    """What one process of asv came to: a status of the document, why, and the samples."""

    status: str
    reason: str = ""
    blocks: tuple[float, ...] = ()

    def within(self, part: str) -> Said:
        """The same, of a part of the benchmark."""
        return replace(self, reason=f"{part}: {self.reason}")


@dataclass(kw_only=True)
class Case:
    """One benchmark with one combination of its parameters, and what its processes have said so far.

    `key` is asv's name for it among its processes, `choice` among its selections, `title` ours.
    """

    key: str
    choice: str
    title: str
    name: str
    version: str
    params: dict[str, Any]
    metric: str
    unit: str
    better: Better
    cache: str | None
    said: list[Said] = field(default_factory=list)


def find(benchmark: Mapping[str, Any]) -> list[Case]:
    """The cases of a benchmark that asv has found, in asv's order."""
    name, axes = benchmark["name"], benchmark["params"]
    stated = next((benchmark[each] for each in DIRECTIONS if each in benchmark), Better.LOWER)
    combinations = itertools.product(*([*zip(axis, _plain(axis), strict=True)] for axis in axes))
    cases = []
    for place, combination in enumerate(combinations):
        written = ", ".join(text for text, _ in combination)
        params = {key: value for key, (_, value) in zip(benchmark["param_names"], combination, strict=True)}
        inside = ", ".join(f"{key}={value}" for key, value in params.items())
        cases.append(
            Case(
                key=f"{name}-{place}" if axes else name,
                choice=f"{name}({written})" if axes else name,
                title=f"{name}({inside})",
                name=name,
                version=str(benchmark["version"]),
                params=params,
                metric=_METRICS.get(benchmark["type"], "track"),
                unit="s" if benchmark["unit"] == "seconds" else str(benchmark["unit"]),
                better=Better.HIGHER if stated == Better.HIGHER else Better.LOWER,
                cache=benchmark.get("setup_cache_key"),
            )
        )
    return cases


def judge(status: int, output: str, result: str, limit_s: float) -> Said:
    """What a process with this exit status, output and text of the result file came to."""
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    if status == TIMEOUT_RETCODE:
        return Said(status="timed_out", reason=f"not ended after {limit_s:g} s")
    if status == 1 and last:  # Python's own status for an error, which the last line tells
        return Said(status="failed", reason=last[:REASON_LENGTH_MAX])
    if status != 0:
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return Said(status="failed", reason=f"{how}: {last}"[:REASON_LENGTH_MAX] if last else how)
    try:
        value = json.loads(result)
    except ValueError:
        return Said(status="failed", reason="ended without a result")
    if isinstance(value, float) and math.isnan(value):
        return Said(status="skipped", reason=_why_skipped(output))
    measured = (
        value["samples"] if isinstance(value, dict) and {"samples", "number"} <= value.keys() else [value]
    )
    return _read(measured)


def record(case: Case, *, running: bool = False) -> dict[str, Any]:
    """A case as an entry of the document; the first round that was not ok speaks for all."""
    blocks = [block for said in case.said for block in said.blocks]
    worst = next((said for said in case.said if said.status != "ok"), None)
    if running:
        worst = Said(status="failed", reason=ENDED)
    elif not case.said:
        worst = Said(status=UNREACHED, reason=NOT_REACHED)
    metric = {
        "metric": case.metric,
        "unit": case.unit,
        "better": case.better.value,
        "judged": True,
        "blocks": blocks,
    }
    return {
        "name": case.name,
        "version": case.version,
        "params": case.params,
        "status": worst.status if worst else "ok",
        "reason": worst.reason if worst else None,
        "metrics": [] if worst else [metric],
        "hashes": {},
    }


def _read(measured: Any) -> Said:
    """The samples, or what is wrong with them. Steps are ratios, so what is not above zero can't be judged."""
    if not isinstance(measured, list) or not measured:
        return Said(status="failed", reason="returned no sample")
    for value in measured:
        if value is None or not isinstance(value, int | float):
            what = "None" if value is None else type(value).__name__
            return Said(status="failed", reason=f"returned {what}, not a number")
        if not math.isfinite(value) or value <= 0:
            return Said(status="failed", reason=f"returned {value}, not a number above 0")
    return Said(status="ok", blocks=tuple(float(value) for value in measured))


def _why_skipped(output: str) -> str:
    lines = (line for line in output.splitlines() if line.startswith(SKIPPED))
    return next((line.removeprefix(SKIPPED).strip() for line in lines), "left out by skip_params")


def _plain(axis: Sequence[str]) -> list[Any]:
    """The values of one parameter from how they are written in Python: `'f32'` is f32, `(1, 2)` is [1, 2].

    What isn't JSON stays as it is written; so do all where two would become the same.
    """
    values = [_value(text) for text in axis]
    return values if len({digest(value) for value in values}) == len(axis) else list(axis)


def _value(text: str) -> Any:
    try:
        with warnings.catch_warnings(
            action="ignore"
        ):  # a second `1` is written `1 (1)`, which looks like a call
            return json.loads(json.dumps(ast.literal_eval(text), allow_nan=False))
    except (ValueError, TypeError, SyntaxError):
        return text
