"""By how much does a figure move when nothing has changed, and how much less than with plain asv?

A run is what a night is: three processes by our protocol, its value the quick end of them. Each run is followed by asv's
own `time_*` of the same programs (infra/asv_timing.py: its defaults, two processes; its value the median of the samples).
All runs are of one environment. Run by `make bench-noise`; ARGS="--runs 3" for a quick look.

    spread   the standard deviation of the logarithms of the runs' values
    step     the smallest ratio that `compare` calls DIFFERENT at the cap of a re-measurement, n = 5 processes a side:
             exp(max(log 1.05, 3.5 s (1 + 2.5 / (2n - 2)) sqrt(2 / n))), s the scatter of the quick processes of all runs
    ratio    asv's spread / our spread: how much better ours is

The last line is the verdict; exit code 1 where the median ratio is below 2.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import asv_runner

from stepwatch import settings as configuration
from stepwatch import wiring
from stepwatch.cli.frame import progress, say, show_table, write
from stepwatch.core import documents
from stepwatch.core.bisection.compare import ERRORS_DIFFERENT, Level, compare, error, level
from stepwatch.core.model import Benchmark, Better, Outcome, Suite, Verdict, digest, title
from stepwatch.core.units import format_value, low_quantile
from stepwatch.jobs.compare_environments import fingerprint
from stepwatch.jobs.confirm import CAP
from stepwatch.jobs.measure import measure
from stepwatch.runners.local import LocalRunner
from stepwatch.runners.protocol import Failure, Opened

TARGET = 2.0
ASV_PROCESSES = 2  # asv's default
MIN_EFFECT = 0.05  # `compare`'s default
RUNS_MIN = 3
PEER = Path(__file__).with_name("asv_timing.py")
COLUMNS = ("benchmark", "value", "spread", "step", "asv value", "asv spread", "ratio")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run: our documents, and what each of asv's processes wrote."""

    ours: list[documents.Document]
    asv: list[list[dict[str, Any]]]


def main() -> int:
    """Measure, print the table and the verdict; the exit code."""
    parser = argparse.ArgumentParser(prog="make bench-noise")
    parser.add_argument("--runs", type=int, default=10, help=f"at most so many runs, at least {RUNS_MIN}")
    parser.add_argument(
        "--minutes", type=float, default=18.0, help="no run begins that would end after these"
    )
    parser.add_argument("--group", default="core", help="the benchmarks' group; `all`: every one")
    parser.add_argument(
        "--only", default="", help="those whose name(parameters) matches this regular expression"
    )
    parser.add_argument(
        "--release", default=None, help="what is measured (default: the newest of the ladder)"
    )
    options = parser.parse_args()
    settings = configuration.load()
    suite = replace(
        wiring.chosen_suite(settings),
        group=None if options.group == "all" else options.group,
        only=options.only or None,
        size="smoke",
        processes=3,
    )
    release = options.release or settings.sources[settings.source].ladder[-1]
    night = wiring.nights(settings, settings.source).night(release)
    if night is None or night.pair is None:
        return _refuse(f"{release} is no release that can be measured")
    runner = wiring.runner(settings, settings.machine, settings.source)
    opened = runner.open(night.pair)
    if isinstance(opened, Failure):
        return _refuse(opened.reason)
    folder = (
        settings.cache / "noise" / f"{release}-{digest([opened.environment.hash, fingerprint(suite)])[:8]}"
    )
    runs = _runs(runner, opened, suite, folder, runs=max(RUNS_MIN, options.runs), minutes=options.minutes)
    if isinstance(runs, Failure):
        return _refuse(runs.reason)
    code = _report(runs, release)
    shutil.rmtree(folder)  # what is finished is measured again the next time
    return code


def _refuse(reason: str) -> int:
    say(f"Error: {reason}")
    return 1


def _runs(
    runner: LocalRunner, opened: Opened, suite: Suite, folder: Path, *, runs: int, minutes: float
) -> list[Run] | Failure:
    """The runs; those that an interrupted call has left in the folder are read again."""
    say(f"documents are kept in {folder}; an interrupted call goes on from there")
    begun, done = time.monotonic(), []
    with progress() as display:
        task = display.add_task("", total=runs)
        for number in range(runs):
            elapsed = time.monotonic() - begun
            if number >= RUNS_MIN and elapsed * (number + 1) / number > 60 * minutes:
                say(f"{minutes:g} minutes are used up: {number} runs")
                break
            display.update(task, completed=number, description="three processes of ours")
            ours = measure(runner, opened, suite, folder / f"run-{number}")
            if isinstance(ours, Failure):
                return ours
            display.update(task, description=f"asv_runner {version('asv_runner')}")
            asv = []
            for process in range(ASV_PROCESSES):
                read = _asv(runner, opened, suite, folder / f"run-{number}" / f"asv-{process}.txt")
                if isinstance(read, Failure):
                    return read
                asv.append(read)
            done.append(Run(ours=ours, asv=asv))
    return done


