"""How is a suite run on this machine, in a virtual environment of released wheels?

Environments live in one folder, each named by what is in it, and are made once: a marker file is written last, and
what lacks it is made again. A lock on each lets two processes ask for the same one. Every program runs in a session
of its own, so that a time limit or `cancel` ends it with all its children.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from uv import find_uv_bin

from stepwatch.core.model import CommitPair, Environment, Image, Night, Outcome, Suite, digest
from stepwatch.core.requirements import Earlier, requirements_of
from stepwatch.runners import fingerprint, sessions
from stepwatch.runners.processes import (
    ASV,
    CLONE,
    THREADS,
    accept,
    explain,
    flags,
    locked,
    pinned_core,
    public_variables,
    read,
    words,
)
from stepwatch.runners.protocol import Failure, Opened, Process, UnreachableError

INSTALL_LIMIT_S = 900
_UNREACHABLE = re.compile(
    r"error sending request|failed to fetch|dns error|connection (refused|reset)|timed out", re.IGNORECASE
)


@dataclass(kw_only=True)
class LocalRunner:
    """Releases of jax and jaxlib with pinned `requirements`, for the first interpreter of `python` that is here.

    Releases that an `earlier` set reaches have that one in their place. `optional` is installed as well where it
    moves nothing of all this; where it does, the environment is made without it, and its marker says why.
    `lock` is the file that lets one process at a time measure on this machine. `autotuning` is a file of results that
    XLA's autotuning on a GPU takes its choices from; without one it chooses afresh at each compile.
    """

    environments: Path
    python: Sequence[str]
    requirements: Sequence[str]
    lock: Path
    core: int | None = None
    autotuning: Path | None = None
    optional: Sequence[str] = ()
    earlier: Sequence[Earlier] = ()
    _running: subprocess.Popen[str] | None = field(default=None, init=False)
    _cancelled: bool = field(default=False, init=False)

    def beside(self, pair: CommitPair) -> tuple[str, ...]:
        """The set of requirements that holds for a pair."""
        return requirements_of(pair, self.requirements, self.earlier)

    def open(self, pair: CommitPair, *, like: CommitPair | None = None) -> Opened | Failure:
        """The environment with jax and jaxlib of this pair and the requirements of `like`, else its own.

        A pair that can't be installed is BUILD_FAILED.
        """
        asked = [f"jax=={pair.jax.ref}", f"jaxlib=={pair.xla.ref}", *self.beside(like or pair)]
        return self.make(pair, asked, name=f"jax-{pair.jax.ref}-jaxlib-{pair.xla.ref}")

    def within(self, image: Image | None) -> Self:
        """Itself: it builds in no image."""
        del image
        return self

    def has(self, pair: CommitPair) -> bool:
        """Whether an environment of a pair is there."""
        name = f"jax-{pair.jax.ref}-jaxlib-{pair.xla.ref}-*/stepwatch.json"
        return any(self.environments.glob(name))

    def make(self, pair: CommitPair, asked: list[str], *, name: str) -> Opened | Failure:
        """The environment of a pair with what is `asked` of pip, made where it is not there; `name` begins its folder's."""
        interpreter = self.interpreter()
        if interpreter is None:
            wanted = ", ".join(self.python)
            return Failure(outcome=Outcome.BUILD_FAILED, reason=f"no Python {wanted} is on this machine")
        whole = digest([str(interpreter), asked, *self.optional])
        folder = self.environments / f"{name}-{whole[:8]}"
        with locked(folder.with_name(f"{folder.name}.lock")):
            marker = folder / "stepwatch.json"
            if not marker.is_file():
                failure = self._install(folder, interpreter, asked)
                if failure is not None:
                    return failure
            made = json.loads(marker.read_text(encoding="utf-8"))
        environment = Environment(
            pair=pair, base=made["base"], freeze=tuple(made["freeze"]), flags=flags(self.autotuning)
        )
        return Opened(python=folder / "bin" / "python", folder=folder, environment=environment)

    def open_night(self, night: Night) -> Opened | Failure:
        """The environment of a night's pair; a night without one is IMAGE_MISSING."""
        if night.pair is None:
            reason = night.gap_reason or f"the pair of {night.label} is not known"
            return Failure(outcome=Outcome.IMAGE_MISSING, reason=reason)
        return self.open(night.pair)

    def interpreter(self) -> Path | None:
        """The first of the configured interpreters that this machine has."""
        for version in self.python:
            found = self._uv("python", "find", "--no-python-downloads", "--no-project", "--system", version)
            if found.returncode == 0:
                return Path(found.stdout.strip())
        return None

    def bench(self, opened: Opened, process: Process) -> Mapping[str, Any] | Failure:
        """Run one process of a suite in the environment; its stderr is kept beside its document."""
        with locked(self.lock):  # two processes at once would measure each other
            failure = None if process.out.is_file() else self._run_worker(opened, process)
        if failure is not None:
            return failure
        document = read(process)
        return document if isinstance(document, Failure) else _stale(opened, document) or document

    def tidy(self, needed: Sequence[str]) -> list[str]:
        """Nothing: a process ends with its owner, and environments are kept."""
        del needed
        return []

    def cancel(self) -> None:
        """End what runs now and let nothing more be started."""
        self._cancelled = True
        sessions.end(self._running)

    def _run_worker(self, opened: Opened, process: Process) -> Failure | None:
        """Run the worker; its document takes its name when it has ended, so a half-made one is never read."""
        if self._cancelled:
            return Failure(outcome=Outcome.CANCELLED, reason="cancelled before it was started")
        suite = process.suite
        process.out.parent.mkdir(parents=True, exist_ok=True)
        scratch = process.out.with_suffix(".part")
        scratch.unlink(missing_ok=True)
        log = process.out.with_suffix(".log")
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            environment = {
                **public_variables(),
                **THREADS,
                **opened.environment.flags,
                "PYTHONPATH": CLONE if suite.kind == ASV else suite.folder,
                "STEPWATCH_OUT": str(scratch),
                "TMPDIR": temporary,  # what is ended can't clean up after itself
            }
            command = [*_pinned(self.core), *words(opened.python, process)]
            before = fingerprint.read_conditions(fingerprint.load_nvml())
            status = self._watch(command, environment, log, suite)
        if self._cancelled:
            return Failure(outcome=Outcome.CANCELLED, reason="cancelled while it ran")
        accept(process, scratch, status, before)
        return explain(process, log, status)

    def _watch(self, command: list[str], environment: dict[str, str], log: Path, suite: Suite) -> int | None:
        """Run a command in the suite's folder; its exit status, None where it had to be ended."""
        with log.open("w", encoding="utf-8") as output:
            self._running = running = subprocess.Popen(
                command,
                cwd=suite.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        try:
            return running.wait(timeout=suite.time_limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            sessions.end(running)
            self._running = None

    def _install(self, folder: Path, interpreter: Path, asked: list[str]) -> Failure | None:
        shutil.rmtree(folder, ignore_errors=True)
        python = folder / "bin" / "python"
        steps = (
            ["venv", "--quiet", "--no-project", "--python", str(interpreter), str(folder)],
            ["pip", "install", "--quiet", "--only-binary", ":all:", "--python", str(python), *asked],
        )
        for step in steps:
            failure = self.refused(folder, *step)
            if failure is not None:
                shutil.rmtree(folder, ignore_errors=True)
                return failure
        left_out = self._add_optional(folder)
        if left_out is not None and left_out.outcome is Outcome.CANCELLED:
            return left_out
        version = self._uv("python", "find", "--no-project", "--show-version", str(python)).stdout.strip()
        made = {
            "freeze": self._freeze(python),
            "base": f"cpython {version}",
            "left_out": left_out.reason if left_out else None,
        }
        marker = folder / "stepwatch.json"
        scratch = marker.with_suffix(".part")
        scratch.write_text(json.dumps(made), encoding="utf-8")
        scratch.replace(marker)
        return None

    def _add_optional(self, folder: Path) -> Failure | None:
        """Install what is optional, all of it, beside exactly what is there; why that can't be, or None."""
        if not self.optional:
            return None
        python = folder / "bin" / "python"
        beside = [*self._freeze(python), *self.optional]
        return self.refused(
            folder, "pip", "install", "--quiet", "--only-binary", ":all:", "--python", str(python), *beside
        )

    def _freeze(self, python: Path) -> list[str]:
        """What is installed, as `name==version`; of a wheel that was built here its name says which."""
        lines = self._uv("pip", "freeze", "--quiet", "--python", str(python)).stdout.splitlines()
        return [re.sub(r" @ file://.*/[^/-]+-([^/-]+)-[^/]+\.whl$", _version, line) for line in lines]

    def refused(self, folder: Path, *arguments: str) -> Failure | None:
        """Why uv does not do something to an environment; None where it does."""
        done = self._uv(*arguments)
        if done.returncode == 0:
            return None
        if self._cancelled:
            return Failure(outcome=Outcome.CANCELLED, reason="cancelled while it was installed")
        if _UNREACHABLE.search(done.stderr):
            shutil.rmtree(folder, ignore_errors=True)
            raise UnreachableError(f"the package index does not answer: {_sentence(done.stderr)}")
        return Failure(outcome=Outcome.BUILD_FAILED, reason=_sentence(done.stderr), log=done.stderr)

    def _uv(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [find_uv_bin(), *arguments]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "NO_COLOR": "1", "UV_NO_CONFIG": "1"},
        ) as running:
            self._running = running
            try:
                out, err = running.communicate(timeout=INSTALL_LIMIT_S)
            except subprocess.TimeoutExpired:
                sessions.end(running)
                out, err = "", f"uv {arguments[0]} timed out after {INSTALL_LIMIT_S} s"
            finally:
                self._running = None
        return subprocess.CompletedProcess(command, running.returncode, out, err)


def _pinned(core: int | None) -> list[str]:
    """The words that pin a command to one core: the configured one, else the last that this process may use."""
    taskset = shutil.which("taskset")
    if taskset is None:
        return []
    return [taskset, "-c", str(pinned_core(core))]


def _version(match: re.Match[str]) -> str:
    return f"=={unquote(match[1])}"


def _stale(opened: Opened, document: Mapping[str, Any]) -> Failure | None:
    """A result counts only when what was loaded is what was asked for."""
    pair, loaded = opened.environment.pair, document["loaded"]
    made = dict(line.partition("==")[::2] for line in opened.environment.freeze)
    for name, revision in (("jax", pair.jax), ("jaxlib", pair.xla)):
        asked = revision.ref if revision.is_release else made.get(name)
        if loaded[name] != asked:
            reason = f"{name} {loaded[name]} was loaded where {asked} was asked for"
            return Failure(outcome=Outcome.STALE_BUILD, reason=reason)
        if not Path(loaded[f"{name}_file"]).resolve().is_relative_to(opened.folder.resolve()):
            reason = f"{name} was loaded from outside its environment: {loaded[f'{name}_file']}"
            return Failure(outcome=Outcome.STALE_BUILD, reason=reason)
    return None


def _sentence(stderr: str) -> str:
    """What uv explains, as one sentence without its drawing characters and conclusions."""
    text = " ".join(re.sub(r"[^\x20-\x7e]", " ", stderr).split())
    text = re.sub(r"\s*(hint:|help:).*$", "", text)
    because = re.search(r"Because (.*)$", text)
    if because is None:
        return text[:500] or "uv failed without a word"
    clauses = re.sub(r",? we can conclude that .*$", "", because.group(1))
    return re.sub(r" and you require .*$", "", clauses).rstrip(",. ")[:500]
