"""Does it work with real containers? A Docker daemon, a registry and the nights in it, of the tests' own.

Both daemons live in one folder and end with it; they take no network beyond the loopback and disturb no other daemon.
Images are written into the registry over its HTTP API: nothing is built or pushed by Docker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from bed_images import (
    SUITE,
    Layer,
    Progress,
    configuration,
    digest_of,
    has_base,
    index,
    layers,
    manifest,
    mirror,
    mounts,
    night_layer,
    program,
    unmount,
)
from bed_nights import NIGHTS, BedError, Fault, Kind, NightSpec, night_of, tag_of

REPOSITORY = "nvidia/jax"
PATIENCE = 30.0  # seconds for a daemon to start, or to end
NEEDED = ("dockerd", "docker", "docker-registry", "setpriv", "git")
CONFIGURATION = """version: 0.1
log: {level: warn}
storage:
  filesystem: {rootdirectory: %s}
  delete: {enabled: true}
http: {addr: "%s"}
"""


def usual_cache() -> Path:
    """Where layers are kept between sessions; 2 GB."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stepwatch-docker-bed"


def why_not(cache: Path | None = None) -> str | None:
    """Why there can be no bed on this machine, in one line; None where there can."""
    if os.geteuid() != 0:
        return "a Docker daemon of our own needs root"
    if missing := [each for each in NEEDED if not program(each)]:
        return f"not installed: {', '.join(missing)}"
    if not has_base(cache or usual_cache()):
        if not program("debootstrap"):
            return "not installed: debootstrap (it makes the images' base)"
        if not mirror():
            return f"apt names no mirror of Debian's {SUITE}"
    return _trial()


@functools.cache
def _trial() -> str | None:
    """Why a daemon doesn't start here; tried once."""
    try:
        with tempfile.TemporaryDirectory(prefix="bed-") as folder, _docker_daemon(Path(folder)):
            return None
    except BedError as error:
        return str(error)


# --- daemons ----------------------------------------------------------------------------------------------------------


