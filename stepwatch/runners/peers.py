"""How are other detectors asked, each in an environment that it can live in?

asv is here; the others (one of them pins numpy) have an environment of their own, which is made when it is first asked
for and made again when its lock has changed.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from stepwatch.core.labels import Labelled
from stepwatch.runners import peer_detectors
from stepwatch.runners.protocol import UnreachableError

ASV = "asv.step_detect"
STAMP = ".complete"
LIMIT_S = 900


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
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with self.folder.with_name(f"{self.folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stamp = self.folder / STAMP
            if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
                self._make(wanted)
        return list(peer_detectors.DETECTORS)

    def _make(self, wanted: str) -> None:
        """Make the environment aside, so that what a killed process leaves running writes into a folder of its own."""
        aside = Path(tempfile.mkdtemp(prefix=f"{self.folder.name}-", dir=self.folder.parent))
        try:
            python = str(aside / "bin" / "python")
            self._uv("venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, str(aside))
            self._uv("pip", "sync", "--quiet", "--require-hashes", "--python", python, str(self.lock))
            (aside / STAMP).write_text(wanted, encoding="utf-8")
            shutil.rmtree(self.folder, ignore_errors=True)
            aside.rename(self.folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def ask(self, detector: str, series: Sequence[Labelled], start: int | None = None) -> dict[str, Any]:
        """Its `answers` of each series (with `start`: of each prefix from that length on) and the CPU `seconds` taken.

        Raises:
            UnreachableError: it gives none.
        """
        job = {
            "detector": detector,
            "series": [list(one.values) for one in series],
            "noise": [one.noise for one in series],
            "start": start,
        }
        try:
            done = subprocess.run(
                [str(self._python(detector)), peer_detectors.__file__],
                input=json.dumps(job),
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            (self.folder / STAMP).unlink(missing_ok=True)
            raise UnreachableError(f"{detector} gives no answer: {error}; --no-peers goes without") from None
        if done.returncode:
            (self.folder / STAMP).unlink(
                missing_ok=True
            )  # if that is the reason, the next run makes it again
            why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise UnreachableError(f"{detector} gives no answer: {why}; --no-peers goes without")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def _python(self, detector: str) -> Path:
        return Path(sys.executable) if detector == ASV else self.folder / "bin" / "python"

    def _uv(self, *arguments: str) -> None:
        done = subprocess.run([find_uv_bin(), *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["uv failed without a word"])[-1]
            raise UnreachableError(f"the other detectors' environment {self.folder} can't be made: {why}")
