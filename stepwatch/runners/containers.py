"""How is a suite run in nightly images, under Docker?

An image is pulled by its digest and gets a name of ours, for without one it is what `docker image prune` removes first. Each
process of a suite is a container of its own: without network, on one core or with the machine's GPUs, the suite and this
clone's asv mounted read-only, under a time limit inside and outside. It is removed when it has ended, whatever ended it; where
this process is killed, its labels tell the janitor who owned it and until when it may live.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.models.containers import Container
from docker.types import DeviceRequest, Mount

from stepwatch.core.model import CommitPair, Environment, Image, Night, Outcome
from stepwatch.runners import container_python, fingerprint, image_question, processes, sessions
from stepwatch.runners.engine import (
    DEADLINE,
    LABEL,
    MACHINE,
    OWNER,
    connect,
    local_name,
    owner,
    remove,
    watch,
    why_killed,
)
from stepwatch.runners.images import repository_of
from stepwatch.runners.protocol import Failure, Opened, Process, UnreachableError
from stepwatch.runners.provenance import pair_of
from stepwatch.runners.pulls import Pull

SUITE, OUT = "/stepwatch/suite", "/stepwatch/out"
ASK_LIMIT_S = 600  # git looks through all of XLA for changed files
GRACE_S = 30  # that a container has after the limit inside it before it is ended from outside
BESIDE = ("XLA_FLAGS", "JAX_ENABLE_X64")  # variables of an image that reach the compiler


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One process that is to be run in a container; what it writes is in `scratch` and `log`."""

    client: docker.DockerClient
    digest: str
    opened: Opened
    process: Process
    scratch: Path
    log: Path