@contextmanager
def _running(line: list[str], log: Path, *, ready: Callable[[], bool]) -> Iterator[None]:
    """A daemon that ends with the block, or with this process however that ends."""
    bound = [program("setpriv") or "setpriv", "--pdeathsig", "TERM", program(line[0]) or line[0], *line[1:]]
    with log.open("wb") as out:
        daemon = subprocess.Popen(
            bound, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        until = time.monotonic() + PATIENCE
        while not ready():
            if daemon.poll() is not None or time.monotonic() > until:
                said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["nothing"]
                raise BedError(f"{line[0]} doesn't start; it said last: {said[-1]}")
            time.sleep(0.1)
        yield
    finally:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


@contextmanager
def _docker_daemon(folder: Path) -> Iterator[str]:
    """The socket's URL of a daemon without networks; its data go at the end."""
    (folder / "daemon.json").write_text("{}", encoding="utf-8")
    (folder / "client").mkdir(exist_ok=True)
    url = f"unix://{folder}/docker.sock"
    places = {
        "config-file": "daemon.json",
        "data-root": "data",
        "exec-root": "exec",
        "pidfile": "dockerd.pid",
    }
    line = [
        "dockerd",
        f"--host={url}",
        *(f"--{option}={folder / place}" for option, place in places.items()),
        f"--containerd-namespace=bed-{os.getpid()}",
        "--bridge=none",
        "--iptables=false",
        "--ip-forward=false",
        "--ip-masq=false",
    ]

    def ready() -> bool:
        return _docker(url, folder, "version").returncode == 0

    try:
        with _running(line, folder / "dockerd.log", ready=ready):
            try:
                yield url
            finally:
                if left := _docker(url, folder, "ps", "--all", "--quiet").stdout.split():
                    _docker(url, folder, "rm", "--force", *left)
    finally:
        unmount(folder)
        for place in ("data", "exec"):
            shutil.rmtree(folder / place, ignore_errors=True)


def _docker(url: str, folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
    environment = {**kept, "DOCKER_CONFIG": str(folder / "client")}
    called = [program("docker") or "docker", "--host", url, *line]
    return subprocess.run(called, env=environment, capture_output=True, text=True, check=False)


@contextmanager
def _registry(folder: Path) -> Iterator[str]:
    """HOST:PORT of an empty registry; what is in it goes at the end."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    store, told = folder / "registry", folder / "registry.yml"
    told.write_text(CONFIGURATION % (store, address), encoding="utf-8")

    def ready() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://{address}/v2/", trust_env=False).is_success
        return False

    try:
        with _running(["docker-registry", "serve", str(told)], folder / "registry.log", ready=ready):
            yield address
    finally:
        shutil.rmtree(store, ignore_errors=True)


# --- the registry's API -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repository:
    """One repository of a registry, over its HTTP API."""

    client: httpx.Client

    def upload(self, body: bytes | Path, digest: str) -> None:
        """A blob that may be there already."""
        if self.client.head(f"blobs/{digest}").is_success:
            return
        begun = _well(self.client.post("blobs/uploads/"))
        with contextlib.ExitStack() as stack:
            content = body if isinstance(body, bytes) else stack.enter_context(body.open("rb"))
            kind = {"Content-Type": "application/octet-stream"}
            where = httpx.URL(begun.headers["Location"]).copy_merge_params({"digest": digest})
            _well(self.client.put(where, content=content, headers=kind))

    def put(self, name: str, body: bytes, media_type: str) -> str:
        """The digest of a manifest or an index that is stored now, under a tag or under its own digest."""
        _well(self.client.put(f"manifests/{name}", content=body, headers={"Content-Type": media_type}))
        return digest_of(body)

    def get(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """The digest and the document that a tag or a digest stands for."""
        found = _well(self.client.get(f"manifests/{name}", headers={"Accept": ", ".join(Kind)}))
        return digest_of(found.content), json.loads(found.content)

    def delete(self, digest: str) -> None:
        _well(self.client.delete(f"manifests/{digest}"))


def _well(response: httpx.Response) -> httpx.Response:
    if not response.is_success:
        asked = f"{response.request.method} {response.request.url.path}"
        raise BedError(
            f"the registry answers {response.status_code} to {asked}: {response.text.strip()[:200]}"
        )
    return response


# --- the bed ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Bed:
    """A Docker daemon at `socket`, a registry at `registry`, and how nights come into it and go.

    `folder` is where both live, `cache` where layers are kept.
    """

    socket: str
    registry: str
    folder: Path
    cache: Path
    repository: Repository

    def docker(self, *line: str) -> subprocess.CompletedProcess[str]:
        """What `docker …` says of this daemon, whether it ends well or not."""
        return _docker(self.socket, self.folder, *line)

    def reference(self, date: dt.date) -> str:
        """A night's image by its tag, `127.0.0.1:PORT/nvidia/jax:jax-2024-02-10`."""
        return f"{self.registry}/{REPOSITORY}:{tag_of(date)}"

    def publish(self, spec: NightSpec, progress: Progress = lambda _: None) -> str | None:
        """The digest that a night's tag stands for from now on; None where it is never published."""
        if spec.fault is Fault.MISSING:
            return None
        with night_layer(spec) as own:
            manifests = []
            if spec.fault is not Fault.ARM64_ONLY:
                below = layers(spec.jax, self.cache, progress)
                manifests.append(("amd64", *self._image(spec, "amd64", [*below, own])))
            if spec.kind in {Kind.OCI_INDEX, Kind.DOCKER_LIST}:
                manifests.append(("arm64", *self._image(spec, "arm64", [own])))
        progress(f"published {spec.tag}")
        if spec.kind in {Kind.OCI_INDEX, Kind.DOCKER_LIST}:
            for _, body, media_type in manifests:
                self.repository.put(digest_of(body), body, media_type)
            return self.repository.put(spec.tag, index(spec.kind, manifests), spec.kind)
        return self.repository.put(spec.tag, manifests[0][1], spec.kind)

    def publish_all(self, progress: Progress = lambda _: None) -> dict[dt.date, str]:
        """All nights; the digests of those that are published, by date."""
        published = {spec.date: self.publish(spec, progress) for spec in NIGHTS}
        return {date: digest for date, digest in published.items() if digest}

    def prune(self, date: dt.date) -> None:
        """A night goes: its tag, its index and its manifests; layers stay, others share them."""
        digest, document = self.repository.get(tag_of(date))
        for each in (digest, *(entry["digest"] for entry in document.get("manifests", ()))):
            self.repository.delete(each)

    def move(self, date: dt.date, to: str) -> str | None:
        """A night is built again, with JAX `to`: the digest that its tag stands for from now on."""
        spec = night_of(date)
        return self.publish(dataclasses.replace(spec, jax=to, build=spec.build + 1))

    def _image(self, spec: NightSpec, architecture: str, parts: list[Layer]) -> tuple[bytes, Kind]:
        for part in parts:
            self.repository.upload(part.file, part.digest)
        config = configuration(spec, architecture, [each.digest for each in parts])
        self.repository.upload(config, digest_of(config))
        return manifest(spec.kind, config, parts)


@contextmanager
def running_bed(folder: Path, cache: Path | None = None) -> Iterator[Bed]:
    """A bed without nights in an empty folder; at the end its containers, daemons, mounts and data are gone."""
    with _registry(folder) as registry, _docker_daemon(folder) as url:
        base = f"http://{registry}/v2/{REPOSITORY}/"
        with httpx.Client(base_url=base, timeout=120, trust_env=False) as client:
            kept = cache or usual_cache()
            yield Bed(socket=url, registry=registry, folder=folder, cache=kept, repository=Repository(client))
    if left := mounts(folder):
        raise BedError(f"still mounted: {', '.join(left)}")
