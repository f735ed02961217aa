"""Which nights does the Docker test bed have, with which JAX and which sources, and what is wrong with them?

The sources are two small git repositories whose hashes are the same on every machine: each day XLA gains a commit, each
release is three commits of JAX. Within a release's three good nights only XLA moves.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STILL = ("numpy==1.26.4", "scipy==1.12.0", "ml-dtypes==0.5.4", "opt-einsum==3.4.0")  # beside every JAX
SITE = "usr/local/lib/python3.11/dist-packages"
LAST_NIGHTLY = dt.date(2024, 2, 9)  # the last day whose tag is nightly-DATE
FIRST_XLA = dt.date(2024, 2, 2)  # the first day that has an XLA commit; each later day has one more
# JAX release -> the first night that has it
RELEASES = {
    "0.4.20": dt.date(2024, 2, 3),
    "0.4.25": dt.date(2024, 2, 7),
    "0.4.31": dt.date(2024, 2, 10),
    "0.4.33": dt.date(2024, 2, 13),
    "0.4.35": dt.date(2024, 2, 16),
}
URLS = {"jax": "https://github.com/google/jax.git", "xla": "https://github.com/openxla/xla.git"}


class BedError(Exception):
    """The test bed can't do this; the sentence says why."""


class Fault(enum.StrEnum):
    """What is wrong with a night."""

    NONE = "none"
    MISSING = "never published"
    BROKEN = "import jax raises"
    ARM64_ONLY = "for linux/arm64 only"
    PRUNED = "to be deleted once it was seen (Bed.prune)"
    MOVED = "its tag is to be moved once it was seen (Bed.move)"
    HANGS = "import jax never ends"
    NO_DOT_GIT = "sources without .git"
    DIRTY = "HEAD detached, tree dirty"
    NO_GIT = "no git executable"


class Kind(enum.StrEnum):
    """What a tag stands for."""

    OCI_INDEX = "application/vnd.oci.image.index.v1+json"
    OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
    DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
    DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def tag_of(date: dt.date) -> str:
    return f"{'nightly' if date <= LAST_NIGHTLY else 'jax'}-{date}"


@dataclass(frozen=True, kw_only=True)
class NightSpec:
    """One day of the registry; `build` counts the builds of that day, `flags` is the image's XLA_FLAGS."""

    date: dt.date
    jax: str
    fault: Fault = Fault.NONE
    kind: Kind = Kind.OCI_INDEX
    flags: str = ""
    build: int = 1

    @property
    def early(self) -> bool:
        return self.date <= LAST_NIGHTLY

    @property
    def tag(self) -> str:
        return tag_of(self.date)

    def write(self, root: Path) -> None:
        """The night's own files, below `root`."""
        write_night(root, self)

    def source(self, package: str) -> str:
        """Where a package's sources lie, `/opt/jax-source` or `/opt/jax`."""
        return f"/opt/{package}-source" if self.early else f"/opt/{package}"


def _night(day: int, jax: str, fault: Fault = Fault.NONE, kind: Kind = Kind.OCI_INDEX) -> NightSpec:
    return NightSpec(date=dt.date(2024, 2, day), jax=jax, fault=fault, kind=kind)


NIGHTS: list[NightSpec] = [
    _night(3, "0.4.20", Fault.NO_DOT_GIT),
    _night(4, "0.4.20"),
    _night(5, "0.4.20", kind=Kind.DOCKER_MANIFEST),
    _night(6, "0.4.20"),
    _night(7, "0.4.25"),
    _night(8, "0.4.25", kind=Kind.DOCKER_LIST),
    _night(9, "0.4.25"),
    _night(10, "0.4.31"),
    _night(11, "0.4.31", kind=Kind.OCI_MANIFEST),
    _night(12, "0.4.31"),
    _night(13, "0.4.33"),
    _night(14, "0.4.33"),
    _night(15, "0.4.33"),
    _night(16, "0.4.35"),
    _night(17, "0.4.35"),
    _night(18, "0.4.35"),
    _night(19, "0.4.35", Fault.MISSING),
    _night(20, "0.4.35", Fault.BROKEN),
    _night(21, "0.4.35", Fault.ARM64_ONLY),
    _night(22, "0.4.35", Fault.PRUNED),
    _night(23, "0.4.35", Fault.MOVED),
    _night(24, "0.4.35", Fault.HANGS),
    _night(25, "0.4.35", Fault.DIRTY),
    _night(26, "0.4.35", Fault.NO_GIT),
]


