"""What is a container image called, for which platform is it, and what do its documents say of it?"""

from __future__ import annotations

import datetime as dt
import email.utils
import enum
import ipaddress
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from stepwatch.core.model import Image

PLATFORM = "linux/amd64"
IMAGE = "ghcr.io/nvidia/{container}:{flavor}-{date}"
EARLIER_THROUGH, EARLIER_IMAGE = dt.date(2024, 2, 9), "ghcr.io/nvidia/{container}:nightly-{date}"
PLACEHOLDERS = ("container", "date", "flavor")
EXAMPLE = "ghcr.io/nvidia/jax:jax-2024-09-16"
ACCEPTED = f"accepted is HOST/NAME:TAG or HOST/NAME@sha256:DIGEST, such as {EXAMPLE}"
CREATED = "org.opencontainers.image.created"
YEAR_MIN = 2000

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    r"(?P<host>(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?)[/#]"
    rf"(?P<repository>{_PART}(?:/{_PART})*)"
    rf"(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>{DIGEST.pattern}))?",
    re.ASCII,
)
_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9.]+)?")
_API_HOSTS = {"docker.io": "registry-1.docker.io"}
# the variants that are meant where none is named
_USUAL = {("amd64", "v1"), ("arm", "v7"), ("arm64", "v8")}


class Absence(enum.StrEnum):
    """Why there is no image."""

    MISSING = "missing"
    OTHER_PLATFORM = "other_platform"


@dataclass(frozen=True, kw_only=True)
class Absent:
    """An image that a registry, which answers, does not have; `reason` is one sentence."""

    kind: Absence
    reason: str


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The full name of an image, printed as Docker spells it; `host` with its port. The digest counts before the tag."""

    host: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        tag, digest = (f":{self.tag}" if self.tag else "", f"@{self.digest}" if self.digest else "")
        return f"{self.host}/{self.repository}{tag}{digest}"

    @property
    def origin(self) -> str:
        """Where the registry's API is: `https://ghcr.io`, and http at a loopback address."""
        host = _API_HOSTS.get(self.host, self.host)
        return f"{'http' if is_loopback(f'//{host}') else 'https'}://{host}"


def template_fault(text: str) -> str | None:
    """What is wrong with a template of names, in one sentence; None where nothing is."""
    accepted = f"accepted is a name with {{date}} in it, {{container}} and {{flavor}} too, such as {IMAGE}"
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:
        return f"{text!r} has a brace without its other half; {accepted}"
    fields = [part[1:] for part in parts if part[1] is not None]
    for name, form, conversion in fields:
        if name not in PLACEHOLDERS or form or conversion:
            written = f"{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}"
            return f"{text!r} has the placeholder {{{written}}}; {accepted}"
    if all(name != "date" for name, *_ in fields):
        return f"{text!r} has no {{date}}; {accepted}"
    found = parse_reference(text.format(container="jax", flavor="jax", date="2024-09-16"))
    return found if isinstance(found, str) else None


def parse_reference(text: str) -> Reference | str:
    """The parts of an image's full name (also in enroot's spelling, `ghcr.io#nvidia/jax:TAG`), or what is wrong with it."""
    found = parse_repository(text, ACCEPTED)
    if isinstance(found, Reference) and not found.tag and not found.digest:
        return f"{text!r} has neither a tag nor a digest; {ACCEPTED}"
    return found


def parse_repository(text: str, accepted: str) -> Reference | str:
    """The same without a tag or digest being asked for; `accepted` ends the sentence."""
    if "://" in text:
        return f"{text!r} has a scheme in front; {accepted}"
    first = re.split("[/#]", text, maxsplit=1)[0]
    if first == text or not (first == "localhost" or "." in first or ":" in first):
        return f"{text!r} does not name its registry; {accepted}"
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return f"{text!r} is not the name of an image; {accepted}"
    try:
        urlsplit(f"//{first}").port  # noqa: B018 - reading it checks it
    except ValueError:
        return f"{text!r} does not name a host; {accepted}"
    return Reference(**found.groupdict() | {"host": found["host"].lower()})


def repository_of(reference: str) -> str:
    """Where an image lies, without tag and digest: `ghcr.io/nvidia/jax`."""
    name = reference.partition("@")[0]
    host, _, path = name.partition("/")
    return f"{host}/{path.partition(':')[0]}"


def is_loopback(url: str) -> bool:
    """Whether a URL (or `//HOST`) stays on this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_platform(text: str) -> str | None:
    """A platform in the one spelling that is compared: `linux/arm64` for `linux/arm64/v8`; None where it is none."""
    if not _PLATFORM.fullmatch(text):
        return None
    return platform_name(dict(zip(("os", "architecture", "variant"), text.split("/"), strict=False)))


def platform_name(described: Mapping[str, Any]) -> str:
    """The same from an index' or a configuration's `os`, `architecture` and `variant`."""
    system, architecture, variant = (
        str(described.get(key) or "") for key in ("os", "architecture", "variant")
    )
    named = variant and (architecture, variant) not in _USUAL
    return f"{system}/{architecture}" + (f"/{variant}" if named else "")


def platforms_of(index: Mapping[str, Any]) -> dict[str, str]:
    """Platform and digest of each image in an index, the first where two are alike; attestations are no images."""
    found: dict[str, str] = {}
    for entry in map(mapping, listed(index.get("manifests"))):
        platform = parse_platform(platform_name(mapping(entry.get("platform"))))
        attests = "vnd.docker.reference.type" in mapping(entry.get("annotations"))
        if platform and not platform.startswith("unknown/") and not attests:
            found.setdefault(platform, str(entry.get("digest")))
    return found


def described_image(
    configuration: Mapping[str, Any], reference: str, index: str, platform: str, built: Mapping[str, str]
) -> Image:
    """The image with what its configuration says of it; `built` is the digest for each platform."""
    inside = mapping(configuration.get("config"))
    labels = {str(key): str(value) for key, value in mapping(inside.get("Labels")).items()}
    pairs = (str(each).partition("=") for each in listed(inside.get("Env")))
    variables = {name: value for name, equals, value in pairs if equals}
    times = (labels.get(CREATED), variables.get("BUILD_DATE"), configuration.get("created"))
    return Image(
        reference=reference,
        index=index,
        digest=built[platform],
        platform=platform,
        platforms=tuple(built),
        labels=labels,
        variables=variables,
        created=next(filter(None, map(_time, times)), None),
    )


def mapping(value: Any) -> dict[str, Any]:
    """What a registry sent, where it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """What a registry sent, where it is a list; else an empty one."""
    return value if isinstance(value, list) else []


def _time(text: object) -> dt.datetime | None:
    for read in (dt.datetime.fromisoformat, email.utils.parsedate_to_datetime):
        try:
            at = read(str(text))
            at = at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at.astimezone(dt.UTC)
        except (ValueError, TypeError, OverflowError):
            continue
        # a build that is to be reproducible puts the beginning of time in place of its own
        return at if at.year >= YEAR_MIN else None
    return None
