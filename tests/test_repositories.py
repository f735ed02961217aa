"""Do mirrors say what git's history is, and do they survive what happens to them?"""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from stepwatch.core.model import Revision
from stepwatch.runners import repositories
from stepwatch.runners.processes import locked
from stepwatch.runners.protocol import UnreachableError
from stepwatch.runners.repositories import Commit, Mirror

ONE, TWO, THREE = ("1" * 40, "2" * 40, "3" * 40)
History = tuple[Mirror, dict[str, str]]
Trees = tuple[Mirror, str, str]
WHOLE_JAX = os.environ.get("STEPWATCH_JAX_REPO")


def at(clock: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"2024-03-01T{clock}Z")


def git(folder: Path, *words: str, clock: str = "10:00") -> str:
    person = ("-c", "user.name=ada", "-c", "user.email=a@b.c")
    dates = {"GIT_COMMITTER_DATE": at(clock).isoformat(), "GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z"}
    command, environment = ["git", *person, *words], {**os.environ, **dates}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, subject: str, clock: str = "10:00", files: Mapping[str, str] | None = None) -> str:
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", subject, clock=clock)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def _nobodys_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def new(folder: Path) -> Path:
    git(folder.parent, "init", "--quiet", "--initial-branch=trunk", str(folder))
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return new(tmp_path / "source")


def mirror_of(source: Path) -> Mirror:
    mirror = Mirror(repository="jax", url=str(source), folder=source.parent / "mirror")
    mirror.fetch()
    return mirror


def subjects(commits: Sequence[Commit] | str) -> list[str]:
    assert not isinstance(commits, str), commits
    return [each.subject for each in commits]


def found(commit: Commit | str) -> Commit:
    assert isinstance(commit, Commit), commit
    return commit


# --- what the history is ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """r c0 c1 c2 m c3 c4, where m merges s1 s2, which left at c1; c3 was committed before m, and s2 after c4."""
    folder = new(tmp_path_factory.mktemp("history") / "source")
    begun = (("r", "09:30"), ("c0", "10:00"), ("c1", "11:00"))
    made = {each: commit(folder, each, clock) for each, clock in begun}
    git(folder, "checkout", "--quiet", "-b", "side")
    made |= {each: commit(folder, each, clock) for each, clock in (("s1", "11:10"), ("s2", "15:00"))}
    git(folder, "checkout", "--quiet", "trunk")
    made["c2"] = commit(folder, "c2", "12:00")
    git(folder, "merge", "--quiet", "--no-ff", "-m", "m", "side", clock="13:00")
    made["m"] = git(folder, "rev-parse", "HEAD")
    made |= {each: commit(folder, each, clock) for each, clock in (("c3", "12:30"), ("c4", "14:00"))}
    git(folder, "tag", "-a", "-m", "a tag with an object of its own", "v1", made["c2"])
    git(folder, "checkout", "--quiet", "--orphan", "other")
    made["o"] = commit(folder, "o", "09:00")
    git(folder, "checkout", "--quiet", "trunk")
    return mirror_of(folder), made


def test_a_commit_has_its_parts(history: History) -> None:
    mirror, made = history
    merge = found(mirror.find(made["m"]))
    revision = Revision(repository="jax", ref=made["m"], committed_at=at("13:00"))
    assert merge == Commit(revision=revision, author="ada", subject="m", parents=(made["c2"], made["s2"]))
    assert merge.revision.committed_at.tzinfo is dt.UTC
    assert found(mirror.find(made["r"])).parents == ()


@pytest.mark.parametrize(("ref", "subject"), [("v1", "c2"), ("trunk", "c4"), ("side", "s2"), ("HEAD", "c4")])
def test_a_name_is_found(history: History, ref: str, subject: str) -> None:
    mirror, made = history
    assert found(mirror.find(ref)).subject == subject
    assert found(mirror.find(made[subject][:12])).subject == subject


