"""How far is a pull, and what went wrong with it?

The engine tells of a pull in lines; an error is a line too, and no exception.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwatch.core.model import Outcome
from stepwatch.runners.protocol import Failure, UnreachableError

SAID_EVERY_S = 5.0
_GONE = re.compile(r"manifest unknown|manifest for .* not found|not found: manifest", re.IGNORECASE)
_FULL = re.compile(r"no space left on device", re.IGNORECASE)


def _now() -> float:
    return time.monotonic()


@dataclass(kw_only=True)
class Pull:
    """One pull: `say` hears of it every few seconds; `failure` is why there is no such image."""

    reference: str
    say: Callable[[str], None]
    failure: Failure | None = None
    _layers: dict[str, tuple[int, int]] = field(default_factory=dict)
    _said: float = field(default_factory=_now)

    def read(self, line: Mapping[str, Any]) -> None:
        """Take in a line.

        Raises:
            UnreachableError: it tells of an error that may pass.
        """
        if "error" in line:
            self.fail(str(line["error"]))
            return
        detail = line.get("progressDetail") or {}
        if line.get("status") == "Downloading" and detail.get("total"):
            self._layers[str(line["id"])] = (int(detail.get("current", 0)), int(detail["total"]))
            if _now() - self._said >= SAID_EVERY_S:
                self._said = _now()
                here, total = (sum(each) for each in zip(*self._layers.values(), strict=True))
                self.say(f"{self.reference}: {here / 2**20:,.0f} of {total / 2**20:,.0f} MiB pulled")

    def fail(self, text: str) -> None:
        """Take in an error.

        Raises:
            UnreachableError: it may pass: the registry does not answer, or there is no room.
        """
        words = " ".join(text.split())
        if _GONE.search(words):
            reason = f"pruned: {self.reference} was in the registry when it was first seen, and is no longer"
            self.failure = Failure(outcome=Outcome.IMAGE_MISSING, reason=reason, log=words)
        elif _FULL.search(words):
            raise UnreachableError(
                f"{self.reference} can't be pulled: no space is left where the Docker engine keeps images;"
                " make room (stepwatch janitor removes those that no open incident needs)"
            )
        else:
            raise UnreachableError(f"{self.reference} can't be pulled: {words}")
