"""What does somebody ask of a bisection?

The same words come from `airflow dags trigger bisect --conf`, from REST and from the command line. Anything that is
not understood is refused in one sentence; nothing is guessed.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepwatch.core.model import JAX, XLA, Pairing

CHOICES = {"policy": ("explore", "comb", "exhaustive"), "pairing": tuple(each.value for each in Pairing)}
SUBJECTS = ("incident", "benchmark", "good", "bad")
BUDGETS = {"budget_probes": "a whole number above 0", "budget_minutes": "a number above 0"}
OPTIONS = ("machine", "source", *CHOICES, "container", "fix", *BUDGETS)
KEYS = (*SUBJECTS, *OPTIONS)
DISTRIBUTIONS = {JAX: "jax", XLA: "jaxlib"}  # repository -> what its releases are called

_FIX = re.compile(r"^(?P<repository>jax|xla)=(?P<project>jax|jaxlib)==(?P<release>\d+(\.\d+)*)$")
_PAIR = re.compile(r"^jax@(?P<jax>[\w.-]+)\+xla@(?P<xla>[\w.-]+)$")


@dataclass(frozen=True, kw_only=True)
class BisectionRequest:
    """Search an incident's range, or a benchmark's between two ends; neither: the oldest incident that waits."""

    incident: int | None = None
    benchmark: str | None = None
    good: str | None = None
    bad: str | None = None
    machine: str | None = None
    source: str | None = None
    policy: str | None = None
    pairing: str | None = None
    container: str | None = None
    fix: str | None = None
    budget_probes: int | None = None
    budget_minutes: float | None = None


def parse_request(conf: Mapping[str, Any]) -> BisectionRequest | str:
    """The request in `conf`, or the sentence that refuses it. A key that is None counts as not given."""
    given = {key: value for key, value in conf.items() if value is not None}
    refusal = _refuse_words(given) or _refuse_mixtures(given)
    return refusal or BisectionRequest(**given)


def _refuse_words(given: Mapping[str, Any]) -> str | None:
    unknown = sorted(set(given) - set(KEYS))
    if unknown:
        return f"unknown key {', '.join(unknown)}; accepted are {', '.join(KEYS)}"
    for key, value in given.items():
        if key == "incident":
            if isinstance(value, bool) or not isinstance(value, int):
                return f"incident = {value!r} is not accepted; accepted is the number of an incident"
        elif key in BUDGETS:
            number = int if key == "budget_probes" else (int, float)
            if isinstance(value, bool) or not isinstance(value, number) or not 0 < value < math.inf:
                return f"{key} = {value!r} is not accepted; accepted is {BUDGETS[key]}"
        elif not isinstance(value, str) or not value.strip():
            return f"{key} = {value!r} is not accepted; accepted is a word"
    for key, choices in CHOICES.items():
        if given.get(key, choices[0]) not in choices:
            return f"{key} = {given[key]!r} is not accepted; accepted is one of {', '.join(choices)}"
    fixed = parse_fix(given["fix"]) if "fix" in given else None
    return fixed if isinstance(fixed, str) else None


def _refuse_mixtures(given: Mapping[str, Any]) -> str | None:
    named = {"benchmark", "good", "bad"} & set(given)
    if "incident" in given and named:
        return "incident goes without benchmark, good and bad: an incident has them"
    if named and len(named) < 3:
        missing = ", ".join(sorted({"benchmark", "good", "bad"} - named))
        return f"benchmark, good and bad go together; {missing} is missing"
    if named and given["good"] == given["bad"]:
        return f"good and bad are both {given['good']!r}; there is nothing between them"
    return None


def parse_pair(end: str) -> tuple[str, str] | None:
    """The jax and the xla ref of `jax@…+xla@…`; None where `end` is something else."""
    match = _PAIR.match(end)
    return None if match is None else (match["jax"], match["xla"])


def parse_fix(text: str) -> tuple[str, str] | str:
    """The repository that is held still and its release, of `xla=jaxlib==0.4.20`; or the sentence that refuses it."""
    match = _FIX.match(text)
    if match is None or DISTRIBUTIONS[match["repository"]] != match["project"]:
        return f"fix = {text!r} is not accepted; accepted is xla=jaxlib==0.4.20, or jax=jax==0.4.20"
    return match["repository"], match["release"]


def parse_date(end: str) -> dt.date | None:
    """The date of `2024-09-16`; None where `end` is something else."""
    try:
        return dt.date.fromisoformat(end) if re.match(r"^\d{4}-\d{2}-\d{2}$", end) else None
    except ValueError:
        return None
