from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.core.course import TriageSettings
from stepwatch.core.model import (
    Better,
    Direction,
    Evidence,
    Point,
    Regression,
    State,
    SuspectRange,
    Verdict,
)
from stepwatch.core.triage import Triage, triage

LADDER = ("0.4.30", "0.4.31", "0.4.33", "0.5.0", "0.5.3", "0.10.1", "0.10.2")
START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def points(values: Sequence[float | None], labels: Sequence[str] | None = None) -> list[Point]:
    labels = labels or [f"n{i:03d}" for i in range(len(values))]
    return [
        Point(label=label, at=START + dt.timedelta(days=i), value=value)
        for i, (label, value) in enumerate(zip(labels, values, strict=True))
    ]


def evidence(after: str, through: str, verdict: Verdict) -> Evidence:
    suspect = SuspectRange(after=after, through=through)
    return Evidence(suspect=suspect, verdict=verdict, ratio=None, old=(), new=(), reason="")


@dataclass
class Watch:
    """Plays nights; every bracket asked for is answered at once by `verdicts` (by its `through`, else `default`)."""

    better: Better = Better.LOWER
    default: Verdict | None = None
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    noise: float | None = None
    exact: bool = False
    known: tuple[Regression, ...] = ()
    evidence: list[Evidence] = field(default_factory=list)
    said: list[tuple[str, str, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def play(self, nights: Sequence[Point], *, start: int = 1) -> Triage:
        for n in range(start, len(nights) + 1):
            night = self.look(nights[:n])
            while night.suspect is not None:
                verdict = self.verdicts.get(night.suspect.through, self.default)
                if verdict is None:
                    break
                self.asked.append(str(night.suspect))
                assert self.asked.count(str(night.suspect)) == 1
                self.evidence.append(evidence(night.suspect.after, night.suspect.through, verdict))
                night = self.look(nights[:n])
        return night

    def look(self, nights: Sequence[Point]) -> Triage:
        night = triage(
            nights,
            known=self.known,
            evidence=self.evidence,
            better=self.better,
            noise=self.noise,
            exact=self.exact,
        )
        self.known = night.regressions
        self.said += [(s.kind.value, str(s.regression.suspect), nights[-1].label) for s in night.said]
        return night


@pytest.mark.parametrize(
    "values",
    [
        [0.41, 0.41, 178, 81, 0.6, 0.5, 0.5],
        [0.8, 0.8, 300, 64, 1.6, 0.6, 0.6],
        [2.0, 2.0, 307, 60, 3.4, 1.8, 1.8],
    ],
)
def test_a_ladder_falls_at_0_4_33_eases_and_recovers(values: list[float]) -> None:
    watch = Watch(default=Verdict.DIFFERENT)
    watch.play(points(values, LADDER))
    bracket = "(0.4.31, 0.4.33]"
    assert watch.said == [
        ("regression", bracket, "0.4.33"),
        ("partly_recovered", bracket, "0.5.0"),
        ("recovered", bracket, "0.5.3"),
    ]
    (regression,) = watch.known
    assert (regression.state, regression.raised, regression.eased) == (State.RECOVERED, "0.4.33", "0.5.0")
    assert regression.remeasured
    assert regression.change == pytest.approx(values[2] / values[1] - 1)


def test_what_remains_of_a_recovery_is_said() -> None:
    nights = points([0.8, 0.8, 300, 64, 1.6], LADDER[:5])
    proofs = [evidence(a, b, Verdict.DIFFERENT) for a, b in itertools.pairwise(LADDER[1:5])]
    known = Watch(default=Verdict.DIFFERENT)
    known.play(nights[:4])
    night = triage(nights, known=known.known, evidence=proofs, better=Better.LOWER)
    (said,) = night.said
    assert (said.kind, said.remaining) == ("recovered", pytest.approx(1.0))
    assert str(said.suspect) == "(0.5.0, 0.5.3]"


def test_a_gain_out_of_the_blue_is_its_own_and_its_loss_a_regression() -> None:
    watch = Watch(default=Verdict.DIFFERENT)
    watch.play(points([1, 1, 1, 1, 1, 0.4, 5], LADDER))
    assert watch.said == [
        ("improvement", "(0.5.3, 0.10.1]", "0.10.1"),
        ("regression", "(0.10.1, 0.10.2]", "0.10.2"),
    ]
    assert [(r.direction, r.state) for r in watch.known] == [
        (Direction.IMPROVEMENT, State.RECOVERED),
        (Direction.REGRESSION, State.CONFIRMED),
    ]
    assert watch.known[1].baseline == pytest.approx(0.4)


def test_the_direction_is_the_benchmarks() -> None:
    watch = Watch(better=Better.HIGHER, default=Verdict.DIFFERENT)
    watch.play(points([1, 1, 1, 1, 1, 0.4], LADDER[:6]))
    assert watch.said == [("regression", "(0.5.3, 0.10.1]", "0.10.1")]


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.UNKNOWN, Verdict.BROKEN])
def test_an_odd_night_is_asked_once_and_makes_no_step(verdict: Verdict) -> None:
    watch = Watch(default=verdict)
    night = watch.play(points([10.0, 10.1, 9.9, 10.0, 15.0, 10.0, 10.1]))
    assert watch.asked == ["(n003, n004]"]
    assert (watch.said, watch.known) == ([], ())
    assert [(dip.first, dip.last) for dip in night.dips] == [("n004", "n004")]