@dataclass(kw_only=True)
class DockerRunner:
    """Nightly images on the Docker engine at `engine` (None: as the docker program finds it).

    `lock` lets one process at a time measure on this machine; `folder` keeps what each image has said of itself. `devices`
    are the ids of the GPUs that a container gets, `memory` its limit (`8g`). Credentials go to `registry` alone (None: to
    each that an image is pulled from).
    """

    machine: str
    lock: Path
    folder: Path
    engine: str | None = None
    core: int | None = None
    devices: Sequence[str] = ()
    shm_size: str = "1g"
    memory: str | None = None
    autotuning: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    registry: str | None = None
    say: Callable[[str], None] = lambda _: None
    _running: Container | None = field(default=None, init=False)
    _around: subprocess.Popen[str] | None = field(default=None, init=False)
    _cancelled: bool = field(default=False, init=False)

    def open_night(self, night: Night) -> Opened | Failure:
        """The image of a night, pulled where it is not here, with the pair that it says it was built from.

        Raises:
            UnreachableError: the engine or the registry does not answer, or the engine's disk is full.
        """
        image = night.image
        if image is None:
            reason = night.gap_reason or f"{night.label} has no image"
            return Failure(outcome=Outcome.IMAGE_MISSING, reason=reason)
        with connect(self.engine) as client:
            answers = self.answers(client, image)
        if isinstance(answers, Failure):
            return answers
        found = pair_of(answers, image, night.at)
        if isinstance(found, str):
            return Failure(outcome=Outcome.BUILD_FAILED, reason=found)
        return self.described(answers, image, *found)

    def answers(self, client: docker.DockerClient, image: Image) -> dict[str, Any] | Failure:
        """What an image, pulled where it is not here, says of itself."""
        with processes.locked(self._file(image).with_suffix(".lock")):
            found: dict[str, Any] | Failure = self._fetch(client, image) or self.unless_cancelled(
                self._ask, client, image
            )
        return found

    def described(
        self,
        answers: Mapping[str, Any],
        image: Image,
        pair: CommitPair,
        notes: tuple[str, ...],
        *,
        built: str | None = None,
    ) -> Opened:
        """The environment of a pair, by what an image says of itself; `built` is the digest of one that was made of it."""
        beside = {name: image.variables[name] for name in BESIDE if image.variables.get(name)}
        base = image.variables.get("CUDA_BASE_IMAGE") or answers["system"]
        environment = Environment(
            pair=pair,
            base=f"{answers['python']}, {base}",
            freeze=tuple(answers["freeze"]),
            flags=processes.flags(self.autotuning, {**beside, **processes.flags()}),
            image_digest=built or image.digest,
        )
        return Opened(
            python=Path(answers["executable"]),
            folder=Path("/"),
            environment=environment,
            notes=notes,
            stamp=answers.get("stamp", {}),
        )

    def bench(self, opened: Opened, process: Process) -> Mapping[str, Any] | Failure:
        """Run one process of a suite in a container of the image; what it prints is kept beside its document."""
        with processes.locked(self.lock):  # two at once would measure each other
            failure = (
                None if process.out.is_file() else self.unless_cancelled(self._run_worker, opened, process)
            )
        return failure if failure is not None else processes.read(process)

    def cancel(self) -> None:
        """End what runs now and let nothing more be started."""
        self._cancelled = True
        sessions.end(self._around)
        running = self._running
        if running is not None:
            remove(running)

    def unless_cancelled(self, run: Callable[..., Any], *arguments: Any) -> Any:
        """What `run` returns; a container that was taken away under it can't be asked for its output."""
        try:
            return run(*arguments)
        except (UnreachableError, docker.errors.DockerException):
            if not self._cancelled:
                raise
            return Failure(outcome=Outcome.CANCELLED, reason="cancelled while it ran")

    def _fetch(self, client: docker.DockerClient, image: Image) -> Failure | None:
        """Pull an image by its digest and name it."""
        name = local_name(image.digest)
        with contextlib.suppress(docker.errors.ImageNotFound):
            client.images.get(name)
            return None
        where = repository_of(image.reference)
        mine = self.registry is None or where.partition("/")[0] == self.registry
        account = {"username": self.username, "password": self.password} if self.username and mine else None
        pull = Pull(reference=image.reference, say=self.say)
        try:
            for line in client.api.pull(
                where, tag=image.digest, stream=True, decode=True, auth_config=account
            ):
                pull.read(line)
        except docker.errors.APIError as error:
            pull.fail(str(error.explanation or error))
        if pull.failure is not None:
            return pull.failure
        client.images.get(f"{where}@{image.digest}").tag(name)
        return None

    def _ask(self, client: docker.DockerClient, image: Image) -> dict[str, Any] | Failure:
        """What an image says of itself; asked once."""
        file = self._file(image)
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if known.keys() >= image_question.KEYS:
                return known
        question = Path(image_question.__file__).read_text(encoding="utf-8")
        words = ["sh", "-c", 'exec "$(command -v python3 || command -v python)" -c "$0"', question]
        with (
            processes.locked(self.lock),  # git looks through all of XLA, beside nobody who measures
            self.container(client, image.digest, words, limit_s=ASK_LIMIT_S) as container,
        ):
            status = watch(container, ASK_LIMIT_S)
            said = container.logs(stdout=True, stderr=False).decode("utf-8", "replace")
            log = container.logs(stdout=False, stderr=True).decode("utf-8", "replace")
        if self._cancelled:
            return Failure(outcome=Outcome.CANCELLED, reason="cancelled while the image was asked")
        try:
            answers: dict[str, Any] = json.loads(said.splitlines()[-1])
        except (IndexError, json.JSONDecodeError):
            last = next((line for line in reversed(log.splitlines()) if line.strip()), "no output")
            how = (
                f"no answer in {ASK_LIMIT_S} s" if status is None else f"exit status {status}: {last.strip()}"
            )
            reason = f"{image.reference} can't be asked what is in it: {how}"
            return Failure(outcome=Outcome.BUILD_FAILED, reason=reason, log=log)
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_text(said.splitlines()[-1], encoding="utf-8")
        scratch.replace(file)
        return answers

    def _run_worker(self, opened: Opened, process: Process) -> Failure | None:
        """Run the worker; its document takes its name when the container has ended, so a half-made one is never read."""
        if self._cancelled:
            return Failure(outcome=Outcome.CANCELLED, reason="cancelled before it was started")
        suite, digest = process.suite, opened.environment.image_digest
        if digest is None:
            raise AssertionError("an environment of this runner has an image")
        process.out.parent.mkdir(parents=True, exist_ok=True)
        scratch, log = process.out.with_suffix(".part"), process.out.with_suffix(".log")
        scratch.unlink(missing_ok=True)
        before = fingerprint.read_conditions(fingerprint.load_nvml())
        run = self._run_asv if suite.kind == processes.ASV else self._run_ours
        with connect(self.engine) as client:
            job = _Job(client=client, digest=digest, opened=opened, process=process, scratch=scratch, log=log)
            status, killed = run(job)
        if self._cancelled:
            return Failure(outcome=Outcome.CANCELLED, reason="cancelled while it ran")
        processes.accept(process, scratch, status, before, [killed] if killed else [])
        failure = processes.explain(process, log, status)
        if failure is not None and killed:
            return Failure(outcome=failure.outcome, reason=killed, log=failure.log)
        return failure

    def _run_ours(self, job: _Job) -> tuple[int | None, str]:
        """Run a process of a suite of ours: its exit status (None: out of time), and why the engine killed it."""
        suite = job.process.suite
        limit = f"{suite.time_limit_s + GRACE_S / 2:g}"
        words = ["timeout", "--signal=KILL", limit, *processes.words(job.opened.python, job.process)]
        mounts = [
            Mount(f"{SUITE}/benchmarks", f"{suite.folder}/benchmarks", type="bind", read_only=True),
            Mount(OUT, str(job.process.out.parent.resolve()), type="bind"),
            *self._frozen(),
        ]
        variables = {
            **self._variables(job.opened),
            "PYTHONPATH": SUITE,
            "STEPWATCH_OUT": f"{OUT}/{job.scratch.name}",
        }
        with self.container(
            job.client, job.digest, words, limit_s=suite.time_limit_s, variables=variables, mounts=mounts
        ) as container:
            status = watch(container, suite.time_limit_s)
            killed = "" if status is None else why_killed(container)
            job.log.write_bytes(container.logs())
        return status, killed

    def _run_asv(self, job: _Job) -> tuple[int | None, str]:
        """The same of a suite of asv's: asv runs here, its benchmarks in a container that lasts as long."""
        suite = job.process.suite
        lent = [Path(suite.folder), *container_python.lent()]
        with tempfile.TemporaryDirectory() as temporary:
            mounts = [
                *(Mount(str(each), str(each), type="bind", read_only=True) for each in lent),
                Mount(temporary, temporary, type="bind"),
                *self._frozen(),
            ]
            words = ["sleep", f"{suite.time_limit_s + GRACE_S:g}"]
            variables = {**self._variables(job.opened), "PYTHONDONTWRITEBYTECODE": "1"}
            with self.container(
                job.client, job.digest, words, limit_s=suite.time_limit_s, variables=variables, mounts=mounts
            ) as container:
                python = Path(temporary, "python")
                container_python.write_interpreter(
                    python, engine=self.engine or "", container=str(container.id), python=job.opened.python
                )
                around = {
                    "STEPWATCH_OUT": str(job.scratch),
                    "TMPDIR": temporary,
                    "PYTHONPATH": processes.CLONE,
                }
                with job.log.open("w", encoding="utf-8") as output:
                    self._around = running = subprocess.Popen(
                        processes.words(python, job.process),
                        cwd=suite.folder,
                        env={**processes.public_variables(), **variables, **around},
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        text=True,
                        start_new_session=True,
                    )
                try:
                    return running.wait(timeout=suite.time_limit_s), ""
                except subprocess.TimeoutExpired:
                    return None, ""
                finally:
                    sessions.end(running)
                    self._around = None

    def _variables(self, opened: Opened) -> dict[str, str]:
        """What every benchmark is given."""
        asked = {"STEPWATCH_OBJECTS": "1"} if opened.stamp else {}
        return {**processes.THREADS, **opened.environment.flags, **asked, "PYTHONDONTWRITEBYTECODE": ""}

    @contextlib.contextmanager
    def container(
        self,
        client: docker.DockerClient,
        digest: str,
        words: Sequence[str],
        *,
        limit_s: float,
        variables: Mapping[str, str] | None = None,
        mounts: Sequence[Mount] = (),
        building_in: str | None = None,
    ) -> Iterator[Container]:
        """A container that has begun to run `words`, and is removed in the end; one that builds has that network and all cores."""
        gpus = (
            [DeviceRequest(device_ids=list(self.devices), capabilities=[["gpu"]])] if self.devices else None
        )
        container = client.containers.create(
            local_name(digest),
            list(words),
            name=f"stepwatch-{self.machine}-{secrets.token_hex(4)}",
            entrypoint=[],  # that of a nightly prints banners and looks for a GPU
            working_dir="/",
            environment=dict(variables or {}),
            mounts=list(mounts),
            network_mode=building_in or "none",
            init=True,
            cpuset_cpus=None if self.devices or building_in else str(processes.pinned_core(self.core)),
            device_requests=gpus,
            mem_limit=None if building_in else self.memory,
            shm_size=self.shm_size,
            security_opt=["no-new-privileges"],
            labels={
                LABEL: "run",
                MACHINE: self.machine,
                OWNER: owner(),
                DEADLINE: f"{time.time() + limit_s + 2 * GRACE_S:.0f}",
            },
        )
        self._running = container
        try:
            if not self._cancelled:
                container.start()
            yield container
        finally:
            self._running = None
            remove(container)

    def _frozen(self) -> list[Mount]:
        """The file of autotuning results, at the path at which the flags name it."""
        if self.autotuning is None:
            return []
        return [Mount(str(self.autotuning), str(self.autotuning), type="bind", read_only=True)]

    def _file(self, image: Image) -> Path:
        """Where the answers of an image to this question are kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        asked = hashlib.sha256(Path(image_question.__file__).read_bytes()).hexdigest()[:8]
        return self.folder / f"{image.digest.removeprefix('sha256:')}-{asked}.json"
