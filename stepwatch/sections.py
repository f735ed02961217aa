"""Which keys does each section of the settings have, with what in them?"""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from stepwatch.core.requests import parse_fix
from stepwatch.runners import image_builds, images

CLONE = Path(__file__).resolve().parent.parent
KINDS = "'releases', 'registry' or 'commits'"
EVERY_GROUP = "all"  # in place of a group of benchmarks
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]


def _size(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d*[bkmg]?", text, re.IGNORECASE):
        raise ValueError("a number of bytes, or one with k, m or g, such as '8g'")
    return text


Size = Annotated[str, AfterValidator(_size)]


class Section(BaseModel):
    """A section of the settings: no key that is not named here."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MachineSettings(Section):
    """`[machines.NAME]`: where suites run."""

    runner: Literal["local", "docker"] = "local"
    source: Name | None = None
    accelerator: str = "cpu"
    core: int | None = Field(default=None, ge=0)
    autotuning: Path | None = None
    control_days: float = Field(default=7, ge=0, le=36500)
    pool: Name | None = None
    queue: str | None = None
    engine: str | None = None
    devices: tuple[str, ...] = ()
    memory: Size | None = None
    shm_size: Size = "1g"
    keep_images: int = Field(default=5, ge=0)


class EarlierSettings(Section):
    """An entry of `earlier_requirements`: what stands beside jax through one release."""

    through: Annotated[str, Field(pattern=r"^\d+(\.\d+)*$")]
    requirements: tuple[str, ...]


class ReleasesSettings(Section):
    """`[sources.NAME]`: released versions stand in for nightly containers."""

    kind: Literal["releases"] = "releases"
    ladder: tuple[str, ...] = Field(
        default=("0.4.30", "0.4.31", "0.4.33", "0.5.0", "0.5.3", "0.10.1", "0.10.2"), min_length=1
    )
    requirements: tuple[str, ...] = ("numpy==2.2.6", "scipy==1.15.3")
    earlier_requirements: tuple[EarlierSettings, ...] = (
        EarlierSettings(through="0.4.25", requirements=("numpy==1.26.4", "scipy==1.12.0")),
    )
    optional: tuple[str, ...] = ()
    control: str | None = None
    baseline: str | None = None
    python: tuple[str, ...] = Field(default=("3.11", "3.12", "3.13"), min_length=1)


def _template(text: str) -> str:
    fault = images.template_fault(text)
    if fault is not None:
        raise ValueError(f"a name of images ({fault})")
    return text


Template = Annotated[str, AfterValidator(_template)]


class EarlierImageSettings(Section):
    """An entry of `earlier_images`: how images were named through one date."""

    through: dt.date
    image: Template


class RegistrySettings(Section):
    """`[sources.NAME]`: nightly containers of a registry."""

    kind: Literal["registry"] = "registry"
    image: Template = images.IMAGE
    earlier_images: tuple[EarlierImageSettings, ...] = (
        EarlierImageSettings(through=images.EARLIER_THROUGH, image=images.EARLIER_IMAGE),
    )
    container: str = "jax"
    flavor: str = "jax"
    platform: str = images.PLATFORM
    username: str = ""
    password: str = ""
    look_back_days: int = Field(default=5, ge=0, le=365)
    build: str = Field(default=image_builds.BUILD, min_length=1)
    build_limit_s: float = Field(default=6 * 3600, gt=0)
    build_network: str = Field(default="bridge", min_length=1)
    control: str | None = None
    baseline: str | None = None


def _fix(text: str) -> str:
    fixed = parse_fix(text)
    if isinstance(fixed, str):
        raise ValueError(fixed.partition("accepted is ")[2])  # noqa: TRY004 - pydantic asks for this one
    return text


Fix = Annotated[str, AfterValidator(_fix)]


class CommitsSettings(Section):
    """`[sources.NAME]`: commits of JAX beside a released jaxlib; a day is the main line's head at its end."""

    kind: Literal["commits"] = "commits"
    fix: Fix | None = None
    requirements: tuple[str, ...] = ("numpy==1.26.4", "scipy==1.12.0")
    python: tuple[str, ...] = Field(default=("3.11", "3.12", "3.13"), min_length=1)
    control: str | None = None
    baseline: str | None = None


class RepositorySettings(Section):
    """`[repositories.jax]`: what is mirrored here to be searched."""

    url: str = Field(default="https://github.com/jax-ml/jax.git", min_length=1)


class XlaRepositorySettings(RepositorySettings):
    """`[repositories.xla]`: the same."""

    url: str = Field(default="https://github.com/openxla/xla.git", min_length=1)


class RepositoriesSettings(Section):
    """`[repositories]`: where each is read from."""

    jax: RepositorySettings = RepositorySettings()
    xla: RepositorySettings = XlaRepositorySettings()


def kind_of(source: Any) -> str:
    """The kind that a source says that it has; where it says none, releases."""
    return str(
        source.get("kind", "releases") if isinstance(source, dict) else getattr(source, "kind", source)
    )


SourceSettings = Annotated[
    Annotated[ReleasesSettings, Tag("releases")]
    | Annotated[RegistrySettings, Tag("registry")]
    | Annotated[CommitsSettings, Tag("commits")],
    Discriminator(kind_of),
]


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, RecursionError) as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


