"""What did the processes of one run measure, put together?

Each process writes one JSON document (docs/writing-benchmarks.md describes it). The documents of a run become one
Measurement for each benchmark, parameters and metric. A worked example: three processes with the blocks
(2, 3, 4), (5, 5, 6), (3, 3, 9) have the block medians 3, 5, 3; the value is the low quantile over processes, 3;
the interval is [3, 5]; all nine samples are kept.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from stepwatch.core.model import Benchmark, Better, Measurement, Outcome, digest
from stepwatch.core.units import low_quantile

DOCUMENT = 1

_OUTCOMES = {
    "ok": Outcome.OK,
    "skipped": Outcome.SKIPPED,
    "failed": Outcome.BENCHMARK_FAILED,
    "wrong_result": Outcome.WRONG_RESULT,
}
# the first of these that any process had is what the run had
_WORST_FIRST = (Outcome.WRONG_RESULT, Outcome.BENCHMARK_FAILED, Outcome.SKIPPED)

Document = Mapping[str, Any]


def measurements(documents: Sequence[Document]) -> tuple[Measurement, ...]:
    """One Measurement for each benchmark, parameters and metric in the documents of one run, one a process.

    A benchmark that failed in every process has no metrics and is left out here; `failures` names it.
    """
    grouped: dict[str, tuple[Benchmark, list[tuple[int, Mapping[str, Any], list[float]]]]] = {}
    for process, document in enumerate(documents):
        for result in document["benchmarks"]:
            for metric in result.get("metrics") or ():
                benchmark = Benchmark(
                    name=result["name"],
                    version=result["version"],
                    params=dict(result["params"]),
                    metric=metric["metric"],
                    unit=metric["unit"],
                    better=Better(metric["better"]),
                    judged=metric["judged"],
                )
                key = digest([benchmark.name, benchmark.version, benchmark.params, benchmark.metric])
                grouped.setdefault(key, (benchmark, []))[1].append((process, result, list(metric["blocks"])))
    return tuple(_measurement(benchmark, parts) for benchmark, parts in grouped.values())


def failures(documents: Sequence[Document]) -> dict[tuple[str, str], tuple[Outcome, str]]:
    """(benchmark name, canonical params) -> the worst outcome any process had with its reason, where not OK."""
    worst: dict[tuple[str, str], tuple[Outcome, str]] = {}
    for document in documents:
        for result in document["benchmarks"]:
            outcome = _OUTCOMES[result["status"]]
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
        for metric in result.get("metrics") or ()
        if metric["metric"] == benchmark.metric and result["status"] == "ok" and metric["blocks"]
    )


def warnings(documents: Sequence[Document]) -> tuple[str, ...]:
    """The warnings of all processes, each once, in order."""
    return tuple(dict.fromkeys(warning for document in documents for warning in document["warnings"]))


def _measurement(
    benchmark: Benchmark, parts: Sequence[tuple[int, Mapping[str, Any], list[float]]]
) -> Measurement:
    bad = [
        (outcome, result.get("reason"))
        for _, result, _ in parts
        if (outcome := _OUTCOMES[result["status"]]) is not Outcome.OK
    ]
    if bad:
        outcome, reason = min(bad, key=lambda item: _WORST_FIRST.index(item[0]))
        return Measurement(benchmark=benchmark, outcome=outcome, reason=reason or "no reason given")
    medians = [statistics.median(blocks) for _, _, blocks in parts if blocks]
    if not medians:
        return Measurement(
            benchmark=benchmark, outcome=Outcome.BENCHMARK_FAILED, reason="no block was measured"
        )
    first = parts[0][1]
    return Measurement(
        benchmark=benchmark,
        outcome=Outcome.OK,
        value=low_quantile(medians, benchmark.better),
        low=min(medians),
        high=max(medians),
        samples=tuple(sample for _, _, blocks in parts for sample in blocks),
        process=tuple(process for process, _, blocks in parts for _ in blocks),
        counts=dict(first.get("counts") or {}),
        hashes=dict(first.get("hashes") or {}),
    )
