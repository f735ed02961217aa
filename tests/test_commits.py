"""Are commits of a real repository built, measured and named, without a container?

The repository is made up: a package `jax` whose one figure each commit sets. What stands beside it is a released jaxlib.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy.engine import URL
from worlds import ask, one_schema

from stepwatch.cli import entry
from stepwatch.cli.entry import command
from stepwatch.core.model import JAX, XLA, CommitPair, Outcome, Pairing, Revision
from stepwatch.runners import commits, releases
from stepwatch.runners.checkouts import CheckoutRunner
from stepwatch.runners.commits import CommitNights
from stepwatch.runners.local import LocalRunner
from stepwatch.runners.protocol import Failure, Opened, UnreachableError
from stepwatch.runners.repositories import Mirror
from storage.rows import Database

JAXLIB = "0.4.31"
PACKAGE = """
__version__ = "0.4.99"
COST = {cost}


class Device:
    platform = device_kind = "cpu"


def devices():
    return [Device()]
"""
SETUP = "from setuptools import setup\nsetup(name='jax', version='0.4.99', packages=['jax'])\n"
# a worker in the place of benchmarks/worker.py, whose one benchmark measures nothing
WORKER = """
import json, os
from pathlib import Path
import jax, jaxlib

blocks = [float(jax.COST)] * 3
metric = {"metric": "cpu_time", "unit": "s", "better": "lower", "judged": True, "blocks": blocks}
Path(os.environ["STEPWATCH_OUT"]).write_text(json.dumps({
    "document": 1, "protocol": "1", "suite": "benchmarks", "size": "smoke", "seed": 0,
    "loaded": {
        "jax": jax.__version__, "jax_file": jax.__file__,
        "jaxlib": jaxlib.__version__, "jaxlib_file": jaxlib.__file__,
    },
    "device": {"platform": "cpu", "kind": "cpu", "count": 1}, "settings": {}, "warnings": [],
    "benchmarks": [{
        "name": "costs.Cost.track_time", "version": "1", "params": {}, "status": "ok", "reason": None,
        "compile_s": 0.1, "metrics": [metric], "hashes": {},
    }],
}))
"""


@dataclass
class Repository:
    """A repository that grows by commits of one figure each; `made` has their hashes by their subjects."""

    folder: Path
    made: dict[str, str] = field(default_factory=dict)

    def git(self, *words: str, at: str = "2023-12-05T00:00") -> str:
        dates = {f"GIT_{each}_DATE": f"{at}:00Z" for each in ("COMMITTER", "AUTHOR")}
        person = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        done = subprocess.run(
            ["git", *person, *words],
            cwd=self.folder,
            env={**os.environ, **dates},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, subject: str, at: str, **files: str) -> None:
        for name, text in files.items():
            file = self.folder / {"package": "jax/__init__.py", "setup": "setup.py", "doc": "README"}[name]
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject, at=at)
        self.made[subject] = self.git("rev-parse", "HEAD")

    def merge(self, branch: str, subject: str, at: str) -> None:
        self.git("merge", "--quiet", "--no-ff", "-m", subject, branch, at=at)
        self.made[subject] = self.git("rev-parse", "HEAD")


def cost(figure: float) -> str:
    return PACKAGE.format(cost=figure)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Three steps: a commit, one beside a build that is broken, and one that a merge brings."""
    made = Repository(tmp_path_factory.mktemp("made_up") / "jax")
    made.folder.mkdir()
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit("begin", "2023-12-05T10:00", package=cost(1.0), setup=SETUP)
    made.commit("words", "2023-12-06T09:10", doc="more")
    made.commit("slower", "2023-12-06T09:20", package=cost(1.5))
    made.commit("broken", "2023-12-06T15:00", setup="raise SystemExit('no compiler')\n")
    made.commit("repaired", "2023-12-06T15:30", setup=SETUP, package=cost(3.0))
    made.commit("later", "2023-12-08T11:00", doc="still more")
    made.git("checkout", "--quiet", "-b", "side")
    made.commit("aside", "2023-12-08T12:00", package=cost(6.0))
    made.commit("also aside", "2023-12-08T13:00", doc="aside")
    made.git("checkout", "--quiet", "main")
    made.commit("a clock that goes wrong", "2023-12-07T08:00", setup=SETUP + "#\n")
    made.merge("side", "merged", "2023-12-08T20:10")
    made.commit("end", "2023-12-09T12:00", doc="end")
    return made


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