class SuiteSettings(Section):
    """`[suites.NAME]`: what is measured."""

    kind: Literal["stepwatch", "asv"] = "stepwatch"
    folder: Path = CLONE
    group: str = "core"
    only: Annotated[str, AfterValidator(_expression)] | None = None
    size: Literal["smoke", "full"] = "smoke"
    processes: int | None = Field(default=None, ge=1, le=100)
    time_limit_s: float = Field(default=600, gt=0)


class ThresholdSettings(Section):
    """`[thresholds]`: what counts as a step and when people are told."""

    noise: float | None = Field(default=None, gt=0, lt=1)
    min_effect: float = Field(default=0.003, gt=0, lt=1)
    confirm_results: int = Field(default=4, ge=1)
    suspect_change: float = Field(default=0.10, gt=0)
    drift_change: float = Field(default=0.05, gt=0)


class ShadowSettings(Section):
    """`[shadow]`: thresholds that are tried beside the live ones."""

    noise: float | None = Field(default=None, gt=0, lt=1)
    min_effect: float | None = Field(default=None, gt=0, lt=1)
    confirm_results: int | None = Field(default=None, ge=1)
    suspect_change: float | None = Field(default=None, gt=0)
    drift_change: float | None = Field(default=None, gt=0)


class RuleSettings(Section):
    """An entry of `[[rules]]`: what holds for the series whose benchmark's name with parameters matches."""

    match: Annotated[str, AfterValidator(_expression)]
    min_effect: float | None = Field(default=None, gt=0, lt=1)
    confirm_results: int | None = Field(default=None, ge=1)
    suspect_change: float | None = Field(default=None, gt=0)
    drift_change: float | None = Field(default=None, gt=0)
    noise: float | None = Field(default=None, gt=0, lt=1)
    direction: Literal["both", "regression", "improvement"] | None = None
    owner: str | None = None
    mute: bool | None = None


class BisectionSettings(Section):
    """`[bisection]`: how a range is searched."""

    policy: Literal["explore", "comb", "exhaustive"] = "explore"
    comb: int = Field(default=4, ge=1)
    daily_minutes: float | None = Field(default=None, gt=0)


class ConsoleSettings(Section):
    """`[transports.console]`: messages on standard output."""

    enabled: bool = True


class SlackSettings(Section):
    """`[transports.slack]`: messages into one channel."""

    enabled: bool = False
    token: str = ""
    channel: str = ""
    base_url: str = "https://slack.com/api/"


class TransportSettings(Section):
    """`[transports]`: whom we tell."""

    console: ConsoleSettings = ConsoleSettings()
    slack: SlackSettings = SlackSettings()


# how a source is described, by its kind
SECTIONS: dict[str, type[Section]] = {
    "releases": ReleasesSettings,
    "registry": RegistrySettings,
    "commits": CommitsSettings,
}
