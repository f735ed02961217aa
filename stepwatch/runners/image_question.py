"""What runs inside a nightly image, to say which commits it was built from and what is installed?

    python3 image_question.py [SOURCES]

prints one JSON object. It imports nothing but the standard library of Python 3.9 and later, and not jax, which may be
broken; it changes nothing and needs no network. Each repository's HEAD is asked of git, or read from its files where there
is no git; `stepwatch.runners.provenance` chooses among what is said. With SOURCES, the
folder of JAX's package at the commit that was built, it says too by which files the build can be told from another one
(`stamp`), and which of JAX's installed files are not the commit's (`stale`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import re
import shutil
import subprocess
import sys
import zlib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

KEYS = frozenset(
    ("executable", "freeze", "home", "manifests", "pin", "python", "repositories", "system", "wheel")
)  # of the answers
OPT = Path("/opt")
MANIFESTS = ("git-clone.yaml", "manifest.yaml")
PINS = ("third_party/xla/revision.bzl", "third_party/xla/workspace.bzl", "WORKSPACE")
GIT_LIMIT_S = 120
SIZE_MAX = 1 << 20


def main() -> None:
    """Print the answers."""
    repositories = {name: repository(name) for name in ("jax", "xla")}
    sources = repositories["jax"]["folder"]
    pins = [pinned(read(Path(sources) / each)) for each in PINS] if sources else []
    found = {
        "python": f"{platform.python_implementation().lower()} {platform.python_version()}",
        "executable": sys.executable,
        "home": str(Path.home()),
        "system": system(),
        "repositories": repositories,
        "manifests": {each: read(OPT / "manifest.d" / each) for each in MANIFESTS},
        "pin": next(filter(None, pins), None),
        # jaxlib's is a commit of JAX too: that of XLA is in no package
        "wheel": wheel("jax") or wheel("jaxlib"),
        "freeze": freeze(),
    }
    for built in sys.argv[1:]:
        found.update({"stamp": stamp(), "stale": stale(Path(built))})
    sys.stdout.write(json.dumps(found) + "\n")


def repository(name: str) -> dict[str, Any]:
    """`folder`, `head`, `at` (seconds), `branch` (None: detached), `changed` files (None: not known), `how` it was read."""
    folders = [each for each in (OPT / name, OPT / f"{name}-source") if each.is_dir()]
    for folder in folders:
        if not (folder / ".git").exists():
            continue
        head, at = (git(folder, "log", "-1", "--format=%H %ct") or " ").split(" ")
        if not head:
            how = "files, for git fails" if shutil.which("git") else "files"
            return {"folder": str(folder), **from_files(folder / ".git"), "how": how}
        changed = git(folder, "status", "--porcelain", "--untracked-files=no")
        return {
            "folder": str(folder),
            "head": head,
            "at": int(at),
            "branch": git(folder, "symbolic-ref", "--short", "-q", "HEAD"),
            "changed": None if changed is None else [line[2:].strip() for line in changed.splitlines()],
            "how": "git",
        }
    return {"folder": str(folders[0]) if folders else None, "head": None, "how": "no .git"}


def git(folder: Path, *words: str) -> str | None:
    """What git prints; None where there is no git, or where it fails or takes too long."""
    command = ["git", "-c", "safe.directory=*", "--no-optional-locks", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip("\n")


def from_files(folder: Path) -> dict[str, Any]:
    """HEAD by the files of a repository; its time where the commit is not packed."""
    said = read(folder / "HEAD").strip()
    branch = said[5:].strip() if said.startswith("ref: ") else None
    head = read(folder / branch).strip() if branch else said
    if branch and not head:
        packed = read(folder / "packed-refs")
        head = next((line[:40] for line in packed.splitlines() if line.endswith(f" {branch}")), "")
    known = re.fullmatch(r"[0-9a-f]{40}", head) is not None
    return {
        "head": head if known else None,
        "at": committed(folder, head) if known else None,
        "branch": branch and branch.split("/", 2)[-1],
        "changed": None,
    }


def committed(folder: Path, head: str) -> int | None:
    """When a commit that lies in a file of its own was committed."""
    try:
        packed = (folder / "objects" / head[:2] / head[2:]).read_bytes()
        text = zlib.decompress(packed).decode("utf-8", "replace")
    except (OSError, zlib.error):
        return None
    hit = re.search(r"^committer .*> (\d+) [+-]\d{4}$", text, re.MULTILINE)
    return int(hit.group(1)) if hit else None


def pinned(text: str) -> str | None:
    """The XLA commit that JAX's sources pin."""
    hit = re.search(r'XLA_COMMIT\s*=\s*"([0-9a-f]{40})"', text)
    return hit.group(1) if hit else None


def wheel(name: str) -> str | None:
    """The commit that a package says it was built from; it is not imported."""
    for place in places(name):
        version = read(place / "version.py")
        hit = re.search(r"_git_hash\b[^=\n]*=\s*['\"]([0-9a-f]{40})['\"]", version)
        if hit:
            return hit.group(1)
    return None


def stamp() -> dict[str, str]:
    """SHA-256 of each shared object of jaxlib and of JAX's plugins, by path, and of JAX's Python files as one, by their folder."""
    plugins = [each.metadata["Name"].replace("-", "_") for each in distributions() if each.metadata["Name"]]
    names = ("jaxlib", "jax_plugins", *sorted({each for each in plugins if each.startswith("jax_cuda")}))
    objects = {file for name in names for place in places(name) for file in place.rglob("*.so*")}
    found = {str(file): digest(file.read_bytes()) for file in sorted(objects) if file.is_file()}
    for folder in places("jax")[:1]:
        files = "".join(f"{name} {digest(text)}\n" for name, text in sorted(sources(folder).items()))
        found[str(folder)] = digest(files.encode())
    return found


def stale(built: Path) -> list[str]:
    """JAX's Python files that are installed otherwise than they are in a folder."""
    wanted = sources(built)
    for folder in places("jax")[:1]:
        has = sources(folder)
        return sorted(name for name in wanted.keys() & has.keys() if wanted[name] != has[name])
    return ["jax itself: it is not installed"]


def sources(folder: Path) -> dict[str, bytes]:
    """The Python files below a folder; a build writes into the one that has the version."""
    files = {str(file.relative_to(folder)): file for file in folder.rglob("*.py") if file.is_file()}
    return {name: file.read_bytes() for name, file in files.items() if name != "version.py"}


def places(name: str) -> list[Path]:
    """Where a package lies; it is not imported."""
    spec = importlib.util.find_spec(name)
    return [Path(each).resolve() for each in (spec and spec.submodule_search_locations) or ()]


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def freeze() -> list[str]:
    """Every distribution as `name==version`."""
    found = {(each.metadata["Name"], each.version) for each in distributions()}
    return sorted(f"{name}=={version}" for name, version in found if name)


def system() -> str:
    """What the system calls itself."""
    hit = re.search(r'^PRETTY_NAME="?([^"\n]*)', read(Path("/etc/os-release")), re.MULTILINE)
    return hit.group(1) if hit else ""


def read(path: Path) -> str:
    """The beginning of a text file; nothing where there is none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(SIZE_MAX)
    except OSError:
        return ""


if __name__ == "__main__":
    main()
