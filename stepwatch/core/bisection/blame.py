"""Which repository's revision makes a bracket's step, its own or together with one of the other repository?

A bracket on the path says where the level changes, not why. So the other repository is held still.

One revision in the bracket: its step is measured with the other repository at the whole range's good and at its
bad end. Equal effects: its own. Otherwise it needs a partner, which is searched between the two.

Several, because what lies between them is broken or too small to split: if all are of one repository, the answer is
that range. If both repositories changed, the two crossings of the bracket are measured: all of JAX's changes without
XLA's, and the reverse. They attribute the step; which of one repository's several revisions it was stays a range.

Worked example, seconds, (jax 1 + jaxlib 1, jax 2 + jaxlib 2]:

    jax 1 + jaxlib 1   0.4        jax 2 + jaxlib 1   0.4
    jax 1 + jaxlib 2   refused    jax 2 + jaxlib 2   5.0

    jax 2 adds nothing while jaxlib is 1, and jaxlib 2 makes all of it: XLA, and the refusal is told with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepwatch.core.bisection.candidates import applied, changes
from stepwatch.core.bisection.case import Case, interaction
from stepwatch.core.bisection.crossing import Crossings, Effect
from stepwatch.core.bisection.partner import Partners
from stepwatch.core.bisection.plan import Bracket, Observation, Policy
from stepwatch.core.bisection.wording import Wording
from stepwatch.core.model import JAX, XLA, CommitPair, Culprit, Revision, Verdict


@dataclass(frozen=True, kw_only=True)
class PairTry:
    """One pair to measure, with `repeats` processes beyond those it has."""

    pair: CommitPair
    repeats: int


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What to measure now, in any order or at once; then ask again."""

    tries: tuple[PairTry, ...]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Whom the bracket's step is put down to: one or more culprits.

    `after` and `through` are the repository's refs where a culprit has a repository, else the pairs (a release's
    number where both share it). `change` is new level / old level - 1 of the value itself, `partners` are printed
    `xla@4567def` (none where the partner of an interaction could not be told from others). `baseline` is left None: levels are ratios to a reference here.
    """

    culprits: tuple[Culprit, ...]


def blame(
    path: Sequence[CommitPair],
    bracket: Bracket,
    observations: Mapping[CommitPair, Observation],
    policy: Policy,
    *,
    stop: str | None = None,
) -> Ask | Answer:
    """Attribute one bracket of `path` (the candidates), or say what to measure for that.

    `observations` holds what is known by pair, the path's own candidates and crossed pairs alike, as ratios to the
    reference of the search; both ends of the bracket have values. Of `policy`, `repeats` (at least 5), `cap`,
    `noise`, `min_effect` and `better` are used. With `stop`, the reason why nothing more may be measured, what would
    need it is answered as a range.
    """
    case = _case(path, bracket, observations, policy)
    crossings = case.crossings
    revisions = changes(path, bracket.after, bracket.through)
    if len(revisions) == 1:
        culprits = Partners(case=case, revision=revisions[0]).culprits()
    elif len({revision.repository for revision in revisions}) == 1:
        culprits = [case.block(revisions, crossings.step, case.narrowest())]
    else:
        culprits = _square(case, revisions)
    if crossings.asks and stop:
        return Answer(culprits=(case.either(stop),))
    if crossings.asks:
        return Ask(tries=tuple(PairTry(pair=pair, repeats=more) for pair, more in crossings.asks.items()))
    return Answer(culprits=tuple(culprits))


def unconfirmed(
    path: Sequence[CommitPair],
    bracket: Bracket,
    observations: Mapping[CommitPair, Observation],
    policy: Policy,
    seen: str,
) -> Answer:
    """The answer for a bracket whose sides were measured once more, side by side, and `seen` is not a difference."""
    case = _case(path, bracket, observations, policy)
    return Answer(
        culprits=(case.either(f"measured once more, side by side, they can't be told apart: {seen}"),)
    )


def distinct(culprits: Sequence[Culprit]) -> tuple[Culprit, ...]:
    """Each culprit once: an interaction is found again from its partner's bracket."""
    named: dict[tuple[object, ...], Culprit] = {}
    for one in culprits:
        named.setdefault((one.kind, one.repository, one.commit, one.after, one.through, one.partners), one)
    return tuple(named.values())


def _case(
    path: Sequence[CommitPair],
    bracket: Bracket,
    observations: Mapping[CommitPair, Observation],
    policy: Policy,
) -> Case:
    crossings = Crossings(observations=observations, policy=policy)
    crossings.step = crossings.change(path[bracket.after], path[bracket.through])
    words = Wording(better=policy.better, step=crossings.step)
    return Case(path=path, bracket=bracket, crossings=crossings, words=words)


def _square(case: Case, revisions: Sequence[Revision]) -> list[Culprit]:
    """The bracket's four corners: both repositories old, each new alone, both new."""
    good, bad, crossings = case.good, case.bad, case.crossings
    jax_alone, xla_alone = applied(good, bad.jax), applied(good, bad.xla)
    refusals = crossings.refusals([xla_alone, jax_alone])
    if len(refusals) == 2:
        made = case.words.made(jax_alone)
        because = f"no crossed pair of the two can be {made}, because {case.words.because(refusals)}"
        return [case.either(because)]
    if crossings.missing([good, bad, jax_alone, xla_alone]):
        return []
    if not refusals:
        together = crossings.effect([bad, good], [jax_alone, xla_alone])
        if together.verdict is not Verdict.SAME:
            return [_together(case, together, jax_alone, xla_alone, revisions)]
    # With one crossing refused, the other corner splits the step in two, each along the edge that can be measured.
    of_jax = (
        crossings.effect([bad], [xla_alone])
        if jax_alone in refusals
        else crossings.effect([jax_alone], [good])
    )
    of_xla = (
        crossings.effect([bad], [jax_alone])
        if xla_alone in refusals
        else crossings.effect([xla_alone], [good])
    )
    culprits = []
    for repository, effect, telling, other in (
        (JAX, of_jax, xla_alone, jax_alone),
        (XLA, of_xla, jax_alone, xla_alone),
    ):
        if effect.verdict is Verdict.DIFFERENT:
            own = [revision for revision in revisions if revision.repository == repository]
            reason = f"{case.shown(telling)}; {case.shown(other)}"
            if len(own) > 1:
                reason += f"; which of its {len(own)} is not known: {case.narrowest()}"
            culprits.append(case.block(own, effect.log, reason))
    return culprits or [
        case.either(f"{case.shown(jax_alone)}; {case.shown(xla_alone)}; which of them {case.told()}")
    ]


def _together(
    case: Case, effect: Effect, jax_alone: CommitPair, xla_alone: CommitPair, revisions: Sequence[Revision]
) -> Culprit:
    """Both repositories' changes do something else together than alone."""
    crossed = f"{case.shown(jax_alone)}; {case.shown(xla_alone)}"
    if effect.verdict is Verdict.UNKNOWN:
        return case.either(f"{crossed}; whether they need each other {case.told()}")
    if len(revisions) > 2:
        return case.either(f"they need each other ({crossed}); which of them: {case.narrowest()}")
    return interaction(
        commit=case.bad.jax,
        parent=case.good.jax,
        partners=[case.bad.xla],
        step=case.crossings.step,
        reason=f"{case.words.revision(case.bad.jax)} and {case.words.revision(case.bad.xla)} need each other: {crossed}",
    )