@pytest.mark.parametrize("ref", ["", "nope", "--all", "trunk~1", "c0..c1", "0" * 40, "a\nb", "@{0}", ":/c1"])
def test_what_is_no_name_of_a_commit_is_said(history: History, ref: str) -> None:
    mirror, _ = history
    hint = f"accepted is a hash, tag or branch of {mirror.url}"
    assert mirror.find(ref) == f"jax has no commit {ref!r}; {hint}"
    assert mirror.between(ref, "trunk") == mirror.between("trunk", ref) == mirror.find(ref)
    assert mirror.pin(ref) is mirror.tree(ref, "") is None
    with pytest.raises(ValueError, match="jax has no commit"):
        mirror.merged(ref)


def test_a_hash_too_short_names_all_that_it_may_be(source: Path) -> None:
    # of as many hashes some begin alike, and always the same ones
    one = "commit refs/heads/trunk\ncommitter ada <a@b.c> {} +0000\ndata 1\nx\n"
    stream = "".join(map(one.format, range(600))).encode()
    subprocess.run(["git", "fast-import", "--quiet"], cwd=source, input=stream, check=True)
    hashes = sorted(git(source, "rev-list", "trunk").split())
    pair = next((a, b) for a, b in pairwise(hashes) if a[:4] == b[:4])
    several = " and ".join(each[:7] for each in pair)
    said = mirror_of(source).find(pair[0][:4])
    assert f"jax has several commits {pair[0][:4]!r}, {several}; accepted is " in str(said)


# strictly before; s1 and s2 are of a side branch; c3 says 12:30, and came after m
TIMES = """c0 10:00:01, c0 11:00:00, c1 11:00:01, c1 11:30:00, c2 12:45:00, c2 13:00:00,
 c3 13:00:01, c3 14:00:00, c4 14:00:01, c4 23:00:00"""


@pytest.mark.parametrize("time", TIMES.split(","))
def test_the_main_line_at_a_time(history: History, time: str) -> None:
    mirror, made = history
    subject, clock = time.split()
    assert mirror.head_at(at(clock)) == mirror.find(made[subject])


def test_before_its_first_commit_there_is_none(history: History) -> None:
    mirror, made = history
    said = f"before {at('09:30').isoformat()}: the first is {made['r'][:12]} of {at('09:30').isoformat()}"
    assert mirror.head_at(at("09:30")) == f"jax has no commit on its main line {said}"


@pytest.mark.parametrize("case", ["c1 c4: c2 m c3 c4", "c4 c4:", "c1 s2: s1 s2"])
def test_what_lies_between(history: History, case: str) -> None:
    mirror, made = history
    ends, _, line = case.partition(":")
    good, bad = (made[each] for each in ends.split())
    assert subjects(mirror.between(good, bad)) == line.split()


ASIDE = "jax {0:.12} is not on the line of first parents that leads to {1:.12}"


# what was merged (s1) is an ancestor of c4, and to search from it would be refused again
REFUSED = {
    "c4 c1": "jax {1:.12} is an ancestor of {0:.12}: they are the wrong way round; accepted is the older",
    "c2 s2": f"{ASIDE}; their merge base on it is {{c1}}: search from there",
    "s1 c4": f"{ASIDE}; their merge base on it is {{c1}}: search from there",
    "o c4": f"{ASIDE}, and they have no common history on it; accepted are two commits of one line",
}


@pytest.mark.parametrize("ends", REFUSED)
def test_what_is_no_line_is_said(history: History, ends: str) -> None:
    mirror, made = history
    good, bad = (made[each] for each in ends.split())
    assert str(mirror.between(good, bad)).startswith(REFUSED[ends].format(good, bad, **made))


@pytest.mark.parametrize(("ref", "brought"), [("m", ["s1", "s2"]), ("c2", []), ("r", [])])
def test_what_a_merge_brought(history: History, ref: str, brought: list[str]) -> None:
    mirror, made = history
    assert subjects(mirror.merged(made[ref])) == brought


