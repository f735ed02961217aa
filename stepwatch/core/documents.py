"""What did the processes of one run measure, put together?

Each process writes one JSON document (benchmarks/worker.py writes it, the runner adds the machine's state). The
documents of a run become one Measurement for each benchmark, parameters and metric. A worked example: three processes
with the blocks (2, 3, 4), (5, 5, 6), (3, 3, 9) have the block medians 3, 5, 3; the value is the low quantile over
processes, 3; the interval is [3, 5]; all nine samples are kept; the second process is 1.67 times as slow as the best,
so the measurement says "1 of 3 processes slow".
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stepwatch.core.model import Benchmark, Better, Measurement, Outcome, digest
from stepwatch.core.units import low_quantile, slowdown

DOCUMENT = 1

_OUTCOMES = {
    "ok": Outcome.OK,
    "skipped": Outcome.SKIPPED,
    "failed": Outcome.BENCHMARK_FAILED,
    "wrong_result": Outcome.WRONG_RESULT,
    "timed_out": Outcome.TIMED_OUT,
}
# the first of these that any process had is what the run had; "unreached" says nothing: another process will
_WORST_FIRST = (Outcome.WRONG_RESULT, Outcome.BENCHMARK_FAILED, Outcome.TIMED_OUT, Outcome.SKIPPED)
UNREACHED = "unreached"
SLOW = 1.2  # a process this many times worse than the best one is a slow one
ENDED = "the process ended while this was running"

Document = Mapping[str, Any]
Part = tuple[int, Mapping[str, Any], list[float]]  # a process, its record of the benchmark, its blocks


def measurements(documents: Sequence[Document]) -> tuple[Measurement, ...]:
    """One Measurement for each benchmark, parameters and metric in the documents of one run, one a process.

    A benchmark that failed in any process has that outcome. One that failed in every process has no metrics and is
    left out here; `failures` names it.
    """
    failed = failures(documents)
    grouped: dict[str, tuple[Benchmark, list[Part]]] = {}
    for process, document in enumerate(documents):
        for result in document["benchmarks"]:
            for metric in result["metrics"]:
                benchmark = Benchmark(
                    name=result["name"],
                    version=result["version"],
                    params=dict(result["params"]),
                    metric=metric["metric"],
                    unit=metric["unit"],
                    better=Better(metric["better"]),
                    judged=metric["judged"],
                    exact=metric.get("exact", False),
                )
                key = digest([benchmark.name, benchmark.version, benchmark.params, benchmark.metric])
                grouped.setdefault(key, (benchmark, []))[1].append((process, result, list(metric["blocks"])))
    return tuple(
        _measurement(benchmark, parts, failed.get((benchmark.name, digest(benchmark.params))))
        for benchmark, parts in grouped.values()
    )


def failures(documents: Sequence[Document]) -> dict[tuple[str, str], tuple[Outcome, str]]:
    """(benchmark name, canonical params) -> the worst outcome any process had with its reason, where not OK."""
    worst: dict[tuple[str, str], tuple[Outcome, str]] = {}
    for document in documents:
        for result in document["benchmarks"]:
            outcome = Outcome.OK if result["status"] == UNREACHED else _OUTCOMES[result["status"]]
            if outcome is Outcome.OK:
                continue
            key = (result["name"], digest(result["params"]))
            known = worst.get(key)
            if known is None or _WORST_FIRST.index(outcome) < _WORST_FIRST.index(known[0]):
                worst[key] = (outcome, result.get("reason") or "no reason given")
    return worst


def process_values(documents: Sequence[Document], benchmark: Benchmark) -> tuple[float, ...]:
    """One value a process, in the order of the documents: the median of its blocks."""
    return tuple(
        statistics.median(metric["blocks"])
        for document in documents
        for result in document["benchmarks"]
        if result["name"] == benchmark.name and dict(result["params"]) == benchmark.params
        for metric in result["metrics"]
        if metric["metric"] == benchmark.metric and result["status"] == "ok" and metric["blocks"]
    )


def timed_out(document: Document, limit_s: float) -> Document:
    """The document of a process that was ended at its time limit: what was running then has timed out."""
    reason = f"not ended after {limit_s:g} s"
    return {
        **document,
        "benchmarks": [
            {**result, "status": "timed_out", "reason": reason} if result.get("reason") == ENDED else result
            for result in document["benchmarks"]
        ],
    }


def warnings(documents: Sequence[Document]) -> tuple[str, ...]:
    """The warnings of all processes, each once, in order."""
    return tuple(dict.fromkeys(warning for document in documents for warning in document["warnings"]))


def fingerprint(documents: Sequence[Document]) -> dict[str, Any]:
    """The machine of a run as it stays, empty where no process says it. Of several machines the last."""
    return dict(documents[-1].get("machine") or {})


def conditions(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """For each process its settings, and what was so on the machine before it and after it."""
    return [{"settings": each.get("settings") or {}, **(each.get("conditions") or {})} for each in documents]


def _measurement(
    benchmark: Benchmark, parts: Sequence[Part], failure: tuple[Outcome, str] | None
) -> Measurement:
    if failure is not None:
        return Measurement(benchmark=benchmark, outcome=failure[0], reason=failure[1])
    medians = [statistics.median(blocks) for _, _, blocks in parts if blocks]
    if not medians:
        return Measurement(
            benchmark=benchmark, outcome=Outcome.BENCHMARK_FAILED, reason="no block was measured"
        )
    return Measurement(
        benchmark=benchmark,
        outcome=Outcome.OK,
        value=low_quantile(medians, benchmark.better),
        low=min(medians),
        high=max(medians),
        spread=None if benchmark.exact else _spread(medians, benchmark.better),
        samples=tuple(sample for _, _, blocks in parts for sample in blocks),
        process=tuple(process for process, _, blocks in parts for _ in blocks),
        hashes=dict(parts[0][1].get("hashes") or {}),
        warnings=tuple(_odd_counts(medians) if benchmark.exact else _doubts(benchmark, parts, medians)),
    )


def _spread(medians: Sequence[float], better: Better) -> float | None:
    """By how much the middle process is worse than the best one; None for a single process, or where that is no ratio."""
    if not medians[1:] or min(medians) <= 0:
        return None
    return slowdown(old=_best(medians, better), new=statistics.median(medians), better=better)


def _best(medians: Sequence[float], better: Better) -> float:
    return min(medians) if better is Better.LOWER else max(medians)


def _odd_counts(counts: Sequence[float]) -> Iterator[str]:
    if len(set(counts)) > 1:
        yield f"not the same in every process: {min(counts):g} to {max(counts):g}"


def _doubts(benchmark: Benchmark, parts: Sequence[Part], medians: Sequence[float]) -> Iterator[str]:
    """Why a measured value may say less than it seems to; the records' own doubts are about what is judged."""
    best = _best(medians, benchmark.better)
    slow = min(medians) > 0 and sum(
        slowdown(old=best, new=each, better=benchmark.better) > SLOW - 1 for each in medians
    )
    if slow:
        yield f"{slow} of {len(medians)} processes slow"
    records = [record for _, record, _ in parts]
    for name in sorted({name for record in records for name in record.get("hashes") or {}}):
        if len({(record.get("hashes") or {}).get(name) for record in records}) > 1:
            yield f"the processes ran different programs ({name})"
    if benchmark.judged:
        yield from dict.fromkeys(warning for record in records for warning in record.get("warnings") or ())
