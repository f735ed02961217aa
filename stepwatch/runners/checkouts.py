"""How is a commit of JAX run without a container: its own sources built, beside a released jaxlib?

JAX's part of a commit is Python, so a wheel of it is made in seconds. A wheel is built once from a clean checkout and
kept by its commit; an environment is made of it, the released jaxlib and what is pinned beside them. What the wheel
installs must be the commit's own files, one by one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from stepwatch.core.model import JAX, CommitPair, Image, Night, Outcome, Revision, digest
from stepwatch.runners.local import LocalRunner
from stepwatch.runners.processes import locked
from stepwatch.runners.protocol import Failure, Opened, Process
from stepwatch.runners.repositories import Mirror

KEPT_S = 14 * 24 * 3600.0  # how long an environment of a commit is kept that nobody uses
STAMPED = "version.py"  # the one file that a build of JAX writes itself


@dataclass(kw_only=True)
class CheckoutRunner:
    """Commits of JAX, from a bare mirror, in environments of `local`; `builds` is the folder of the checkout and of wheels."""

    local: LocalRunner
    mirror: Mirror
    builds: Path
    say: Callable[[str], None] = lambda _: None

    def beside(self, pair: CommitPair) -> tuple[str, ...]:
        """The requirements, whatever the pair."""
        return self.local.beside(pair)

    def within(self, image: Image | None) -> Self:
        """Itself: it builds in no image."""
        del image
        return self

    def has(self, pair: CommitPair) -> bool:
        """Whether the wheel of a pair's JAX is there."""
        if pair.jax.is_release:
            return self.local.has(pair)
        return any((self.builds / pair.jax.ref).glob("jax-*.whl"))

    def open(self, pair: CommitPair, *, like: CommitPair | None = None) -> Opened | Failure:
        """The environment of a pair; a commit that does not build, or wants another jaxlib, is BUILD_FAILED."""
        if not pair.xla.is_release:
            reason = (
                f"{pair.xla} can't be built here; accepted is a released jaxlib, such as xla=jaxlib==0.4.20"
            )
            return Failure(outcome=Outcome.BUILD_FAILED, reason=reason)
        if pair.jax.is_release:
            return self.local.open(pair, like=like)
        wheel = self._wheel(pair.jax)
        if isinstance(wheel, Failure):
            return wheel
        asked = [str(wheel), f"jaxlib=={pair.xla.ref}", *self.beside(pair)]
        opened = self.local.make(pair, asked, name=f"jax-{pair.jax.short}-jaxlib-{pair.xla.ref}")
        if isinstance(opened, Failure):
            return opened
        (opened.folder / "stepwatch.json").touch()
        beside = [each for each in opened.environment.freeze if re.split("[ =]", each)[0] != JAX]
        return replace(opened, stamp={JAX: _contents(wheel), "beside": digest(beside)})

    def open_night(self, night: Night) -> Opened | Failure:
        """The environment of a night's pair; a night without one is IMAGE_MISSING."""
        if night.pair is None:
            reason = night.gap_reason or f"the pair of {night.label} is not known"
            return Failure(outcome=Outcome.IMAGE_MISSING, reason=reason)
        return self.open(night.pair)

    def bench(self, opened: Opened, process: Process) -> Mapping[str, Any] | Failure:
        """Run one process of a suite in the environment."""
        return self.local.bench(opened, process)

    def cancel(self) -> None:
        """End what runs now and let nothing more be started."""
        self.local.cancel()

    def tidy(self, needed: Sequence[str]) -> list[str]:
        """Remove the environments of commits that nobody has used for two weeks; what was removed."""
        del needed
        removed = []
        for marker in self.local.environments.glob("jax-" + "[0-9a-f]" * 12 + "-jaxlib-*/stepwatch.json"):
            if time.time() - marker.stat().st_mtime > KEPT_S:
                shutil.rmtree(marker.parent, ignore_errors=True)
                removed.append(str(marker.parent))
        return removed

    def _wheel(self, revision: Revision) -> Path | Failure:
        """The wheel of a commit, built where it is not there yet."""
        folder = self.builds / revision.ref
        with locked(self.builds / "lock"):  # one checkout serves all
            there = next(folder.glob("jax-*.whl"), None)
            if there is not None:
                return there
            self.say(f"building {revision}")
            with tempfile.TemporaryDirectory(dir=self.builds) as temporary:
                made = self._build(revision, Path(temporary, "out"))
                if isinstance(made, Failure):
                    return made
                made.parent.replace(folder)
            return folder / made.name

    def _build(self, revision: Revision, out: Path) -> Path | Failure:
        """Build a commit's wheel into a folder."""
        sources = self.builds / JAX
        fault = self.mirror.checkout(revision.ref, sources)
        if fault is not None:
            return Failure(outcome=Outcome.BUILD_FAILED, reason=fault)
        failure = self.local.refused(out, "build", "--wheel", "--out-dir", str(out), str(sources))
        if failure is not None:
            # what uv says of it comes last
            said = failure.log.partition("error: Failed to build")[0].strip()
            reason = f"{revision} does not build: {said.rpartition(chr(10))[2] or failure.reason}"
            return replace(failure, reason=reason)
        built = next(out.glob("jax-*.whl"), None)
        if built is None:
            return Failure(outcome=Outcome.BUILD_FAILED, reason=f"{revision}: the build made no wheel of jax")
        # a build may write into its sources: the wheel is held against what git has
        fault = self.mirror.checkout(revision.ref, sources)
        differ = [fault] if fault is not None else _differences(sources / JAX, built)
        if differ:
            reason = f"{revision}: the wheel is not of this commit: {', '.join(differ[:3])} differ"
            return Failure(outcome=Outcome.STALE_BUILD, reason=reason)
        return built


def _contents(wheel: Path) -> str:
    """What a wheel installs of JAX, but for the file that says when it was built."""
    with zipfile.ZipFile(wheel) as archive:
        names = [each for each in archive.namelist() if each.startswith(f"{JAX}/")]
        files = {each: hashlib.sha256(archive.read(each)).hexdigest() for each in names}
    files.pop(f"{JAX}/{STAMPED}", None)
    return digest(files)


def _differences(sources: Path, wheel: Path) -> list[str]:
    """The Python files in a wheel's package that are not those of a checkout."""
    package = f"{sources.name}/"
    with zipfile.ZipFile(wheel) as archive:
        names = [
            each.removeprefix(package)
            for each in archive.namelist()
            if each.startswith(package) and each.endswith(".py") and each != f"{package}{STAMPED}"
        ]
        return [
            name
            for name in names
            if not (file := sources / name).is_file() or file.read_bytes() != archive.read(package + name)
        ]
