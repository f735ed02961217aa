"""The command that needs neither a service nor a database: `bench`, two environments side by side."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from stepwatch.cli.frame import (
    Refusal,
    as_json,
    progress,
    say,
    settings_in_force,
    show_json,
    show_table,
    write,
)
from stepwatch.core import documents
from stepwatch.core.bisection.compare import SECOND_LOOK
from stepwatch.core.model import JAX, Better, Revision, Suite, Verdict, title
from stepwatch.core.units import format_change, format_value
from stepwatch.jobs.compare_environments import (
    MIN_EFFECT,
    RESULT,
    SIDES,
    Finding,
    compare_environments,
    comparison_folder,
    conclude,
)
from stepwatch.jobs.open_environment import ACCEPTED, differences, open_reference, same_environment
from stepwatch.jobs.workplace import Nights
from stepwatch.runners.processes import flags
from stepwatch.runners.protocol import Failure, Measurer, Opened, Runner
from stepwatch.sections import EVERY_GROUP

COLUMNS = ("benchmark", "old", "new", "ratio", "interval", "processes", "verdict", "reason")
VERDICTS = (Verdict.DIFFERENT, Verdict.BROKEN, Verdict.UNKNOWN, Verdict.SAME)


@click.command()
@click.argument("new", required=False)
@click.option(
    "--against", "old", required=True, metavar="OLD", help="The environment that NEW is held against."
)
@click.option("--only", metavar="REGEX", help="Those benchmarks whose name(parameters) matches.")
@click.option("--group", help="Those of one group; `all`: of every group (default: the suite's, `core`).")
@click.option(
    "--size", type=click.Choice(["smoke", "full"]), help="How large the inputs are (default: the suite's)."
)
@click.option(
    "--processes",
    type=click.IntRange(SECOND_LOOK, 100),
    default=8,
    show_default=True,
    help="At most so many processes a side.",
)
@click.option("--suite", help="The suite to run (default: `suite` in the settings).")
@click.option("--fresh", is_flag=True, help="Start anew where an earlier comparison was interrupted.")
@click.option("--fail-on-slower", is_flag=True, help="Exit code 1 where anything is slower.")
@as_json
def bench(
    new: str | None,
    old: str,
    only: str | None,
    group: str | None,
    size: str | None,
    processes: int,
    suite: str | None,
    *,
    fresh: bool,
    fail_on_slower: bool,
    as_json: bool,
) -> None:
    """Is NEW slower than OLD on this machine? No database and no service is needed.

    Both are measured alternately until each benchmark is decided. Either is a release (0.10.2), a pair
    (jax@0.10.2+xla@0.10.1), a date, a container image (ghcr.io/nvidia/jax:jax-2024-09-16), or the path of a virtual
    environment of your own, which is measured as it is.
    NEW is the active virtual environment where it is not given.
    """
    from stepwatch import wiring

    settings = settings_in_force()
    chosen = _selected(wiring.chosen_suite(settings, suite), only, group, size)
    source = wiring.source_of(settings, settings.machine)
    runner = wiring.runner(settings, settings.machine, source)
    sides = _open(
        runner,
        wiring.nights(settings, source),
        lambda name: wiring.open_container(settings, settings.machine, name, say=say),
        old,
        new,
        settings.machines[settings.machine].autotuning,
    )
    folder = comparison_folder(settings.cache, *sides, chosen, fresh=fresh)
    both = wiring.measurer(settings, settings.machine, say=say)
    findings = _measure(both, sides, chosen, folder, processes)
    document = _document((old, new or "the active environment"), sides, chosen, folder, findings)
    (folder / RESULT).write_text(json.dumps(document, indent=1), encoding="utf-8")
    if as_json:
        show_json(document)
    else:
        _show(document)
    if fail_on_slower and any(each.slower for each in findings):
        raise Refusal(f"{document['verdict']} (--fail-on-slower)")


def _selected(suite: Suite, only: str | None, group: str | None, size: str | None) -> Suite:
    """The suite with what the options say."""
    try:
        re.compile(only or "")
    except re.error as error:
        raise Refusal(f"--only {only!r} is no regular expression: {error}") from None
    return replace(
        suite,
        only=only or suite.only,
        group=None if group == EVERY_GROUP else group or suite.group,
        size=size or suite.size,
    )


def _open(
    runner: Runner,
    nights: Nights,
    open_container: Callable[[str], Opened | Failure | str],
    old: str,
    new: str | None,
    autotuning: Path | None,
) -> tuple[Opened, Opened]:
    """Both environments; NEW is the active one where it is not named."""
    active = os.environ.get("VIRTUAL_ENV")
    if new is None and not active:
        raise Refusal(f"NEW is not given and no virtual environment is active; {ACCEPTED}")
    opened: list[Opened] = []
    for ref in (old, new or str(active)):
        found = open_reference(ref, nights, runner, open_container, flags(autotuning))
        if isinstance(found, str):
            mine = (
                ""
                if ref in {old, new}
                else "NEW is not given and the active virtual environment can't be it: "
            )
            raise Refusal(mine + found)
        opened.append(found)
    if same_environment(*opened):
        raise Refusal(f"OLD and NEW are both {opened[0].python}; accepted are two different environments")
    return opened[0], opened[1]


def _measure(
    runner: Measurer, sides: tuple[Opened, Opened], suite: Suite, folder: Path, cap: int
) -> tuple[Finding, ...]:
    before = len(list(folder.glob("*.json")))
    say(f"documents are kept in {folder}; an interrupted comparison goes on from there")
    if before:
        say(f"it goes on; processes that were measured before: {before}")
    with progress() as display:
        task = display.add_task("")

        def tell(done: int, total: int, what: str) -> None:
            display.update(task, completed=done, total=total, description=what)

        found = compare_environments(runner, *sides, suite, folder, cap=cap, tell=tell)
    if isinstance(found, Failure):
        hint = (
            f" (--group {EVERY_GROUP} looks in all groups)"
            if suite.group and "no benchmark" in found.reason
            else ""
        )
        raise Refusal(f"nothing was measured: {found.reason}{hint}")
    return found


def _document(
    refs: tuple[str, str],
    sides: tuple[Opened, Opened],
    suite: Suite,
    folder: Path,
    findings: Sequence[Finding],
) -> dict[str, Any]:
    """What `--json` prints, and what stays in the folder; the worst news first."""
    old, new = sides
    environments = {
        side: {
            "ref": ref,
            "jax": opened.environment.pair.jax.ref,
            "jaxlib": opened.environment.pair.xla.ref,
            "base": opened.environment.base,
            "python": str(opened.python),
            "freeze": list(opened.environment.freeze),
        }
        for side, ref, opened in zip(SIDES, refs, sides, strict=True)
    }
    ordered = sorted(findings, key=lambda each: (VERDICTS.index(each.verdict), -(each.worse or 0)))
    return {
        **environments,
        "differences": list(differences(old.environment, new.environment)),
        "suite": {"name": suite.name, "group": suite.group, "size": suite.size, "only": suite.only},
        "folder": str(folder),
        "same_within": MIN_EFFECT,
        "warnings": _warnings(folder),
        "benchmarks": [_row(each) for each in ordered],
        "verdict": conclude(findings),
    }


def _warnings(folder: Path) -> list[str]:
    files = (file for file in sorted(folder.glob("*.json")) if file.name != RESULT)
    return list(documents.warnings([json.loads(file.read_text(encoding="utf-8")) for file in files]))


def _row(finding: Finding) -> dict[str, Any]:
    benchmark = finding.benchmark
    return {
        "benchmark": benchmark.name,
        "params": benchmark.params,
        "version": benchmark.version,
        "metric": benchmark.metric or None,
        "unit": benchmark.unit or None,
        "better": benchmark.better.value,
        "exact": benchmark.exact,
        "old": finding.old,
        "new": finding.new,
        "old_values": list(finding.old_values),
        "new_values": list(finding.new_values),
        "worse": finding.worse,
        "low": finding.low,
        "high": finding.high,
        "verdict": finding.verdict.value,
        "reason": finding.reason,
        "warnings": list(finding.warnings),
    }


def _short(ref: str) -> str:
    return Revision(repository=JAX, ref=ref, committed_at=dt.datetime.now(dt.UTC)).short


def _show(document: dict[str, Any]) -> None:
    for side in SIDES:
        it = document[side]
        jax, other = (_short(it[key]) for key in ("jax", "jaxlib"))
        xla = "jaxlib" if it["jaxlib"] == other else "xla"  # a commit is of XLA, a version of jaxlib
        write(f"{side}: {it['ref']}: jax {jax}, {xla} {other}, {it['base'].partition(',')[0]}")
    write(f"beside jax and jaxlib: {', '.join(document['differences']) or 'nothing differs'}")
    write("")
    timed = [_cells(row) for row in document["benchmarks"] if not row["exact"]]
    show_table(timed, COLUMNS, empty="no benchmark was measured")
    write("")
    counts: dict[str, list[str]] = {}
    for row in document["benchmarks"]:
        if row["exact"] and row["verdict"] == Verdict.DIFFERENT:
            known = row["old"] > 0 and row["new"] > 0
            change = f" ({format_change(old=row['old'], new=row['new'])})" if known else ""
            said = f"{row['metric']} {row['old']:.0f} -> {row['new']:.0f}{change}"
            counts.setdefault(title(row["benchmark"].replace(".track_time", ""), row["params"]), []).append(
                said
            )
    for name, changed in counts.items():
        write(f"counts of {name}: {', '.join(changed)}")
    kinds: dict[str, list[str]] = {}
    for warning in document["warnings"]:
        kinds.setdefault(re.sub(r"[\d.]+", "", warning), []).append(warning)
    for alike in kinds.values():
        write(f"warning: {alike[0]}" + (f" (and {len(alike) - 1} like it)" if len(alike) > 1 else ""))
    write(f"less than {document['same_within']:.0%} counts as the same; intervals are two standard errors")
    write(document["verdict"])


def _title(row: dict[str, Any]) -> str:
    """A benchmark with its parameters and its metric; the clock of its one time goes without saying."""
    name = title(row["benchmark"].replace(".track_time", ""), row["params"])
    return name if row["metric"] in {None, "cpu_time", "wall_time"} else f"{name} {row['metric']}"


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    measured = row["worse"] is not None
    return {
        "benchmark": _title(row),
        **{side: format_value(row[side], row["unit"]) for side in SIDES if measured},
        **(_ratio(row) if measured else {}),
        "processes": f"{len(row['old_values'])} + {len(row['new_values'])}",
        "verdict": row["verdict"].upper(),
        "reason": "; ".join([row["reason"], *row["warnings"]]),
    }


def _ratio(row: dict[str, Any]) -> dict[str, str]:
    """The ratio and its interval, both as how many times slower, or both as how many times faster."""
    worse, low, high = row["worse"], row["low"], row["high"]
    a_time = row["unit"] in {"s", "seconds"} or row["better"] == Better.HIGHER
    words = ("slower", "faster") if a_time else ("worse", "better")
    if worse < 1:
        worse, low, high = 1 / worse, 1 / high, 1 / low
        words = words[::-1]
    return {"ratio": f"x {worse:.3g} {words[0]}", "interval": f"{low:.3g} to {high:.3g}"}


COMMANDS = (bench,)
