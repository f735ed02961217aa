"""Is a detector scored as a reader would, and are labels, replays and shadows of stored series what they say?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from terminal import Terminal

from stepwatch import wiring
from stepwatch.core.course import TriageSettings
from stepwatch.core.labels import Labelled, read_labels
from stepwatch.core.scores import Night, score, whole
from stepwatch.jobs.evaluate import evaluate, row_json
from storage.rows import Database

GUIDE = Path(__file__).parent / "data" / "mlups_2023.log"


def stepped(seed: int, *parts: tuple[float, int]) -> list[float]:
    random = np.random.default_rng(seed)
    return [float(level * np.exp(random.normal(0, 0.002))) for level, nights in parts for _ in range(nights)]


def labelled(key: str = "a", **more: Any) -> dict[str, Any]:
    return {"key": key, "y": [1.0, 1.0, None, 2.0, 2.0], "steps": [3], **more}


class TestLabels:
    def test_positions_are_among_the_values_that_are_there(self) -> None:
        (one,) = read_labels(json.dumps({"series": [labelled(ambiguous=[1], noise=0.01)]}))
        assert one == Labelled(key="a", values=[1.0, 1.0, 2.0, 2.0], truth=[2], maybe=[1], noise=0.01)

    def test_a_step_at_a_gap_is_at_the_next_value(self) -> None:
        (one,) = read_labels(json.dumps({"series": [labelled(steps=[2])]}))
        assert one.truth == [2]

    @pytest.mark.parametrize(
        ("document", "sentence"),
        [
            ([], "it has no series; accepted is"),
            ({"series": []}, "it has no series; accepted is"),
            ({"series": [7]}, "series 0 has no key; accepted is a name"),
            (
                {"series": [labelled(y=[1, -2])]},
                "series 'a': y is not accepted; accepted is a list of positive",
            ),
            (
                {"series": [labelled(steps=[5])]},
                "series 'a': steps is not accepted; accepted is a list of pos",
            ),
            ({"series": [labelled(steps=None)]}, "series 'a': steps is not accepted"),
            ({"series": [labelled(ambiguous=[0])]}, "series 'a': ambiguous is not accepted"),
            (
                {"series": [labelled(y=[1, 1e308])]},
                "series 'a': y is not accepted; accepted is a list of pos",
            ),
            (
                {"series": [labelled(y=[1, 10**400])]},
                "series 'a': y is not accepted; accepted is a list of pos",
            ),
            (
                {"series": [labelled(y=[None], steps=[])]},
                "series 'a': y has no values; accepted is one or more",
            ),
            (
                {"series": [labelled(y=[1, 2, None], steps=[2])]},
                "series 'a': a step after the last value is not",
            ),
            (
                {"series": [labelled(noise=2)]},
                "series 'a': noise 2 is not accepted; accepted is a number from",
            ),
        ],
    )
    def test_mistakes(self, document: object, sentence: str) -> None:
        with pytest.raises(ValueError, match="accepted") as error:
            read_labels(json.dumps(document))
        assert str(error.value).startswith(sentence)

    def test_a_step_that_is_named_twice_is_one(self) -> None:
        (one,) = read_labels(json.dumps({"series": [labelled(steps=[2, 3, 3])]}))
        assert one.truth == [2]

    def test_a_file_that_is_too_deep(self) -> None:
        with pytest.raises(ValueError, match="it is not JSON"):
            read_labels("[" * 100_000)


class TestScores:
    ONE = Labelled(key="a", values=[1.0] * 100, truth=[20, 50], maybe=[80])

    def test_alerts_are_paired_nearest_first(self) -> None:
        found = score([self.ONE], [Night(alerts=[(22, 26), (21, 30), (50, 50), (81, 90), (95, 99)], flips=1)])
        assert (found.hits, found.false, found.missed, found.doubles) == (2, 1, 0, 1)
        assert found.delays == [10, 0], "by what each is paired with"
        assert found.rate(found.flips) == 10
        assert found.precision == pytest.approx(2 / 3)
        assert (found.recall, found.f1) == (1.0, 0.8)

    def test_in_a_whole_series_a_double_is_false(self) -> None:
        found = whole([self.ONE], [[20, 22]])
        assert (found.hits, found.false, found.missed) == (1, 1, 1)
        assert whole([self.ONE], [[22, 52]], near=1).hits == 0

    def test_where_nobody_looked_only_what_was_called_wrong_is_false(self) -> None:
        seen = Labelled(key="a", values=[1.0] * 100, truth=[20], wrong=[60])
        found = score([seen], [Night(alerts=[(20, 24), (40, 44), (61, 65)], flips=0)])
        assert (found.hits, found.false, found.missed) == (1, 1, 0)

    def test_nothing_to_find_and_nothing_found_is_perfect(self) -> None:
        found = whole([Labelled(key="a", values=[1.0], truth=[])], [[]])
        assert (found.precision, found.recall, found.f1) == (1.0, 1.0, 1.0)


def test_ours_finds_clear_steps_and_says_them_once() -> None:
    series = [
        Labelled(key="up", values=stepped(1, (100, 20), (110, 20)), truth=[20]),
        Labelled(key="flat", values=stepped(2, (100, 40)), truth=[]),
    ]
    (row,) = evaluate(series, settings=TriageSettings(), peers=None)
    document = row_json(row)
    assert (document["detector"], document["f1"], document["f1_within_1"]) == ("stepwatch", 1.0, 1.0)
    assert document["online"] == {
        "f1": 1.0,
        "delay_median": 4.0,
        "delay_p90": 4.0,
        "false": 0.0,
        "flips": 0.0,
        "duplicates": 0.0,
    }
    (blind,) = evaluate(series, settings=TriageSettings(confirm=30), peers=None)
    assert row_json(blind)["online"]["delay_median"] is None
    assert blind.watched.missed == 1


class TestCommands:
    def test_evaluate_a_file(self, terminal: Terminal, tmp_path: Path) -> None:
        file = tmp_path / "labels.json"
        values = stepped(1, (100, 20), (110, 20))
        file.write_text(json.dumps({"series": [{"key": "up", "y": values, "steps": [20]}]}), encoding="utf-8")
        (row,) = terminal("evaluate", file, "--no-peers", "--json").document
        assert (row["detector"], row["precision"], row["recall"]) == ("stepwatch", 1.0, 1.0)
        in_words = terminal("evaluate", file, "--no-peers").out
        assert in_words.startswith("1 series, 40 nights, 1 labelled steps\n")
        assert "stepwatch  1.000" in in_words

    @pytest.mark.install
    def test_beside_peers_in_an_environment_of_their_own(self, terminal: Terminal, tmp_path: Path) -> None:
        file = tmp_path / "labels.json"
        values = stepped(1, (100, 20), (130, 20))
        file.write_text(json.dumps({"series": [{"key": "up", "y": values, "steps": [20]}]}), encoding="utf-8")
        rows = terminal("evaluate", file, "--json").document
        assert [row["detector"] for row in rows] == [
            "stepwatch",
            "asv.step_detect",
            "Otava",
            "Otava, 1 %",
            "KernelCPD",
            "KernelCPD, tuned",
            "KernelCPD, swept",
        ]
        assert all(row["recall"] == 1.0 for row in rows), "so clear a step is seen by all"
        peers = tmp_path / "cache" / "peers"
        shutil.rmtree(next(peers.glob("lib/python*/site-packages/ruptures")))
        assert "KernelCPD gives no answer: ModuleNotFoundError" in terminal.refuses("evaluate", file)
        assert len(terminal("evaluate", file, "--json").document) == 7, "it is made again"
        left = {each.name for each in peers.parent.iterdir() if each.name.startswith("peers")}
        assert left == {"peers", "peers.lock"}, "and nothing is left beside it"

    @pytest.mark.usefixtures("database")
    def test_what_people_say_is_what_it_is_measured_by(self, terminal: Terminal) -> None:
        assert terminal.refuses("evaluate", "--stored").startswith("nobody has labelled a step yet")
        terminal("import-logs", GUIDE, "--benchmark", "xlb.mlups")
        assert terminal("label", "real", "--regression", "1", "--by", "ann").out == (
            "xlb.mlups value on imported of logs: (2023-07-21, 2023-07-25] is real\n"
        )
        step = ("--benchmark", "xlb.mlups", "--through", "2023-08-26")
        assert terminal("label", "noise", *step, "--note", "a guess").out.endswith("is noise\n")
        (row,) = terminal("evaluate", "--stored", "--no-peers", "--json").document
        assert (row["precision"], row["recall"]) == (0.5, 1.0)
        assert terminal("label", "real", *step).out.endswith(": (2023-08-24, 2023-08-26] is real\n")
        (row,) = terminal("evaluate", "--stored", "--no-peers", "--json").document
        assert (row["precision"], row["recall"], row["online"]["delay_median"]) == (1.0, 1.0, 4.0)

    @pytest.mark.usefixtures("database")
    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (("label", "real"), "accepted is either --regression, or --benchmark with --through"),
            (("label", "real", "--regression", "9"), "there is no regression 9; "),
            (
                ("label", "real", "--benchmark", "xlb.mlups", "--through", "2023-08-25"),
                "the series has no result on 2023-08-25 with one before it; accepted is a night with a result",
            ),
            (
                ("label", "real", "--benchmark", "x", "--through", "a"),
                "no series x is stored; `stepwatch bench",
            ),
            (("replay", "--stored", "x"), "no series x is stored; `stepwatch benchmarks list` names those"),
            (("replay",), "accepted is either FILES or --stored NAME"),
            (("replay", "--stored", "xlb.mlups", "--better", "lower"), "--better goes with FILES"),
            (
                ("label", "real", "--regression", "1", "--machine", "x"),
                "--machine and --source go with --bench",
            ),
            (
                ("label", "real", "--regression", "1", "--note", "a\x1b[31m"),
                "accepted are printable characters",
            ),
            (("evaluate",), "accepted is either LABELS, a JSON file, or --stored"),
        ],
    )
    def test_mistakes(self, terminal: Terminal, words: tuple[str, ...], sentence: str) -> None:
        terminal("import-logs", GUIDE, "--benchmark", "xlb.mlups")
        assert sentence in terminal.refuses(*words)

    @pytest.mark.usefixtures("database")
    def test_a_stored_series_is_replayed_with_any_settings(self, terminal: Terminal) -> None:
        terminal("import-logs", GUIDE, "--benchmark", "xlb.mlups")
        stored = terminal("replay", "--stored", "xlb.mlups", "--json").document
        assert stored == terminal("replay", GUIDE, "--json").document
        late = terminal("replay", "--stored", "xlb.mlups", "--confirm-results", "6", "--json").document
        assert late["alerts"][0]["raised"] > stored["alerts"][0]["raised"]
        silent = terminal("replay", "--stored", "xlb.mlups", "--min-effect", "0.5")
        assert silent.out == "nothing would have been said\n"

    def test_a_csv_is_replayed(self, terminal: Terminal, tmp_path: Path) -> None:
        file = tmp_path / "a.csv"
        rows = "\n".join(f"n{i},{value}" for i, value in enumerate(stepped(1, (100, 20), (110, 20))))
        file.write_text(f"time,value\n{rows}\n", encoding="utf-8")
        document = terminal("replay", file, "--better", "lower", "--json").document
        assert [(a["after"], a["through"], a["raised"], a["kind"]) for a in document["alerts"]] == [
            ("n19", "n20", "n24", "regression")
        ]
        assert terminal.refuses("replay", file).startswith("a CSV doesn't say which way is good; --better")
        file.write_text("time,value\na,1\na,2\n", encoding="utf-8")
        assert "the time 'a' is there twice" in terminal.refuses("replay", file, "--better", "lower")
        file.write_text("when,value\na,1\n", encoding="utf-8")
        assert terminal.refuses("replay", file, "--better", "lower").startswith(f"{file}: there is no column")
        assert terminal.refuses("import-logs", file, "--benchmark", "a").startswith(
            f"{file} is no log; accepted"
        )

    @pytest.mark.usefixtures("database")
    def test_a_shadow_says_what_only_one_of_both_says(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        terminal("import-logs", GUIDE, "--benchmark", "xlb.mlups")
        assert terminal.refuses("shadow").startswith("[shadow] sets nothing, so there is nothing to compare")
        monkeypatch.setenv("STEPWATCH_SHADOW__CONFIRM_RESULTS", "4")
        assert terminal("shadow").err.strip() == "both say the same"
        monkeypatch.setenv("STEPWATCH_SHADOW__MIN_EFFECT", "0.03")
        (only,) = terminal("shadow", "--json").document
        assert (only["only"], only["kind"], only["on"], only["after"], only["through"]) == (
            "live",
            "regression",
            "2023-07-29",
            "2023-07-21",
            "2023-07-25",
        )
        assert only["change"] == pytest.approx(-0.0178, abs=1e-4)
        assert terminal("shadow", "--nights", "20", "--json").document == []
        said: list[str] = []
        assert wiring.try_shadow(say=said.append) == 0, "the DAG says what is new tonight"
        monkeypatch.setenv("STEPWATCH_SHADOW__MIN_EFFECT", "0.003")
        monkeypatch.setenv("STEPWATCH_SHADOW__CONFIRM_RESULTS", "2")
        said = terminal("shadow").out
        assert "2023-07-27: only shadow says regression in (2023-07-21, 2023-07-25]" in said
        assert "2023-07-29: only live says regression in (2023-07-21, 2023-07-25]" in said


def test_the_database_keeps_drift_and_noise(database: Database, terminal: Terminal, tmp_path: Path) -> None:
    values = [100 * 1.002**night for night in range(60)]
    log = tmp_path / "drift_2023.log"
    days = [f"OUT-{7 + day // 31:02d}-{1 + day % 31:02d}" for day in range(60)]
    log.write_text(
        "".join(f"{day}:MLUPS: {value:.4f}\n" for day, value in zip(days, values, strict=True)),
        encoding="utf-8",
    )
    terminal("import-logs", log, "--benchmark", "slow.drift")
    with database.begin() as connection:
        (drift,) = connection.exec_driver_sql(
            "select kind, level_after / level_before - 1 from reporting.steps where kind <> 'dip'"
        ).all()
        noise, source = connection.exec_driver_sql("select noise, noise_source from reporting.series").one()
    assert drift[0] == "drift"
    assert drift[1] == pytest.approx(1.002**59 - 1, rel=0.05)
    assert 0 < noise < 0.01
    assert source
