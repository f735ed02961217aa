"""What has been decided but not yet said?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alerts.transport import DeliveryError, Transport
from storage.incidents import mark_sent, unsent
from storage.rows import Database, exclusively


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """How many messages were sent, and how many wait for the next time."""

    sent: int
    waiting: int


def deliver(database: Database, transports: Sequence[Transport], say: Callable[[str], None]) -> Delivered:
    """Send every message of the outbox that a transport has not carried yet.

    One process at a time delivers to a transport. What could not be delivered stays and holds back the later
    messages of its own incident, so that a thread is never out of order.
    """
    sent = waiting = 0
    for transport in transports:
        with exclusively(database, "deliver", transport.name) as connection:
            held: set[int] = set()
            threads: dict[int, str | None] = {}
            for row in unsent(connection, transport.name):
                incident = row.incident_id  # what is about none stands alone
                if incident in held:
                    waiting += 1
                    continue
                thread = row.thread or (threads.get(incident) if incident is not None else None)
                error = None
                reference = None
                try:
                    reference = transport.deliver(row.message, thread=thread)
                except DeliveryError as refused:
                    error = str(refused)
                    waiting += 1
                    held.update([incident] if incident is not None else ())
                    say(f"{transport.name}: {error}")
                else:
                    sent += 1
                    if incident is not None:
                        threads.setdefault(incident, reference)
                with database.begin() as own:  # said is said, whatever happens to the messages after it
                    mark_sent(own, row.id, transport.name, thread=reference, error=error)
    return Delivered(sent=sent, waiting=waiting)
