"""Does every command say what it should, and every mistake one sentence?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import click
import pytest
from rich.progress import Progress
from terminal import NOWHERE, Terminal, variables
from worlds import LADDER, ScriptedNights, ScriptedRunner, ladder_table, play_ladder, workplace

from stepwatch.cli import demo
from stepwatch.cli.entry import command
from storage.rows import Database

GUIDE = Path(__file__).parent / "data" / "mlups_2023.log"


class TestHelp:
    def commands(self, group: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        found = [path]
        if isinstance(group, click.Group):
            for name, each in group.commands.items():
                found += self.commands(each, (*path, name))
        return found

    def test_every_command_explains_itself(self, terminal: Terminal) -> None:
        paths = self.commands(command)
        assert len(paths) >= 25
        for path in paths:
            done = terminal(*path, "--help")
            assert (done.code, done.err) == (0, ""), path
            assert " ".join(("stepwatch", *path)) in done.out.splitlines()[0], path
            # a sentence stands between the usage and the options
            assert done.out.split("\n\n")[1].strip()[0].isalpha(), path
            assert done.out.split("\n\n")[1].rstrip()[-1] in ".?", path

    def test_it_needs_neither_settings_nor_a_database(self, terminal: Terminal, tmp_path: Path) -> None:
        (tmp_path / "stepwatch.toml").write_text("nonsense", encoding="utf-8")
        assert terminal("nightly", "--help").code == 0


class TestReplay:
    def test_the_guides_log_is_exactly_this(self, terminal: Terminal) -> None:
        done = terminal("replay", GUIDE, "--json")
        assert (done.code, done.err) == (0, "")
        assert done.document == {
            "alerts": [
                {
                    "after": "2023-07-21",
                    "through": "2023-07-25",
                    "raised": "2023-07-29",
                    "change": pytest.approx(-0.01775, abs=1e-4),
                    "baseline": 587.6702557143142,
                    "kind": "regression",
                },
                {
                    "after": "2023-08-24",
                    "through": "2023-08-26",
                    "raised": "2023-08-30",
                    "change": pytest.approx(-0.0701, abs=1e-4),
                    "baseline": pytest.approx(577.29, abs=0.05),
                    "kind": "regression",
                },
            ],
            "dips": [
                {
                    "first": "2023-07-17",
                    "last": "2023-07-19",
                    "change": pytest.approx(-0.0297, abs=1e-3),
                }
            ],
            "retracted": [],
        }

    def test_in_words_every_percentage_has_its_baseline(self, terminal: Terminal) -> None:
        done = terminal("replay", GUIDE, "--noise", "0.0005")
        assert done.out.splitlines() == [
            "2023-07-29: regression in (2023-07-21, 2023-07-25]: -1.8% of 587.7 MLUPS",
            "2023-08-30: regression in (2023-08-24, 2023-08-26]: -7.0% of 577.3 MLUPS",
            "dip from 2023-07-17 to 2023-07-19: -3.0% (nobody was told)",
        ]

    def test_a_line_that_is_not_taken_is_named_with_its_number(
        self, terminal: Terminal, tmp_path: Path
    ) -> None:
        torn = tmp_path / "torn_2023.log"
        text = GUIDE.read_text(encoding="utf-8")
        torn.write_text(f"0899164106\n{text}", encoding="utf-8")
        done = terminal("replay", torn, "--json")
        assert done.code == 0
        assert done.err == f"{torn}, line 1: '0899164106' is rejected: not `OUT-month-day:text`\n"
        assert done.document == terminal("replay", GUIDE, "--json").document

        strict = terminal("replay", torn, "--json", "--strict")
        assert (strict.code, strict.out) == (1, done.out)
        assert strict.err.splitlines()[1:] == ["Error: 1 lines were rejected (--strict)"]
        assert terminal("replay", GUIDE, "--strict").code == 0

    def test_raw_files_are_the_same_nights(self, terminal: Terminal, tmp_path: Path) -> None:
        for line in GUIDE.read_text(encoding="utf-8").splitlines():
            name, _, text = line.partition(":")
            (tmp_path / name).write_text(f"warming up\n{text}\n", encoding="utf-8")
        raw = sorted(tmp_path.glob("OUT-*"))
        assert terminal("replay", *raw, "--year", "2023", "--json").document == (
            terminal("replay", GUIDE, "--json").document
        )
        assert "can't be mixed" in terminal.refuses("replay", *raw, GUIDE, "--year", "2023")

    def test_mistakes(self, terminal: Terminal, tmp_path: Path) -> None:
        unnamed, binary, empty = (tmp_path / name for name in ("unnamed.log", "b_2023.log", "e_2023.log"))
        unnamed.write_text("OUT-07-06:MLUPS: 1.5\n", encoding="utf-8")
        binary.write_bytes(bytes(range(256)))
        empty.touch()
        for words, sentence in (
            ((unnamed,), f"{unnamed} has no year in its name; --year gives it"),
            ((binary,), f"{binary}: not a text file"),
            (
                (empty,),
                f"{empty}: no line is `OUT-month-day:text`; accepted is what `grep MLUPS OUT*` prints",
            ),
            ((GUIDE, "--pattern", "MLUPS"), "the pattern 'MLUPS' has no group (…) around the value"),
            ((GUIDE, "--pattern", "("), "the pattern '(' is not a regular expression: "),
        ):
            assert terminal.refuses("replay", *words).startswith(sentence)

    def test_a_year_that_no_log_is_of(self, terminal: Terminal) -> None:
        done = terminal("replay", GUIDE, "--year", "0")
        assert done.code == 2
        assert done.err.splitlines()[-1].endswith("0 is not in the range 1970<=x<=2100.")

    @pytest.mark.parametrize("name", ["replay", "import-logs", "detect"])
    def test_a_folder_and_a_file_that_is_not_there(
        self, terminal: Terminal, tmp_path: Path, name: str
    ) -> None:
        for file, sentence in ((tmp_path, "is a directory."), (tmp_path / "no.log", "does not exist.")):
            done = terminal(name, file)
            assert done.code == 2
            assert done.err.splitlines()[-1].endswith(sentence)
            assert "Traceback" not in done.err


class TestImport:
    def test_it_counts_the_nights_and_does_so_again(self, terminal: Terminal, database: Database) -> None:
        words = ("import-logs", GUIDE, "--benchmark", "xlb.mlups")
        first = terminal(*words, "--json")
        assert first.document == {"nights": 77, "measured": 60, "failed": 1, "gaps": 16, "told": 2}
        again = terminal(*words)
        assert (again.code, again.err) == (0, "")
        assert again.out == "77 nights: 60 measured, 1 failed, 16 gaps\n"

        listed = terminal("regressions", "list", "--json").document
        assert [(each["after"], each["through"], each["direction"]) for each in listed] == [
            ("2023-07-21", "2023-07-25", "regression"),
            ("2023-08-24", "2023-08-26", "regression"),
        ]
        shown = terminal("regressions", "show", listed[1]["regression_id"], "--json").document
        assert len(shown["points"]) == 77
        assert shown["change"] == pytest.approx(-0.0703, abs=1e-3)
        in_words = terminal("regressions", "show", listed[1]["regression_id"]).out
        assert "577.3 MLUPS -> 536.7 MLUPS (-7.0 % against the level before)" in in_words
        rows = {line.split()[0]: line.split(None, 1)[1].strip() for line in in_words.splitlines()[5:]}
        assert rows["2023-08-25"].startswith("benchmark_failed: ")
        assert rows["2023-08-26"].endswith("first on the new level")
        assert rows["2023-08-31"] == "no line in the log"
        assert "incident 1 is of figures that were imported" in terminal.refuses(
            "bisect", "start", "--incident", 1
        )
        assert terminal("deliver").out.count("against") == 4
        assert terminal("deliver").err == "0 messages sent\n"
        del database

    @pytest.mark.usefixtures("database")
    def test_what_holds_for_a_benchmark_and_where_it_comes_from(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("STEPWATCH_RULES", '[{"match": "^xlb", "owner": "@fluids", "mute": false}]')
        monkeypatch.setenv("STEPWATCH_THRESHOLDS__NOISE", "0.001")
        before = terminal("benchmarks", "show", "xlb.mlups")
        assert before.err.strip() == (
            "nothing is stored of xlb.mlups; `stepwatch benchmarks list` names what is"
        )
        terminal("import-logs", GUIDE, "--benchmark", "xlb.mlups")
        (listed,) = terminal("benchmarks", "list", "--json").document
        assert (listed["benchmark"], listed["unit"], listed["machines"]) == (
            "xlb.mlups",
            "MLUPS",
            ["imported"],
        )
        assert "xlb.mlups" in terminal("benchmarks", "list").out
        shown = terminal("benchmarks", "show", "xlb.mlups", "--json").document
        assert list(shown) == ["xlb.mlups"]
        (said,) = shown.values()
        assert said["owner"] == {"value": "@fluids", "from": "rule 1, match = '^xlb'"}
        assert said["noise"] == {"value": 0.001, "from": "thresholds.noise"}
        assert said["min_effect"] == {"value": 0.003, "from": "default"}
        in_words = terminal("benchmarks", "show", "xlb.mlups")
        assert in_words.err == ""
        assert [line.split()[:2] for line in in_words.out.splitlines() if "mute" in line] == [
            ["mute", "false"]
        ]

    def test_a_value_that_changed_is_said_and_strict_minds(
        self, terminal: Terminal, database: Database, tmp_path: Path
    ) -> None:
        del database
        log = tmp_path / "2023.log"
        for value in ("1.5", "2.5"):
            log.write_text(f"OUT-07-06:MLUPS: {value}\n", encoding="utf-8")
            done = terminal("import-logs", log, "--benchmark", "b")
        assert (done.code, done.err) == (0, "2023-07-06: 1.5 is stored and stays; the log says 2.5\n")
        assert terminal("import-logs", log, "--benchmark", "b", "--strict").code == 1


class TestDetect:
    def test_a_csv_is_exactly_this(self, terminal: Terminal, tmp_path: Path) -> None:
        file = tmp_path / "series.csv"
        values = [100.0] * 6 + [93.0] * 6
        rows = "".join(f"t{i},{value}\n" for i, value in enumerate(values))
        file.write_text(f"time,value\n{rows}", encoding="utf-8")
        done = terminal("detect", file, "--json")
        assert done.document == {
            "segments": [
                {"first": "t0", "last": "t5", "start": 0, "stop": 6, "level": 100.0},
                {"first": "t6", "last": "t11", "start": 6, "stop": 12, "level": 93.0},
            ],
            "steps": [
                {
                    "after": "t5",
                    "through": "t6",
                    "index": 6,
                    "ratio": pytest.approx(0.93),
                    "confidence": done.document["steps"][0]["confidence"],
                }
            ],
            "drifts": [],
            "noise": {"relative": 0.0002, "source": "differences"},
        }
        assert terminal("detect", file).out == "step in (t5, t6]: x 0.93 (100 -> 93)\n"
        assert terminal("detect", file, "--noise", "0.5").out == "no step\n"

    def test_mistakes_in_a_csv(self, terminal: Terminal, tmp_path: Path) -> None:
        file = tmp_path / "series.csv"
        for text, sentence in (
            (b"time,value\n1,x\n", "line 2: the value 'x' is not a positive finite number"),
            (b"when,value\n1,2\n", "there is no column 'time'"),
            (b"time,value,value\n1,2,3\n", "there is more than one column 'value'"),
            (b"\xff\xfe", "'utf-8' codec can't decode"),
        ):
            file.write_bytes(text)
            assert terminal.refuses("detect", file).startswith(f"{file}: {sentence}")

    @pytest.mark.parametrize("words", [("detect", "--noise", "nan"), ("replay", "--min-effect", "nan")])
    def test_what_is_no_number(self, terminal: Terminal, words: tuple[str, ...]) -> None:
        done = terminal(words[0], GUIDE, *words[1:])
        assert done.code == 2
        assert "nan is not accepted; accepted is a number" in done.err

    def test_noise_goes_with_a_file(self, terminal: Terminal) -> None:
        assert terminal.refuses("detect", "--noise", "0.1").startswith("--noise goes with a FILE; ")

    def test_in_an_empty_database_there_is_nothing(self, terminal: Terminal, database: Database) -> None:
        del database
        assert terminal("detect", "--json").document == {"suspects": 0}
        assert terminal("regressions", "list", "--json").document == []
        assert terminal("bisect", "status", "--json").document == []
        assert terminal("bisect", "tick").err == "no alerted incident waits for a bisection\n"


class TestDemo:
    def test_what_is_installed_meanwhile_ends_with_it(self) -> None:
        opened, cancelled = [], threading.Event()

        class Slow(ScriptedRunner):
            def open(self, pair: Any, *, like: Any = None) -> Any:
                opened.append(pair.jax.ref)
                cancelled.wait(60)
                return super().open(pair, like=like)

            def cancel(self) -> None:
                cancelled.set()

        def interrupted() -> None:
            with (
                Progress() as display,
                demo._installing(Slow(table=ladder_table()), ScriptedNights(), LADDER, display),
            ):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert opened in ([], [LADDER[0]]), "the one that was at it, and no other"

    def test_what_is_installed_meanwhile_is_waited_for(self) -> None:
        runner = ScriptedRunner(table=ladder_table())
        runner.cancel = lambda: None  # type: ignore[method-assign]
        nights = ScriptedNights(missing=frozenset({LADDER[1]}))
        with Progress() as display, demo._installing(runner, nights, LADDER, display) as installed:
            installed()
            assert len(runner.opened) == len(LADDER) - 1


class TestWatching:
    def test_a_bisection_from_open_to_cancelled(
        self, terminal: Terminal, database: Database, tmp_path: Path
    ) -> None:
        place = workplace(database, tmp_path, ScriptedRunner(ladder_table()))
        play_ladder(place, LADDER[-2:])
        from stepwatch.jobs.open_bisection import locate, open_bisection

        number = open_bisection(place, locate(database, {}))
        (listed,) = terminal("bisect", "status", "--json").document
        assert (listed["bisection_id"], listed["state"], listed["probes"]) == (number, "open", 0)
        shown = terminal("bisect", "show", number, "--json").document
        assert (shown["good"], shown["bad"], shown["culprits"], shown["probes"]) == (
            "0.10.1",
            "0.10.2",
            [],
            [],
        )
        assert "nothing tried yet" in terminal("bisect", "show", number).out
        assert terminal("bisect", "cancel", number).out == f"bisection {number} is cancelled\n"
        assert terminal.refuses("bisect", "cancel", number) == f"bisection {number} is not open"

        terminal.monkeypatch.setenv("COLUMNS", "240")
        table = terminal("regressions", "list").out
        assert "reductions.RankEight.track_time" in table
        assert "edge=5" in table

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (
                ("regressions", "show", 77),
                "there is no regression 77; `stepwatch regressions list` names them",
            ),
            (("bisect", "show", 77), "there is no bisection 77; `stepwatch bisect status` lists them"),
            (("bisect", "resume", 77), "there is no bisection 77"),
            (("bisect", "cancel", 77), "there is no bisection 77"),
            (("bisect", "start"), "no alerted incident waits for a bisection"),
            (("bisect", "start", "--incident", 7), "there is no alerted incident 7"),
            (
                ("bisect", "start", "--good", "1"),
                "benchmark, good and bad go together; bad, benchmark is missing",
            ),
            (("bisect", "start", "--policy", "x"), "policy = 'x' is not accepted; accepted is one of"),
            (
                ("nightly", "0.10.2", "--machine", "gpu"),
                "no machine 'gpu' is configured; accepted is one of local",
            ),
            (("detect", "--source", "x"), "no source 'x' is configured; accepted is one of releases"),
            (("backfill", "--suite", "x"), "no suite 'x' is configured; accepted is one of "),
        ],
    )
    def test_what_is_not_there(
        self, terminal: Terminal, database: Database, words: tuple[object, ...], sentence: str
    ) -> None:
        del database
        assert terminal.refuses(*words).startswith(sentence)


class TestSettings:
    def test_an_unreachable_database(self, terminal: Terminal) -> None:
        for words in (
            ("regressions", "list"),
            ("detect",),
            ("deliver",),
            ("bisect", "tick"),
            ("db", "migrate"),
        ):
            sentence = terminal.refuses(*words)
            assert sentence.startswith("no database at postgresql://me:***@127.0.0.1:1/x: ")
            assert "secret" not in sentence

    def test_a_password_is_never_shown_even_where_it_breaks_the_url(self, terminal: Terminal) -> None:
        for url in (
            "postgresql://me:hu@sh@127.0.0.1:1/x",
            "postgresql://me:hu/sh@127.0.0.1:1/x",
            "mysql://me:hush@127.0.0.1:1/x",
        ):
            terminal.monkeypatch.setenv("STEPWATCH_DATABASE_URL", url)
            for said in (terminal.refuses("db", "migrate"), terminal("config", "show").out):
                assert "me:***@127.0.0.1:1/x" in said
                assert not re.search("hu.?sh", said)

    def test_the_doctor_looks_at_the_rest_where_the_database_does_not_answer(
        self, terminal: Terminal
    ) -> None:
        terminal.monkeypatch.setattr("stepwatch.runners.releases.released", lambda _: {})
        done = terminal("doctor", "--json")
        assert done.code == 1
        found = {each["what"]: each for each in done.document}
        assert found["database"]["sentence"].startswith("no database at postgresql://me:***@127.0.0.1:1/x: ")
        assert found["source releases"]["grade"] == "ok"
        lines = terminal("doctor").out.splitlines()
        assert any(
            line.startswith("error: database: no database") and " -> start it" in line for line in lines
        )

    def test_the_embedded_database_has_an_address_only_while_it_runs(self, terminal: Terminal) -> None:
        terminal.monkeypatch.delenv("STEPWATCH_DATABASE_URL")
        assert terminal.refuses("db", "url").startswith(
            "the embedded database is not running; `stepwatch up`"
        )

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("machine = ", "not valid TOML"),
            ("lader = 3", "unknown key lader"),
            ("machine = 'gpu'", "machine = 'gpu' is not configured; accepted is one of local"),
        ],
    )
    def test_a_mistake_in_the_file(
        self, terminal: Terminal, tmp_path: Path, text: str, sentence: str
    ) -> None:
        (tmp_path / "stepwatch.toml").write_text(text, encoding="utf-8")
        for words in (("config", "check"), ("regressions", "list"), ("nightly", "0.10.2")):
            assert sentence in terminal.refuses(*words)

    def test_a_suite_whose_folder_is_not_there(self, terminal: Terminal, tmp_path: Path) -> None:
        (tmp_path / "stepwatch.toml").write_text("[suites.core]\nfolder = 'none'\n", encoding="utf-8")
        assert terminal.refuses("config", "check") == (
            f"suites.core.folder = '{tmp_path / 'none'}' is not accepted; accepted is a folder that is there"
        )

    def test_they_are_shown_without_secrets(self, terminal: Terminal, tmp_path: Path) -> None:
        terminal.monkeypatch.setenv("STEPWATCH_TRANSPORTS__SLACK__TOKEN", "xoxb-secret")
        for words in (("config", "show"), ("config", "show", "--json")):
            done = terminal(*words)
            assert "secret" not in done.out
            assert "postgresql://me:***@127.0.0.1:1/x" in done.out
        assert terminal("--state", tmp_path / "other", "config", "show", "--json").document["state"] == str(
            tmp_path / "other"
        )
        assert terminal("config", "check").out == f"{tmp_path / 'stepwatch.toml'}: fine\n"
        assert terminal("db", "url").out == f"{NOWHERE}\n"

    def test_a_real_process_ends_with_one_sentence_too(self, tmp_path: Path) -> None:
        (tmp_path / "stepwatch.toml").touch()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("STEPWATCH_")}
        done = subprocess.run(
            [sys.executable, "-c", "from stepwatch.cli import main; main()", "deliver"],
            env=environment | variables(tmp_path, NOWHERE),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert done.stderr.startswith("Error: no database at postgresql://me:***@127.0.0.1:1/x: ")
