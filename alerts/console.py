"""Messages on standard output."""

from __future__ import annotations

from collections.abc import Callable

from alerts.message import Message, text


class ConsoleTransport:
    """Prints a message; a reply is indented under the name of its thread."""

    name = "console"

    def __init__(self, write: Callable[[str], None] = print) -> None:
        self._write = write

    def deliver(self, message: Message, *, thread: str | None) -> str | None:
        """Print it; the thread's reference is the title of its head."""
        if thread is None:
            self._write(text(message))
            return str(message["title"])
        indented = text(message).replace("\n", "\n  ")
        self._write(f'in the thread of "{thread}":\n  {indented}')
        return None
