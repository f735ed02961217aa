# ruff: noqa: N802, ARG002 - the names are those of nvidia-ml-py
"""Is a machine read as it is, with and without graphics cards, and is what happened to it said?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepwatch.runners import fingerprint
from stepwatch.runners.fingerprint import (
    doubts,
    held_back_by,
    parse_clocks,
    parse_cpuinfo,
    read_conditions,
    read_machine,
    witnessed,
)

CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8480+
microcode\t: 0x2b0004b1
cpu MHz\t\t: 2000.000

processor\t: 1
model name\t: Intel(R) Xeon(R) Platinum 8480+
microcode\t: 0x2b0004b1
cpu MHz\t\t: 3799.512
"""
ARM = """\
processor\t: 0
BogoMIPS\t: 2000.00
CPU implementer\t: 0x41
CPU part\t: 0xd4f
"""


class NVMLError(Exception):
    """As nvidia-ml-py has it: what a card doesn't know, and a driver that is not there."""


class Nvml:
    """nvidia-ml-py's functions with made-up cards, one in use by process 4711 and hot."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, *, cards: int = 2, driver: bool = True, second: int = 0) -> None:
        self.cards, self.driver, self.second = cards, driver, second
        self.open = 0

    def nvmlInit(self) -> None:
        if not self.driver:
            raise NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return self.cards

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        assert self.open == 1
        return index

    def nvmlDeviceGetName(self, card: int) -> str | bytes:
        return "NVIDIA H200" if card else b"NVIDIA H200"  # bytes in older versions

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.86.15"

    def nvmlDeviceGetPersistenceMode(self, card: int) -> int:
        return 1 - card

    def nvmlDeviceGetClockInfo(self, card: int, kind: int) -> int:
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetTemperature(self, card: int, sensor: int) -> int:
        return (82, 31)[card]

    def nvmlDeviceGetPowerUsage(self, card: int) -> int:
        if card:
            raise NVMLError("Not Supported")
        return 650_500

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card: int) -> int:
        return (0x1 | 0x20, 0x1)[card]

    def nvmlDeviceGetComputeRunningProcesses(self, card: int) -> list[Any]:
        return [] if card else [SimpleNamespace(pid=4711, usedGpuMemory=None)]

    def nvmlDeviceGetViolationStatus(self, card: int, policy: int) -> Any:
        if card or policy == 3:
            raise NVMLError("Not Supported")
        held_back_s = 0.5 * self.second / 10 if policy == 1 else 0
        return SimpleNamespace(
            referenceTime=self.second * 1_000_000, violationTime=round((1 + held_back_s) * 1e9)
        )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "proc/cpuinfo", CPUINFO)
    write(tmp_path, "proc/loadavg", "7.12 3.00 1.00 9/200 4711\n")
    write(tmp_path, "proc/sys/kernel/osrelease", "6.1.0-28-amd64\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    for core, count in enumerate((3, 4)):
        write(
            tmp_path, f"sys/devices/system/cpu/cpu{core}/thermal_throttle/core_throttle_count", f"{count}\n"
        )
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def test_a_processor_is_named_by_its_model_or_its_numbers() -> None:
    assert parse_cpuinfo(CPUINFO) == {
        "cpu": "Intel(R) Xeon(R) Platinum 8480+",
        "cores": 2,
        "microcode": "0x2b0004b1",
    }
    assert parse_cpuinfo(ARM) == {"cpu": "implementer 0x41 part 0xd4f", "cores": 1, "microcode": ""}
    assert parse_cpuinfo("") == {"cpu": "", "cores": 0, "microcode": ""}
    assert (parse_clocks(CPUINFO), parse_clocks(ARM)) == ([2000, 3800], [])


def test_what_stays_is_apart_from_what_moves(root: Path) -> None:
    assert read_machine(None, root) == {
        "cpu": "Intel(R) Xeon(R) Platinum 8480+",
        "cores": 2,
        "microcode": "0x2b0004b1",
        "governor": "powersave",
        "kernel": "6.1.0-28-amd64",
    }
    assert read_conditions(None, root) == {"load": 7.12, "mhz": [2000, 3800], "throttled": 7}


def test_what_can_not_be_read_is_left_out(tmp_path: Path) -> None:
    assert read_machine(None, tmp_path).keys() == {"kernel"}
    assert read_conditions(None, tmp_path) == {}
    assert read_machine(Nvml(driver=False), tmp_path).keys() == {"kernel"}


def test_cards_tell_what_they_know(root: Path) -> None:
    nvml = Nvml()
    card = {"name": "NVIDIA H200", "driver": "570.86.15"}
    assert read_machine(nvml, root)["gpus"] == [
        {"index": 0, **card, "persistence": True},
        {"index": 1, **card, "persistence": False},
    ]
    first, second = read_conditions(nvml, root)["gpus"]
    assert first == {
        "index": 0,
        "sm_mhz": 1980,
        "memory_mhz": 3201,
        "temperature_c": 82,
        "power_w": 650.5,
        "held_back_by": ["too hot (driver)"],
        "processes": [4711],
        "violations": {
            "power": {"ns": 1_000_000_000, "at_us": 0},
            "thermal": {"ns": 1_000_000_000, "at_us": 0},
        },
    }
    assert "power_w" not in second
    assert (second["held_back_by"], second["processes"], second["violations"]) == ([], [], {})
    assert nvml.open == 0


def test_only_hindrances_hold_a_card_back() -> None:
    assert held_back_by(0x1 | 0x2 | 0x10 | 0x100) == []
    assert held_back_by(0x4 | 0x8 | 0x40 | 0x80) == [
        "power cap",
        "hardware slowdown",
        "too hot (hardware)",
        "power brake",
    ]


def test_the_example_of_the_docstring(root: Path) -> None:
    before, after = (read_conditions(Nvml(second=second), root) for second in (0, 10))
    assert doubts(before, after) == [
        "GPU 0 used by another process",
        "throttled: GPU 0 for 5 % of the time",
    ]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {}, []),
        ({"throttled": 7}, {"throttled": 7}, []),
        ({"throttled": 7}, {"throttled": 9}, ["throttled: CPU"]),
        ({"throttled": 7}, {}, []),
        ({"gpus": []}, {"gpus": [{"index": 0, "processes": [1]}]}, []),
        (
            {"gpus": [{"index": 0}]},
            {"gpus": [{"index": 0, "held_back_by": ["power cap"]}]},
            ["throttled: GPU 0 (power cap)"],
        ),
        (
            {"gpus": [{"index": 0, "violations": {"power": {"ns": 0, "at_us": 0}}}]},
            {
                "gpus": [
                    {
                        "index": 0,
                        "held_back_by": ["power cap"],
                        "violations": {"power": {"ns": 9_000_000, "at_us": 1_000_000}},
                    }
                ]
            },
            [],
        ),
        (
            {"gpus": [{"index": 0, "processes": [1]}]},
            {"gpus": [{"index": 0}]},
            ["GPU 0 used by another process"],
        ),
    ],
)
def test_what_happened_meanwhile(before: dict[str, Any], after: dict[str, Any], said: list[str]) -> None:
    assert doubts(before, after) == said


def test_a_document_gets_its_machine_and_keeps_its_own_warnings() -> None:
    found = witnessed({"seed": 3, "warnings": ["mine"]}, {"cpu": "x"}, {"throttled": 0}, {"throttled": 1})
    assert found == {
        "seed": 3,
        "machine": {"cpu": "x"},
        "conditions": {"before": {"throttled": 0}, "after": {"throttled": 1}},
        "warnings": ["mine", "throttled: CPU"],
    }


def test_nvidia_ml_py_need_not_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fingerprint.importlib.__dict__, "import_module", fail)
    assert fingerprint.load_nvml() is None


def fail(name: str) -> Any:
    raise ImportError(name)