def _asv(runner: LocalRunner, opened: Opened, suite: Suite, out: Path) -> list[dict[str, Any]] | Failure:
    """What one process of asv's timing wrote: as asv starts it, on any core and with any number of threads."""
    if not out.is_file():
        command = [str(opened.python), str(PEER), "--size", suite.size]
        command += ["--group", suite.group] if suite.group else []
        command += ["--only", suite.only] if suite.only else []
        scratch = out.with_suffix(".part")
        with tempfile.TemporaryDirectory() as lent, runner.lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one process at a time measures on a machine
            Path(lent, "asv_runner").symlink_to(Path(asv_runner.__file__).parent)
            path = f"{lent}{os.pathsep}{suite.folder}"
            ended = subprocess.run(
                command,
                env=os.environ | {"PYTHONPATH": path, "ASV_TIMING_OUT": str(scratch)},
                check=False,
                capture_output=True,
                text=True,
            )
        if ended.returncode != 0:
            last = (ended.stderr.splitlines() or ["no output"])[-1]
            return Failure(outcome=Outcome.BENCHMARK_FAILED, reason=f"asv's timing: {last}", log=ended.stderr)
        scratch.replace(out)
    read: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))
    return read


def _report(runs: Sequence[Run], release: str) -> int:
    """Print what the runs say; the exit code."""
    noises = [_noise(runs, benchmark) for benchmark in _benchmarks(runs)]
    show_table(
        [_cells(each) for each in noises], COLUMNS, empty="no benchmark was measured by both in every run"
    )
    if not noises:
        return 1
    ratios = [each.asv_spread / each.spread for each in noises]
    middle, better = statistics.median(ratios), sum(ratio > 1 for ratio in ratios)
    spreads = [
        statistics.median(each)
        for each in zip(*((one.spread, one.asv_spread) for one in noises), strict=True)
    ]
    verdicts = [verdict for each in noises for verdict in each.verdicts]
    alarms = f"{verdicts.count(Verdict.DIFFERENT)} of {len(verdicts)}"
    write("")
    write(
        f"formula of the step: exp(max(log 1.05, 3.5 s (1 + 2.5 / {2 * CAP - 2}) sqrt(2 / {CAP}))) of the scatter s"
    )
    if verdicts:  # it takes ten processes, four runs
        write(f"compared with itself, {CAP} processes a side: {alarms} comparisons said DIFFERENT")
    write(
        f"asv: TimeBenchmark of asv_runner {version('asv_runner')}, wall time, {ASV_PROCESSES} processes a run"
    )
    write(
        f"{'met' if middle >= TARGET else 'MISSED'}: the median ratio is {middle:.2f} (target {TARGET:g}): spread "
        f"{spreads[0]:.2%} with our protocol, {spreads[1]:.2%} with asv's; better in {better} of {len(noises)} "
        f"benchmarks; {len(runs)} runs of {release}, load {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores"
    )
    return 0 if middle >= TARGET else 1


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What all runs say of one benchmark."""

    benchmark: Benchmark
    value: float
    spread: float
    step: float
    asv_value: float
    asv_spread: float
    verdicts: tuple[Verdict, ...]


def _noise(runs: Sequence[Run], benchmark: Benchmark) -> Noise:
    processes = [documents.process_values(run.ours, benchmark) for run in runs]
    values = [low_quantile(list(each), benchmark.better) for each in processes]
    asv = [statistics.median(_samples(run, benchmark)) for run in runs]
    pooled = [value for each in processes for value in each]
    return Noise(
        benchmark=benchmark,
        value=statistics.median(values),
        spread=_spread(values),
        step=_step(pooled, benchmark.better),
        asv_value=statistics.median(asv),
        asv_spread=_spread(asv),
        verdicts=tuple(_with_itself(pooled, benchmark.better)),
    )


def _benchmarks(runs: Sequence[Run]) -> list[Benchmark]:
    """Those that both have measured in every run: times and rates, each by the first metric that is judged."""
    found: dict[str, Benchmark] = {}
    for measurement in documents.measurements([document for run in runs for document in run.ours]):
        benchmark = measurement.benchmark
        name = title(benchmark.name, benchmark.params)
        timed = benchmark.judged and (benchmark.unit == "s" or benchmark.better is Better.HIGHER)
        if timed and measurement.outcome is Outcome.OK and all(_samples(run, benchmark) for run in runs):
            found.setdefault(name, benchmark)
    return [found[name] for name in sorted(found)]


def _samples(run: Run, benchmark: Benchmark) -> list[float]:
    return [
        sample
        for process in run.asv
        for each in process
        if each["name"] == benchmark.name and each["params"] == benchmark.params
        for sample in each["samples"]
    ]


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(map(math.log, values))


def _step(processes: Sequence[float], better: Better) -> float:
    """The smallest ratio that can be confirmed, by `compare`'s own error of two sides of `CAP` quick processes."""
    side = Level(log=0.0, scatter=level(processes, better).scatter, kept=(0.0,) * CAP)
    return math.exp(max(math.log1p(MIN_EFFECT), ERRORS_DIFFERENT * error([side, side])))


def _with_itself(processes: Sequence[float], better: Better) -> Iterator[Verdict]:
    """What comparing says where nothing differs: each ten processes in turn, the even against the odd ones."""
    for start in range(0, len(processes) - 2 * CAP + 1, 2 * CAP):
        part = processes[start : start + 2 * CAP]
        yield compare(part[::2], part[1::2], cap=CAP, better=better).verdict


def _cells(noise: Noise) -> dict[str, str]:
    return {
        "benchmark": title(noise.benchmark.name, noise.benchmark.params),
        "value": format_value(noise.value, noise.benchmark.unit),
        "spread": f"{noise.spread:.2%}",
        "step": f"x {noise.step:.3f}",
        "asv value": format_value(noise.asv_value, "s"),
        "asv spread": f"{noise.asv_spread:.2%}",
        "ratio": f"{noise.asv_spread / noise.spread:.2f}",
    }


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted; what was measured is kept, the same command goes on from there")
        sys.exit(130)
