"""Which stored series is meant, what would have been said of it with other settings, and where are its steps?

A re-measurement that was made is given to the replay on the night that it was about, as it was then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stepwatch.core.labels import Labelled
from stepwatch.core.model import Label, Series, title
from stepwatch.core.recheck import control_noise
from stepwatch.core.rules import Rulebook, SeriesSettings
from stepwatch.core.scores import Night
from stepwatch.core.standing import odd_text
from stepwatch.jobs.evaluate import night_of
from stepwatch.jobs.open_bisection import RefusedError
from stepwatch.jobs.replay import Replay, Said, replay
from storage import labels, rechecks, steps
from storage.controls import control_values
from storage.rows import Connection, Database, load_series


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What one configuration would have said of a series and another not: `only` is the one that says it."""

    series: str
    only: str
    said: Said


def find_series(
    connection: Connection, name: str, *, machine: str | None = None, source: str | None = None
) -> int:
    """The id of the judged series of a benchmark, by its name alone or with its parameters.

    Raises:
        RefusedError: there is none, or several.
    """
    found = {number: load_series(connection, number) for number in labels.series_named(connection, name)}
    here = {
        number: series
        for number, series in found.items()
        if machine in {None, series.machine} and source in {None, series.source.name}
    }
    if len(here) == 1:
        return next(iter(here))
    if not here:
        raise RefusedError(f"no series {name} is stored; `stepwatch benchmarks list` names those that are")
    choices = ", ".join(sorted(_where(series) for series in here.values()))
    raise RefusedError(
        f"{name} is several series: {choices}; accepted is a name with its parameters, --machine or --source"
    )


def replay_stored(
    connection: Connection, series_id: int, own: SeriesSettings, *, nights: int | None = None
) -> Replay:
    """The stored nights of a series played one after the other; `nights`: only those of so many last ones are said.

    ValueError: a stored value is not positive.
    """
    series = load_series(connection, series_id).benchmark
    controls = control_values(connection, series_id)
    return replay(
        steps.points(connection, series_id),
        better=series.better,
        unit=series.unit,
        noise=own.noise or control_noise(controls),
        settings=own.triage,
        exact=series.exact,
        controls=controls,
        evidence=rechecks.evidence(connection, series_id),
        last=nights,
    )


def differences(
    database: Database,
    live: Rulebook,
    shadow: Rulebook,
    *,
    nights: int | None = None,
    progress: Callable[[int, int, str], None] = lambda *_: None,
) -> Iterator[Difference]:
    """What only one of two configurations would have said of each judged series."""
    with database.begin() as connection:
        numbers = labels.judged_series(connection)
    for done, number in enumerate(numbers):
        with database.begin() as connection:
            series = load_series(connection, number)
            name = title(series.benchmark.name, series.benchmark.params)
            progress(done, len(numbers), name)
            try:
                played = {
                    which: replay_stored(connection, number, book.of(name), nights=nights).said
                    for which, book in (("live", live), ("shadow", shadow))
                }
            except ValueError:
                continue  # no step is looked for in it, by neither
        for which, other in (("live", "shadow"), ("shadow", "live")):
            known = [(one.on, one.saying.kind, one.saying.suspect) for one in played[other]]
            for said in played[which]:
                if (said.on, said.saying.kind, said.saying.suspect) not in known:
                    yield Difference(series=_where(series), only=which, said=said)


def difference_json(difference: Difference) -> dict[str, Any]:
    """A difference as `stepwatch shadow --json` prints it; `change` is relative, null from a count of zero."""
    saying = difference.said.saying
    return {
        "series": difference.series,
        "only": difference.only,
        "on": difference.said.on,
        "kind": saying.kind.value,
        "after": saying.suspect.after if saying.suspect else None,
        "through": saying.suspect.through if saying.suspect else None,
        "change": saying.after / saying.before - 1 if saying.before else None,
    }


def difference_text(difference: Difference) -> str:
    """A difference in one line."""
    saying = difference.said.saying
    where = f" in {saying.suspect}" if saying.suspect else ""
    size = f"{saying.after / saying.before - 1:+.1%}" if saying.before else "from zero"
    return f"{difference.said.on}: only {difference.only} says {saying.kind.value}{where}: {difference.series}, {size}"


def label_step(
    connection: Connection,
    series_id: int,
    *,
    through: str,
    verdict: Label,
    author: str,
    note: str | None,
) -> str:
    """Store what a person says of the step whose first night on the new level is `through`; returns it in words.

    Said again, the new word counts.

    Raises:
        RefusedError: the series has no result there, or none before.
    """
    odd = odd_text(author) or odd_text(note)
    if odd is not None:
        raise RefusedError(odd)
    measured = [point.label for point in steps.points(connection, series_id) if point.value is not None]
    if through not in measured[1:]:
        accepted = (
            f"accepted is a night with a result from {measured[1]} to {measured[-1]}"
            if measured[1:]
            else "it has fewer than two"
        )
        raise RefusedError(f"the series has no result on {through} with one before it; {accepted}")
    after = measured[measured.index(through) - 1]
    labels.save_label(
        connection,
        series_id=series_id,
        after=after,
        through=through,
        verdict=verdict,
        author=author,
        note=note,
    )
    return f"{_where(load_series(connection, series_id))}: ({after}, {through}] is {verdict.value}"


def stored_labels(connection: Connection, rules: Rulebook) -> list[tuple[Labelled, tuple[list[int], Night]]]:
    """The series of which people have labelled a step, and what we say of each with the re-measurements that were made.

    What is real is true, what is noise or environment is wrong.
    """
    found = []
    for number, said in labels.labels(connection).items():
        series = load_series(connection, number)
        if series.benchmark.exact:
            continue  # each change of a count is a step: there is nothing to evaluate
        values = [(point.label, point.value) for point in steps.points(connection, number)]
        kept = [(label, value) for label, value in values if value is not None]
        places = {label: place for place, (label, _) in enumerate(kept)}
        here = {places[night]: verdict for night, verdict in said.items() if places.get(night)}
        own = rules.of(title(series.benchmark.name, series.benchmark.params))
        try:
            played = replay_stored(connection, number, own)
        except ValueError:
            continue  # no step is looked for in it
        labelled = Labelled(
            key=_where(series),
            values=[value for _, value in kept],
            truth=[place for place, verdict in here.items() if verdict is Label.REAL],
            wrong=[place for place, verdict in here.items() if verdict is not Label.REAL],
            noise=own.noise,
        )
        found.append((labelled, ([step.index for step in played.steps], night_of(played, places))))
    return found


def _where(series: Series) -> str:
    benchmark = series.benchmark
    return f"{title(benchmark.name, benchmark.params)} {benchmark.metric} on {series.machine} of {series.source.name}"