# --- what a tree says -------------------------------------------------------------------------------------------------

XLA = "third_party/xla"
REVISION, WORKSPACE_BZL, WORKSPACE = f"{XLA}/revision.bzl", f"{XLA}/workspace.bzl", "WORKSPACE"


@pytest.mark.parametrize(
    ("files", "pin"),
    [
        ({WORKSPACE: f'http_archive(\n    strip_prefix = "xla-{ONE}",\n)\n'}, ONE),
        ({WORKSPACE: f'http_archive(\n    strip_prefix = "tensorflow-{ONE}",\n)\n'}, None),
        ({WORKSPACE_BZL: f'# XLA\nXLA_COMMIT = "{TWO}"\n', WORKSPACE: f'strip_prefix = "xla-{ONE}"'}, TWO),
        ({REVISION: f'# XLA\nXLA_COMMIT = "{THREE}"\n', WORKSPACE_BZL: f'XLA_COMMIT = "{TWO}"'}, THREE),
        ({REVISION: 'XLA_COMMIT = ""\n', WORKSPACE_BZL: f'XLA_COMMIT = "{TWO}"'}, TWO),
        ({REVISION: 'XLA_COMMIT = ""\n', WORKSPACE_BZL: f'strip_prefix = "xla-{ONE}"'}, None),
        ({}, None),
    ],
)
def test_the_pin_of_a_tree(source: Path, files: Mapping[str, str], pin: str | None) -> None:
    ref = commit(source, "pinned", files=files)
    assert mirror_of(source).pin(ref) == pin


def test_many_pins_at_once(source: Path) -> None:
    text = 'größer\r\nXLA_COMMIT = "{}"\n'  # bytes are counted, not letters
    refs = [commit(source, each, files={WORKSPACE_BZL: text.format(each)}) for each in (ONE, TWO, THREE)]
    git(source, "rm", "--quiet", WORKSPACE_BZL)
    refs.append(commit(source, "none"))
    mirror = mirror_of(source)
    asked = [*refs, "nope", "a b\nc"]
    assert mirror.pins(asked) == dict(zip(asked, (ONE, TWO, THREE, None, None, None), strict=True))
    assert mirror.pins([]) == {}


def test_the_hash_of_a_folder_changes_with_what_is_in_it(source: Path) -> None:
    first = commit(source, "first", files={"a/x": "1", "b/x": "1"})
    second = commit(source, "second", files={"a/x": "2"})
    mirror = mirror_of(source)
    assert mirror.tree(first, "a") == git(source, "rev-parse", f"{first}:a") != mirror.tree(second, "a")
    assert mirror.tree(first, "b") == mirror.tree(second, "b") == git(source, "rev-parse", f"{first}:b")
    assert mirror.tree(first, "c") is None


LINKS = {
    "https://github.com/jax-ml/jax": "https://github.com/jax-ml/jax",
    "https://me:secret@github.com/jax-ml/jax.git/": "https://github.com/jax-ml/jax",
    "git@github.com:openxla/xla.git": "https://github.com/openxla/xla",
    "ssh://git@github.com:22/openxla/xla.git": "https://github.com/openxla/xla",
    "https://gitlab.example.com:8443/a/b/c.git": "https://gitlab.example.com:8443/a/b/c",
    "git@gitlab.example.com:a/b/c": "https://gitlab.example.com/a/b/c",
}


NO_LINKS = ("/srv/git/jax.git", "../git/jax", "file:///srv/jax.git", "https://github.com")


@pytest.mark.parametrize("url", [*LINKS, *NO_LINKS])
def test_the_address_on_the_web(tmp_path: Path, url: str) -> None:
    link = f"{LINKS[url]}/commit/abc" if url in LINKS else None
    assert Mirror(repository="jax", url=url, folder=tmp_path).link("abc") == link


# --- how it is kept ---------------------------------------------------------------------------------------------------


