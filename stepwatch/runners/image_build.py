"""What runs inside a nightly image, to build a pair of commits there?

    python3 image_build.py COMMAND jax=MIRROR:COMMIT xla=MIRROR:COMMIT

The image's own sources are put at the commits, which come from bare mirrors; what earlier builds left there, old wheels among
it, is removed, and what was changed by hand is gone. Then COMMAND is run, in which {jax} and {xla} stand for the folders of the
sources. Last, `image_question` beside this file prints what is there now. It needs git and nothing but the standard library of
Python 3.9.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

OPT = Path("/opt")
GIT = ("git", "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null")


def main() -> None:
    """Build, and let the answers be printed."""
    command, *wanted = sys.argv[1:]
    if shutil.which("git") is None:
        sys.exit("there is no git in the image")
    folders = {}
    for each in wanted:
        name, _, what = each.partition("=")
        mirror, _, commit = what.rpartition(":")
        folders[name] = place(name, Path(mirror), commit)
    for name, folder in folders.items():
        command = command.replace("{" + name + "}", str(folder))
    # what is printed by others goes to the log: standard output has the answers alone
    done = subprocess.run(["sh", "-c", command], cwd=folders["jax"], stdout=sys.stderr, check=False)
    if done.returncode:
        sys.exit(done.returncode if done.returncode > 0 else 128 - done.returncode)
    # in a process of its own: this one began before the packages were installed
    question = Path(__file__).with_name("image_question.py")
    sys.exit(subprocess.run([sys.executable, question, folders["jax"] / "jax"], check=False).returncode)


def place(name: str, mirror: Path, commit: str) -> Path:
    """The folder of a repository's sources, at a commit."""
    usual = (OPT / name, OPT / f"{name}-source")
    folder = next((each for each in usual if each.is_dir()), usual[0])
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet")
    for lock in (folder / ".git").rglob("*.lock"):
        lock.unlink()
    shared = folder / ".git" / "objects" / "info" / "alternates"
    shared.parent.mkdir(parents=True, exist_ok=True)
    with shared.open("a", encoding="utf-8") as file:
        file.write(f"{mirror}/objects\n")
    git(folder, "checkout", "--quiet", "--force", "--detach", commit)
    git(folder, "clean", "--quiet", "-ffdx")
    if (folder / ".gitmodules").is_file():
        git(folder, "submodule", "--quiet", "update", "--init", "--recursive", "--force")
        git(folder, "submodule", "--quiet", "foreach", "--recursive", "git clean --quiet -ffdx")
    return folder


def git(folder: Path, *words: str) -> None:
    """Run git in a folder; where it fails, so does the build."""
    done = subprocess.run([*GIT, "-C", str(folder), *words], stdout=sys.stderr, check=False)
    if done.returncode:
        sys.exit(f"git {words[0]} failed in {folder}")


if __name__ == "__main__":
    main()
