"""How are the processes of a run started, one after the other or two environments alternately?

Every process leaves a document under a name of its own, so what was interrupted goes on where it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from stepwatch.core.documents import Document
from stepwatch.core.model import Benchmark, Suite, digest
from stepwatch.runners.protocol import Failure, Measurer, Opened, Process


def measure(
    runner: Measurer,
    opened: Opened,
    suite: Suite,
    folder: Path,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> list[Document] | Failure:
    """The documents of all processes of a suite in one environment, or the first failure."""
    documents: list[Document] = []
    for number in range(suite.processes):
        say(f"process {number + 1} of {suite.processes}")
        result = runner.bench(opened, _process(suite, folder, "process", number, None, first=number == 0))
        if isinstance(result, Failure):
            return result
        documents.append(result)
    return documents


def measure_some(
    runner: Measurer,
    opened: Opened,
    suite: Suite,
    folder: Path,
    *,
    only: str,
    count: int,
) -> list[Document] | Failure:
    """`count` documents of one environment for the benchmarks that `only` matches (see `selections`)."""
    documents: list[Document] = []
    for number in range(count):
        result = runner.bench(opened, _process(suite, folder, "process", number, only))
        if isinstance(result, Failure):
            return result
        documents.append(result)
    return documents


def alternate(
    runner: Measurer,
    old: Opened,
    new: Opened,
    suite: Suite,
    folder: Path,
    *,
    benchmarks: Iterable[Benchmark],
    count: int,
    whole: bool = False,
) -> tuple[list[Document], list[Document]] | Failure:
    """`count` documents of each of two environments for some benchmarks, measured ABBA; `whole`: the first of each side not brief."""
    only = selections(benchmarks)
    sides: dict[str, list[Document]] = {"old": [], "new": []}
    for number in range(count):
        order = (("old", old), ("new", new)) if number % 2 == 0 else (("new", new), ("old", old))
        for side, opened in order:
            first = whole and number == 0
            result = runner.bench(opened, _process(suite, folder, side, number, only, first=first))
            if isinstance(result, Failure):
                return result
            sides[side].append(result)
    return sides["old"], sides["new"]


def every_group(suite: Suite) -> Suite:
    """The whole suite: a benchmark that was named is measured whatever part of it the nights take."""
    return replace(suite, group=None, only=None)


def selection(benchmark: Benchmark) -> str:
    """The regular expression that matches `name(key=value, …)` of this benchmark alone, its keys in any order."""
    keys = "".join(
        rf"(?=.*[( ]{re.escape(f'{key}={value}')}[,)])" for key, value in sorted(benchmark.params.items())
    )
    return rf"^{re.escape(benchmark.name)}(?=\(){keys}"


def selections(benchmarks: Iterable[Benchmark]) -> str:
    """The regular expression that matches any of some benchmarks."""
    return "|".join(sorted({selection(benchmark) for benchmark in benchmarks}))


def _process(
    suite: Suite, folder: Path, side: str, number: int, only: str | None, *, first: bool = False
) -> Process:
    # the seed follows from the place of the process, so that a run that is done again has the same orders
    seed = int(digest([folder.name, side, number])[:8], 16)
    return Process(suite=suite, seed=seed, out=folder / f"{side}-{number}.json", only=only, first=first)