def test_a_mirror_that_was_never_fetched_is_said(tmp_path: Path) -> None:
    mirror = Mirror(repository="jax", url="https://me:secret@example.com/jax", folder=tmp_path / "mirror")
    for ask in (mirror.find, mirror.pin, mirror.merged):
        with pytest.raises(UnreachableError, match=r"^jax: https://example.com/jax has no mirror in .* yet$"):
            ask("trunk")


def test_what_is_new_comes_and_what_is_gone_goes(source: Path) -> None:
    first = commit(source, "first", "10:00")
    git(source, "branch", "old/one")
    mirror = mirror_of(source)
    assert found(mirror.head_at(at("23:00"))).revision.ref == first
    second = commit(source, "second", "11:00")
    git(source, "branch", "-D", "old/one")
    git(source, "branch", "old")  # its name was a folder's
    mirror.fetch()
    assert found(mirror.head_at(at("23:00"))).revision.ref == second
    assert isinstance(mirror.find("old/one"), str)
    assert found(mirror.find("old")).revision.ref == second


def test_the_main_line_is_where_the_head_is(source: Path) -> None:
    commit(source, "first", "10:00")
    mirror = mirror_of(source)
    for words, subject in (("-b release", "on release"), ("--detach", "on no branch"), ("trunk", "on trunk")):
        git(source, "checkout", "--quiet", *words.split())
        commit(source, subject, "11:00")
        mirror.fetch()
        assert found(mirror.head_at(at("23:00"))).subject == subject


def test_another_url_counts_from_the_next_fetch(source: Path) -> None:
    commit(source, "here")
    mirror_of(source)
    moved = source.rename(source.parent / "moved")
    there = commit(moved, "there")
    mirror = mirror_of(moved)
    assert found(mirror.find("trunk")).revision.ref == there
    assert git(mirror.folder, "config", "remote.origin.url") == str(moved)


