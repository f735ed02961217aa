"""What do the nights say, in one file that can be sent to anybody?

The file needs nothing beside it and no script: styles and charts stand in it. It is written beside its place and
then moved there, so a reader never sees half of it. All that it says is read from the schema `reporting`.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from alerts import message
from stepwatch.core.model import Better, CommitInfo, Direction, Disposition, State, title
from stepwatch.core.units import format_change, format_value, slowdown
from stepwatch.jobs import charts
from stepwatch.jobs.overlap import segment_text
from storage import reading
from storage.reading import Rows
from storage.rows import Database
from storage.segments import segments

OVER = (State.RECOVERED, State.ENVIRONMENT)
LOST = "lost again"
COMMIT = ("author", "committed_at", "subject", "url")  # what a culprit's repository says of it


def report(database: Database, path: Path) -> Path:
    """Write the report of everything that is stored to `path` and return it; what was there is replaced at once."""
    with reading.snapshot(database) as connection:
        facts: dict[str, Any] = {
            "coverage": reading.coverage(connection),
            "gaps": reading.gaps(connection),
            "failures": reading.failures(connection),
            "incidents": reading.incidents(connection),
            "by_hand": reading.searches(connection, None),
            "regressions": reading.regressions(connection),
            "series": reading.judged_series(connection),
            "begun": segments(connection),
        }
    text = _template().render(
        made_at=dt.datetime.now(tz=dt.UTC),
        coverage=facts["coverage"],
        counts=_counts(facts["regressions"]),
        misses=[*_gap_rows(facts["gaps"]), *_failure_rows(facts["failures"])],
        reasons=_reasons(facts["gaps"]),
        incidents=[_incident(row) for row in facts["incidents"]],
        by_hand=[_search(row) for row in facts["by_hand"]],
        groups=_groups(facts["series"], facts["begun"]),
        box=charts,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.part")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)
    return path


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["value"] = format_value
    environment.filters["moment"] = lambda at: f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
    return environment.get_template("report.html.j2")


def _counts(regressions: Rows) -> dict[str, int]:
    """What people were told of, by what has become of it; what they were not told of is `suspected`."""
    counts = dict.fromkeys(("open", "recovered", "dismissed", "improvements", "suspected"), 0)
    for row in regressions:
        counts[_standing(row)] += 1
    return counts


def _standing(row: dict[str, Any]) -> str:
    if row["raised"] is None:
        return "suspected"
    if row["direction"] == Direction.IMPROVEMENT:
        return "improvements"
    if row["state"] in OVER:
        return "recovered"
    return "dismissed" if row["disposition"] == Disposition.DISMISSED else "open"


def _reasons(gaps: Rows) -> list[tuple[str, list[str]]]:
    """Each reason of a gap with the nights that it explains, the most frequent first."""
    found: dict[str, list[str]] = defaultdict(list)
    for gap in gaps:
        found[gap["reason"]].append(gap["label"])
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _gap_rows(gaps: Rows) -> Rows:
    return [{**gap, "what": "no such night", "outcome": "gap", "names": []} for gap in gaps]


def _failure_rows(failures: Rows) -> Rows:
    """One row for each night and reason; benchmarks that failed alike stand together."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in failures:
        whole = row["benchmark"] is None
        key = (
            row["source"],
            row["label"],
            row["machine"],
            row["suite"],
            whole,
            row["outcome"],
            row["reason"],
        )
        what = f"{row['suite']} on {row['machine']}"
        kept = found.setdefault(key, {**row, "what": what, "names": []})
        if not whole:
            kept["names"].append(title(row["benchmark"], row["params"]))
    return list(found.values())


