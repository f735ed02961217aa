"""Is one environment slower than another, here and now, benchmark by benchmark?

Nothing is stored but the documents of the processes. Both are measured alternately, and each benchmark leaves as soon as
it is decided. A comparison that was interrupted goes on in its folder; one that is finished is measured again.

Worked example: `0.10.2` against `0.10.1` with the cap 8. Three processes a side measure all benchmarks; one is x 10
slower and leaves. Two more measure what is left; all but one turn out the same. Three more measure that one.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stepwatch.core import documents
from stepwatch.core.bisection.compare import ERRORS_SAME, FIRST_LOOK, compare, error, level
from stepwatch.core.documents import Document
from stepwatch.core.model import Benchmark, Better, Outcome, Suite, Verdict, digest
from stepwatch.jobs.measure import alternate
from stepwatch.runners.protocol import Failure, Measurer, Opened, Process

SIDES = ("old", "new")
MIN_EFFECT = 0.05  # what is closer than this counts as the same
RESULT = "result.json"  # is in the folder of a comparison that is finished
Sides = tuple[Sequence[Document], Sequence[Document]]
Tell = Callable[[int, int, str], None]  # how many processes of how many are done, and what is next


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one benchmark says, from one value a process on each side.

    `old` and `new` are the two levels; `worse` says how many times worse the new one is (1.52: a time that is x 1.52,
    or a rate divided by that); `low` and `high` are two standard errors around it. None without values to take them from.
    """

    benchmark: Benchmark
    verdict: Verdict
    reason: str
    old_values: tuple[float, ...] = ()
    new_values: tuple[float, ...] = ()
    old: float | None = None
    new: float | None = None
    worse: float | None = None
    low: float | None = None
    high: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def slower(self) -> bool:
        """Whether it has been decided that the new one is worse; a count is never slower."""
        different = self.verdict is Verdict.DIFFERENT and not self.benchmark.exact
        return different and self.worse is not None and self.worse > 1

    @property
    def faster(self) -> bool:
        """Whether it has been decided that the new one is better."""
        different = self.verdict is Verdict.DIFFERENT and not self.benchmark.exact
        return different and not self.slower


def comparison_folder(cache: Path, old: Opened, new: Opened, suite: Suite, *, fresh: bool) -> Path:
    """Where a comparison's documents lie: the newest folder of the same question that is not finished, else a new one.

    The same question: the same two builds, the same selection, the same text of the benchmarks.
    """
    sides = [[str(each.python), each.environment.hash] for each in (old, new)]
    question = digest([sides, fingerprint(suite)])[:8]
    names = (f"{each.environment.pair.jax.short}+{each.environment.pair.xla.short}" for each in (old, new))
    stem = f"{'_to_'.join(names)}-{question}"
    numbers = [int(each.name.rpartition("-")[2]) for each in (cache / "comparisons").glob(f"{stem}-*")]
    last = max(numbers, default=0)
    goes_on = last and not fresh and not (cache / "comparisons" / f"{stem}-{last}" / RESULT).is_file()
    return cache / "comparisons" / f"{stem}-{last if goes_on else last + 1}"


def fingerprint(suite: Suite) -> str:
    """What is measured: the selection, and the text of the benchmarks; not in how many processes."""
    files = sorted(Path(suite.folder, "benchmarks").glob("**/*.py"))
    texts = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return digest([{**asdict(suite), "processes": None}, texts])


def compare_environments(
    runner: Measurer, old: Opened, new: Opened, suite: Suite, folder: Path, *, cap: int, tell: Tell
) -> tuple[Finding, ...] | Failure:
    """What each benchmark of a suite says, with at most `cap` processes a side; a Failure where nothing could be measured.

    Killed at any line and called again with the same folder, it goes on with the process that it was at.
    """
    watched = _Watched(runner=runner, tell=tell)
    findings: dict[str, Finding] = {}
    undecided: list[Benchmark] = []
    sides: tuple[list[Document], list[Document]] = ([], [])
    count = FIRST_LOOK
    while True:
        watched.begin(2 * count, f"{len(undecided)} benchmarks" if undecided else "all benchmarks")
        result = alternate(watched, old, new, suite, folder, benchmarks=undecided, count=count, whole=True)
        if isinstance(result, Failure):
            reason = f"{watched.side}: {result.reason}"
            if not undecided or result.outcome is Outcome.CANCELLED:
                return Failure(outcome=result.outcome, reason=reason, log=result.log)
            broken = [_finding(each, Verdict.BROKEN, reason, sides) for each in undecided]
            return _warned([*findings.values(), *broken], sides)
        sides, undecided, asked = result, [], 0
        failed = [documents.failures(side) for side in sides]
        for benchmark in _benchmarks([*sides[0], *sides[1]]):
            if _key(benchmark) in findings:
                continue
            found = _judge(benchmark, sides, failed, count, cap)
            if isinstance(found, Finding):
                findings[_key(benchmark)] = found
            else:
                undecided.append(benchmark)
                asked = max(asked, found)
        if not undecided:
            return _warned(findings.values(), sides)
        count = min(cap, count + asked)


def _warned(findings: Iterable[Finding], sides: Sides) -> tuple[Finding, ...]:
    """The findings, each with what its values warn of on either side."""
    said: dict[str, list[str]] = {}
    for side, read in zip(SIDES, sides, strict=True):
        for each in documents.measurements(read):
            said.setdefault(_key(each.benchmark), []).extend(
                f"{side}: {warning}" for warning in each.warnings
            )
    return tuple(replace(each, warnings=tuple(said.get(_key(each.benchmark), ()))) for each in findings)