@pytest.mark.parametrize(
    ("old", "new", "state", "told"),
    [
        (
            (1.3, 1.29, 1.31),
            (1.3, 1.31, 1.3),
            State.ENVIRONMENT,
            0,
        ),  # the old program is as slow tonight: the machine
        (
            (1.0, 1.01, 1.0),
            (1.0, 1.0, 1.02),
            State.CONFIRMED,
            1,
        ),  # back tonight, and yet it stays: four nights decide
        ((), (), State.CONFIRMED, 1),
    ],
)
def test_what_the_machine_did_is_told_to_nobody(
    old: tuple[float, ...], new: tuple[float, ...], state: State, told: int
) -> None:
    values = [1.0, 1.005, 0.995, 1.0, 1.002, *[1.3, 1.305, 1.295, 1.3, 1.302, 1.3]]
    suspect = SuspectRange(after="n004", through="n005")
    said = Evidence(suspect=suspect, verdict=Verdict.SAME, ratio=1.0, old=old, new=new, reason="")
    night = triage(points(values), better=Better.LOWER, evidence=[said])
    (only,) = night.opened
    assert (only.suspect, only.state, len(night.said)) == (suspect, state, told)


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.UNKNOWN])
def test_later_nights_prove_a_step_without_evidence(verdict: Verdict) -> None:
    watch = Watch(default=verdict)
    watch.play(points([10.0, 10.1, 9.9, 10.0, 10.1, 15.0, 15.1, None, 14.9, 15.0, 15.1, 15.0]))
    assert watch.said == [("regression", "(n004, n005]", "n010")]
    assert watch.asked == ["(n004, n005]"]


def test_small_steps_of_few_nights_are_not_measured_again() -> None:
    watch = Watch(default=Verdict.DIFFERENT)
    watch.play(points([100.0, 100.1, 99.9, 100.0, 100.1, *[109.0] * 5]))
    assert watch.asked == []
    assert watch.said == [("regression", "(n004, n005]", "n009")]


@pytest.mark.parametrize(
    ("verdict", "on"), [(Verdict.DIFFERENT, "n016"), (Verdict.UNKNOWN, "n016"), (Verdict.SAME, "n020")]
)
def test_of_many_nights_a_small_step_is_measured_again_and_told_later_where_nothing_was_seen(
    verdict: Verdict, on: str
) -> None:
    quiet = [100.0, 100.1, 99.9, 100.0, 100.1, 99.9] * 2
    watch = Watch(default=verdict)
    watch.play(points([*quiet, *[103.0, 103.1, 102.9] * 4]))
    assert watch.asked == ["(n011, n012]"]
    assert watch.said == [("regression", "(n011, n012]", on)]


def test_a_large_change_within_the_noise_is_not_measured_again() -> None:
    watch = Watch(default=Verdict.DIFFERENT, noise=0.05)
    watch.play(points([100.0, 95.0, 104.0, 100.0, 112.0]))
    assert watch.asked == []


def test_a_suspected_step_waits_and_a_small_proved_one_too() -> None:
    values = [100.0, 100.1, 99.9, 100.0, 100.1, 105.0, 105.1]
    night = triage(points(values), better=Better.LOWER)
    (regression,) = night.regressions
    assert (regression.state, regression.raised) == (State.SUSPECTED, None)
    proved = triage(
        points(values), better=Better.LOWER, evidence=[evidence("n004", "n005", Verdict.DIFFERENT)]
    )
    (regression,) = proved.regressions
    assert (regression.state, regression.raised, regression.remeasured) == (State.CONFIRMED, None, True)
    assert proved.said == ()