def night_of(date: dt.date) -> NightSpec:
    for each in NIGHTS:
        if each.date == date:
            return each
    raise BedError(f"no night of the bed is of {date}")


# --- histories --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One commit to be made: what it writes and what it takes away."""

    at: dt.datetime
    subject: str
    files: dict[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()


def xla_history(last: dt.date) -> list[Commit]:
    """One commit a day, at 22:00 of the evening before that day's night."""
    days = [FIRST_XLA + dt.timedelta(days=i) for i in range((last - FIRST_XLA).days + 1)]
    return [
        Commit(
            at=_evening(day, 22),
            subject=f"Change {i} of XLA",
            files={"README.md": "XLA\n", "xla/service/change.cc": f"// change {i}, {day}\n"},
        )
        for i, day in enumerate(days, start=1)
    ]


def jax_history(version: str) -> list[Commit]:
    """Three commits a release, on the day before its first night: words, the XLA pin, the version."""
    made: list[Commit] = []
    for release, first in RELEASES.items():
        pinned = xla_hashes(first - dt.timedelta(days=1))[-1]
        checksum = hashlib.sha256(pinned.encode()).hexdigest()
        pin = f'XLA_COMMIT = "{pinned}"\nXLA_SHA256 = "{checksum}"\n'
        old, new = "third_party/xla/workspace.bzl", "third_party/xla/revision.bzl"
        early = first <= LAST_NIGHTLY
        numbers = f'__version__ = "{release}"\n_minimum_jaxlib_version = "{release}"\n'
        made += [
            Commit(
                at=_evening(first, 9), subject="Say more", files={"README.md": f"JAX, before {release}\n"}
            ),
            Commit(
                at=_evening(first, 15),
                subject=f"Update XLA dependency to use revision {pinned}",
                files={old if early else new: pin},
                gone=() if early else (old,),
            ),
            Commit(at=_evening(first, 21), subject=f"JAX {release}", files={"jax/version.py": numbers}),
        ]
        if release == version:
            return made
    raise BedError(f"no night has JAX {version}")


def _evening(day: dt.date, hour: int) -> dt.datetime:
    return dt.datetime.combine(day - dt.timedelta(days=1), dt.time(hour), dt.UTC)


@functools.cache
def xla_hashes(last: dt.date) -> tuple[str, ...]:
    """The hashes of XLA's commits up to a day, oldest first."""
    with tempfile.TemporaryDirectory() as folder:
        return make_repository(Path(folder), xla_history(last))


def jax_hashes(version: str) -> tuple[str, ...]:
    """The hashes of JAX's commits up to a release, oldest first."""
    with tempfile.TemporaryDirectory() as folder:
        return make_repository(Path(folder), jax_history(version))


def heads(spec: NightSpec) -> dict[str, str]:
    """Which commits a night's sources are at, by repository."""
    return {"jax": jax_hashes(spec.jax)[-1], "xla": xla_hashes(spec.date)[-1]}


def make_repository(folder: Path, commits: Sequence[Commit]) -> tuple[str, ...]:
    """A repository with this history and its last tree, without a log of when: its files are the same anywhere."""
    import_history(folder, "".join(map(imported, commits)))
    return tuple(git(folder, "rev-list", "--reverse", "HEAD").split())


def import_history(folder: Path, text: str, *options: str) -> None:
    """Make a repository of what git's fast-import reads, its main line checked out."""
    git(folder, "init", "--quiet", "--template=", "--initial-branch=main")
    git(folder, "-c", "core.logAllRefUpdates=false", "fast-import", "--quiet", *options, text=text)
    git(folder, "read-tree", "HEAD")
    git(folder, "checkout-index", "--all")


def imported(commit: Commit, *, branch: str = "main", mark: str = "", parents: Sequence[str] = ()) -> str:
    """One commit for git's fast-import; `parents` are its lines of them where the branch's last one is not its only one."""
    who = f"A Developer <developer@example.com> {int(commit.at.timestamp())} +0000"
    lines = [
        f"commit refs/heads/{branch}",
        *([f"mark {mark}"] if mark else []),
        f"author {who}",
        f"committer {who}",
        f"data {len(commit.subject)}",
        commit.subject,
        *parents,
        *(f"D {name}" for name in commit.gone),
    ]
    for name, text in commit.files.items():
        lines += [f"M 100644 inline {name}", f"data {len(text)}", text]
    return "\n".join(lines) + "\n"


def git(folder: Path, *line: str, text: str | None = None) -> str:
    """What git prints in a folder, deaf to the settings and variables of who runs it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    done = subprocess.run(
        ["git", "-C", folder, *line], input=text, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BedError(f"git {' '.join(line)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


# --- a night's own files ----------------------------------------------------------------------------------------------

BUILD_JAX = """#!/bin/sh
# stands for the script that builds jaxlib and JAX from the sources
echo "would build JAX from {jax} with XLA from {xla}: $*"
"""
BROKEN = 'raise ImportError("libcudart.so.12: cannot open shared object file: No such file or directory")\n'
HANGS = "import time\n\nwhile True:\n    time.sleep(3600)\n"


def write_night(root: Path, spec: NightSpec, lay: Callable[[Path, str], Sequence[str]] | None = None) -> None:
    """Sources, manifests, the build script and what is wrong, as they lie in the container's file system.

    `lay` makes the repository of a package in a folder; the hashes that it returns end with the head.
    """
    histories = {"jax": jax_history(spec.jax), "xla": xla_history(spec.date)} if lay is None else {}
    hashes: dict[str, Sequence[str]] = {}
    for package in URLS:
        place = root / spec.source(package).lstrip("/")
        place.mkdir(parents=True)
        hashes[package] = lay(place, package) if lay else make_repository(place, histories[package])
        if spec.fault is Fault.DIRTY:
            (place / ".git/HEAD").write_text(hashes[package][-1] + "\n", encoding="utf-8")
            with (place / "README.md").open("a", encoding="utf-8") as readme:
                readme.write("changed by hand\n")
        if spec.fault is Fault.NO_DOT_GIT:
            (place / ".git").rename(root.with_name(f"{package}.git"))
    texts = {
        # as in the toolbox's repository: long behind what was cloned
        "opt/manifest.d/manifest.yaml": "".join(_entry(each, each, hashes[each][0]) for each in hashes),
        "opt/manifest.d/git-clone.yaml": "".join(
            _entry(Path(spec.source(each)).name, each, hashes[each][-1]) for each in hashes
        ),
        "opt/pip-tools.d/requirements.txt": "".join(f"{each}\n" for each in (f"jax=={spec.jax}", *STILL)),
        "usr/local/bin/build-jax.sh": BUILD_JAX.format(jax=spec.source("jax"), xla=spec.source("xla")),
        **dict(_wrong(spec.fault)),
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "usr/local/bin/build-jax.sh").chmod(0o755)


def _entry(name: str, package: str, commit: str) -> str:
    lines = [
        f"url: {URLS[package]}",
        "tracking_ref: main",
        f"latest_verified_commit: {commit}",
        "mode: git-clone",
    ]
    return f"{name}:\n" + "".join(f"  {each}\n" for each in lines)


def _wrong(fault: Fault) -> Iterator[tuple[str, str]]:
    if fault is Fault.BROKEN:
        yield f"{SITE}/jax/__init__.py", BROKEN
    if fault is Fault.HANGS:
        yield f"{SITE}/jax/__init__.py", HANGS
    if fault is Fault.NO_GIT:
        yield "usr/bin/.wh.git", ""  # takes away the file of the layers below
