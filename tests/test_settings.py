"""Is what docs/configuration.md says about settings true, and is every mistake one helpful sentence?"""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from stepwatch import settings as configuration
from stepwatch.sections import CLONE, CommitsSettings, RegistrySettings, RuleSettings
from stepwatch.settings import ConfigError, Settings, load

DOCUMENT = (CLONE / "docs" / "configuration.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)[-1]
ROW = re.compile(r"^\| `(?P<key>\w+)` \| (?P<default>.+?) \| `(?P<variable>STEPWATCH_\w+)` \| \S.* \|$")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in [each for each in os.environ if each.startswith("STEPWATCH_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(configuration, "CLONE", tmp_path)  # a stepwatch.toml of the clone's is not the tests'


def real_keys(section: type[BaseModel] | BaseModel, path: str = "") -> dict[str, object]:
    """Every key that can be set with its default; a free name is NAME, its defaults are a new section's."""
    found: dict[str, object] = {}
    model = section if isinstance(section, type) else type(section)
    for key, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, dict):
            found |= real_keys(type(next(iter(default.values()))), f"{path}{key}.NAME.")
        elif isinstance(default, BaseModel):
            found |= real_keys(default, f"{path}{key}.")
        else:
            found[path + key] = default
    return found


def documented_keys() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    path = ""
    for line in DOCUMENT.splitlines():
        if line.startswith("#"):
            heading = re.fullmatch(r"## `\[(.+)\]`(?: of kind `(\w+)`)?", line)
            path = f"{heading[1]}{f'({heading[2]})' if heading[2] else ''}." if heading else ""
        elif row := ROW.match(line):
            found[path + row["key"]] = (row["default"], row["variable"])
    return found


def written(default: object) -> str:
    """A default as the document writes it: as TOML, with the clone's folder as `<clone>`."""
    if default is None:
        return "not set"
    if isinstance(default, Path):
        return f"`{str(default).replace(str(CLONE), '<clone>')}`"
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return f"`{json.dumps(default, default=lambda section: section.model_dump(mode='json'))}`"


def test_documented_keys_and_defaults_are_the_real_ones() -> None:
    expected = {
        key: (written(default), "STEPWATCH_" + key.upper().replace(".", "__"))
        for key, default in real_keys(Settings).items()
    }
    expected |= {
        f"sources.NAME({kind}).{key}": (written(default), f"STEPWATCH_SOURCES__NAME__{key.upper()}")
        for kind, section in (("registry", RegistrySettings), ("commits", CommitsSettings))
        for key, default in real_keys(section).items()
    }
    assert documented_keys() == expected


def test_documented_keys_of_a_rule_are_the_real_ones() -> None:
    section = DOCUMENT.split("`[[rules]]`\n", 1)[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(RuleSettings.model_fields)


def test_documented_variables_that_are_no_keys_are_the_known_ones() -> None:
    section = DOCUMENT.split("## Variables that are no keys")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(STEPWATCH_\w+)`", section, re.MULTILINE)) == set(
        configuration.OTHER_VARIABLES
    )


def test_the_complete_example_is_complete_and_loads(tmp_path: Path) -> None:
    (tmp_path / "stepwatch.toml").write_text(EXAMPLE, encoding="utf-8")
    loaded = load().model_dump(mode="json")
    loaded["rules"] = [
        {key: value for key, value in rule.items() if value is not None} for rule in loaded["rules"]
    ]
    assert loaded == tomllib.loads(EXAMPLE)
    names = {"machines": "bench-1", "sources": "releases", "suites": "core"}
    for key in real_keys(Settings):
        value = loaded
        for part in key.replace("NAME", names.get(key.split(".")[0], "")).split("."):
            value = value[part]
        assert value is not None, key
    assert set(loaded["sources"]["nightly"]) == set(RegistrySettings.model_fields)
    assert set(loaded["sources"]["head"]) == set(CommitsSettings.model_fields)


def test_the_five_lines_of_the_readme_are_a_machine_with_a_gpu(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    lines = re.search(r"stepwatch\.toml`[^\n]*:\n\n((?: {4}\S.*\n)+)", text)
    assert lines is not None
    assert len(lines[1].splitlines()) == 5
    (tmp_path / "stepwatch.toml").write_text(lines[1], encoding="utf-8")
    loaded = load()
    own, nights = loaded.machines[loaded.machine], loaded.sources[loaded.source]
    assert (own.runner, own.devices, nights.kind) == ("docker", ("0",), "registry")


def test_nothing_has_to_be_set() -> None:
    assert load() == Settings()
    assert set(load().machines) == {"local"}


def test_a_variable_counts_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "stepwatch.toml").write_text(
        "[thresholds]\nconfirm_results = 2\nmin_effect = 0.01\n", encoding="utf-8"
    )
    monkeypatch.setenv("STEPWATCH_THRESHOLDS__CONFIRM_RESULTS", "5")
    monkeypatch.setenv("STEPWATCH_SOURCES__RELEASES__LADDER", '["0.4.30", "0.4.31"]')
    monkeypatch.setenv("STEPWATCH_SOURCES__RELEASES__OPTIONAL", '["xlb==0.3.1"]')
    monkeypatch.setenv("STEPWATCH_MACHINES__LOCAL__CORE", "1")
    loaded = load()
    assert (loaded.thresholds.confirm_results, loaded.thresholds.min_effect) == (5, 0.01)
    assert loaded.sources["releases"].ladder == ("0.4.30", "0.4.31")
    assert loaded.sources["releases"].optional == ("xlb==0.3.1",)
    assert loaded.machines["local"].core == 1


def test_a_relative_path_starts_at_its_file_or_where_the_variable_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "stepwatch.toml").write_text(
        "state = 'there'\ncache = '~/kept'\n[suites.mine]\nfolder = '../suite'\n[suites.core]\n",
        encoding="utf-8",
    )
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.setenv("STEPWATCH_CONFIG", "../stepwatch.toml")
    monkeypatch.setenv("HOME", "/home/me")
    loaded = load()
    assert (loaded.state, loaded.cache) == (tmp_path / "there", Path("/home/me/kept"))
    assert loaded.suites["mine"].folder.resolve() == tmp_path.parent / "suite"
    monkeypatch.setenv("STEPWATCH_STATE", "here")
    assert load().state == tmp_path / "below" / "here"


def test_the_named_file_is_read_in_place_of_the_one_at_hand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "stepwatch.toml").write_text("scheduled = true\n", encoding="utf-8")
    named = tmp_path / "other.toml"
    named.write_text("scheduled = false\n", encoding="utf-8")
    monkeypatch.setenv("STEPWATCH_CONFIG", str(named))
    assert load().scheduled is False


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("machine = \n", "not valid TOML: Invalid value (at line 1, column 11)"),
        ("lader = 3\n", "unknown key lader; accepted are bisection, cache, database_url,"),
        (
            "[thresholds]\nnoize = 0.1\n",
            "unknown key thresholds.noize; accepted are confirm_results, drift_change, min_effect, noise, suspect_change",
        ),
        (
            "[machines.gpu]\ncores = 1\n",
            "unknown key machines.gpu.cores; accepted are accelerator, autotuning, control_days, core,",
        ),
        (
            "[transports.slack]\nenable = true\n",
            "unknown key transports.slack.enable; accepted are base_url, channel, enabled, token",
        ),
        (
            "[suites.core]\nsize = 'big'\n",
            "suites.core.size = 'big' is not accepted; accepted is 'smoke' or 'full'",
        ),
        (
            "[thresholds]\nconfirm_results = 0\n",
            "thresholds.confirm_results = 0 is not accepted; accepted is greater than or equal to 1",
        ),
        (
            "[thresholds]\nnoise = 'low'\n",
            "thresholds.noise = 'low' is not accepted; accepted is a valid number",
        ),
        (
            "[transports.slack]\nenabled = true\ntoken = 'xoxb'\n",
            "transports.slack.enabled = True is not accepted with no channel; accepted is true together with",
        ),
        (
            "[transports.slack]\ntoken = 7\n",
            "transports.slack.token = … is not accepted; accepted is a valid",
        ),
        (
            "[suites.core]\nonly = '('\n",
            "suites.core.only = '(' is not accepted; accepted is a regular expression (missing )",
        ),
        (
            "[sources.releases]\nladder = []\n",
            "sources.releases.ladder = [] is not accepted; accepted is a list of at least 1",
        ),
        (
            "[[sources.releases.earlier_requirements]]\nuntil = '0.4.25'\nthrough = '0.4.25'\nrequirements = []\n",
            "unknown key sources.releases.earlier_requirements.0.until; accepted are requirements, through",
        ),
        (
            "[[sources.releases.earlier_requirements]]\nthrough = '0.4.25rc1'\nrequirements = []\n",
            "sources.releases.earlier_requirements.0.through = '0.4.25rc1' is not accepted; accepted is",
        ),
        ("[[rules]]\nmin_effect = 0.1\n", "rules.0 has no match, which must be there"),
        (
            "[[rules]]\nmatch = '('\n",
            "rules.0.match = '(' is not accepted; accepted is a regular expression (missing )",
        ),
        (
            "[[rules]]\nmatch = 'a'\nmuted = true\n",
            "unknown key rules.0.muted; accepted are confirm_results, direction, drift_change, match, min_effect, mute,",
        ),
        (
            "[thresholds]\nsuspect_change = inf\n",
            "thresholds.suspect_change = inf is not accepted; accepted is",
        ),
        (
            "[machines.local]\nautotuning = '~nobody-here/x'\n",
            "machines.local.autotuning = '~nobody-here/x' is not",
        ),
        ("thresholds = 3\n", "thresholds = 3 is not accepted; accepted is a valid table"),
        ("[sources.Big]\n", "the name 'Big' in sources is not accepted; accepted are a-z, 0-9, _, . and -"),
        ("machine = 'gpu'\n", "machine = 'gpu' is not configured; accepted is one of local"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "stepwatch.toml"
    file.write_text(text, encoding="utf-8")
    assert mistake().startswith(f"{file}: {sentence}")


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        (
            "STEPWATCH_TRESHOLDS__NOISE",
            "1",
            "STEPWATCH_TRESHOLDS__NOISE sets no known key; accepted is STEPWATCH_ with",
        ),
        ("STEPWATCH_THRESHOLDS__NOIZE", "1", "unknown key thresholds.noize; accepted are confirm_results,"),
        (
            "STEPWATCH_THRESHOLDS__CONFIRM_RESULTS",
            "0",
            "thresholds.confirm_results = '0' is not accepted; accepted is greater than or equal to 1",
        ),
        (
            "STEPWATCH_SOURCES__RELEASES__LADDER",
            "0.4.30",
            "STEPWATCH_SOURCES__RELEASES__LADDER = '0.4.30' is not accepted; accepted is JSON, a list as '[",
        ),
        ("STEPWATCH_SCHEDULED", "maybe", "scheduled = 'maybe' is not accepted; accepted is a valid boolean"),
        ("STEPWATCH_MACHINE", "gpu", "machine = 'gpu' is not configured; accepted is one of local"),
    ],
)
def test_a_mistake_in_a_variable_is_one_sentence_even_where_the_file_has_the_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, sentence: str
) -> None:
    (tmp_path / "stepwatch.toml").write_text(
        "machine = 'local'\n[thresholds]\nconfirm_results = 2\n", encoding="utf-8"
    )
    monkeypatch.setenv(variable, value)
    assert mistake().startswith(f"the environment: {sentence}")


def test_a_named_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPWATCH_CONFIG", str(tmp_path / "none.toml"))
    assert mistake() == f"{tmp_path / 'none.toml'}: no such file (STEPWATCH_CONFIG names it)"


def mistake() -> str:
    with pytest.raises(ConfigError) as raised:
        load()
    sentence = str(raised.value)
    assert "\n" not in sentence
    return sentence
