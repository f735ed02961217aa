"""A terminal for tests: commands are typed in this process, and nothing but what is set here reaches them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepwatch.cli import main

NOWHERE = "postgresql://me:secret@127.0.0.1:1/x"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@dataclass
class Terminal:
    """Where commands are typed: nothing but what is set here reaches them."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: object) -> Done:
        self.monkeypatch.setattr(sys, "argv", ["stepwatch", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        said = self.capsys.readouterr()
        return Done(code, said.out, said.err)

    def refuses(self, *words: object) -> str:
        """The one sentence with which a command ends."""
        done = self(*words)
        assert (done.code, done.out) == (1, ""), done
        sentence = done.err.strip()  # a progress display ends with an empty line
        assert sentence.startswith("Error: "), done
        assert "\n" not in sentence, done
        return sentence.removeprefix("Error: ")


def variables(folder: Path, url: str) -> dict[str, str]:
    return {
        "STEPWATCH_CONFIG": str(folder / "stepwatch.toml"),
        "STEPWATCH_STATE": str(folder / "state"),
        "STEPWATCH_CACHE": str(folder / "cache"),
        "STEPWATCH_DATABASE_URL": url,
    }
