"""What can be set, and what holds where nothing is?

`stepwatch.toml` in the working folder (or the file that `STEPWATCH_CONFIG` names), environment variables over it:
`STEPWATCH_THRESHOLDS__CONFIRM_RESULTS=5` is `confirm_results = 5` in `[thresholds]`. docs/configuration.md says what
each key means; a test holds the two together.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from stepwatch.sections import (
    CLONE,
    KINDS,
    SECTIONS,
    BisectionSettings,
    MachineSettings,
    Name,
    ReleasesSettings,
    RepositoriesSettings,
    RuleSettings,
    Section,
    ShadowSettings,
    SourceSettings,
    SuiteSettings,
    ThresholdSettings,
    TransportSettings,
    kind_of,
)

FILE_NAME = "stepwatch.toml"


class ConfigError(Exception):
    """A mistake in the configuration; the message names the file, the key and what is accepted."""


class Settings(BaseSettings):
    """Everything that can be set. Nothing has to be."""

    model_config = SettingsConfigDict(
        env_prefix="STEPWATCH_", env_nested_delimiter="__", extra="forbid", frozen=True, toml_file=None
    )

    database_url: str | None = None
    state: Path = CLONE / ".stepwatch"
    cache: Path = CLONE / ".stepwatch" / "cache"
    scheduled: bool = True
    machine: Name = "local"
    source: Name = "releases"
    suite: Name = "core"
    machines: dict[Name, MachineSettings] = {"local": MachineSettings()}
    sources: dict[Name, SourceSettings] = {"releases": ReleasesSettings()}
    suites: dict[Name, SuiteSettings] = {"core": SuiteSettings()}
    thresholds: ThresholdSettings = ThresholdSettings()
    rules: tuple[RuleSettings, ...] = ()
    shadow: ShadowSettings = ShadowSettings()
    bisection: BisectionSettings = BisectionSettings()
    repositories: RepositoriesSettings = RepositoriesSettings()
    transports: TransportSettings = TransportSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment variables over the file, and nothing else."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, config_file())


def config_file() -> Path | None:
    """The file that is read: `STEPWATCH_CONFIG`, else `stepwatch.toml` in the working folder or in the clone."""
    named = os.environ.get("STEPWATCH_CONFIG")
    if named:
        return Path(named)
    return next((file for file in (Path.cwd() / FILE_NAME, CLONE / FILE_NAME) if file.is_file()), None)


def load() -> Settings:
    """The settings that are in force.

    Raises:
        ConfigError: one sentence with the file (or the environment variable), the key and what is accepted.
    """
    file = config_file()
    if file is not None and not file.is_file():
        raise ConfigError(f"{file}: no such file (STEPWATCH_CONFIG names it)")
    _refuse_bad_toml(file)
    _refuse_unknown_variables()
    try:
        settings = Settings()
    except ValidationError as error:
        raise ConfigError(_sentence(error, file)) from None
    except SettingsError as error:
        written = getattr(error.__cause__, "doc", "")
        named = next((key for key in os.environ if os.environ[key] == written), "STEPWATCH_…")
        raise ConfigError(
            f"the environment: {named} = {written!r} is not accepted; "
            f"""accepted is JSON, a list as '["0.4.30", "0.4.31"]' for one"""
        ) from None
    for key, choices in (
        ("machine", settings.machines),
        ("source", settings.sources),
        ("suite", settings.suites),
    ):
        if getattr(settings, key) not in choices:
            raise ConfigError(
                f"{_place([key], file)}: {key} = {getattr(settings, key)!r} is not configured; "
                f"accepted is one of {', '.join(sorted(choices))}"
            )
    slack = settings.transports.slack
    if slack.enabled and not (slack.token and slack.channel):
        missing = "token" if not slack.token else "channel"
        raise ConfigError(
            f"{_place(['transports', 'slack', 'enabled'], file)}: transports.slack.enabled = True is not accepted "
            f"with no {missing}; accepted is true together with a token and a channel"
        )
    return _anchored(settings, file)


def _anchored(settings: Settings, file: Path | None) -> Settings:
    """The same with whole paths: `~` is home; a relative one starts at the file that has it, else where we are."""

    def whole(path: Path, *location: str) -> Path:
        in_file = file is not None and _place([*location], file) == str(file)
        base = file.resolve().parent if file is not None and in_file else Path.cwd()
        try:
            return base / path.expanduser()
        except RuntimeError:
            raise ConfigError(
                f"{_place([*location], file)}: {'.'.join(location)} = {str(path)!r} is not accepted; accepted is a path"
            ) from None

    suites = {
        name: suite.model_copy(update={"folder": whole(suite.folder, "suites", name, "folder")})
        for name, suite in settings.suites.items()
    }
    machines = {
        name: machine.model_copy(
            update={"autotuning": whole(machine.autotuning, "machines", name, "autotuning")}
        )
        if machine.autotuning
        else machine
        for name, machine in settings.machines.items()
    }
    own = {
        "state": whole(settings.state, "state"),
        "cache": whole(settings.cache, "cache"),
        "machines": machines,
        "suites": suites,
    }
    return settings.model_copy(update=own)


def _refuse_bad_toml(file: Path | None) -> None:
    try:
        if file is not None:
            tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from None


# what is never shown
SECRETS = re.compile(r"database_url|transports\.slack\.token|sources\..+\.password")
# variables that stepwatch itself reads or sets, and that are no settings
OTHER_VARIABLES = frozenset(
    {
        "STEPWATCH_CONFIG",
        "STEPWATCH_OUT",
        "STEPWATCH_SIZE",
        "STEPWATCH_STACK",
        "STEPWATCH_TEST_DATABASE_URL",
        "STEPWATCH_TEST_XLB_PYTHON",
    }
)


def _refuse_unknown_variables() -> None:
    for variable in os.environ:
        if not variable.startswith("STEPWATCH_") or variable in OTHER_VARIABLES:
            continue
        key = variable.removeprefix("STEPWATCH_").lower().split("__")[0]
        if key not in Settings.model_fields:
            raise ConfigError(
                f"the environment: {variable} sets no known key; "
                f"accepted is STEPWATCH_ with one of {', '.join(sorted(Settings.model_fields))}"
            )


def _sentence(error: ValidationError, file: Path | None) -> str:
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    section: type[Section] = ReleasesSettings
    if location[0] == "sources":
        if location[2:3] and location[2] in SECTIONS:
            section = SECTIONS[location[2]]
            del location[2]  # the kind by which its section was chosen
        if first["type"] == "union_tag_invalid":
            location, first = [*location, "kind"], {**first, "input": kind_of(first["input"]), "msg": KINDS}
    where, key = _place(location, file), ".".join(location)
    if first["type"] == "extra_forbidden":
        return f"{where}: unknown key {key}; accepted are {', '.join(_keys(location[:-1], section))}"
    if first["type"] == "missing":
        return f"{where}: {'.'.join(location[:-1])} has no {location[-1]}, which must be there"
    if location[-1] == "[key]":
        return f"{where}: the name {first['input']!r} in {'.'.join(location[:-2])} is not accepted; accepted are a-z, 0-9, _, . and -"
    accepted = re.sub(r"^(Input should be|Value error,) | or instance of \w+$", "", first["msg"])
    accepted = re.sub(r"^Tuple should have (.*?) item.*", r"a list of \1", accepted).replace(
        "dictionary", "table"
    )
    shown = "…" if SECRETS.fullmatch(key) else repr(first["input"])
    return f"{where}: {key} = {shown} is not accepted; accepted is {accepted}"


def _place(location: list[str], file: Path | None) -> str:
    """Where the value at `location` was written: variables count over the file."""
    variables = ("STEPWATCH_" + "__".join(location[:end]).upper() for end in range(1, len(location) + 1))
    return (
        str(file)
        if file is not None and not any(each in os.environ for each in variables)
        else "the environment"
    )


def _keys(location: list[str], source: type[BaseModel]) -> list[str]:
    """The keys of the section at `location`; names inside machines, sources and suites are free."""
    section: type[BaseModel] = Settings
    free: dict[str, type[BaseModel]] = {
        "machines": MachineSettings,
        "sources": source,
        "suites": SuiteSettings,
    }
    for part in location:
        if part in free:
            section = free[part]
        elif part in section.model_fields:
            kind = section.model_fields[part].annotation
            # of a list of sections, the one that each entry is
            section = cast("type[BaseModel]", get_args(kind)[0] if get_origin(kind) is tuple else kind)
    return sorted(section.model_fields)
