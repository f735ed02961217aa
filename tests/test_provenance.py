"""From which pair was an image built, is it said what is to be doubted, and what becomes of a pull, a tag, a container?"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from bed_nights import git

from stepwatch.core.model import CommitPair, Image, Night, Outcome, Source, SourceKind
from stepwatch.core.nights import seen_again
from stepwatch.runners import engine, image_question
from stepwatch.runners.protocol import UnreachableError
from stepwatch.runners.provenance import pair_of
from stepwatch.runners.pulls import Pull

JAX, XLA, OTHER = "a" * 40, "b" * 40, "c" * 40
AT = 1_707_000_000
REFERENCE = "registry.example/nvidia/jax:jax-2024-02-10"
NIGHT_AT = dt.datetime(2024, 2, 10, tzinfo=dt.UTC)
BUILT_AT = dt.datetime(2024, 2, 10, 8, tzinfo=dt.UTC)
ABSENT = {"folder": None, "head": None, "how": "no .git"}


def image(digest: str = "d", index: str = "e", **more: Any) -> Image:
    return Image(
        reference=REFERENCE,
        index=f"sha256:{index * 64}",
        digest=f"sha256:{digest * 64}",
        platform="linux/amd64",
        platforms=("linux/amd64",),
        **{"created": BUILT_AT} | more,
    )


def cloned(name: str, head: str, **more: Any) -> dict[str, Any]:
    """What is said of a repository that git could read."""
    known = {"folder": f"/opt/{name}", "head": head, "at": AT, "branch": "main", "changed": [], "how": "git"}
    return known | more


def answers(jax: dict[str, Any] = ABSENT, xla: dict[str, Any] = ABSENT, **more: Any) -> dict[str, Any]:
    """What an image says that knows nothing but this."""
    found: dict[str, Any] = {
        "repositories": {"jax": jax, "xla": xla},
        "manifests": {"git-clone.yaml": "", "manifest.yaml": ""},
        "pin": None,
        "wheel": None,
    }
    return found | more


def told(said: dict[str, Any], of: Image | None = None) -> tuple[CommitPair, tuple[str, ...]]:
    found = pair_of(said, of or image(), NIGHT_AT)
    assert not isinstance(found, str), found
    return found


def refs(said: dict[str, Any]) -> tuple[str, str]:
    pair, _ = told(said)
    return pair.jax.ref, pair.xla.ref


def manifest(**commits: str) -> str:
    return "".join(
        f"{name.replace('_', '-')}:\n  latest_verified_commit: {commit}\n" for name, commit in commits.items()
    )


class TestPair:
    def test_heads_that_git_reads_are_not_doubted(self) -> None:
        pair, notes = told(answers(cloned("jax", JAX), cloned("xla", XLA, at=AT + 60)))
        assert (pair.jax.ref, pair.xla.ref, notes) == (JAX, XLA, ())
        assert pair.jax.committed_at == dt.datetime.fromtimestamp(AT, dt.UTC)
        assert pair.at == dt.datetime.fromtimestamp(AT + 60, dt.UTC)

    def test_heads_count_before_all_that_was_written_down(self) -> None:
        written = {"git-clone.yaml": manifest(jax=OTHER, xla=OTHER), "manifest.yaml": ""}
        said = answers(
            cloned("jax", JAX),
            cloned("xla", XLA),
            manifests=written,
            wheel=OTHER,
            pin=OTHER,
        )
        assert refs(said) == (JAX, XLA)

    def test_without_git_nobody_can_say_whether_files_were_changed(self) -> None:
        _, notes = told(answers(cloned("jax", JAX, how="files", changed=None), cloned("xla", XLA)))
        assert notes == (
            "/opt/jax: there is no git in the image, so nobody can say whether its files were changed",
        )

    def test_git_that_can_not_look_for_changes_is_said(self) -> None:
        _, notes = told(answers(cloned("jax", JAX), cloned("xla", XLA, changed=None)))
        assert notes == ("/opt/xla: git could not say whether files were changed",)

    def test_a_detached_head_is_said(self) -> None:
        _, notes = told(answers(cloned("jax", JAX), cloned("xla", XLA, branch=None)))
        assert notes == ("/opt/xla: HEAD is detached",)

    def test_three_changed_files_are_named_and_that_there_are_more(self) -> None:
        changed = ["a.py", "b.py", "c.py", "d.py"]
        _, notes = told(answers(cloned("jax", JAX, changed=changed), cloned("xla", XLA, changed=changed[:2])))
        assert notes == (
            "/opt/jax: 4 files differ from HEAD: a.py, b.py, c.py and more",
            "/opt/xla: 2 files differ from HEAD: a.py, b.py",
        )

    def test_what_was_cloned_counts_before_what_was_meant_to_be(self) -> None:
        written = {
            "git-clone.yaml": manifest(jax_source=JAX, xla=XLA),
            "manifest.yaml": manifest(jax=OTHER, xla=OTHER),
        }
        pair, notes = told(answers(manifests=written))
        assert (pair.jax.ref, pair.xla.ref) == (JAX, XLA)
        assert [note for note in notes if "taken from" in note] == [
            f"the commit of {name} is taken from git-clone.yaml: no .git in the image"
            for name in ("jax", "xla")
        ]

    @pytest.mark.parametrize(
        "broken",
        ["{", "- a list", "jax: no mapping", "jax:\n  latest_verified_commit: main", "jax:\n  url: x"],
    )
    def test_a_manifest_that_can_not_be_read_is_passed_over(self, broken: str) -> None:
        written = {"git-clone.yaml": broken, "manifest.yaml": manifest(jax=JAX, xla=XLA)}
        assert refs(answers(manifests=written)) == (JAX, XLA)

    def test_packages_and_the_pin_in_jaxs_sources_are_the_last(self) -> None:
        pair, notes = told(answers(wheel=JAX, pin=XLA))
        assert (pair.jax.ref, pair.xla.ref) == (JAX, XLA)
        assert [note for note in notes if "taken from" in note] == [
            "the commit of jax is taken from its packages: no .git in the image",
            "the commit of xla is taken from the pin in JAX's sources: no .git in the image",
        ]

    def test_the_pin_says_nothing_of_jax(self) -> None:
        found = pair_of(answers(pin=XLA), image(), NIGHT_AT)
        assert found == (
            f"{REFERENCE} does not tell its commit of jax: there is no .git in /opt/jax or /opt/jax-source,"
            " nothing in /opt/manifest.d, and no commit in its packages"
        )

    def test_nothing_of_xla_is_said_of_xla(self) -> None:
        found = pair_of(answers(cloned("jax", JAX)), image(), NIGHT_AT)
        assert isinstance(found, str)
        assert "does not tell its commit of xla" in found

    @pytest.mark.parametrize(("created", "when"), [(BUILT_AT, BUILT_AT), (None, NIGHT_AT)])
    def test_a_commit_of_unknown_time_gets_that_of_the_image_else_the_nights(
        self, created: dt.datetime | None, when: dt.datetime
    ) -> None:
        said = answers(cloned("jax", JAX, at=None), cloned("xla", XLA))
        pair, notes = told(said, image(created=created))
        assert pair.jax.committed_at == when
        assert pair.xla.committed_at == dt.datetime.fromtimestamp(AT, dt.UTC)
        assert notes == (f"when jax {JAX[:12]} was committed is not known",)


# --- what runs inside the image ---------------------------------------------------------------------------------------


@pytest.fixture
def opt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /opt."""
    folder = tmp_path / "opt"
    folder.mkdir()
    monkeypatch.setattr(image_question, "OPT", folder)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    return folder


