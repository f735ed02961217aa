"""Which requests of a bisection are understood, and what is said of the others?"""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.core.bisection.plan import PolicyKind
from stepwatch.core.requests import CHOICES, KEYS, BisectionRequest, parse_date, parse_pair, parse_request

RANGE = {"benchmark": "b", "good": "0.10.1", "bad": "0.10.2"}


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({}, BisectionRequest()),
        ({"incident": 3}, BisectionRequest(incident=3)),
        (RANGE, BisectionRequest(benchmark="b", good="0.10.1", bad="0.10.2")),
        (
            {"incident": 3, "policy": "comb", "machine": "m", "source": "s"},
            BisectionRequest(incident=3, policy="comb", machine="m", source="s"),
        ),
        ({"incident": 3, "benchmark": None, "good": None}, BisectionRequest(incident=3)),
    ],
)
def test_what_is_understood(conf: dict[str, Any], expected: BisectionRequest) -> None:
    assert parse_request(conf) == expected


@pytest.mark.parametrize(
    ("conf", "sentence"),
    [
        (
            {"zeta": 1, "alpha": 2},
            (
                "unknown key alpha, zeta; accepted are incident, benchmark, good, bad, machine, source, policy,"
                " pairing, container, fix, budget_probes, budget_minutes"
            ),
        ),
        ({"incident": "3"}, "incident = '3' is not accepted; accepted is the number of an incident"),
        ({"incident": True}, "incident = True is not accepted; accepted is the number of an incident"),
        ({"incident": 1.5}, "incident = 1.5 is not accepted; accepted is the number of an incident"),
        (RANGE | {"good": 7}, "good = 7 is not accepted; accepted is a word"),
        (RANGE | {"bad": " "}, "bad = ' ' is not accepted; accepted is a word"),
        (RANGE | {"benchmark": ["b"]}, "benchmark = ['b'] is not accepted; accepted is a word"),
        (
            {"policy": "random"},
            "policy = 'random' is not accepted; accepted is one of explore, comb, exhaustive",
        ),
        (
            {"incident": 1, "good": "x"},
            "incident goes without benchmark, good and bad: an incident has them",
        ),
        (
            {"pairing": "both"},
            "pairing = 'both' is not accepted; accepted is one of clock, pinned",
        ),
        (
            {"fix": "jaxlib==1"},
            "fix = 'jaxlib==1' is not accepted; accepted is xla=jaxlib==0.4.20, or jax=jax==0.4.20",
        ),
        (
            {"fix": "xla=jax==1"},
            "fix = 'xla=jax==1' is not accepted; accepted is xla=jaxlib==0.4.20, or jax=jax==0.4.20",
        ),
        ({"budget_probes": 0}, "budget_probes = 0 is not accepted; accepted is a whole number above 0"),
        ({"budget_probes": 2.5}, "budget_probes = 2.5 is not accepted; accepted is a whole number above 0"),
        ({"budget_minutes": math.inf}, "budget_minutes = inf is not accepted; accepted is a number above 0"),
        ({"good": "1"}, "benchmark, good and bad go together; bad, benchmark is missing"),
        (RANGE | {"bad": "0.10.1"}, "good and bad are both '0.10.1'; there is nothing between them"),
    ],
)
def test_what_is_refused_in_one_sentence(conf: dict[str, Any], sentence: str) -> None:
    assert parse_request(conf) == sentence


json_values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(KEYS) | st.text(), json_values))
def test_anything_is_a_request_or_a_sentence(conf: dict[str, Any]) -> None:
    found = parse_request(conf)
    if isinstance(found, str):
        assert found
        return
    assert {key: value for key, value in vars(found).items() if value is not None} == {
        key: value for key, value in conf.items() if value is not None
    }


def test_the_policies_are_those_of_the_search() -> None:
    assert set(CHOICES["policy"]) == {kind.value for kind in PolicyKind}


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("jax@0.10.2+xla@0.10.1", ("0.10.2", "0.10.1")),
        ("jax@0123abc+xla@4567def", ("0123abc", "4567def")),
        ("xla@1+jax@2", None),
        ("jax@1", None),
        ("jax@1+xla@2 ", None),
        ("jax@+xla@2", None),
        ("0.10.2", None),
    ],
)
def test_a_pair_is_read(end: str, expected: tuple[str, str] | None) -> None:
    assert parse_pair(end) == expected


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("2024-09-16", dt.date(2024, 9, 16)),
        ("2024-02-30", None),
        ("20240916", None),
        ("2024-W38-1", None),
        ("0.10.2", None),
        ("2024-09-16\n", None),
    ],
)
def test_a_date_is_read(end: str, expected: dt.date | None) -> None:
    assert parse_date(end) == expected