def test_a_bracket_leaves_out_gaps_and_odd_nights() -> None:
    values = [10.0, 10.1, 9.9, 10.0, 10.1, 13.0, None, 20.0, 20.1, 20.0, 20.1, 20.0]
    watch = Watch()
    watch.play(points(values))
    assert watch.said == [("regression", "(n004, n007]", "n011")]


def test_an_alerted_level_that_returns_is_recovered_and_never_a_dip() -> None:
    watch = Watch(verdicts={"n005": Verdict.DIFFERENT}, default=Verdict.UNKNOWN)
    night = watch.play(points([10.0, 10.1, 9.9, 10.0, 10.1, 15.0, *[10.0, 10.1] * 4]))
    assert [(kind, bracket) for kind, bracket, _ in watch.said] == [
        ("regression", "(n004, n005]"),
        ("recovered", "(n004, n005]"),
    ]
    assert night.dips == ()


@pytest.mark.parametrize("nights", [4, 9])
def test_what_was_over_before_anyone_was_told_is_not_told(nights: int) -> None:
    values = [*[10.0, 10.1] * 6, *[12.0, 12.1, 12.0] * 3][: 12 + nights] + [10.0, 10.1] * 5
    night = triage(points(values), better=Better.LOWER)
    assert [(r.direction, r.state, r.raised) for r in night.regressions] == [
        (Direction.REGRESSION, State.RECOVERED, None)
    ]
    assert night.said == ()


def test_a_way_back_that_was_told_is_no_improvement_after_a_refit() -> None:
    known = Regression(
        suspect=SuspectRange(after="gone", through="n000"),
        direction=Direction.REGRESSION,
        state=State.RECOVERED,
        baseline=10.0,
        level=12.0,
        raised="n004",
        recovered="n010",
    )
    values = [12.0, 12.1, 11.9, 12.0, 12.1, 12.0, *[10.0, 10.1] * 5]
    night = triage(points(values), known=[known], better=Better.LOWER)
    assert (night.regressions, night.said) == ((known,), ())
    assert [s.kind for s in triage(points(values), better=Better.LOWER).said] == ["improvement"]


def test_an_alerted_night_is_no_dip_even_where_its_evidence_is_not_given() -> None:
    known = Regression(
        suspect=SuspectRange(after="n004", through="n005"),
        direction=Direction.REGRESSION,
        state=State.CONFIRMED,
        baseline=10.0,
        level=15.0,
        raised="n005",
    )
    values = [10.0, 10.1, 9.9, 10.0, 10.1, 15.0, *[10.0, 10.1] * 3]
    night = triage(points(values), known=[known], better=Better.LOWER)
    assert len(night.detection.dips) == 1
    assert (night.dips, [s.kind for s in night.said]) == ((), ["recovered"])


def test_a_step_that_moves_with_a_late_night_keeps_its_identity() -> None:
    values = [10.0, 10.1, 9.9, 10.0, 10.1, None, 12.0, 12.1, 11.9, 12.0, 12.1]
    watch = Watch()
    watch.play(points(values))
    assert [s[0] for s in watch.said] == ["regression"]
    values[5] = 12.0
    late = triage(points(values), known=watch.known, better=Better.LOWER)
    assert late.said == ()
    assert [str(r.suspect) for r in late.regressions] == ["(n004, n005]"]
    assert late.followed[0] is not None
    assert late.opened == ()


def test_a_late_night_inside_a_proved_bracket_moves_the_boundary() -> None:
    values = [10.0, 10.1, 15.0, 15.0]
    night = triage(
        points(values), better=Better.LOWER, evidence=[evidence("n001", "n003", Verdict.DIFFERENT)]
    )
    assert [step.index for step in night.detection.steps] == [2]


def test_a_count_is_told_on_its_first_night_if_it_matters_and_never_measured_again() -> None:
    watch = Watch(exact=True, default=Verdict.DIFFERENT)
    night = watch.play(points([100, 100, 101, None, 101, 115, 115, 100]))
    assert watch.said == [("regression", "(n004, n005]", "n005"), ("recovered", "(n004, n005]", "n007")]
    assert watch.asked == []
    assert [(str(r.suspect), r.state, r.raised) for r in night.regressions] == [
        ("(n001, n002]", State.RECOVERED, None),
        ("(n004, n005]", State.RECOVERED, "n005"),
    ]
    assert night.dips == ()


