"""Of which layers and documents is an image of the Docker test bed made?

A night's image has four layers: a Debian base, numpy and what else stands still, a JAX release, and a small one of the
night's own. The first three are made once and kept, as uncompressed tars, in a cache folder.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed_nights import SITE, STILL, BedError, Kind, NightSpec
from uv import find_uv_bin

SUITE = "bookworm"  # Debian's release with Python 3.11
EPOCH = 1704067200  # every file's time: 2024-01-01
UNWANTED = (
    *(
        f"usr/share/{name}"
        for name in ("doc", "man", "locale", "info", "lintian", "bash-completion", "zoneinfo")
    ),
    *(
        "usr/share/perl",
        "usr/share/perl5",
        "usr/lib/x86_64-linux-gnu/perl",
    ),  # Debian's own tools need perl-base only
)
EMPTY = ("var/lib/apt/lists", "var/cache", "var/log", "dev", "proc", "sys", "run", "tmp")

Progress = Callable[[str], None]
Document = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """An uncompressed tar: its digest is its diff id too."""

    file: Path
    digest: str
    size: int


def pack(root: Path, file: Path, *, owners: bool = False) -> Layer:
    """Everything below `root` as a tar of sorted names and one time; without `owners` all is root's and readable."""

    def same(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime, entry.uname, entry.gname = EPOCH, "", ""
        if not owners:
            entry.uid = entry.gid = 0
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as tar:
        for folder, below, names in os.walk(root):
            below.sort()
            links = [each for each in below if Path(folder, each).is_symlink()]
            if folder != str(root):
                tar.add(folder, Path(folder).relative_to(root), recursive=False, filter=same)
            for name in sorted([*names, *links]):
                path = Path(folder, name)
                tar.add(path, path.relative_to(root), recursive=False, filter=same)
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return Layer(file=file, digest=f"sha256:{digest}", size=file.stat().st_size)


def layers(jax: str, cache: Path, progress: Progress) -> list[Layer]:
    """The three layers below a night's own, from the cache or made now."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        release = (f"jax=={jax}", f"jaxlib=={jax}")
        return [
            _kept(cache, "base", SUITE, _base, progress, owners=True),
            _kept(cache, "still", " ".join(STILL), functools.partial(_site, STILL), progress),
            _kept(cache, f"jax-{jax}", " ".join(release), functools.partial(_site, release), progress),
        ]


def has_base(cache: Path) -> bool:
    return _place(cache, "base", SUITE).with_suffix(".json").is_file()


def _place(cache: Path, name: str, recipe: str) -> Path:
    key = hashlib.sha256(f"2 {sys.version_info[:2]} {recipe}".encode()).hexdigest()[:12]
    return cache / f"{name}-{key}.tar"


def _kept(
    cache: Path,
    name: str,
    recipe: str,
    make: Callable[[Path], None],
    progress: Progress,
    *,
    owners: bool = False,
) -> Layer:
    file = _place(cache, name, recipe)
    note = file.with_suffix(".json")
    if note.is_file():
        return Layer(file=file, **json.loads(note.read_text(encoding="utf-8")))
    progress(f"making the layer {name}")
    with tempfile.TemporaryDirectory(dir=cache) as stage:
        root = Path(stage, "root")
        root.mkdir()
        make(root)
        made = pack(root, Path(stage, "layer.tar"), owners=owners)
        made.file.rename(file)
    note.write_text(json.dumps({"digest": made.digest, "size": made.size}), encoding="utf-8")
    return Layer(file=file, digest=made.digest, size=made.size)


def program(name: str) -> str | None:
    """Where a program lies; those of the superuser's folders count too."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))


def mounts(folder: Path) -> list[str]:
    """What is mounted below a folder, the innermost first."""
    table = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [place for line in reversed(table) if (place := line.split()[4]).startswith(f"{folder}/")]


def unmount(folder: Path) -> None:
    for place in mounts(folder):
        command("umount", "--lazy", place)


def command(*line: str | Path) -> str:
    """What a program prints; BedError with the end of what it said where it fails."""
    called = [program(str(line[0])) or str(line[0]), *map(str, line[1:])]
    done = subprocess.run(called, capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise BedError(f"{' '.join(map(str, line[:4]))} … failed: {said}")
    return done.stdout.strip()


def _base(root: Path) -> None:
    """Debian with Python and git, without what nobody reads; bytecode that needs no file times."""
    if not (source := mirror()):
        raise BedError(f"apt names no mirror of Debian's {SUITE}")
    compiled = ("-m", "compileall", "-q", "-f", "--invalidation-mode", "checked-hash")
    try:
        command("debootstrap", "--variant=minbase", "--include=python3,git", SUITE, root, source)
        command("chroot", root, "python3", *compiled, "/usr/lib/python3.11", "/usr/lib/python3")
    finally:
        unmount(root)
    for name in UNWANTED:
        shutil.rmtree(root / name, ignore_errors=True)
    for name in EMPTY:
        shutil.rmtree(root / name)
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    for name in ("hostname", "resolv.conf"):
        (root / "etc" / name).unlink(missing_ok=True)


def mirror() -> str | None:
    """The first mirror of Debian's release that this machine's apt is told of."""
    places = Path("/etc/apt")
    for file in sorted([*places.glob("sources.list"), *places.glob("sources.list.d/*")]):
        for address, suites in _sources(file):
            if SUITE in suites and address.startswith(("http://", "https://")):
                return address
    return None


def _sources(file: Path) -> Iterator[tuple[str, list[str]]]:
    text = "\n".join(each for each in file.read_text(encoding="utf-8").splitlines() if each[:1] != "#")
    if file.suffix == ".list":  # deb [options] ADDRESS SUITE COMPONENTS
        for address, suite in re.findall(r"^deb\s+(?:\[.*?\]\s+)?(\S+)\s+(\S+)", text, re.MULTILINE):
            yield address, [suite]
        return
    for paragraph in text.split("\n\n"):
        named = {name.lower(): said for name, said in re.findall(r"^([\w-]+):(.*)$", paragraph, re.MULTILINE)}
        for address in named.get("uris", "").split():
            yield address, named.get("suites", "").split()


def _site(requirements: Sequence[str], root: Path) -> None:
    """Wheels for Debian's Python, with bytecode where this Python is of the same version."""
    site = root / SITE
    fit = ("--python-version", "3.11", "--only-binary", ":all:", "--no-deps")
    command(find_uv_bin(), "pip", "install", "-q", "--target", site, *fit, *requirements)
    for unused in (site / "bin", *site.glob("[ns]*py/**/tests")):  # of numpy and scipy: half of their files
        shutil.rmtree(unused, ignore_errors=True)
    (site / ".lock").unlink(missing_ok=True)
    if sys.version_info[:2] == (3, 11):
        where = ("-s", site, "-p", f"/{SITE}", site)
        command(sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", *where)


@contextmanager
def night_layer(spec: NightSpec) -> Iterator[Layer]:
    """A night's own layer: its sources, its manifests, what is wrong there."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        root.mkdir()
        spec.write(root)
        yield pack(root, Path(folder, "night.tar"))


# --- documents --------------------------------------------------------------------------------------------------------

OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"


def encode(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def described(body: bytes, media_type: str) -> Document:
    """A descriptor of some bytes, as it stands in a manifest or an index."""
    return {"mediaType": media_type, "digest": digest_of(body), "size": len(body)}


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def configuration(spec: NightSpec, architecture: str, digests: Sequence[str]) -> bytes:
    """An image's configuration, with the variables and the label that the nightly containers have."""
    created = dt.datetime.combine(spec.date, dt.time(7 + spec.build), dt.UTC).isoformat()
    variables = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "BUILD_DATE": str(spec.date),
        "JAX_TOOLBOX_REF": hashlib.sha256(f"{spec.date} {spec.build}".encode()).hexdigest()[:40],
        "CUDA_BASE_IMAGE": "nvidia/cuda:12.3.1-devel-ubuntu22.04",
        "MANIFEST_FILE": "/opt/manifest.d/manifest.yaml",
        "CUDA_VERSION": "12.3.1",
        "CUDNN_VERSION": "8.9.7.29",
        "NCCL_VERSION": "2.19.3",
        "XLA_FLAGS": spec.flags,
    }
    inside = {
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "Labels": {"org.opencontainers.image.created": str(spec.date)},
        "Cmd": ["/bin/sh"],
        "WorkingDir": "/opt",
    }
    history = [{"created": created, "created_by": f"layer {i}"} for i in range(len(digests))]
    return encode({
        "architecture": architecture,
        "os": "linux",
        "created": created,
        "config": inside,
        "rootfs": {"type": "layers", "diff_ids": list(digests)},
        "history": history,
    })  # fmt: skip


def manifest(kind: Kind, config: bytes, parts: Sequence[Layer]) -> tuple[bytes, Kind]:
    """A manifest in the dialect of what it is to be part of, with its media type."""
    docker = kind in {Kind.DOCKER_LIST, Kind.DOCKER_MANIFEST}
    layer = DOCKER_LAYER if docker else OCI_LAYER
    media_type = Kind.DOCKER_MANIFEST if docker else Kind.OCI_MANIFEST
    body = encode({
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": described(config, DOCKER_CONFIG if docker else OCI_CONFIG),
        "layers": [{"mediaType": layer, "digest": each.digest, "size": each.size} for each in parts],
    })  # fmt: skip
    return body, media_type


def index(kind: Kind, manifests: Sequence[tuple[str, bytes, Kind]]) -> bytes:
    """An index (or Docker's manifest list) of manifests by architecture."""
    entries = [
        {**described(body, media_type), "platform": {"architecture": architecture, "os": "linux"}}
        for architecture, body, media_type in manifests
    ]
    return encode({"schemaVersion": 2, "mediaType": kind, "manifests": entries})