def _incident(row: dict[str, Any]) -> dict[str, Any]:
    moved = sorted(row["regressions"], key=lambda each: -(math.inf if each["size"] is None else each["size"]))
    head = {"after": row["after"], "through": row["through"], "machine": row["machine"]}
    states = sorted({_state(each) for each in row["regressions"]})
    over = LOST if row["direction"] == Direction.IMPROVEMENT else State.RECOVERED.value
    if row["direction"] == Direction.FAILURE:
        return {
            **row,
            "title": next(each["message"]["title"] for each in row["messages"]),
            "state": "results again" if row["recovered_at"] is not None else "no result",
            "over": row["recovered_at"] is not None,
            "later": row["messages"],
            "regressions": [],
            "bisections": [],
        }
    return {
        **row,
        # from the figures of now, as those below it; what was said at the time is in the thread
        "title": message.head(Direction(row["direction"]), regressions=moved, **head)["title"],
        "state": over if row["recovered_at"] is not None else ", ".join(states),
        "over": row["recovered_at"] is not None or row["direction"] == Direction.IMPROVEMENT,
        "later": [each for each in row["messages"] if each["kind"] != "head"],
        "regressions": [_moved(each) for each in row["regressions"]],
        "bisections": [_search(each) for each in row["bisections"]],
    }


def _state(row: dict[str, Any]) -> str:
    """A regression's state; what was gained and is lost again has not recovered."""
    lost = row["direction"] == Direction.IMPROVEMENT and row["state"] == State.RECOVERED
    return LOST if lost else str(row["state"])


def _moved(row: dict[str, Any]) -> dict[str, Any]:
    """A regression with the words for it, and the processes of both sides of each re-measurement."""
    worse = slowdown(old=row["baseline"], new=row["level"], better=Better(row["better"])) > 0
    evidence = []
    for each in row["evidence"]:
        old, new = charts.strips([each["old"], each["new"]])
        sides = [
            {
                "name": name,
                "dots": dots,
                "text": ", ".join(format_value(value, row["unit"]) for value in values),
            }
            for name, dots, values in ((each["after"], old, each["old"]), (each["through"], new, each["new"]))
        ]
        evidence.append({**each, "sides": sides if each["old"] or each["new"] else []})
    return {
        **row,
        "title": title(row["benchmark"], row["params"]),
        "state": _state(row),
        "said": f"{format_change(old=row['baseline'], new=row['level'])}, {'slower' if worse else 'faster'}",
        "evidence": evidence,
    }


def _search(row: dict[str, Any]) -> dict[str, Any]:
    """A bisection with its probes placed on one scale."""
    places = charts.strips([probe["ratios"] for probe in row["tried"]])
    tried = [
        {**probe, "dots": dots, "text": ", ".join(f"{ratio:.3g}" for ratio in probe["ratios"])}
        for probe, dots in zip(row["tried"], places, strict=True)
    ]
    culprits = [
        {
            **culprit,
            "info": culprit["author"] and CommitInfo(**{key: culprit[key] for key in COMMIT}),
        }
        for culprit in row["culprits"]
    ]
    return {**row, "title": title(row["benchmark"], row["params"]), "culprits": culprits, "tried": tried}


def _groups(series: Rows, begun: dict[int, dict[str, Any]]) -> list[tuple[str, Sequence[dict[str, Any]]]]:
    """The judged series by benchmark, each with its chart and the sentence that says the same."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in series:
        drawn = charts.chart(row)
        found[row["benchmark"]].append(
            {
                **row,
                "chart": drawn,
                "inside": ", ".join(f"{key}={value}" for key, value in row["params"].items()),
                "regressions": [_moved({**each, "evidence": []}) for each in row["regressions"]],
                "text": _in_words(row, drawn),
                "begun": segment_text(begun[row["series_id"]]) if row["series_id"] in begun else None,
            }
        )
    return list(found.items())


def _in_words(row: dict[str, Any], drawn: charts.Chart | None) -> str:
    if drawn is None:
        return "no night has a value"
    gaps = sum(miss.kind == "gap" for miss in drawn.misses)
    failed = len(drawn.misses) - gaps
    words = [
        f"{len(drawn.dots)} of {len(row['nights'])} nights measured, {gaps} gaps, {failed} failures.",
        f"First {drawn.dots[0].text}; last {drawn.dots[-1].text}.",
        *(f"{each.text}." for each in drawn.ranges),
        *(f"With a warning: {each.text}." for each in drawn.dots if each.warned),
    ]
    return " ".join(words)
