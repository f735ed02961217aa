"""Which commits does a repository have, and when did its main line have which?

Everything is read from a bare mirror on this host, which only `Mirror.fetch` changes. The main line is the history of
first parents of the branch that the mirrored repository's HEAD names.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from stepwatch.core.model import Revision
from stepwatch.runners.image_question import PINS, pinned
from stepwatch.runners.processes import locked, public_variables
from stepwatch.runners.protocol import UnreachableError

LIMIT_S = 3600.0  # the first fetch of XLA over a slow line takes longest
SPARSE = "/*\n!/cloud_tpu_colabs/\n!/docs/\n!/images/\n!/tests/\n"  # what is not built is not checked out

_FORMAT = "%H%x00%ct%x00%P%x00%an%x00%s"
# what a user may have set for all repositories: no hook of theirs runs in ours, and a stalled line ends
_ALWAYS = ("-c", "core.hooksPath=/dev/null", "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=120")
# git's usual upkeep would remove what no branch leads to any more, and what a checkout may share
_FETCH = (
    *("-c", "maintenance.gc.enabled=false", "-c", "maintenance.autoDetach=false"),
    *("-c", "maintenance.loose-objects.enabled=true", "-c", "maintenance.incremental-repack.enabled=true"),
    *("fetch", "--quiet", "--prune", "--no-write-fetch-head", "origin"),
    *("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "HEAD"),
)
# what names another repository or asks a person is dropped; how a remote is reached stays
_DROPPED = re.compile(r"GIT_(?!SSH|SSL_|PROXY_)|SSH_ASKPASS")
_NO_NAME = re.compile(r"[\s~^:?*\[\\]|\.\.|@\{|^-|^$")
_CREDENTIALS = re.compile(r"://\S*@")
_WORKSPACE_PIN = re.compile(r'strip_prefix = "xla-([0-9a-f]{40})"')
# a port of ssh is none of the web
_WEB = re.compile(
    r"(?:https?://(?:[^/]*@)?(?P<web>[\w.-]+(?::\d+)?)/"
    r"|(?:ssh|git)://(?:[^/]*@)?(?P<ssh>[\w.-]+)(?::\d+)?/"
    r"|(?:[^/@:]+@)?(?P<scp>[\w.-]+):/?)"
    r"(?P<path>[^/:]+(?:/[^/:]+?)+)(?:\.git)?/?",
    re.ASCII,
)


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One commit; its revision has the committer's time, `author` is the name alone."""

    revision: Revision
    author: str
    subject: str
    parents: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """A repository (`jax` or `xla`) at a URL or path, and the folder of its bare mirror on this host.

    A `ref` is a hash, a tag or a branch. Every method that reads raises an UnreachableError where there is no mirror.
    """

    repository: str
    url: str
    folder: Path

    def fetch(self) -> None:
        """Make the mirror, or bring it up to date; what branches no longer lead to is kept.

        Raises:
            UnreachableError: the repository can't be read; a mirror that is there is as it was.
        """
        # a path is told to git from other folders than this one
        url = str(Path(self.url).resolve()) if Path(self.url).is_dir() else self.url
        with locked(_beside(self.folder, "lock")):
            branch, head = self._remote_head(url)
            if self._is_there():
                _unlock(self.folder)
                main = (
                    ("symbolic-ref", "HEAD", branch) if branch else ("update-ref", "--no-deref", "HEAD", head)
                )
                for words in (("config", "remote.origin.url", url), _FETCH, main):
                    self._answer(self._read(*words))
            else:
                scratch = _beside(self.folder, "part")
                shutil.rmtree(scratch, ignore_errors=True)
                self._answer(_git("clone", "--quiet", "--bare", "--", url, str(scratch)))
                scratch.replace(self.folder)

    def find(self, ref: str) -> Commit | str:
        """The commit of a hash (also a short one), tag or branch; a sentence where there is none, or are several."""
        hint = f"accepted is a hash, tag or branch of {self._place()}"
        if not _NO_NAME.search(ref):
            done = self._read("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
            if done.returncode == 0:
                return self._commits("--no-walk", _text(done.stdout).strip())[0]
            several = re.findall(r"^hint:\s+([0-9a-f]+) commit\b", _text(done.stderr), re.MULTILINE)
            if len(several) > 1:
                return f"{self.repository} has several commits {ref!r}, {' and '.join(several)}; {hint}"
        return f"{self.repository} has no commit {ref!r}; {hint}"

    def head_at(self, at: dt.datetime) -> Commit | str:
        """The main line's newest commit before a time (aware), or a sentence where there is none.

        Commit times may go backwards: each counts as the latest of the line up to it.
        """
        head = self.find("HEAD")
        if isinstance(head, str):
            return head
        line, times = _line(self, head.revision.ref)
        position = bisect_left(times, at.timestamp())
        if position:
            return line[position - 1]
        first = line[0].revision
        reason = f"the first is {first.short} of {first.committed_at.isoformat()}"
        return f"{self.repository} has no commit on its main line before {at.isoformat()}: {reason}"

    def between(self, good: str, bad: str) -> tuple[Commit, ...] | str:
        """The line of first parents after `good` through `bad`, oldest first; a sentence where that is no line."""
        first, last = self.find(good), self.find(bad)
        if isinstance(first, Commit) and isinstance(last, Commit):
            return self._after(first.revision, last.revision)
        return first if isinstance(first, str) else str(last)

    def merged(self, merge: str) -> tuple[Commit, ...]:
        """The commits that a merge brought, itself left out, parents first; nothing for a commit that is no merge.

        Raises:
            ValueError: there is no such commit.
        """
        found = self.find(merge)
        if isinstance(found, str):
            raise ValueError(found)  # noqa: TRY004 -- a name that is wrong, not a type
        if len(found.parents) < 2:
            return ()
        first, *others = found.parents
        return self._commits("--reverse", "--topo-order", *others, f"^{first}")

    def pin(self, ref: str) -> str | None:
        """The XLA commit (40 hex digits) that JAX's tree pins at a commit; None where it pins none."""
        return self.pins([ref])[ref]

    def pins(self, refs: Sequence[str]) -> dict[str, str | None]:
        """The pins of many commits, of which thousands take seconds."""
        asked = [(ref, path) for ref in refs if not _NO_NAME.search(ref) for path in PINS]
        names = "".join(f"{ref}:{path}\n" for ref, path in asked)
        kinds = self._read("cat-file", "--batch-check=%(objectname) %(objecttype)", given=names)
        blobs = {
            place: line.removesuffix(" blob")
            for place, line in zip(asked, self._answer(kinds).splitlines(), strict=True)
            if line.endswith(" blob")
        }
        texts = self._texts(set(blobs.values()))
        found: dict[str, str | None] = dict.fromkeys(refs)
        for (ref, path), blob in blobs.items():
            found[ref] = found[ref] or _pin(path, texts.get(blob, ""))
        return found

    def link(self, ref: str) -> str | None:
        """The address of a commit on the web, which nobody is asked for; None where the mirrored is a path."""
        hit = _WEB.fullmatch(self.url)
        host = hit and (hit["web"] or hit["ssh"] or hit["scp"])
        return f"https://{host}/{hit['path']}/commit/{quote(ref)}" if hit else None

    def tree(self, ref: str, path: str) -> str | None:
        """Git's hash of a folder or file at a commit; None where the commit has none there."""
        if _NO_NAME.search(ref):
            return None
        done = self._read("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}:{path}")
        return _text(done.stdout).strip() or None

    def checkout(self, ref: str, folder: Path) -> str | None:
        """Put the tree at a commit into a folder, without what is not built; or the sentence that says why not.

        A folder that is one already is used again, and all that was changed in it or added is gone.
        """
        found = self.find(ref)
        if isinstance(found, str):
            return found
        commit = found.revision.ref
        with locked(_beside(folder, "lock")):
            if self._is_ours(folder):
                if self._placed(commit, folder) is None:
                    return None
                # damaged by who was killed in it
                shutil.rmtree(folder, ignore_errors=True)
            elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                return (
                    f"{folder} is no checkout from {self.folder}; accepted is one, or an empty or new folder"
                )
            return self._cloned(folder) or self._placed(commit, folder)

    def _after(self, after: Revision, through: Revision) -> tuple[Commit, ...] | str:
        if after == through:
            return ()
        if self._read("merge-base", "--is-ancestor", through.ref, after.ref).returncode == 0:
            reason = f"{through.short} is an ancestor of {after.short}: they are the wrong way round"
            return f"{self.repository} {reason}; accepted is the older commit first"
        line = self._commits("--reverse", "--first-parent", through.ref, f"^{after.ref}")
        # of all that they share this lies on the line, and a search from it can't be refused again
        base = next(iter(line[0].parents), None)
        if base == after.ref:
            return line
        reason = f"{self.repository} {after.short} is not on the line of first parents that leads to {through.short}"
        if base is None:
            return f"{reason}, and they have no common history on it; accepted are two commits of one line"
        return f"{reason}; their merge base on it is {base}: search from there"

    def _remote_head(self, url: str) -> tuple[str | None, str]:
        """The remote's main branch (None: its HEAD is detached) and the commit there."""
        answer = self._answer(_git("ls-remote", "--symref", "--", url, "HEAD"))
        # a clone has other names that end in HEAD
        branch = re.search(r"^ref: (refs/heads/\S+)\tHEAD$", answer, re.MULTILINE)
        head = re.search(r"^([0-9a-f]{40})\tHEAD$", answer, re.MULTILINE)
        if head is None:
            raise UnreachableError(f"{self.repository}: {self._place()} has no commit at its HEAD")
        return branch and branch.group(1), head.group(1)

    def _is_there(self) -> bool:
        return (self.folder / "HEAD").is_file()

    def _place(self) -> str:
        """The URL for people."""
        return _CREDENTIALS.sub("://", self.url)

    def _answer(self, done: subprocess.CompletedProcess[bytes]) -> str:
        if done.returncode:
            raise UnreachableError(f"{self.repository}: {self._place()} can't be read: {_why(done)}")
        return _text(done.stdout)

    def _read(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[bytes]:
        if not self._is_there():
            raise UnreachableError(f"{self.repository}: {self._place()} has no mirror in {self.folder} yet")
        return _git("--git-dir", str(self.folder), *words, given=given)

    def _commits(self, *words: str) -> tuple[Commit, ...]:
        """The commits that `git rev-list` lists."""
        how = ("--no-commit-header", "--encoding=UTF-8", f"--format={_FORMAT}")
        answer = self._answer(self._read("rev-list", *how, *words))
        return tuple(self._commit(line) for line in answer.split("\n") if line)

    def _commit(self, line: str) -> Commit:
        ref, at, parents, author, subject = line.split("\0", 4)
        when = dt.datetime.fromtimestamp(int(at), dt.UTC)
        revision = Revision(repository=self.repository, ref=ref, committed_at=when)
        return Commit(revision=revision, author=author, subject=subject, parents=tuple(parents.split()))

    def _texts(self, blobs: Iterable[str]) -> dict[str, str]:
        """The files of these hashes; one that the mirror lacks is left out."""
        answer = self._read("cat-file", "--batch", given="".join(f"{each}\n" for each in blobs)).stdout
        found, start = {}, 0
        while start < len(answer):
            end = answer.index(b"\n", start)
            blob, _, *size = _text(answer[start:end]).split()
            start = end + 1
            if size:
                found[blob] = _text(answer[start : start + int(size[0])])
                start += int(size[0]) + 1
        return found

    def _is_ours(self, folder: Path) -> bool:
        """Whether a folder is a checkout that was made here, the same way."""
        git = folder / ".git"
        try:
            shared = (git / "objects" / "info" / "alternates").read_text(encoding="utf-8")
            sparse = (git / "info" / "sparse-checkout").read_text(encoding="utf-8")
        except OSError:
            return False
        return shared.strip() == str(self.folder.resolve() / "objects") and sparse == SPARSE

    def _cloned(self, folder: Path) -> str | None:
        """Make the repository of a checkout, without a tree; why that can't be, or None."""
        scratch = _beside(folder, "part")
        shutil.rmtree(scratch, ignore_errors=True)
        sparse = ("-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=false")
        mirror = str(self.folder.resolve())
        done = _git("clone", "--quiet", "--shared", "--no-checkout", *sparse, "--", mirror, str(scratch))
        if done.returncode:
            return f"{self.repository} can't be checked out in {folder}: {_why(done)}"
        (scratch / ".git" / "info").mkdir(exist_ok=True)
        (scratch / ".git" / "info" / "sparse-checkout").write_text(SPARSE, encoding="utf-8")
        scratch.replace(folder)
        return None

    def _placed(self, commit: str, folder: Path) -> str | None:
        """Make the tree that of a commit; why that can't be, or None."""
        _unlock(folder / ".git")
        # the folders named outright, or git would take the repository around a damaged one
        here = ("--git-dir", str(folder / ".git"), "--work-tree", str(folder))
        for words in (
            ("checkout", "--quiet", "--force", "--detach", commit),
            ("clean", "--quiet", "-ffdx"),
            ("submodule", "--quiet", "update", "--init", "--recursive", "--force"),
        ):
            if words[0] == "submodule" and not (folder / ".gitmodules").is_file():
                continue
            done = _git(*here, *words, within=folder)
            if done.returncode:
                return f"{self.repository} {commit[:12]} can't be checked out in {folder}: {_why(done)}"
        return None


@lru_cache(maxsize=4)
def _line(mirror: Mirror, head: str) -> tuple[tuple[Commit, ...], tuple[float, ...]]:
    """The line of first parents that leads to a commit, oldest first, and since when each was there (seconds)."""
    line = mirror._commits("--reverse", "--first-parent", head)  # noqa: SLF001
    times = (each.revision.committed_at.timestamp() for each in line)
    return line, tuple(itertools.accumulate(times, max))


def _pin(path: str, text: str) -> str | None:
    """The commit that one of the files pins; before it had a name it stood in the name of an archive's folder."""
    hit = _WORKSPACE_PIN.search(text) if path == "WORKSPACE" else None
    return pinned(text) or (hit and hit.group(1))


def _git(
    *words: str, given: str | None = None, within: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in public_variables().items() if not _DROPPED.match(name)}
    command = ["git", *_ALWAYS, *words]
    try:
        return subprocess.run(
            command,
            cwd=within,
            env={**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            input=(given or "").encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, b"", f"git has not ended after {LIMIT_S:g} s".encode())
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 1, b"", b"there is no program git on PATH")


def _why(done: subprocess.CompletedProcess[bytes]) -> str:
    """Git's reason, without its advice and without credentials."""
    lines = [line.strip() for line in _text(done.stderr).splitlines() if line.strip()] or ["git says nothing"]
    last = next((at for at, line in enumerate(lines) if line.startswith("fatal:")), len(lines) - 1)
    if last and "Could not read from remote repository" in lines[last]:
        last -= 1  # ssh has said why
    return _CREDENTIALS.sub("://", lines[last].removeprefix("fatal: "))


def _unlock(folder: Path) -> None:
    """Remove the locks of processes of git that were killed; whoever comes here holds the lock beside the folder."""
    for lock in folder.rglob("*.lock"):
        lock.unlink(missing_ok=True)


def _beside(folder: Path, ending: str) -> Path:
    return folder.with_name(f"{folder.name}.{ending}")


def _text(said: bytes) -> str:
    return said.decode("utf-8", "replace")
