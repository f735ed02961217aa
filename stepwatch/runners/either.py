"""Which runner runs an environment, where some are containers and some are not?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepwatch.runners.protocol import Failure, Measurer, Opened, Process


@dataclass(frozen=True, kw_only=True)
class Either:
    """Measures what has an image in a container, everything else on this machine."""

    local: Measurer
    containers: Measurer

    def bench(self, opened: Opened, process: Process) -> Mapping[str, Any] | Failure:
        """The document of one process."""
        runner = self.local if opened.environment.image_digest is None else self.containers
        return runner.bench(opened, process)
