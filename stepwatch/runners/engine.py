"""What do we ask of a Docker engine, how are what we made there and whose it is told apart, and what is left behind?"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker
import requests
from docker.models.containers import Container

from stepwatch.runners.protocol import UnreachableError
from stepwatch.runners.web import innermost

LABEL = "stepwatch"
MACHINE, OWNER, DEADLINE = f"{LABEL}.machine", f"{LABEL}.owner", f"{LABEL}.deadline"
NAME = "stepwatch.local/night"  # of the images that we keep
# what builds in an image share: what can be used again by what it is made of, and what is merely left over in the user's
# cache (the output of bazel), which a clean build does without
CACHE, LEFT = "cache", "left"


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A Docker engine: its version, the folder of its images, and whether it can give GPUs to containers."""

    version: str
    folder: Path
    gpus: bool


@contextlib.contextmanager
def connect(engine: str | None) -> Iterator[docker.DockerClient]:
    """The engine at an address (None: as the docker program finds it), for the time of one task.

    Raises:
        UnreachableError: it does not answer, or refuses.
    """
    where = f"the Docker engine at {engine or os.environ.get('DOCKER_HOST') or 'the usual socket'}"
    try:
        client = docker.DockerClient(base_url=engine, timeout=60) if engine else docker.from_env()
        client.ping()
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise UnreachableError(f"{where} does not answer: {_words(error)}") from None
    with contextlib.closing(client):
        try:
            yield client
        except (docker.errors.DockerException, requests.RequestException) as error:
            raise UnreachableError(f"{where} refuses: {_words(error)}") from None


def read_engine(client: docker.DockerClient) -> Engine:
    """What an engine says of itself."""
    said = client.info()
    return Engine(
        version=str(said["ServerVersion"]),
        folder=Path(said["DockerRootDir"]),
        gpus="nvidia" in said.get("Runtimes", {}) or bool(said.get("DiscoveredDevices")),
    )


def tidy(client: docker.DockerClient, machine: str, needed: Sequence[str], built: Sequence[str]) -> list[str]:
    """Remove a machine's containers that nobody waits for; images but for those of `needed` nights and those that were `built` (digests).

    With the image of a night goes what builds in it have left for the next ones. Returns the names.
    """
    found = client.containers.list(all=True, filters={"label": f"{MACHINE}={machine}"})
    left = [each for each in found if is_left(each.labels, time.time())]
    for each in left:
        remove(each)
    removed = [str(each.name) for each in left]
    kept = {local_name(digest) for digest in (*needed, *built)}
    for image in client.images.list(name=NAME):
        ours = [tag for tag in image.tags if tag.startswith(f"{NAME}:")]
        for name in sorted(set(ours) - kept):
            with contextlib.suppress(docker.errors.APIError):  # a container uses it
                client.images.remove(name)
                removed.append(name)
                if len(image.tags) == 1:  # it has the digest that it was pulled by for a name still
                    client.images.remove(str(image.id))
    volumes = {volume_name(digest, use) for digest in needed for use in (CACHE, LEFT)}
    for volume in client.volumes.list(filters={"label": LABEL}):
        if volume.name not in volumes:
            with contextlib.suppress(docker.errors.APIError):  # a build uses it
                volume.remove()
                removed.append(str(volume.name))
    return removed


def volume_name(digest: str, use: str) -> str:
    """The volume that builds in an image share for a use, `CACHE` or `LEFT`."""
    return f"{LABEL}-{use}-{digest.removeprefix('sha256:')[:32]}"


def local_name(digest: str) -> str:
    """Our own name of an image; one without a name is what is pruned first."""
    return f"{NAME}:{digest.removeprefix('sha256:')[:32]}"


def owner() -> str:
    """This process, as a label: host, number, and when it was started."""
    return f"{socket.gethostname()} {os.getpid()} {_started(os.getpid())}"


def is_left(labels: Mapping[str, str], now: float) -> bool:
    """Whether nobody waits for a container any more: its time is over, or its owner on this host has ended."""
    host, pid, started = (labels.get(OWNER, "") + "  ").split(" ")[:3]
    deadline = labels.get(DEADLINE, "")
    if not deadline.isdigit() or now > int(deadline):
        return True
    return host == socket.gethostname() and pid.isdigit() and _started(int(pid)) != started


def _started(pid: int) -> str:
    """When a process was started, in ticks since the machine's own start; nothing where it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "" if Path("/proc/self").exists() else "unknown"
    return text.rsplit(")", 1)[1].split()[19]


def watch(container: Container, limit_s: float) -> int | None:
    """The exit status of a container, negative where a signal ended it; None where it is still running after `limit_s`."""
    try:
        status = int(container.wait(timeout=limit_s)["StatusCode"])
    except requests.ReadTimeout:
        return None
    except requests.ConnectionError as error:
        if "timed out" in str(error).lower():
            return None
        raise
    return status if status <= 128 else 128 - status  # as of a process: 137 is signal 9


def why_killed(container: Container) -> str:
    """Why the engine says that a container was killed; nothing where it was not."""
    container.reload()
    state = container.attrs["State"]
    return "killed: it wanted more memory than its limit" if state.get("OOMKilled") else ""


def remove(container: Container) -> None:
    """End and remove a container."""
    # it may be gone already, or going for longer than one waits for an answer
    with contextlib.suppress(docker.errors.APIError, requests.RequestException):
        container.remove(force=True, v=True)


def _words(error: Exception) -> str:
    """What an engine says, else the innermost reason why it says nothing."""
    below = error if isinstance(error, requests.RequestException) else error.__cause__ or error.__context__
    if isinstance(below, requests.RequestException) and not isinstance(error, docker.errors.APIError):
        return innermost(below)
    return " ".join(str(getattr(error, "explanation", None) or error).split())[:500]
