"""What may people say of a regression, and how does it stand then?

    ack       NONE, SNOOZED                    -> ACKNOWLEDGED: somebody looks at it
    snooze    any but DISMISSED                -> SNOOZED until a time; until then nothing is told of it, nothing searched
    assign    any but DISMISSED                -> as it was, with somebody's name
    dismiss   any but DISMISSED, for a reason  -> DISMISSED: nothing more is told of it, nothing is searched
    reopen    any but NONE                     -> NONE

A snooze that is over counts as NONE.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace

from stepwatch.core.model import Action, Disposition

_LEADS_TO = {
    Action.ACK: Disposition.ACKNOWLEDGED,
    Action.SNOOZE: Disposition.SNOOZED,
    Action.DISMISS: Disposition.DISMISSED,
    Action.REOPEN: Disposition.NONE,
}
TEXT_MAX = 500
QUIET = frozenset({Disposition.SNOOZED, Disposition.DISMISSED})


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What people have said of a regression: how it stands, until when it is snoozed, and whom it is for."""

    disposition: Disposition = Disposition.NONE
    until: dt.datetime | None = None
    assignee: str | None = None


@dataclass(frozen=True, kw_only=True)
class Said:
    """What somebody says: an action with what belongs to it."""

    action: Action
    author: str
    until: dt.datetime | None = None
    assignee: str | None = None
    reason: str | None = None

    @property
    def text(self) -> str:
        """In words, as in `snoozed until 2026-12-01 by ann: the fix is on its way`."""
        words = {
            Action.ACK: "acknowledged",
            Action.SNOOZE: f"snoozed until {self.until:%Y-%m-%d}" if self.until else "snoozed",
            Action.ASSIGN: f"assigned to {self.assignee}",
            Action.DISMISS: "dismissed",
            Action.REOPEN: "reopened",
        }
        return f"{words[self.action]} by {self.author}" + (f": {self.reason}" if self.reason else "")


def stand(standing: Standing, said: Said, *, now: dt.datetime) -> Standing:
    """How a regression stands after something is said.

    ValueError: one sentence that says what does not go together and what is accepted.
    """
    over = (
        standing.disposition is Disposition.SNOOZED and standing.until is not None and standing.until <= now
    )
    before = replace(standing, disposition=Disposition.NONE, until=None) if over else standing
    refusal = _refusal(before, said, now)
    if refusal is not None:
        raise ValueError(refusal)
    if said.action is Action.ASSIGN:
        return replace(before, assignee=said.assignee)
    until = said.until if said.action is Action.SNOOZE else None
    return replace(before, disposition=_LEADS_TO[said.action], until=until)


def odd_text(text: str | None) -> str | None:
    """Why a text can't be kept and shown as it is; None where it can."""
    if text is None:
        return None
    if not text.strip() or len(text) > TEXT_MAX:
        return f"{text[:40]!r} is not accepted; accepted are 1 to {TEXT_MAX} characters"
    if not text.isprintable():  # control characters, and what is no UTF-8
        return f"{text[:40]!r} is not accepted; accepted are printable characters on one line"
    return None


def _refusal(before: Standing, said: Said, now: dt.datetime) -> str | None:
    action, disposition = said.action, before.disposition
    odd = next((why for why in map(odd_text, (said.author, said.assignee, said.reason)) if why), None)
    if odd is not None:
        return odd
    refusals = (
        (
            disposition is Disposition.DISMISSED and action is not Action.REOPEN,
            "it is dismissed; accepted is reopen",
        ),
        (
            action is Action.ACK and disposition is Disposition.ACKNOWLEDGED,
            "it is acknowledged already",
        ),
        (action is Action.REOPEN and disposition is Disposition.NONE, "it is open already"),
        (action is Action.SNOOZE and said.until is None, "until is missing; accepted is a day after today"),
        (
            action is Action.SNOOZE and said.until is not None and said.until <= now,
            "a snooze ends later than now; accepted is a day after today",
        ),
        (action is Action.ASSIGN and not said.assignee, "whom it is for is missing; accepted is a name"),
        (action is Action.DISMISS and not said.reason, "a reason is missing; accepted is a sentence"),
    )
    return next((why for refused, why in refusals if refused), None)