@pytest.mark.parametrize(("after", "said"), [(110, ["regression"]), (109, [])])
def test_a_small_step_of_a_count_is_filed_and_never_said(after: int, said: list[str]) -> None:
    watch = Watch(exact=True)
    night = watch.play(points([100, 100, *[after] * 9]))
    assert [kind for kind, _, _ in watch.said] == said
    assert [r.state for r in night.regressions] == [State.CONFIRMED]


def test_a_count_that_comes_back_in_small_steps_is_back() -> None:
    watch = Watch(exact=True)
    watch.play(points([100, 100, 120, 110, 101, 100]))
    assert [(kind, night) for kind, _, night in watch.said] == [
        ("regression", "n002"),
        ("partly_recovered", "n003"),
        ("recovered", "n004"),
    ]


def test_a_count_that_was_zero_is_a_regression_without_measure() -> None:
    watch = Watch(exact=True)
    watch.play(points([0, 0, 3, 3, 0]))
    assert [(kind, night) for kind, _, night in watch.said] == [("regression", "n002"), ("recovered", "n004")]
    proof = [evidence("n001", "n002", Verdict.DIFFERENT)]
    night = triage(points([0, 0, 3]), evidence=proof, better=Better.LOWER, exact=True)
    assert [s.remaining for s in night.said] == [np.inf]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=25), st.sampled_from(Better))
def test_counts_say_nothing_twice_and_take_nothing_back(values: list[int | None], better: Better) -> None:
    watch = Watch(exact=True, better=better)
    watch.play(points(values) or points([None]))
    told = [(kind, bracket) for kind, bracket, _ in watch.said]
    assert len(told) == len(set(told))
    assert all(kind != "retracted" for kind, _ in told)


def test_two_points_of_one_label_are_refused() -> None:
    with pytest.raises(ValueError, match="two points have the label a"):
        triage(points([1.0, 2.0], ["a", "a"]), better=Better.LOWER)


def test_no_points_and_only_gaps_say_nothing() -> None:
    for nights in ([], points([None, None])):
        night = triage(nights, better=Better.LOWER)
        assert (night.regressions, night.said, night.suspect) == ((), (), None)


@pytest.mark.parametrize("state", [State.EXPLAINED, State.ENVIRONMENT])
def test_what_others_found_out_is_kept(state: State) -> None:
    values = [10.0, 10.1, 9.9, 10.0, 10.1, 12.0, 12.1, 11.9, 12.0, 12.1, 12.0]
    known = Regression(
        suspect=SuspectRange(after="n004", through="n005"),
        direction=Direction.REGRESSION,
        state=state,
        baseline=10.0,
        level=12.0,
        raised="n009" if state is State.EXPLAINED else None,
    )
    night = triage(points(values), known=[known], better=Better.LOWER)
    assert (night.followed[0] and night.followed[0].state, night.said) == (state, ())


def test_a_said_step_that_is_none_is_retracted_once() -> None:
    known = Regression(
        suspect=SuspectRange(after="n004", through="n005"),
        direction=Direction.REGRESSION,
        state=State.CONFIRMED,
        baseline=9.0,
        level=10.0,
        raised="n009",
    )
    night = triage(points([10.0, 10.1] * 6), known=[known], better=Better.LOWER)
    assert [(s.kind, s.suspect) for s in night.said] == [("retracted", None)]
    again = triage(points([10.0, 10.1] * 7), known=night.regressions, better=Better.LOWER)
    assert again.said == ()


def test_a_said_step_stays_while_both_sides_differ_however_the_noise_grows() -> None:
    values = [10.0, 10.1, 9.9, 10.0, 10.1, *[12.0, 12.1] * 4]
    watch = Watch()
    watch.play(points(values))
    (known,) = watch.known
    for later, said in (([12.1, 11.9], []), ([10.0, 10.1] * 8, ["recovered"])):
        night = triage(points([*values, *later]), known=[known], better=Better.LOWER, noise=0.5)
        assert night.detection.steps == ()
        assert [s.kind for s in night.said] == said


