"""What do the documents of a run's processes come to?"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import document, result

from stepwatch.core import documents
from stepwatch.core.documents import (
    ENDED,
    conditions,
    failures,
    fingerprint,
    measurements,
    process_values,
    timed_out,
    warnings,
)
from stepwatch.core.model import Benchmark, Better, Measurement, Outcome, digest

BENCHMARK = Benchmark(
    name="a.A.track_time", version="1", params={"edge": 5}, metric="cpu_time", unit="s", better=Better.LOWER
)
blocks = st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=5)
processes = st.lists(blocks, min_size=1, max_size=7)


def of(*results: dict[str, Any], warned: tuple[str, ...] = ()) -> dict[str, Any]:
    return {**document({}), "benchmarks": list(results), "warnings": list(warned)}


def measured(*values: float, better: str = "lower", **more: Any) -> dict[str, Any]:
    metric = {"metric": "cpu_time", "unit": "s", "better": better, "judged": True, "blocks": list(values)}
    return result("a.A.track_time", 1.0) | {"metrics": [metric]} | more


def failed(status: str, reason: str | None) -> dict[str, Any]:
    return result("a.A.track_time", (status, reason or "")) | {"reason": reason}


def test_the_worked_example() -> None:
    (found,) = measurements([of(measured(2, 3, 4)), of(measured(5, 5, 6)), of(measured(3, 3, 9))])
    assert found == Measurement(
        benchmark=BENCHMARK,
        outcome=Outcome.OK,
        value=3,
        low=3,
        spread=0.0,
        high=5,
        samples=(2, 3, 4, 5, 5, 6, 3, 3, 9),
        process=(0, 0, 0, 1, 1, 1, 2, 2, 2),
        hashes={"stablehlo": "abc"},
        warnings=("1 of 3 processes slow",),
    )


def test_of_rates_the_high_end_counts() -> None:
    (found,) = measurements([of(measured(each, better="higher")) for each in (1, 2, 3, 4, 5)])
    assert (found.value, found.low, found.high) == (4, 1, 5)


@given(processes, st.sampled_from(["lower", "higher"]))
def test_every_sample_is_kept_and_the_value_is_a_process(values: list[list[float]], better: str) -> None:
    read = [of(measured(*each, better=better)) for each in values]
    (found,) = measurements(read)
    assert list(found.samples) == list(itertools.chain(*values))
    assert [len(list(group)) for _, group in itertools.groupby(found.process)] == [
        len(each) for each in values
    ]
    assert found.value in process_values(read, found.benchmark)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high


@given(st.permutations(range(4)))
def test_the_order_of_processes_does_not_change_the_value(order: list[int]) -> None:
    read = [of(measured(each + 1.0, each + 2.0)) for each in order]
    assert measurements(read)[0].value == 1.5


def test_metrics_versions_and_params_are_kept_apart() -> None:
    both = result("a.A.track_time", 1.0)
    found = measurements([of(both, measured(1.0, params={"edge": 6}), measured(1.0, version="2"))])
    assert sorted(
        (each.benchmark.metric, each.benchmark.params["edge"], each.benchmark.version) for each in found
    ) == [
        ("cpu_time", 5, "1"),
        ("cpu_time", 5, "2"),
        ("cpu_time", 6, "1"),
        ("wall_time", 5, "1"),
    ]
    assert [each.benchmark.judged for each in found if each.benchmark.metric == "wall_time"] == [False]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("failed", Outcome.BENCHMARK_FAILED),
        ("wrong_result", Outcome.WRONG_RESULT),
        ("timed_out", Outcome.TIMED_OUT),
        ("skipped", Outcome.SKIPPED),
    ],
)
def test_one_process_that_fails_takes_the_value(status: str, outcome: Outcome) -> None:
    read = [of(measured(1.0)), of(failed(status, "why"))]
    (found,) = measurements(read)
    assert (found.outcome, found.reason, found.value, found.samples) == (outcome, "why", None, ())
    assert failures(read) == {("a.A.track_time", digest({"edge": 5})): (outcome, "why")}


@given(st.permutations(["wrong_result", "failed", "timed_out", "skipped"]))
def test_the_worst_of_several_counts(statuses: list[str]) -> None:
    read = [of(failed(status, status)) for status in statuses]
    assert list(failures(read).values()) == [(Outcome.WRONG_RESULT, "wrong_result")]
    assert measurements(read) == ()


def test_what_was_not_reached_says_nothing() -> None:
    read = [of(measured(1.0)), of(failed("unreached", "the process ended before this was reached"))]
    (found,) = measurements(read)
    assert (found.outcome, found.value) == (Outcome.OK, 1.0)
    assert failures(read) == {}


def test_a_failure_without_a_reason_has_one() -> None:
    assert list(failures([of(failed("failed", None))]).values()) == [
        (Outcome.BENCHMARK_FAILED, "no reason given")
    ]


def test_a_metric_without_a_block_has_failed() -> None:
    (found,) = measurements([of(measured())])
    assert (found.outcome, found.reason) == (Outcome.BENCHMARK_FAILED, "no block was measured")


def test_a_status_that_nobody_knows_is_a_bug() -> None:
    with pytest.raises(KeyError):
        failures([of(failed("fine", None))])


def test_a_processes_value_is_its_median_block() -> None:
    other = measured(100.0, params={"edge": 6})
    read = [of(measured(3.0, 1.0, 9.0), other), of(other), of(failed("failed", "x")), of(measured(5.0))]
    assert process_values(read, BENCHMARK) == (3.0, 5.0)


def test_a_process_at_its_time_limit_timed_out_where_it_was() -> None:
    read = of(measured(1.0), failed("failed", ENDED), failed("failed", "own"), failed("unreached", None))
    ended = timed_out(read, 2.5)
    assert [(each["status"], each["reason"]) for each in ended["benchmarks"]] == [
        ("ok", None),
        ("timed_out", "not ended after 2.5 s"),
        ("failed", "own"),
        ("unreached", None),
    ]
    assert read["benchmarks"][1]["status"] == "failed", "the document that was read is left alone"


def counted(*values: float) -> list[dict[str, Any]]:
    exact = {"metric": "temp_bytes", "unit": "bytes", "better": "lower", "judged": False, "exact": True}
    return [of(measured(1.0) | {"metrics": [{**exact, "blocks": [value]}]}) for value in values]


def test_a_count_of_zero_is_a_value() -> None:
    (found,) = measurements(counted(0, 0, 0))
    assert (found.value, found.low, found.high, found.spread, found.warnings) == (0, 0, 0, None, ())
    assert (found.benchmark.exact, found.benchmark.judged, found.samples) == (True, False, (0, 0, 0))


def test_a_count_that_differs_between_processes_says_so() -> None:
    (found,) = measurements(counted(0, 4, 0))
    assert (found.value, found.warnings) == (0, ("not the same in every process: 0 to 4",))


@pytest.mark.parametrize(
    ("better", "values"),
    [("lower", (1.0, 1.19, 1.3, 1.01, 1.29)), ("higher", (1.0, 1.3, 1.29, 1.01, 1.1))],
)
def test_slow_processes_are_counted(better: str, values: tuple[float, ...]) -> None:
    (found,) = measurements([of(measured(each, better=better)) for each in values])
    assert found.warnings == ("2 of 5 processes slow",)


def test_processes_with_different_programs_say_so() -> None:
    read = [of(measured(1.0, hashes={"hlo": each, "stablehlo": "same"})) for each in "aab"]
    (found,) = measurements(read)
    assert (found.hashes["hlo"], found.warnings) == ("a", ("the processes ran different programs (hlo)",))


def test_a_doubt_of_a_process_stays_with_what_is_judged_there() -> None:
    still = "interval still 4 % after 30 samples"
    one = result("a.A.track_time", 1.0, warnings=[still])
    other = result("b.B.track_time", 1.0)
    found = measurements([of(one, other), of(one, other), of(other)])
    assert {(each.benchmark.name[0], each.benchmark.metric): each.warnings for each in found} == {
        ("a", "cpu_time"): (still,),
        ("a", "wall_time"): (),
        ("b", "cpu_time"): (),
        ("b", "wall_time"): (),
    }


def test_the_machine_is_the_last_one_and_its_conditions_are_kept_for_each_process() -> None:
    read = [
        {
            **of(),
            "settings": {"affinity": [1]},
            "machine": {"cpu": cpu},
            "conditions": {"before": {"load": 1.0}, "after": {}},
        }
        for cpu in ("old", "new")
    ]
    assert fingerprint(read) == {"cpu": "new"}
    assert conditions(read) == [{"settings": {"affinity": [1]}, "before": {"load": 1.0}, "after": {}}] * 2
    assert (fingerprint([of()]), conditions([of()])) == ({}, [{"settings": {}}])


def test_each_warning_is_said_once_in_order() -> None:
    assert warnings([of(warned=("b", "a")), of(warned=("a", "c"))]) == ("b", "a", "c")


def test_the_words_are_those_of_the_worker() -> None:
    """The worker is an island, so its words are written twice."""
    worker = pytest.importorskip("benchmarks.worker")
    assert (documents.DOCUMENT, documents.ENDED) == (worker.DOCUMENT, worker.ENDED)