def test_a_fetch_that_was_killed_is_done_anew(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = commit(source, "first")
    mirror = Mirror(repository="jax", url=str(source), folder=source.parent / "mirror")
    half, real = source.parent / "mirror.part", repositories._git

    def killed(*words: str, **options: object) -> object:
        done = real(*words, **options)
        if "clone" in words:
            shutil.rmtree(half / "objects")
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(repositories, "_git", killed)
    with pytest.raises(KeyboardInterrupt):
        mirror.fetch()
    monkeypatch.setattr(repositories, "_git", real)
    assert half.exists()
    assert not mirror.folder.exists()
    mirror.fetch()
    assert found(mirror.find("trunk")).revision.ref == ref
    assert not half.exists()


def test_the_locks_of_the_dead_do_not_stay(source: Path) -> None:
    commit(source, "first")
    mirror = mirror_of(source)
    for lock in ("HEAD.lock", "config.lock", "packed-refs.lock", "refs/heads/trunk.lock"):
        (mirror.folder / lock).touch()
    second = commit(source, "second")
    mirror.fetch()
    assert found(mirror.find("trunk")).revision.ref == second


def test_two_do_not_fetch_at_once(source: Path, tmp_path: Path) -> None:
    commit(source, "first")
    mirror = Mirror(repository="jax", url=str(source), folder=tmp_path / "mirror")
    other = threading.Thread(target=mirror.fetch)
    with locked(tmp_path / "mirror.lock"):
        other.start()
        time.sleep(0.3)
        assert not mirror.folder.exists()
    other.join()
    assert mirror.folder.exists()


def test_what_no_branch_leads_to_stays(source: Path, tmp_path: Path) -> None:
    # git tidies up after each fetch where it is told so, and leaves nothing
    config = "[gc]\nauto=1\nautoPackLimit=1\npruneExpire=now\nautoDetach=false\n[fetch]\nunpackLimit=1\n"
    commit(source, "first")
    mirror = mirror_of(source)
    gone = commit(source, "gone")
    mirror.fetch()
    git(source, "reset", "--quiet", "--hard", "HEAD~1")
    (tmp_path / ".gitconfig").write_text(config, encoding="utf-8")
    for each in "ab":
        commit(source, each)
        mirror.fetch()
    assert found(mirror.find(gone)).subject == "gone"


def test_git_was_told_of_another(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = commit(source, "first", files={"a": "1"})
    for each in ("DIR", "WORK_TREE", "OBJECT_DIRECTORY", "INDEX_FILE"):
        monkeypatch.setenv(f"GIT_{each}", str(tmp_path / "elsewhere"))
    assert mirror_of(source).checkout(ref, tmp_path / "tree") is None
    assert (tmp_path / "tree" / "a").is_file()
    assert not (tmp_path / "elsewhere").exists()


UNREACHABLE = {
    "https://me:secret@127.0.0.1:1/o/n": "https://127.0.0.1:1/o/n can't be read: unable to access",
    "https://me:sec/ret@127.0.0.1:1/o/n": "https://127.0.0.1:1/o/n can't be read: ",
    "/nowhere": "/nowhere can't be read: '/nowhere' does not appear to be a git repository",
    "--upload-pack=touch": "--upload-pack=touch can't be read: ",
}


@pytest.mark.parametrize("url", UNREACHABLE)
def test_what_can_not_be_reached_is_said(source: Path, tmp_path: Path, url: str) -> None:
    ref = commit(source, "first")
    for folder in (tmp_path / "new", mirror_of(source).folder):
        mirror = Mirror(repository="jax", url=url, folder=folder)
        with pytest.raises(UnreachableError, match=f"^jax: {UNREACHABLE[url]}") as error:
            mirror.fetch()
        assert not re.search(r"sec|\n", str(error.value))
    assert found(mirror.find("trunk")).revision.ref == ref
    assert not (tmp_path / "new").exists()


def test_a_repository_without_a_commit_has_no_main_line(source: Path) -> None:
    with pytest.raises(UnreachableError, match="has no commit at its HEAD"):
        mirror_of(source)


# --- checkouts --------------------------------------------------------------------------------------------------------

FILES = {"setup.py": "1", "docs/a.md": "1", "images/a.png": "1", "tests/a.py": "1", "jax/tests/a.py": "1"}


@pytest.fixture
def trees(source: Path) -> Trees:
    """A mirror with two commits; of the second's tree `setup.py` is `2`."""
    first = commit(source, "first", files={**FILES, ".gitignore": "*.o\n"})
    second = commit(source, "second", files={"setup.py": "2"})
    return mirror_of(source), first, second


def files(folder: Path) -> set[str]:
    there = (each.relative_to(folder) for each in folder.rglob("*") if each.is_file())
    return {str(each) for each in there if ".git" not in each.parts}


def test_a_checkout_is_a_repository_without_what_is_not_built(trees: Trees, tmp_path: Path) -> None:
    mirror, first, _ = trees
    assert mirror.checkout(first, tmp_path / "deep" / "tree") is None
    assert files(tmp_path / "deep" / "tree") == {".gitignore", "setup.py", "jax/tests/a.py"}
    assert git(tmp_path / "deep" / "tree", "rev-parse", "HEAD") == first
    assert git(tmp_path / "deep" / "tree", "status", "--porcelain") == ""


def test_a_checkout_is_used_again_whatever_was_left_in_it(trees: Trees, tmp_path: Path) -> None:
    mirror, first, second = trees
    tree = tmp_path / "tree"
    assert mirror.checkout(first, tree) is None
    (tree / "setup.py").write_text("stashed", encoding="utf-8")
    git(tree, "stash")
    for name in ("setup.py", "built.o", ".git/built.o", ".git/index.lock", ".git/HEAD.lock"):
        (tree / name).write_text("left", encoding="utf-8")
    (tree / "jax" / "tests" / "a.py").unlink()
    new(tree / "nested")
    (tree / ".git" / "MERGE_HEAD").write_text(f"{second}\n", encoding="utf-8")
    assert mirror.checkout(second, tree) is None
    assert (tree / ".git" / "built.o").is_file()
    assert files(tree) == {".gitignore", "setup.py", "jax/tests/a.py"}
    assert not (tree / "nested").exists()
    assert (tree / "setup.py").read_text(encoding="utf-8") == "2"
    assert git(tree, "status", "--porcelain") == ""


@pytest.mark.parametrize("broken", ["index", "HEAD", "config"])
def test_a_checkout_that_is_damaged_is_made_anew(trees: Trees, source: Path, broken: str) -> None:
    mirror, first, second = trees
    around = source / "tree"  # the repository around it is none of ours to change
    assert mirror.checkout(first, around) is None
    (around / ".git" / broken).write_bytes(b"\0\0")
    (source / "setup.py").write_text("mine", encoding="utf-8")
    assert mirror.checkout(second, around) is None
    assert git(around, "rev-parse", "HEAD") == second
    assert (source / "setup.py").read_text(encoding="utf-8") == "mine"


def test_what_is_no_checkout_is_left_alone(trees: Trees, tmp_path: Path) -> None:
    mirror, first, _ = trees
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    accepted = "accepted is one, or an empty or new folder"
    said = f"{tmp_path / 'full'} is no checkout from {mirror.folder}; {accepted}"
    assert mirror.checkout(first, tmp_path / "full") == said
    assert files(tmp_path / "full") == {"letter"}
    (tmp_path / "empty").mkdir()
    assert mirror.checkout(first, tmp_path / "empty") is None
    assert mirror.checkout("nope", tmp_path / "new") == mirror.find("nope")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("allowed", "said"), [(True, None), (False, "transport 'file' not allowed")])
def test_submodules_come_too(source: Path, tmp_path: Path, allowed: bool, said: str | None) -> None:
    inner = new(tmp_path / "inner")
    commit(inner, "inside", files={"a": "1"})
    git(source, "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(inner), "sub")
    ref = commit(source, "with a submodule")
    config = '[protocol "file"]\nallow=always\n' if allowed else ""
    (tmp_path / ".gitconfig").write_text(config, encoding="utf-8")
    answer = mirror_of(source).checkout(ref, tmp_path / "tree")
    assert answer is None if said is None else said in str(answer)
    assert (tmp_path / "tree" / "sub" / "a").is_file() == allowed


# --- JAX itself -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(WHOLE_JAX is None, reason="STEPWATCH_JAX_REPO names no clone of JAX")
def test_jax_as_it_was(tmp_path: Path) -> None:
    mirror = Mirror(repository="jax", url=str(WHOLE_JAX), folder=tmp_path / "mirror")
    mirror.fetch()
    culprit = found(mirror.find("709564ab7874"))
    parent = found(mirror.find(culprit.parents[0]))
    assert mirror.head_at(dt.datetime(2023, 12, 9, 7, tzinfo=dt.UTC)) == culprit
    assert mirror.head_at(culprit.revision.committed_at) == parent
    assert mirror.between(parent.revision.ref, culprit.revision.ref) == (culprit,)
    assert mirror.pin("709564ab7874") == "ec283a67db70a0fc5fb5b76238954d96ae5254a6"
    line = git(mirror.folder, "rev-list", "--first-parent", "HEAD").split()[::-1]
    places = {ref: place for place, ref in enumerate(line)}
    start, hours = dt.datetime(2023, 7, 1, tzinfo=dt.UTC), range(0, 731 * 24, 37)
    heads = (mirror.head_at(start + dt.timedelta(hours=each)) for each in hours)
    reached = [places[found(head).revision.ref] for head in heads]
    assert reached == sorted(reached)
    assert mirror.checkout("709564ab7874", tmp_path / "tree") is None
    assert (tmp_path / "tree" / "jax" / "version.py").is_file()
