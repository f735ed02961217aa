"""On what machine did a process run, and in what state was it just before and just after?

What stays (processor, microcode, kernel, graphics cards and their driver) is the machine's fingerprint; what moves (load,
clocks, temperatures, how often it was throttled) is read before and after each process. It is read on the host, because
a container may not see it, from /proc and /sys, and of NVIDIA's cards by nvidia-ml-py where that is installed. What can't
be read is left out. Worked example of a doubt: thermal violations of card 0 that went from 1.0 to 1.5 s of a process of
10 s say "throttled: GPU 0 for 5 % of the time".
"""

from __future__ import annotations

import importlib
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

State = Mapping[str, Any]

THROTTLED_SHARE = 0.01
ROOT = Path("/")
# why a card's clocks may be low, by the bits of nvml.h; the other reasons (idle, a person's setting) are no trouble
_HINDRANCES = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "too hot (driver)",
    0x40: "too hot (hardware)",
    0x80: "power brake",
}
_VIOLATIONS = {"power": 0, "thermal": 1, "board": 3}  # nvmlPerfPolicyType_t


def read_machine(nvml: Any, root: Path = ROOT) -> dict[str, Any]:
    """What stays: `cpu`, `cores`, `microcode`, `governor`, `kernel` and `gpus`, as far as they can be read."""
    processor = parse_cpuinfo(_read(root / "proc/cpuinfo"))
    governor = _read(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
    kernel = _read(root / "proc/sys/kernel/osrelease").strip() or platform.release()
    found = {**processor, "governor": governor, "kernel": kernel, "gpus": _each_card(nvml, _card)}
    return {name: value for name, value in found.items() if value}


def read_conditions(nvml: Any, root: Path = ROOT) -> dict[str, Any]:
    """What moves: `load` of the last minute, `mhz` of each processor, `throttled` events since the start, `gpus`."""
    load = _read(root / "proc/loadavg").split()
    counters = sorted(root.glob("sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"))
    found = {
        "load": float(load[0]) if load else None,
        "mhz": parse_clocks(_read(root / "proc/cpuinfo")),
        "throttled": sum(int(_read(counter) or 0) for counter in counters) if counters else None,
        "gpus": _each_card(nvml, _card_conditions),
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


def parse_cpuinfo(text: str) -> dict[str, Any]:
    """`cpu`, `cores` and `microcode` of a /proc/cpuinfo; an ARM one names the processor by numbers."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    named = fields.get("model name") or " ".join(
        f"{name.split()[-1]} {fields[name]}" for name in ("CPU implementer", "CPU part") if name in fields
    )
    cores = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    return {"cpu": named, "cores": cores, "microcode": fields.get("microcode", "")}


def parse_clocks(text: str) -> list[int]:
    """The present clock of each processor of a /proc/cpuinfo in MHz; none where it doesn't say."""
    return [round(float(mhz)) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)]


def doubts(before: State, after: State) -> list[str]:
    """What happened to the machine meanwhile that a reader of the values should know."""
    said = []
    if after.get("throttled", 0) > before.get("throttled", 0):
        said.append("throttled: CPU")
    for old, new in zip(before.get("gpus", ()), after.get("gpus", ()), strict=False):
        if old.get("processes") or new.get("processes"):
            said.append(f"GPU {new['index']} used by another process")
        said += [f"throttled: GPU {new['index']} {how}" for how in _throttled(old, new)]
    return said


def witnessed(document: State, machine: State, before: State, after: State) -> dict[str, Any]:
    """A process's document with the machine that it ran on, its conditions, and what is to be doubted for them."""
    return {
        **document,
        "machine": dict(machine),
        "conditions": {"before": dict(before), "after": dict(after)},
        "warnings": [*document["warnings"], *doubts(before, after)],
    }


def cards_here(root: Path = ROOT) -> int | None:
    """How many cards NVIDIA's driver shows; None where there is no driver."""
    driver = root / "proc/driver/nvidia"
    return len(list((driver / "gpus").glob("*"))) if driver.is_dir() else None


def load_nvml() -> Any:
    """The module `pynvml` of nvidia-ml-py, or None: it need not be installed."""
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


def _throttled(old: State, new: State) -> Iterator[str]:
    """For which share of the time a card was held back, or by what it is now where it doesn't count the time."""
    spans = [
        (new["violations"][kind]["ns"] - was["ns"])
        / 1e3
        / max(new["violations"][kind]["at_us"] - was["at_us"], 1)
        for kind, was in old.get("violations", {}).items()
        if kind in new.get("violations", {})
    ]
    if spans:
        if max(spans) > THROTTLED_SHARE:
            yield f"for {100 * max(spans):.0f} % of the time"
    elif new.get("held_back_by"):
        yield f"({', '.join(new['held_back_by'])})"


def _each_card(nvml: Any, read: Callable[[Any, Any], dict[str, Any]]) -> list[dict[str, Any]]:
    """What `read` says of each card; none where there is no driver."""
    if nvml is None:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        return [
            {"index": i, **read(nvml, nvml.nvmlDeviceGetHandleByIndex(i))}
            for i in range(nvml.nvmlDeviceGetCount())
        ]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def _card(nvml: Any, card: Any) -> dict[str, Any]:
    asked = {
        "name": lambda: _text(nvml.nvmlDeviceGetName(card)),
        "driver": lambda: _text(nvml.nvmlSystemGetDriverVersion()),
        "persistence": lambda: bool(nvml.nvmlDeviceGetPersistenceMode(card)),
    }
    return _answered(nvml, asked)


def _card_conditions(nvml: Any, card: Any) -> dict[str, Any]:
    asked = {
        "sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_MEM),
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU),
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(card) / 1e3,
        "held_back_by": lambda: held_back_by(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(card)),
        "processes": lambda: [each.pid for each in nvml.nvmlDeviceGetComputeRunningProcesses(card)],
    }
    violations = {
        kind: lambda policy=policy: _violation(nvml, card, policy) for kind, policy in _VIOLATIONS.items()
    }
    return {**_answered(nvml, asked), "violations": _answered(nvml, violations)}


def held_back_by(reasons: int) -> list[str]:
    """The hindrances among the bits of a card's reasons for its clocks."""
    return [name for bit, name in _HINDRANCES.items() if reasons & bit]


def _violation(nvml: Any, card: Any, policy: int) -> dict[str, int]:
    """How long a card was held back so far, and when that was asked."""
    said = nvml.nvmlDeviceGetViolationStatus(card, policy)
    return {"ns": said.violationTime, "at_us": said.referenceTime}


def _answered(nvml: Any, asked: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """The answers that a card gives; not every card knows everything."""
    found = {}
    for name, ask in asked.items():
        with suppress(nvml.NVMLError):
            found[name] = ask()
    return found


def _text(said: str | bytes) -> str:
    return said.decode() if isinstance(said, bytes) else said


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