WHO = ("-c", "user.name=A Developer", "-c", "user.email=developer@example.com")


def repository(folder: Path) -> str:
    """A repository with one commit of a known time; its hash."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "a.txt").write_text("one\n", encoding="utf-8")
    git(folder, "add", "a.txt")
    git(folder, *WHO, "commit", "--quiet", "--no-gpg-sign", "--message=One")
    return git(folder, "rev-parse", "HEAD")


def committed_at(folder: Path) -> int:
    return int(git(folder, "log", "-1", "--format=%ct"))


@pytest.fixture
def no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert shutil.which("git") is None


class TestQuestion:
    @pytest.mark.parametrize("name", ["jax", "jax-source"])
    def test_git_says_all_of_a_repository(self, opt: Path, name: str) -> None:
        head = repository(opt / name)
        assert image_question.repository("jax") == {
            "folder": str(opt / name),
            "head": head,
            "at": committed_at(opt / name),
            "branch": "main",
            "changed": [],
            "how": "git",
        }

    def test_a_detached_head_has_no_branch_and_a_dirty_tree_its_files(self, opt: Path) -> None:
        head = repository(opt / "xla")
        git(opt / "xla", "checkout", "--quiet", "--detach")
        (opt / "xla/a.txt").write_text("two\n", encoding="utf-8")
        (opt / "xla/untracked.txt").touch()
        said = image_question.repository("xla")
        assert (said["head"], said["branch"], said["changed"]) == (head, None, ["a.txt"])

    def test_a_folder_of_somebody_else_is_read_too(self, opt: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("files can be given to somebody else by root alone")
        head = repository(opt / "jax")
        for each in (opt / "jax", *(opt / "jax").rglob("*")):
            os.chown(each, 65534, 65534)
        said = image_question.repository("jax")
        assert (said["head"], said["how"]) == (head, "git")

    def test_the_folder_with_git_counts_before_the_one_without(self, opt: Path) -> None:
        (opt / "jax").mkdir()
        head = repository(opt / "jax-source")
        assert image_question.repository("jax")["head"] == head

    def test_without_dot_git_the_folder_is_known_and_no_commit(self, opt: Path) -> None:
        (opt / "jax-source").mkdir()
        assert image_question.repository("jax") == {
            "folder": str(opt / "jax-source"),
            "head": None,
            "how": "no .git",
        }
        assert image_question.repository("xla") == {"folder": None, "head": None, "how": "no .git"}

    def test_a_loose_commit_is_read_without_git(self, opt: Path, request: pytest.FixtureRequest) -> None:
        head = repository(opt / "jax")
        at = committed_at(opt / "jax")
        request.getfixturevalue("no_git")
        assert image_question.repository("jax") == {
            "folder": str(opt / "jax"),
            "head": head,
            "at": at,
            "branch": "main",
            "changed": None,
            "how": "files",
        }

    def test_packed_refs_are_read_without_git_and_the_time_of_a_packed_commit_is_not_known(
        self, opt: Path, request: pytest.FixtureRequest
    ) -> None:
        head = repository(opt / "jax")
        other = git(opt / "jax", *WHO, "commit-tree", "-m", "Two", "HEAD^{tree}")
        git(opt / "jax", "branch", "domain", other)  # its name ends like the other
        git(opt / "jax", "pack-refs", "--all")
        git(opt / "jax", "gc", "--quiet", "--prune=now")
        assert not (opt / "jax/.git/refs/heads/main").exists()
        request.getfixturevalue("no_git")
        said = image_question.repository("jax")
        assert (said["head"], said["at"], said["branch"], said["how"]) == (head, None, "main", "files")

    def test_a_detached_head_is_read_without_git(self, opt: Path, request: pytest.FixtureRequest) -> None:
        head = repository(opt / "jax")
        git(opt / "jax", "checkout", "--quiet", "--detach")
        request.getfixturevalue("no_git")
        said = image_question.repository("jax")
        assert (said["head"], said["branch"]) == (head, None)

    @pytest.mark.parametrize("text", ["", "ref: refs/heads/main\n", "nonsense\n"])
    def test_a_head_that_leads_nowhere_is_no_commit(
        self, opt: Path, text: str, request: pytest.FixtureRequest
    ) -> None:
        (opt / "jax/.git").mkdir(parents=True)
        (opt / "jax/.git/HEAD").write_text(text, encoding="utf-8")
        request.getfixturevalue("no_git")
        assert image_question.repository("jax")["head"] is None

    def test_a_git_that_fails_is_not_said_to_be_missing(self, opt: Path) -> None:
        """The commit is there by its files, its objects are gone: git is in the image and can't read it."""
        repository(opt / "jax")
        repository(opt / "xla")
        shutil.rmtree(opt / "jax/.git/objects")
        said = answers(image_question.repository("jax"), image_question.repository("xla"))
        _, notes = told(said)
        assert not [note for note in notes if "there is no git in the image" in note], notes

    def test_the_pin_is_read_from_sources(self) -> None:
        assert image_question.pinned(f'XLA_COMMIT = "{XLA}"\nXLA_SHA256 = "{"0" * 64}"\n') == XLA
        assert image_question.pinned('XLA_COMMIT = "main"') is None

    def test_a_program_of_its_own_prints_one_object(self, tmp_path: Path) -> None:
        """As in an image: alone, by its text, on the interpreter that is there."""
        text = Path(image_question.__file__).read_text(encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout)
        assert found["executable"] == sys.executable
        assert found["python"] == f"cpython {'.'.join(map(str, sys.version_info[:3]))}"
        assert {"repositories", "manifests", "pin", "wheel", "freeze", "system"} <= set(found)
        assert f"pytest=={pytest.__version__}" in found["freeze"]

    def test_what_was_cloned_is_read_before_what_was_meant_to_be(
        self, opt: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (opt / "manifest.d").mkdir()
        for name, commits in (("manifest.yaml", (OTHER, OTHER)), ("git-clone.yaml", (JAX, XLA))):
            text = manifest(jax=commits[0], xla=commits[1])
            (opt / "manifest.d" / name).write_text(text, encoding="utf-8")
        image_question.main()
        assert refs(json.loads(capsys.readouterr().out)) == (JAX, XLA)

    def test_the_commit_of_jaxlib_is_one_of_jax_and_never_that_of_xla(
        self,
        opt: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Its build writes JAX's HEAD into jaxlib/version.py: jaxlib is built from JAX's repository."""
        site = tmp_path / "site"
        for package, commit in (("jax", "None"), ("jaxlib", f"'{JAX}'")):
            (site / package).mkdir(parents=True)
            (site / package / "__init__.py").touch()
            text = f"_git_hash: str | None = {commit}\n"
            (site / package / "version.py").write_text(text, encoding="utf-8")
        pin = opt / "jax" / image_question.PINS[0]
        pin.parent.mkdir(parents=True)
        pin.write_text(f'XLA_COMMIT = "{XLA}"\n', encoding="utf-8")
        monkeypatch.syspath_prepend(str(site))
        (opt / "manifest.d").mkdir()
        (opt / "manifest.d/manifest.yaml").write_text(manifest(jax=JAX), encoding="utf-8")
        image_question.main()
        assert refs(json.loads(capsys.readouterr().out)) == (JAX, XLA)


# --- a night that is seen again ---------------------------------------------------------------------------------------


def night(of: Image | None = None, gap: str | None = None) -> Night:
    source = Source(kind=SourceKind.REGISTRY, name="nightlies")
    return Night(source=source, label="2024-02-10", at=NIGHT_AT, image=of, gap_reason=gap)


GONE = "not published: it is not in the registry"
PRUNED = (
    f"pruned: {REFERENCE} was in the registry when it was first seen (sha256:{'d' * 12}), and is no longer"
)
FIRST, SECOND = image("d", "d"), image("f", "f")
MOVED = (
    f"the tag {REFERENCE} moved: sha256:{'d' * 12} when it was first seen, now sha256:{'f' * 12};"
    " the first is what is measured"
)
STAYS = f"{REFERENCE} is no longer in the registry; what was measured of it stays"


@pytest.mark.parametrize(
    ("known", "now", "measured", "stored", "said"),
    [
        pytest.param(night(None, GONE), night(None, GONE), False, night(None, GONE), None, id="still a gap"),
        pytest.param(night(None, GONE), night(FIRST), False, night(FIRST), None, id="there by now"),
        pytest.param(night(FIRST), night(FIRST), False, night(FIRST), None, id="the same"),
        pytest.param(night(FIRST), night(SECOND), False, night(FIRST), MOVED, id="moved"),
        pytest.param(night(FIRST), night(SECOND), True, night(FIRST), MOVED, id="measured and moved"),
        pytest.param(night(FIRST), night(None, GONE), True, night(FIRST), STAYS, id="measured and gone"),
        pytest.param(night(FIRST), night(None, GONE), False, night(FIRST, PRUNED), None, id="pruned"),
        pytest.param(night(FIRST, PRUNED), night(None, GONE), False, night(FIRST, PRUNED), None, id="still"),
        pytest.param(night(FIRST, PRUNED), night(FIRST), False, night(FIRST), None, id="there again"),
        pytest.param(
            night(FIRST, PRUNED), night(FIRST), True, night(FIRST), None, id="measured, there again"
        ),
    ],
)
def test_a_night_that_is_seen_again(
    known: Night, now: Night, measured: bool, stored: Night, said: str | None
) -> None:
    assert seen_again(known, now, measured=measured) == (stored, said)


def test_what_was_pruned_unmeasured_and_is_published_anew_is_a_night_again() -> None:
    """Nothing was measured of the first, and nothing ever can be."""
    stored, _ = seen_again(night(FIRST, PRUNED), night(SECOND), measured=False)
    assert stored.gap_reason is None
    assert stored.image == SECOND


# --- pulls ------------------------------------------------------------------------------------------------------------


def pull(said: list[str] | None = None) -> Pull:
    return Pull(reference=REFERENCE, say=(said if said is not None else []).append)


def loading(current: int, total: int, layer: str = "a") -> dict[str, Any]:
    return {
        "status": "Downloading",
        "id": layer,
        "progressDetail": {"current": current * 2**20, "total": total * 2**20},
    }


class TestPull:
    @pytest.mark.parametrize(
        "text",
        [
            f"manifest for registry.example/nvidia/jax@sha256:{'d' * 64} not found: manifest unknown",
            "manifest unknown: manifest unknown to registry",
            "not found: manifest unknown: OCI index found, but\n Accept header does not support OCI indexes",
        ],
    )
    def test_an_error_line_of_a_manifest_that_is_gone_is_a_pruned_image(self, text: str) -> None:
        one = pull()
        one.read({"error": text, "errorDetail": {"message": text}})
        assert one.failure is not None
        assert one.failure.outcome is Outcome.IMAGE_MISSING
        assert one.failure.reason == (
            f"pruned: {REFERENCE} was in the registry when it was first seen, and is no longer"
        )
        assert one.failure.log == " ".join(text.split())

    def test_a_full_disk_may_pass_and_says_what_to_do(self) -> None:
        text = "failed to register layer: write /usr/lib/x.so: no space left on device"
        with pytest.raises(UnreachableError, match=r"no space is left .*make room \(stepwatch janitor"):
            pull().read({"error": text})

    @pytest.mark.parametrize("text", ["unexpected EOF", "received unexpected HTTP status: 502 Bad Gateway"])
    def test_any_other_error_may_pass(self, text: str) -> None:
        with pytest.raises(UnreachableError, match=f"{REFERENCE} can't be pulled: {text}"):
            pull().read({"error": text})

    def test_what_is_pulled_is_said_every_few_seconds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [100.0]
        monkeypatch.setattr("time.monotonic", lambda: clock[0])
        said: list[str] = []
        one = pull(said)
        one.read({"status": "Pulling from nvidia/jax", "id": "sha256:…"})
        one.read(loading(1, 100))
        for second in range(1, 13):
            clock[0] = 100.0 + second
            one.read(loading(10 * second, 100))
            one.read(loading(second, 1000, "b"))
            one.read({"status": "Extracting", "id": "c", "progressDetail": {"current": 5, "total": 9}})
            one.read({"status": "Waiting", "id": "d", "progressDetail": {}})
        assert said == [f"{REFERENCE}: 54 of 1,100 MiB pulled", f"{REFERENCE}: 109 of 1,100 MiB pulled"]
        assert one.failure is None

    def test_a_layer_of_which_nothing_is_here_yet_is_counted(self) -> None:
        """The engine leaves a number out where it is zero."""
        pull().read({"status": "Downloading", "id": "a", "progressDetail": {"total": 5 * 2**20}})


# --- containers -------------------------------------------------------------------------------------------------------

NOW = 1_700_000_000.0


def labels(owner: str | None = None, deadline: str = f"{NOW + 60:.0f}") -> dict[str, str]:
    return {
        engine.LABEL: "run",
        engine.OWNER: engine.owner() if owner is None else owner,
        engine.DEADLINE: deadline,
    }


@pytest.fixture
def ended() -> str:
    """The owner's label of a process that is over."""
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    stat = Path(f"/proc/{started.pid}/stat").read_text(encoding="utf-8")
    label = f"{socket.gethostname()} {started.pid} {stat.rsplit(')', 1)[1].split()[19]}"
    assert not engine.is_left(labels(label), NOW)
    started.communicate()
    return label


class TestLeft:
    def test_that_of_a_living_owner_is_not(self) -> None:
        assert not engine.is_left(labels(), NOW)

    def test_when_its_time_is_over_it_is_whoever_owns_it(self) -> None:
        for owner in (None, "elsewhere 1 1"):
            assert engine.is_left(labels(owner), NOW + 61)

    def test_when_its_owner_has_ended_it_is(self, ended: str) -> None:
        assert engine.is_left(labels(ended), NOW)

    def test_when_its_owners_number_is_another_process_by_now_it_is(self) -> None:
        host, number, _ = engine.owner().split(" ")
        assert engine.is_left(labels(f"{host} {number} 1"), NOW)

    def test_an_owner_on_another_host_is_not_known_to_have_ended(self) -> None:
        assert not engine.is_left(labels("elsewhere 4194305 1"), NOW)

    def test_one_that_says_no_time_is(self) -> None:
        said = labels()
        del said[engine.DEADLINE]
        assert engine.is_left(said, time.time())

    @pytest.mark.parametrize("owner", ["", "nonsense", f"{socket.gethostname()} many 1"])
    def test_an_owner_that_can_not_be_read_lives_until_the_time_is_over(self, owner: str) -> None:
        assert not engine.is_left(labels(owner), NOW)
        assert engine.is_left(labels(owner), NOW + 61)

    @pytest.mark.parametrize("deadline", ["", "soon", "nan"])
    def test_a_time_that_can_not_be_read_is_over(self, deadline: str) -> None:
        assert engine.is_left(labels("elsewhere 1 1", deadline), NOW)


def test_our_own_name_of_an_image_is_its_digest() -> None:
    assert engine.local_name(f"sha256:{'0123456789abcdef' * 4}") == (
        "stepwatch.local/night:0123456789abcdef0123456789abcdef"
    )
