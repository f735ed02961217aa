"""What does somebody ask of a bisection?

The same words come from `airflow dags trigger bisect --conf`, from REST and from the command line. Anything that is
not understood is refused in one sentence; nothing is guessed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

POLICIES = ("explore", "comb", "exhaustive")
SUBJECTS = ("incident", "benchmark", "good", "bad")
OPTIONS = ("machine", "source", "policy")
KEYS = (*SUBJECTS, *OPTIONS)

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
        elif not isinstance(value, str) or not value.strip():
            return f"{key} = {value!r} is not accepted; accepted is a word"
    if given.get("policy", POLICIES[0]) not in POLICIES:
        return f"policy = {given['policy']!r} is not accepted; accepted is one of {', '.join(POLICIES)}"
    return None


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


def parse_date(end: str) -> dt.date | None:
    """The date of `2024-09-16`; None where `end` is something else."""
    try:
        return dt.date.fromisoformat(end) if re.match(r"^\d{4}-\d{2}-\d{2}$", end) else None
    except ValueError:
        return None
