"""What is said, in which words?

A message is a plain JSON-able document, made in the transaction of the decision that it tells of, so that it can be
stored before it is sent. Transports turn it into their own form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stepwatch.core.model import Better, Culprit, Direction, SuspectRange, title
from stepwatch.core.units import format_change, format_value, slowdown

Message = dict[str, Any]
Facts = Mapping[str, Any]
SHOWN = 10
COMMIT = re.compile(r"[0-9a-f]{40}")
REPOSITORIES = {"jax": "https://github.com/jax-ml/jax", "xla": "https://github.com/openxla/xla"}


def head(
    direction: Direction,
    *,
    after: str,
    through: str,
    machine: str,
    regressions: Sequence[Facts],
    owners: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Message:
    """The first message of an incident. `regressions` are rows of `reporting.regressions`, the largest first.

    `notes` are what else is known of the range.
    """
    count = len({(each["benchmark"], str(each["params"])) for each in regressions})
    summary = f"{direction.value}: {named(regressions[0])} {_change(regressions[0])}"
    if count > 1:
        summary += f", and {count - 1} more"
    between = f"between {after} (last on the old level) and {through} (first on the new one), on {machine}"
    if direction is Direction.DRIFT:
        between = f"little by little from {after} to {through}, by no step, on {machine}"
    lines = [between, *(_line(each) for each in regressions[:SHOWN])]
    if len(regressions) > SHOWN:
        lines.append(f"… and {len(regressions) - SHOWN} more")
    lines += notes
    if owners:
        lines.append(f"owned by {', '.join(owners)}")
    return {"title": summary, "lines": lines}


def commits(revisions: Sequence[Facts]) -> list[str]:
    """A line for each repository whose commits a range spans, with where to read them; none for releases."""
    lines = []
    for each in revisions:
        if COMMIT.fullmatch(each["old"]) and COMMIT.fullmatch(each["new"]):
            name, old, new = each["repository"].upper(), each["old"], each["new"]
            lines.append(
                f"{name} is the same, {old[:12]}"
                if old == new
                else f"{name} {old[:12]} -> {new[:12]}: {REPOSITORIES[each['repository']]}/compare/{old[:12]}...{new[:12]}"
            )
    return lines


def silent_nights(nights: Sequence[Facts]) -> list[str]:
    """A line on the nights of a range without a result, as `label` and `why`; none where there are none."""
    if not nights:
        return []
    said = [f"{each['label']} ({each['why'] or 'not measured'})" for each in nights[:SHOWN]]
    if len(nights) > SHOWN:
        said.append(f"… and {len(nights) - SHOWN} more")
    return [f"without a result in between: {', '.join(said)}"]


def cost_shift(steps: Sequence[Facts]) -> list[str]:
    """Lines on siblings that moved the other way in the same range: rows with `level_before` and `level_after`."""
    lines = []
    for each in steps[:SHOWN]:
        moved = {**each, "baseline": each["level_before"], "level": each["level_after"]}
        lines.append(f"the other way in the same range: {named(each)} {_change(moved)}")
    if len(steps) > SHOWN:
        lines.append(f"… and {len(steps) - SHOWN} more the other way")
    return lines


def also_on(machine: str, incident: int) -> str:
    """The same range on another machine."""
    return f"the same range on {machine}: incident {incident}"


def failing(failures: Sequence[Facts], *, owners: Sequence[str] = ()) -> Message:
    """The first message of an incident of benchmarks without results. `failures` are rows of `reporting.failures`."""
    first = failures[0]
    names = list(dict.fromkeys(named(each) for each in failures))
    summary = f"no result: {names[0]}: {_words(first['outcome'])}"
    if len(names) > 1:
        summary += f", and {len(names) - 1} more"
    lines = [
        f"between {first['after']} (the last night with a result) and {first['through']}, on {first['machine']}"
    ]
    said = list(
        dict.fromkeys(
            f"{named(each)}: {_words(each['outcome'])}: {each['reason'] or 'no reason'}" for each in failures
        )
    )
    lines += said[:SHOWN]
    if len(said) > SHOWN:
        lines.append(f"… and {len(said) - SHOWN} more")
    if owners:
        lines.append(f"owned by {', '.join(owners)}")
    return {"title": summary, "lines": lines}


def environment(
    suspect: SuspectRange, names: Sequence[str], differences: Sequence[str], *, machine: str, series: int
) -> Message:
    """Some of a machine's `series` moved, and the program did not do it; `differences` are those of the surroundings."""
    lines = [
        f"between {suspect.after} and {suspect.through}: what was measured again says that the program did not do it",
        *(f"what differs: {each}" for each in differences or ("nothing that is known",)),
        *names[:SHOWN],
    ]
    if len(names) > SHOWN:
        lines.append(f"… and {len(names) - SHOWN} more")
    return {
        "title": f"environment: {len(names)} of {series} series moved on {machine}, not by the program",
        "lines": lines,
    }


