"""Which environment does somebody mean, and what sets two of them apart?

0.10.2                       a label of the source: both libraries at that release
2024-09-16                   the newest night of the source up to that day
jax@0.10.2+xla@0.10.1        a pair
./venv, ./venv/bin/python    an environment that somebody made himself; it is taken as it is
ghcr.io/nvidia/jax:TAG       a container image, by tag or digest
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from stepwatch.core.model import CommitPair, Environment, Image, Night
from stepwatch.core.requests import parse_date, parse_pair
from stepwatch.jobs.workplace import Nights
from stepwatch.runners.existing import PYTHON, open_existing
from stepwatch.runners.protocol import Failure, Opened, Runner

ACCEPTED = (
    "accepted is a release such as 0.10.2, a pair jax@…+xla@…, a date, the name of an image such as"
    " ghcr.io/nvidia/jax:jax-2024-09-16, or the path of a virtual environment or its python"
)
DAYS_BACK = 60  # how far before a date its night may lie
# what installs packages is loaded by no benchmark
_INSTALLERS = frozenset({"jax", "jaxlib", "pip", "setuptools", "uv", "wheel"})


def open_reference(
    ref: str,
    nights: Nights,
    runner: Runner,
    open_container: Callable[[str], Opened | Failure | str],
    flags: Mapping[str, str],
) -> Opened | str:
    """The environment that somebody names, or the sentence that says why there is none.

    `open_container` opens an image by its name; `flags` are the variables that reach the compiler in an environment that
    is taken as it is.

    Raises:
        UnreachableError: what it is made from can't be reached now.
    """
    path = Path(ref).expanduser()
    if path.exists() and ("/" in ref or (path / PYTHON).exists() or path.is_file()):
        opened = open_existing(path, flags)
        return f"{opened.reason}; {ACCEPTED}" if isinstance(opened, Failure) else opened
    if {"/", "#"} & set(ref) and {":", "@"} & set(ref) and not ref.startswith(("/", ".", "~")):
        named = open_container(ref)
    elif "/" in ref:
        return f"{ref}: no such file; {ACCEPTED}"
    else:
        found = _find(ref, nights)
        if isinstance(found, str):
            return found
        named = runner.open_night(found) if isinstance(found, Night) else runner.open(found)
    return f"{ref} can't be made: {named.reason}" if isinstance(named, Failure) else named


def same_environment(old: Opened, new: Opened) -> bool:
    """Whether both are one image, or one interpreter of one folder; two virtual environments may share the program itself."""
    images = {each.environment.image_digest for each in (old, new)}
    if images != {None}:
        return len(images) == 1
    folders = {each.python.parent.resolve() for each in (old, new)}
    return len(folders) == 1 and old.python.resolve() == new.python.resolve()


def differences(old: Environment, new: Environment) -> tuple[str, ...]:
    """What differs beside jax and jaxlib: the interpreter, and what is installed."""
    bases = [each.base.partition(",")[0] for each in (old, new)]
    before, after = _packages(old), _packages(new)
    interpreter = [f"{bases[0]} -> {bases[1]}"] if bases[0] != bases[1] else []
    packages = (
        f"{name} {before.get(name, '(none)')} -> {after.get(name, '(none)')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )
    return (*interpreter, *packages)


def changed_variables(old: Image, new: Image) -> tuple[str, ...]:
    """Which variables differ between two images, beside the day of the build."""
    return tuple(
        f"{name} {old.variables.get(name, '(none)')!r} -> {new.variables.get(name, '(none)')!r}"
        for name in sorted((old.variables.keys() | new.variables.keys()) - {"BUILD_DATE"})
        if old.variables.get(name) != new.variables.get(name)
    )


def _find(ref: str, nights: Nights) -> CommitPair | Night | str:
    named, date, label = parse_pair(ref), parse_date(ref), ref
    if named is not None:
        pair = nights.pair(*named)
        return f"{ref}: {pair}" if isinstance(pair, str) else pair
    if date is not None:
        days = (date - dt.timedelta(days=back) for back in range(DAYS_BACK))
        label = next((found for day in days if (found := nights.label_on(day)) is not None), "")
        if not label:
            return f"{nights.source.name} has no night in the {DAYS_BACK} days up to {ref}; {ACCEPTED}"
    night = nights.night(label)
    if night is None:
        return f"{nights.source.name} has no night {label!r}; {ACCEPTED}"
    if night.pair is None and night.image is None:
        return f"{ref} can't be measured: {night.gap_reason or 'its pair is not known'}; {ACCEPTED}"
    return night


def _packages(environment: Environment) -> dict[str, str]:
    """Name and version of what is installed, installers and the two under test left out."""
    found = {}
    for line in environment.freeze:
        name, *version = re.split("==| @ ", line, maxsplit=1)
        found[re.sub(r"[-_.]+", "-", name).lower()] = "".join(version)
    return {name: version for name, version in found.items() if name not in _INSTALLERS}
