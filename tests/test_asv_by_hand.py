"""Do asv's own commands work from a clone, with a pair as the commit?"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from asv.config import Config
from asv.plugin_manager import plugin_manager
from asv.repo import NoSuchNameError, get_repo
from asv.util import UserError
from test_benchmarks import install_release

from stepwatch.core.model import pair_id
from stepwatch.runners.asv_pairs import PairRepo

ROOT = Path(__file__).parent.parent
OLD, NEW = "jax@0.10.1+xla@0.10.1", "jax@0.10.2+xla@0.10.2"
OLD_HASH, NEW_HASH = pair_id("0.10.1", "0.10.1"), pair_id("0.10.2", "0.10.2")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "made" / "pairs.json"


@pytest.fixture
def repo(ledger: Path) -> PairRepo:
    """Two pairs: the newer one was entered first, and the text of its time sorts first too."""
    repo = PairRepo(str(ledger), "stepwatch")
    repo.get_hash_from_name(NEW)
    repo.get_hash_from_name(OLD)
    document = json.loads(ledger.read_text())
    document["pairs"][OLD_HASH]["at"] = "2026-05-01T01:00:00+02:00"
    document["pairs"][NEW_HASH]["at"] = "2026-05-01T00:00:00+00:00"
    ledger.write_text(json.dumps(document))
    return repo


def test_a_pair_enters_the_ledger_once_with_its_time(ledger: Path) -> None:
    repo = PairRepo(str(ledger), "stepwatch")
    before = dt.datetime.now(dt.UTC)
    assert repo.get_hash_from_name(NEW) == NEW_HASH
    text = ledger.read_text()
    assert repo.get_hash_from_name(NEW) == NEW_HASH
    assert ledger.read_text() == text
    at = dt.datetime.fromtimestamp(repo.get_date(NEW_HASH) / 1000, dt.UTC)
    assert abs(at - before) < dt.timedelta(minutes=1)
    assert list(ledger.parent.iterdir()) == [ledger]


def test_names(repo: PairRepo) -> None:
    assert repo.get_hash_from_name(NEW_HASH[:8]) == NEW_HASH
    assert repo.get_name_from_hash(NEW_HASH) == NEW
    assert repo.get_decorated_hash(NEW_HASH) == f"{NEW_HASH[:8]} <{NEW}>"
    assert repo.get_name_from_hash("0" * 40) is None
    assert repo.get_tags() == {OLD: OLD_HASH, NEW: NEW_HASH}


@pytest.mark.parametrize("name", ["jax@0.10.2", "jax@+xla@0.10.2", "0.10.2", "0" * 40, ""])
def test_what_is_no_pair_is_refused(name: str, repo: PairRepo, ledger: Path) -> None:
    text = ledger.read_text()
    with pytest.raises(NoSuchNameError):
        repo.get_hash_from_name(name)
    assert ledger.read_text() == text


def test_pairs_are_ordered_by_their_times(repo: PairRepo) -> None:
    assert repo.get_hash_from_name(None) == NEW_HASH
    assert repo.get_branch_commits(None) == [NEW_HASH, OLD_HASH]
    assert repo.get_revisions([OLD_HASH, NEW_HASH]) == {OLD_HASH: 0, NEW_HASH: 1}
    assert repo.get_hash_from_parent(NEW) == OLD_HASH
    assert repo.get_date(NEW_HASH) == repo.get_date_from_name(NEW) == 1_777_593_600_000
    with pytest.raises(NoSuchNameError):
        repo.get_hash_from_parent(OLD)


def test_ranges_are_half_open(repo: PairRepo) -> None:
    between = repo.get_range_spec(OLD_HASH, NEW_HASH)
    assert repo.get_hashes_from_range(between) == [NEW_HASH]
    assert repo.get_hashes_from_range(repo.get_new_range_spec(OLD)) == [NEW_HASH]
    assert repo.get_hashes_from_range(f"{OLD}^!") == [OLD_HASH]
    assert repo.get_hashes_from_range("") == repo.get_hashes_from_range(NEW) == [NEW_HASH, OLD_HASH]


def test_an_empty_and_a_torn_ledger(ledger: Path) -> None:
    repo = PairRepo(str(ledger), "stepwatch")
    assert repo.get_tags() == {}
    with pytest.raises(NoSuchNameError):
        repo.get_hash_from_name(None)
    ledger.parent.mkdir()
    ledger.write_text('{"pairs": {"a": {}}}')
    with pytest.raises(UserError, match="is no ledger of pairs"):
        repo.get_tags()


def test_the_committed_configuration_finds_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    configuration = Config.load()
    for plugin in configuration.plugins:
        plugin_manager.import_plugin(plugin)
    assert isinstance(get_repo(configuration), PairRepo)
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert ".asv/" in ignored
    paths = (configuration.repo, configuration.results_dir, configuration.html_dir)
    assert all(path.startswith(".asv/") for path in paths)


@pytest.mark.install
def test_run_compare_and_publish(tmp_path: Path) -> None:
    clone, home = tmp_path / "clone", tmp_path / "home"
    home.mkdir()
    for name in ("benchmarks", "stepwatch"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "asv.conf.json", clone)
    (clone / ".asv").mkdir()
    (clone / ".asv" / "environment").symlink_to(install_release().parent.parent)

    def asv(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "asv", *arguments],
            cwd=clone,
            env={**os.environ, "HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    asv(
        "machine",
        "--yes",
        "--machine",
        "here",
        "--os",
        "",
        "--arch",
        "",
        "--cpu",
        "",
        "--num_cpu",
        "",
        "--ram",
        "",
    )
    run = ("run", "-E", "existing:.asv/environment/bin/python", "--machine", "here", "--record-samples")
    for pair in (OLD, NEW):
        asv(*run, "--set-commit-hash", pair, "--bench", "RankEight")
    results = [
        json.loads(path.read_text()) for path in (clone / ".asv/results/here").glob("*-existing-*.json")
    ]
    assert {result["commit_hash"] for result in results} == {OLD_HASH, NEW_HASH}
    for result in results:
        row = dict(
            zip(result["result_columns"], result["results"]["reductions.RankEight.track_time"], strict=False)
        )
        assert row["version"] == "1"
        assert all(value > 0 for value in row["result"])
        assert all(len(samples) >= 3 for samples in row["samples"])

    compared = asv("compare", OLD, NEW)
    assert "reductions.RankEight.track_time(4)" in compared
    assert "n/a" not in compared
    asv("publish")
    index = json.loads((clone / ".asv/html/index.json").read_text())
    assert index["tags"] == {OLD: 0, NEW: 1}
    assert index["benchmarks"]["reductions.RankEight.track_time"]["unit"] == "s"
    (graph,) = (clone / ".asv/html/graphs").rglob("branch-pairs/**/reductions.RankEight.track_time.json")
    assert [revision for revision, _ in json.loads(graph.read_text())] == [0, 1]


@pytest.mark.install
def test_asv_finds_exactly_what_the_worker_finds(tmp_path: Path) -> None:
    python = install_release()
    found = tmp_path / "found.json"
    program = "import sys; from asv_runner.discovery import _discover; _discover(sys.argv[1:])"
    subprocess.run([python, "-c", program, str(ROOT / "benchmarks"), str(found)], check=True, cwd=tmp_path)
    by_asv = {(one["name"], one["version"], one["unit"]) for one in json.loads(found.read_text())}
    program = (
        "import json; from benchmarks import worker;"
        "print(json.dumps([(worker.name_of(k), k.version, k.unit) for k, _ in worker.find_cases()]))"
    )
    done = subprocess.run([python, "-c", program], check=True, cwd=ROOT, capture_output=True, text=True)
    by_worker = {tuple(one) for one in json.loads(done.stdout)}
    assert by_asv == by_worker
    assert len(by_asv) >= 70