def works_again(label: str, failures: Sequence[Facts]) -> Message:
    """Every benchmark of an incident gives results again."""
    names = dict.fromkeys(named(each) for each in failures)
    return {"title": f"results again at {label}", "lines": list(names)}


def recovered(label: str, lines: Sequence[str]) -> Message:
    """Every regression of an incident is seen to be back on its old level; a line for each says what remains."""
    return {"title": f"recovered, seen at {label}", "lines": list(lines)}


def partly(label: str, lines: Sequence[str]) -> Message:
    """Some of an incident's regressions are part of the way back."""
    return {"title": f"part of the way back, seen at {label}", "lines": list(lines)}


def joined(label: str, lines: Sequence[str]) -> Message:
    """What was confirmed after the head of its incident was said, in the same range."""
    more = "one more" if len(lines) == 1 else f"{len(lines)} more"
    return {"title": f"{more} in the same range, seen at {label}", "lines": list(lines)}


def back_between(after: str, through: str) -> str:
    """Where to look for what mended it."""
    return f"the step back lies between {after} and {through}"


def retracted(label: str, lines: Sequence[str]) -> Message:
    """Later nights show that there was no such step."""
    return {"title": f"taken back at {label}: later nights show no such step", "lines": list(lines)}


def way_back(label: str, lines: Sequence[str]) -> Message:
    """Nights that came late show that what was gained is only the way back of a regression."""
    return {"title": f"seen at {label}: this is the way back of a regression before it", "lines": list(lines)}


def movement(each: Facts, *, before: float, after: float, remaining: float) -> str:
    """One line: a benchmark went from one level to another; `remaining` = present level / baseline - 1."""
    old, new = format_value(before, each["unit"]), format_value(after, each["unit"])
    baseline = format_value(each["baseline"], each["unit"])
    present = each["baseline"] * (1 + remaining) if each["baseline"] else after
    left = format_change(old=each["baseline"], new=present)
    return f"{named(each)}: {old} -> {new} (now {left} against {baseline})"


def explained(
    bisection: int, benchmark: str, good: str, bad: str, culprits: Sequence[Culprit], *, probes: int
) -> Message:
    """What a bisection has ended with: each culprit's reason, and what its repository says of a commit."""
    summary = "; ".join(culprit.reason for culprit in culprits)
    return {
        "title": summary,
        "lines": [
            *(
                f"{culprit.repository} {culprit.commit}: {culprit.info}"
                for culprit in culprits
                if culprit.info
            ),
            f"bisection {bisection} of {benchmark} in ({good}, {bad}], {probes} pairs tried",
        ],
    }


def text(message: Message) -> str:
    """A message as plain text."""
    return "\n".join([message["title"], *(f"  {line}" for line in message["lines"])])


def _words(outcome: str) -> str:
    return {
        "benchmark_failed": "it crashes or raises",
        "timed_out": "it does not end in time",
        "wrong_result": "its result is wrong",
        "skipped": "it is skipped",
    }.get(outcome, outcome)


def _line(each: Facts) -> str:
    old, new = format_value(each["baseline"], each["unit"]), format_value(each["level"], each["unit"])
    evidence = ", measured again: different" if each["remeasured"] else ""
    return f"{named(each)}: {old} -> {new} ({_change(each)}{evidence})"


def _change(each: Facts) -> str:
    worse = slowdown(old=each["baseline"], new=each["level"], better=Better(each["better"]))
    word = "slower" if worse > 0 else "faster"
    return f"{format_change(old=each['baseline'], new=each['level'])} against {format_value(each['baseline'], each['unit'])}, {word}"


def named(each: Facts) -> str:
    """A benchmark with its parameters."""
    return title(each["benchmark"], each["params"] or {})
