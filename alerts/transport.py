"""What can every transport do?"""

from __future__ import annotations

from typing import Protocol

from alerts.message import Message


class DeliveryError(Exception):
    """A message could not be delivered now; the sentence says why. It stays in the outbox."""


class Transport(Protocol):
    """Delivers messages."""

    name: str

    def deliver(self, message: Message, *, thread: str | None) -> str | None:
        """Deliver a message, as a reply where `thread` is given; returns the reference of its thread, if it has one.

        Raises:
            DeliveryError: it could not be delivered now.
        """
        ...