def conclude(findings: Sequence[Finding]) -> str:
    """The answer in one sentence: first what is timed, then what is counted."""
    timed = [each for each in findings if not each.benchmark.exact]
    slower, faster = sum(each.slower for each in timed), sum(each.faster for each in timed)
    counted = {verdict: sum(each.verdict is verdict for each in timed) for verdict in Verdict}
    verb = "is" if slower == 1 else "are"
    said = f"{slower} of {len(timed)} {verb} slower, {faster} faster, {counted[Verdict.SAME]} the same, "
    said += f"{counted[Verdict.UNKNOWN]} not decided"
    said += f", {counted[Verdict.BROKEN]} not to be compared" if counted[Verdict.BROKEN] else ""
    changed = sum(each.benchmark.exact and each.verdict is Verdict.DIFFERENT for each in findings)
    return said + (f"; {changed} counts changed" if changed else "")


@dataclass(kw_only=True)
class _Watched:
    """A runner that says which process is next, and knows which side's it was."""

    runner: Measurer
    tell: Tell
    total: int = 0
    what: str = ""
    side: str = ""
    done: int = 0

    def begin(self, total: int, what: str) -> None:
        self.total, self.what, self.done = total, what, 0

    def bench(self, opened: Opened, process: Process) -> Mapping[str, Any] | Failure:
        self.side = process.out.stem.partition("-")[0]
        self.tell(self.done, self.total, f"{self.what}, {self.side} side")
        self.done += 1
        return self.runner.bench(opened, process)


def _benchmarks(read: Sequence[Document]) -> list[Benchmark]:
    """All benchmarks by name with what is judged of them or counted; where nothing was measured, with an empty metric."""
    results = [each for document in read for each in document["benchmarks"]]
    judged = {_key(each): each for result in results for each in _metrics(result)}
    measured = {(each.name, digest(each.params)) for each in judged.values()}
    nothing = {
        _key(each): each
        for each in map(_benchmark, results)
        if (each.name, digest(each.params)) not in measured
    }
    return sorted(
        [*judged.values(), *nothing.values()], key=lambda each: (each.name, str(each.params), each.metric)
    )


def _metrics(result: Mapping[str, Any]) -> list[Benchmark]:
    return [
        _benchmark(result, each["metric"], each["unit"], each["better"], exact=each.get("exact", False))
        for each in result["metrics"]
        if each["judged"] or each.get("exact")
    ]


def _benchmark(
    result: Mapping[str, Any], metric: str = "", unit: str = "", better: str = "lower", *, exact: bool = False
) -> Benchmark:
    return Benchmark(
        name=result["name"],
        version=result["version"],
        params=dict(result["params"]),
        metric=metric,
        unit=unit,
        better=Better(better),
        exact=exact,
    )


def _key(benchmark: Benchmark) -> str:
    return digest([benchmark.name, benchmark.params, benchmark.metric])


def _judge(
    benchmark: Benchmark,
    sides: Sides,
    failed: Sequence[Mapping[tuple[str, str], tuple[Outcome, str]]],
    count: int,
    cap: int,
) -> Finding | int:
    """What `count` processes a side say of a benchmark, or how many more it asks for."""
    for side, failures in zip(SIDES, failed, strict=True):
        if (failure := failures.get((benchmark.name, digest(benchmark.params)))) is not None:
            return _finding(benchmark, Verdict.BROKEN, f"{side}: {failure[0].value}: {failure[1]}", sides)
    old, new = (documents.process_values(side, benchmark) for side in sides)
    if benchmark.exact:
        return _finding(benchmark, *_counted(old, new), sides)
    if min([*old, *new], default=1) <= 0:
        return _finding(benchmark, Verdict.BROKEN, "a value that is not positive has no ratio", sides)
    comparison = compare(old, new, min_effect=MIN_EFFECT, better=benchmark.better, cap=cap)
    if comparison.more and count < cap:
        return comparison.more
    verdict, reason, reached = comparison.verdict, comparison.reason, min(len(old), len(new))
    if comparison.more:
        reason = f"only {reached} of {count} processes a side came to it"
        verdict = verdict if reached else Verdict.BROKEN
    return _finding(benchmark, verdict, reason, sides)


def _counted(old: Sequence[float], new: Sequence[float]) -> tuple[Verdict, str]:
    """What a count says, which is the same in every process of a side, or else says nothing."""
    if not old or not new:
        return Verdict.BROKEN, "was not counted on both sides"
    if len(set(old)) > 1 or len(set(new)) > 1:
        return Verdict.UNKNOWN, "the count differs between processes of one side"
    return (Verdict.SAME, "equal") if old[0] == new[0] else (Verdict.DIFFERENT, "a count, not a measurement")


def _finding(benchmark: Benchmark, verdict: Verdict, reason: str, sides: Sides) -> Finding:
    """A finding with what both sides have measured so far."""
    old, new = (documents.process_values(side, benchmark) for side in sides)
    say = functools.partial(
        Finding, benchmark=benchmark, verdict=verdict, reason=reason, old_values=old, new_values=new
    )
    if benchmark.exact:  # as it is, and it may be 0
        return say(old=next(iter(old), None), new=next(iter(new), None))
    if min([*old, *new], default=1) <= 0 or not old or not new:
        return say()
    before, after = level(old, benchmark.better), level(new, benchmark.better)
    sign = -1 if benchmark.better is Better.HIGHER else 1
    effect, unsure = sign * (after.log - before.log), ERRORS_SAME * error([before, after])
    return say(
        old=math.exp(before.log),
        new=math.exp(after.log),
        worse=math.exp(effect),
        low=math.exp(effect - unsure),
        high=math.exp(effect + unsure),
    )