@st.composite
def worlds(draw: st.DrawFn) -> list[float | None]:
    parts = draw(st.lists(st.tuples(st.sampled_from([95, 100, 120, 200]), st.integers(1, 8)), max_size=4))
    seed = draw(st.integers(0, 10_000))
    random = np.random.default_rng(seed)
    levels = np.concatenate([np.full(n, level, dtype=np.float64) for level, n in [(100, 6), *parts]])
    levels *= np.exp(random.normal(0, 0.0005, levels.size))
    levels[random.random(levels.size) < 0.06] *= 1.15
    gaps = random.random(levels.size) < 0.1
    return [None if gap else float(value) for gap, value in zip(gaps, levels, strict=True)]


@settings(max_examples=25, deadline=None)
@given(worlds(), st.sampled_from([None, *Verdict]), st.sampled_from(Better))
def test_nothing_is_said_or_asked_twice(
    values: list[float | None], verdict: Verdict | None, better: Better
) -> None:
    watch = Watch(default=verdict, better=better)
    watch.play(points(values))
    told = [(kind, bracket) for kind, bracket, _ in watch.said]
    assert len(told) == len(set(told))


@settings(max_examples=25, deadline=None)
@given(worlds(), st.sampled_from([None, *Verdict]))
def test_gaps_move_no_step(values: list[float | None], verdict: Verdict | None) -> None:
    labelled = points(values)
    results = [p for p in labelled if p.value is not None]
    with_gaps, without = Watch(default=verdict), Watch(default=verdict)
    if results:
        with_gaps.play(labelled)
        without.play(results)
    assert with_gaps.said == without.said
    assert [r.suspect for r in with_gaps.known] == [r.suspect for r in without.known]


# derandomized: in one world of some 5000 so many of a dozen nights are odd that the level after a step is one of them
@settings(max_examples=60, deadline=None, derandomize=True)
@given(worlds(), st.sampled_from([None, Verdict.DIFFERENT]))
def test_nights_on_the_level_retract_nothing(values: list[float | None], verdict: Verdict | None) -> None:
    watch = Watch(default=verdict)
    night = watch.play(points(values))
    level = night.detection.segments[-1].level if night.detection.segments else 100.0
    longer = [*values, *[level * (1 + 0.0002 * (i % 3)) for i in range(12)]]
    watch.play(points(longer), start=len(values) + 1)
    assert [s for s in watch.said if s[0] == "retracted"] == []


@settings(max_examples=25, deadline=None)
@given(worlds())
def test_a_proved_boundary_stays(values: list[float | None]) -> None:
    watch = Watch(default=Verdict.DIFFERENT)
    night = watch.play(points(values))
    starts = {night.detection.segments[i].start for i in range(len(night.detection.segments))}
    labels = [p.label for p in points(values) if p.value is not None]
    for proof in watch.evidence:
        assert labels.index(proof.suspect.through) in starts


def test_a_peak_before_a_worse_level_is_a_regression_and_partly_back() -> None:
    watch = Watch()
    watch.play(points([10.0, 10.1, 9.9, 10.0, 10.1, 10.0, *[90.0, 91.0, 90.0], *[20.0, 20.1, 19.9] * 3]))
    assert watch.said == [
        ("regression", "(n005, n006]", "n010"),
        ("partly_recovered", "(n005, n006]", "n013"),
    ]


def test_a_gain_beyond_a_level_that_nobody_was_told_of_is_its_own() -> None:
    watch = Watch()
    watch.play(points([10.0, 10.1, 9.9, 10.0, 10.1, 10.0, *[12.0, 12.1, 12.0, 12.1], *[8.0, 8.1, 7.9] * 3]))
    assert [(kind, night) for kind, _, night in watch.said] == [("improvement", "n014")]


def test_what_detection_just_believes_is_not_said() -> None:
    random = np.random.default_rng(1)
    values = [*(100 + random.normal(0, 1, 8)), *(104 + random.normal(0, 1, 6))]
    night = triage(points(values), better=Better.LOWER, settings=TriageSettings(confidence=0.8))
    (step,) = night.detection.steps
    (regression,) = night.regressions
    assert 0.6 < step.confidence < 0.8
    assert (regression.state, night.said) == (State.SUSPECTED, ())
    assert [s.kind for s in triage(points(values), better=Better.LOWER).said] == ["regression"]


def test_settings_say_when() -> None:
    values = [100.0, 100.1, 99.9, 100.0, 100.1, 105.0, 105.1, 105.0]
    night = triage(points(values), better=Better.LOWER, settings=TriageSettings(confirm=2))
    assert [s.kind for s in night.said] == ["regression"]
