"""Where does everything of one stack live, and which secrets does it keep?

A stack belongs to one state folder (`.stepwatch` in a clone). Its identity is a hash of that folder's real path, so
that two clones on one machine never touch each other's processes or data.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = Path("/var/lib/stepwatch")
"""As root, Postgres runs as another user, who can't enter root's home: its files live here then."""


class StackError(Exception):
    """A service can't be started or reached; the message is one sentence for a person."""


@dataclass(frozen=True, kw_only=True)
class Folders:
    """The places below one state folder."""

    state: Path

    @property
    def identity(self) -> str:
        """16 hex digits that name this state folder on this machine."""
        return hashlib.sha256(os.fsencode(self.state.resolve())).hexdigest()[:16]

    @property
    def up(self) -> Path:
        """What is running now: lock, record, environment file."""
        return self.state / "up"

    @property
    def logs(self) -> Path:
        """One log a service."""
        return self.state / "logs"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.state / "airflow"

    @property
    def secrets(self) -> Path:
        """Generated passwords and keys, one a file, mode 0600."""
        return self.state / "secrets"

    @property
    def postgres(self) -> Path:
        """What belongs to the Postgres server's user; outside the clone when that is not who we are."""
        return SHARED / self.identity if os.geteuid() == 0 else self.state / "postgres"

    @property
    def lock(self) -> Path:
        """Held (flock) by the keeper; says who that is."""
        return self.up / "lock"

    @property
    def record(self) -> Path:
        """The services of a stack that is ready."""
        return self.up / "stack.json"

    @property
    def failure(self) -> Path:
        """The sentence about a service that ended by itself since the last start."""
        return self.up / "failure"

    @property
    def environment(self) -> Path:
        """A shell file for running `airflow` by hand."""
        return self.up / "env"

    def make(self) -> None:
        """Make the folders that are ours alone."""
        self.state.mkdir(parents=True, exist_ok=True)
        for folder in (self.up, self.logs, self.airflow, self.secrets):
            folder.mkdir(mode=0o700, exist_ok=True)

    def secret(self, name: str, bytes_: int = 24) -> str:
        """The secret of that name, made on first use."""
        path = self.secrets / name
        if not path.exists():
            write_private(path, secrets.token_urlsafe(bytes_))
        return path.read_text()


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; a reader sees the old text or the new, never half."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    half.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, empty where the file is missing or torn."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
