"""How are other detectors asked, each in an environment that it can live in?

asv is here; the others (one of them pins numpy) have an environment of their own, which is made when it is first asked
for and made again when its lock has changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from stepwatch.core.labels import Labelled
from stepwatch.runners import peer_detectors
from stepwatch.runners.protocol import UnreachableError

ASV = "asv.step_detect"


@dataclass(frozen=True, kw_only=True)
class Peers:
    """Other detectors, in the environment `folder`, which `lock` says all of."""

    folder: Path
    lock: Path

    def names(self) -> list[str]:
        """Every peer, asv first; their environment is there after this.

        Raises:
            UnreachableError: it can't be made now.
        """
        wanted = self.lock.read_text(encoding="utf-8")
        stamp = self.folder / ".complete"
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
            python = str(self._python("the others"))
            self._uv(
                "venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, str(self.folder)
            )
            self._uv("pip", "sync", "--quiet", "--require-hashes", "--python", python, str(self.lock))
            stamp.write_text(wanted, encoding="utf-8")
        return list(peer_detectors.DETECTORS)

    def ask(self, detector: str, series: Sequence[Labelled], start: int | None = None) -> dict[str, Any]:
        """Its `answers` of each series (with `start`: of each prefix from that length on) and the CPU `seconds` taken."""
        job = {
            "detector": detector,
            "series": [list(one.values) for one in series],
            "noise": [one.noise for one in series],
            "start": start,
        }
        done = subprocess.run(
            [str(self._python(detector)), peer_detectors.__file__],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            check=True,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def _python(self, detector: str) -> Path:
        return Path(sys.executable) if detector == ASV else self.folder / "bin" / "python"

    def _uv(self, *arguments: str) -> None:
        done = subprocess.run([find_uv_bin(), *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["uv failed without a word"])[-1]
            raise UnreachableError(f"the other detectors' environment {self.folder} can't be made: {why}")