@pytest.fixture(autouse=True)
def _one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks an index which jaxlib there is; wheels are real."""
    revision = Revision(repository=XLA, ref=JAXLIB, committed_at=dt.datetime(2023, 1, 1, tzinfo=dt.UTC))
    known = {JAXLIB: releases.Release(revision=revision, yanked=False)}
    monkeypatch.setattr(commits, "released", lambda _: known)


@pytest.fixture(scope="module")
def nights(repository: Repository, builds: Path) -> CommitNights:
    mirror = Mirror(repository=JAX, url=str(repository.folder), folder=builds / "jax.git")
    return CommitNights(name="commits", mirrors={JAX: mirror}, fixed={XLA: JAXLIB})


class TestNights:
    def test_a_day_is_the_main_line_at_its_end(self, nights: CommitNights, repository: Repository) -> None:
        for day, subject in (
            ("2023-12-05", "begin"),
            ("2023-12-06", "repaired"),
            ("2023-12-07", "repaired"),
            ("2023-12-08", "merged"),
        ):
            night = nights.night(day)
            assert night is not None
            assert night.pair is not None
            assert (night.pair.jax.ref, night.pair.xla.ref) == (repository.made[subject], JAXLIB)
            assert night.at == dt.datetime.fromisoformat(f"{day}T00:00Z") + dt.timedelta(days=1)

    def test_a_day_that_is_not_over_or_has_nothing_is_none(self, nights: CommitNights) -> None:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        assert nights.night(today) is None
        assert nights.night("0.4.31") is None
        before = nights.night("2023-12-01")
        assert before is not None
        assert before.gap_reason is not None
        assert before.gap_reason.startswith("jax has no commit on its main line before 2023-12-02")

    def test_the_path_is_the_line_of_first_parents(
        self, nights: CommitNights, repository: Repository
    ) -> None:
        good, bad = (nights.night(day) for day in ("2023-12-05", "2023-12-09"))
        assert good is not None
        assert bad is not None
        path = nights.path(pair(good.pair), pair(bad.pair), Pairing.CLOCK)
        assert not isinstance(path, str)
        names = {ref: subject for subject, ref in repository.made.items()}
        assert [(names[each.pair.jax.ref], each.hour and f"{each.hour:%d %H}") for each in path] == [
            ("begin", "05 10"),
            ("words", None),
            ("slower", "06 09"),
            ("broken", None),
            ("repaired", "06 15"),
            ("later", None),
            ("a clock that goes wrong", "08 11"),
            ("merged", "08 20"),
            ("end", "09 12"),
        ]

    def test_what_it_says_of_a_commit(self, nights: CommitNights, repository: Repository) -> None:
        nights.night("2023-12-05")
        info = nights.info(JAX, repository.made["slower"])
        assert info is not None
        assert (info.author, info.subject, info.url) == ("Ada", "slower", None)
        assert nights.info(XLA, JAXLIB) is None

    @pytest.mark.parametrize(
        ("jax", "xla", "sentence"),
        [
            ("nothing", JAXLIB, "jax has no commit 'nothing'; accepted is a hash, tag or branch of "),
            ("main", "0.4.30", "jaxlib 0.4.30 is not 0.4.31, at which it is held still"),
        ],
    )
    def test_no_such_pair(self, nights: CommitNights, jax: str, xla: str, sentence: str) -> None:
        found = nights.pair(jax, xla)
        assert isinstance(found, str)
        assert found.startswith(sentence)

    def test_nothing_is_pinned_beside_a_release(self, nights: CommitNights, repository: Repository) -> None:
        ends = [nights.pair(repository.made[each], JAXLIB) for each in ("begin", "end")]
        found = nights.path(pair(ends[0]), pair(ends[1]), Pairing.PINNED)
        assert found == "with a repository held still nothing is pinned; accepted is pairing clock"

    def test_without_its_repository_a_mirror_is_used_as_it_is(
        self, nights: CommitNights, repository: Repository
    ) -> None:
        nights.mirrors[JAX].fetch()
        gone = replace(nights.mirrors[JAX], url=str(repository.folder / "gone"))
        said: list[str] = []
        again = replace(nights, mirrors={JAX: gone}, say=said.append)
        assert again.night("2023-12-05") is not None
        assert said[-1].endswith("its mirror is used as it is")
        empty = replace(nights, mirrors={JAX: replace(gone, folder=gone.folder.parent / "none")})
        with pytest.raises(UnreachableError, match="can't be read"):
            empty.night("2023-12-05")


def test_pinned_pairs_of_two_repositories(tmp_path: Path) -> None:
    xla = Repository(tmp_path / "xla")
    jax = Repository(tmp_path / "jax")
    for each in (xla, jax):
        each.folder.mkdir()
        each.git("init", "--quiet", "--initial-branch=main")
    for number in range(4):
        xla.commit(f"x{number}", f"2024-01-01T0{number}:30", doc=str(number))
    for number, pinned in ((0, "x0"), (1, "x0"), (2, "x2"), (3, "x2")):
        file = jax.folder / "third_party/xla/revision.bzl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'XLA_COMMIT = "{xla.made[pinned]}"\n', encoding="utf-8")
        jax.commit(f"j{number}", f"2024-01-01T0{number + 1}:00", doc=str(number))
    nights = CommitNights(
        name="commits",
        mirrors={
            name: Mirror(repository=name, url=str(each.folder), folder=tmp_path / f"{name}.git")
            for name, each in ((JAX, jax), (XLA, xla))
        },
        fixed={},
    )
    good = pair(nights.pair(jax.made["j0"], xla.made["x0"]))
    bad = pair(nights.pair(jax.made["j3"], xla.made["x3"]))
    names = {ref: subject for made in (jax.made, xla.made) for subject, ref in made.items()}

    def path(pairing: Pairing) -> str:
        found = nights.path(good, bad, pairing)
        assert not isinstance(found, str)
        return " ".join(names[each.pair.jax.ref] + names[each.pair.xla.ref] for each in found)

    assert path(Pairing.CLOCK) == "j0x0 j0x1 j1x1 j1x2 j2x2 j2x3 j3x3"
    assert path(Pairing.PINNED) == "j0x0 j1x0 j1x1 j1x2 j2x2 j3x2 j3x3"


@pytest.fixture
def runner(nights: CommitNights, builds: Path) -> CheckoutRunner:
    nights.mirrors[JAX].fetch()
    local = LocalRunner(
        environments=builds / "environments",
        python=["3.11", "3.12", "3.13"],
        requirements=[],
        lock=builds / "machine.lock",
    )
    return CheckoutRunner(local=local, mirror=nights.mirrors[JAX], builds=builds / "wheels")


class TestCheckouts:
    def test_a_commit_is_installed_as_it_is(
        self, runner: CheckoutRunner, nights: CommitNights, repository: Repository
    ) -> None:
        opened = runner.open(pair(nights.pair(repository.made["slower"], JAXLIB)))
        assert isinstance(opened, Opened)
        assert {"jax==0.4.99", f"jaxlib=={JAXLIB}"} <= set(opened.environment.freeze)
        (package,) = opened.folder.glob("lib/python*/site-packages/jax/__init__.py")
        assert "COST = 1.5" in package.read_text(encoding="utf-8")
        (wheel,) = (runner.builds / repository.made["slower"]).glob("*.whl")
        built = wheel.stat().st_mtime_ns
        assert runner.open(opened.environment.pair) == opened
        assert wheel.stat().st_mtime_ns == built

    def test_what_does_not_build_is_a_failure(
        self, runner: CheckoutRunner, nights: CommitNights, repository: Repository
    ) -> None:
        found = runner.open(pair(nights.pair(repository.made["broken"], JAXLIB)))
        assert isinstance(found, Failure)
        assert found.outcome is Outcome.BUILD_FAILED
        assert found.reason.endswith(" does not build: no compiler")
        assert {each.name for each in runner.builds.iterdir()} <= {
            "lock",
            JAX,
            f"{JAX}.lock",
            *repository.made.values(),
        }

    def test_a_commit_of_xla_can_not_be_built_here(
        self, runner: CheckoutRunner, nights: CommitNights
    ) -> None:
        jax = pair(nights.pair("main", JAXLIB)).jax
        xla = Revision(repository=XLA, ref="1" * 40, committed_at=jax.committed_at)
        found = runner.open(CommitPair(jax=jax, xla=xla))
        assert isinstance(found, Failure)
        assert found.reason.startswith("xla@111111111111 can't be built here; accepted is a released jaxlib")

    def test_a_wheel_of_other_sources_is_stale(
        self,
        runner: CheckoutRunner,
        nights: CommitNights,
        repository: Repository,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        real = Mirror.checkout

        def meddle(self: Mirror, ref: str, folder: Path) -> str | None:
            done = real(self, ref, folder)
            (folder / "setup.py").write_text(
                "open('jax/__init__.py', 'a').write('#')\n" + SETUP, encoding="utf-8"
            )
            return done

        monkeypatch.setattr(Mirror, "checkout", meddle)
        found = runner.open(pair(nights.pair(repository.made["later"], JAXLIB)))
        assert isinstance(found, Failure)
        assert (found.outcome, found.reason.rpartition(": ")[2]) == (
            Outcome.STALE_BUILD,
            "__init__.py differ",
        )

    def test_environments_that_nobody_uses_go(
        self, runner: CheckoutRunner, nights: CommitNights, repository: Repository
    ) -> None:
        opened = runner.open(pair(nights.pair(repository.made["end"], JAXLIB)))
        assert isinstance(opened, Opened)
        assert runner.tidy([]) == []
        os.utime(opened.folder / "stepwatch.json", (0, 0))
        assert runner.tidy([]) == [str(opened.folder)]
        assert not opened.folder.exists()


@pytest.fixture(scope="module")
def schema(database_server: URL) -> Iterator[Database]:
    with one_schema(database_server) as opened:
        yield opened


def test_every_culprit_of_a_range_is_named(
    repository: Repository, schema: Database, tmp_path: Path, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = tmp_path / "suite"
    (suite / "benchmarks").mkdir(parents=True)
    (suite / "benchmarks/__init__.py").touch()
    (suite / "benchmarks/worker.py").write_text(WORKER, encoding="utf-8")
    config = tmp_path / "stepwatch.toml"
    config.write_text(
        f'state = "{tmp_path / "state"}"\ncache = "{builds / "cache"}"\nsuite = "mine"\n'
        f'[suites.mine]\nfolder = "{suite}"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("STEPWATCH_CONFIG", str(config))
    monkeypatch.setenv("STEPWATCH_DATABASE_URL", schema.url.render_as_string(hide_password=False))

    def bisect(*words: str) -> dict[str, Any]:
        asked = ("--repo", f"jax={repository.folder}", "--fix", f"xla=jaxlib=={JAXLIB}")
        named = ("--benchmark", "costs.Cost.track_time", *words, "--json")
        done = CliRunner().invoke(command, ["bisect", "start", *asked, *named], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    made = repository.made
    planned = bisect("--good", "2023-12-05", "--bad", "2023-12-09", "--dry-run")
    assert (planned["candidates"], planned["good"]["jax"]) == (9, made["begin"])
    assert ask(schema, "select count(*) from run") == [(0,)]

    found = bisect("--good", "2023-12-05", "--bad", "2023-12-09")
    assert [(one["kind"], one["commit"], one["after"], one["through"]) for one in found["culprits"]] == [
        ("commit", made["slower"], made["words"], made["slower"]),
        ("range", None, made["slower"], made["repaired"]),
        ("commit", made["merged"], made["a clock that goes wrong"], made["merged"]),
    ]
    slower, repaired, _ = found["culprits"]
    assert (slower["author"], slower["subject"]) == ("Ada", "slower")
    assert slower["change"] == pytest.approx(0.5)
    assert "none of the 1 between can be measured" in repaired["reason"]
    verdicts = {each["jax"]: each["verdict"] for each in found["probes"]}
    assert verdicts[made["broken"]] == "broken"

    # a range of one merge alone is searched in what it brought
    before = f"jax@{made['a clock that goes wrong']}+xla@{JAXLIB}"
    inside = bisect("--good", before, "--bad", f"jax@{made['merged']}+xla@{JAXLIB}")
    assert [one["commit"] for one in inside["culprits"]] == [made["aside"]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--repo", "jax"), "Error: --repo 'jax' is not accepted; accepted is jax=PATH, or jax=URL"),
        (("--repo", "zla=."), "there is no repository 'zla'; accepted are jax, xla"),
        (("--fix", "jaxlib==1"), "fix = 'jaxlib==1' is not accepted; accepted is xla=jaxlib==0.4.20, or"),
        (
            ("--fix", "xla=jaxlib==0.4.20", "--source", "releases"),
            "the source releases is of kind releases; fix goes with one of kind commits",
        ),
        (
            ("--source", "commits"),
            "sources.commits holds no XLA still, and XLA is built in containers alone; accepted is fix =",
        ),
        (
            ("--fix", f"xla=jaxlib=={JAXLIB}", "--pairing", "pinned"),
            "with a repository held still nothing is",
        ),
        (("--fix", "xla=jaxlib==9.9"), "2023-12-05 can't be an end: jaxlib 9.9 was never released"),
        (
            ("--fix", f"xla=jaxlib=={JAXLIB}", "--good", "2023-12-08T00"),
            "commits has no night '2023-12-08T00'",
        ),
    ],
)
def test_what_is_refused_in_one_sentence(
    repository: Repository,
    schema: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    sentence: str,
) -> None:
    config = tmp_path / "stepwatch.toml"
    config.write_text(
        f'cache = "{tmp_path / "cache"}"\n[repositories.jax]\nurl = "{repository.folder}"\n', encoding="utf-8"
    )
    monkeypatch.setenv("STEPWATCH_CONFIG", str(config))
    monkeypatch.setenv("STEPWATCH_DATABASE_URL", schema.url.render_as_string(hide_password=False))
    asked = ["bisect", "start", "--benchmark", "b", "--good", "2023-12-05", "--bad", "2023-12-09", *words]
    monkeypatch.setattr("sys.argv", ["stepwatch", *asked])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 1
    assert sentence in capsys.readouterr().err.splitlines()[-1]
    assert ask(schema, "select count(*) from bisection where good = '2023-12-08T00'") == [(0,)]


def pair(found: CommitPair | str | None) -> CommitPair:
    assert isinstance(found, CommitPair), found
    return found
