"""Which settings hold for one series, and where does each come from?

Rules are read in order, and a later one that matches counts over an earlier one, key by key. Worked example: with
`min_effect` 0.003 as the general setting and the rules

    match = "^linalg"      min_effect = 0.01, owner = "@linear"
    match = "cholesky"     min_effect = 0.02

`linalg.Cholesky.track_time(edge=512)` does not match the second (case counts) and has 0.01; its owner is "@linear".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stepwatch.core.course import TriageSettings
from stepwatch.core.model import Direction

BOTH = "both"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What is said of all series whose benchmark's name with parameters contains the regular expression `match`.

    `says` has some of the keys of `Rulebook.settings`; `origin` says where the rule is written.
    """

    match: str
    says: Mapping[str, Any]
    origin: str


@dataclass(frozen=True, kw_only=True)
class SeriesSettings:
    """What holds for one series: how it is triaged, its known relative noise, and who owns it."""

    triage: TriageSettings
    noise: float | None
    owner: str | None


@dataclass(frozen=True, kw_only=True)
class Rulebook:
    """The general settings, where each of them comes from, and the rules over them."""

    triage: TriageSettings = field(default_factory=TriageSettings)
    noise: float | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    rules: Sequence[Rule] = ()

    def of(self, name: str) -> SeriesSettings:
        """What holds for the series of a benchmark by its name with parameters."""
        said = {key: value for key, (value, _) in self.settings(name).items()}
        told = (
            {Direction.REGRESSION, Direction.IMPROVEMENT}
            if said["direction"] == BOTH
            else {Direction(said["direction"])}
        )
        return SeriesSettings(
            triage=replace(
                self.triage,
                detection=replace(self.triage.detection, min_effect=said["min_effect"]),
                confirm=said["confirm_results"],
                suspect_change=said["suspect_change"],
                drift_change=said["drift_change"],
                told=frozenset() if said["mute"] else frozenset(told),
            ),
            noise=said["noise"],
            owner=said["owner"],
        )

    def owners(self, names: Iterable[str]) -> list[str]:
        """Who owns any of some benchmarks, each once."""
        owners = (self.of(name).owner for name in names)
        return list(dict.fromkeys(owner for owner in owners if owner))

    def settings(self, name: str) -> dict[str, tuple[Any, str]]:
        """Key -> the value that holds for a name with parameters, and where it comes from."""
        general = {
            "min_effect": self.triage.detection.min_effect,
            "confirm_results": self.triage.confirm,
            "suspect_change": self.triage.suspect_change,
            "drift_change": self.triage.drift_change,
            "noise": self.noise,
            "direction": BOTH,
            "owner": None,
            "mute": False,
        }
        found = {key: (value, self.origins.get(key, "default")) for key, value in general.items()}
        for rule in self.rules:
            if re.search(rule.match, name):
                found.update({key: (value, rule.origin) for key, value in rule.says.items()})
        return found
