"""Commands that judge detection itself: `evaluate`, `label`, `shadow`."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import click

from stepwatch.cli.frame import (
    Refusal,
    as_json,
    opened,
    progress,
    say,
    settings_in_force,
    show_json,
    show_table,
    write,
)
from stepwatch.core.model import Label

COLUMNS = (
    "detector",
    "precision",
    "recall",
    "F1 ±2",
    "F1 ±1",
    "F1 by night",
    "delay",
    "p90",
    "false",
    "flips",
    "twice",
)


@click.command()
@click.argument("labels", required=False, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--stored", is_flag=True, help="What people have said by `stepwatch label`, in place of a file."
)
@click.option(
    "--peers/--no-peers", default=True, help="Other detectors beside ours, in an environment of their own."
)
@as_json
def evaluate(labels: Path | None, *, stored: bool, peers: bool, as_json: bool) -> None:
    """Measure detection on labelled series, beside other detectors.

    LABELS is a JSON file {"series": [{"key", "y", "steps", "ambiguous", "noise"}]}: values in the order of time (null: a
    gap), and the positions of the first value of each new level. Whole series: precision, recall and F1 with places right
    to 2 and to 1 results. Night by night: F1, results until an alert, and false alerts, alerts taken back and
    alerts said twice for 1000 series-nights.
    """
    from stepwatch import wiring
    from stepwatch.core.labels import read_labels
    from stepwatch.jobs import evaluate as job
    from stepwatch.jobs.history import stored_labels

    if (labels is None) != stored:
        raise Refusal("accepted is either LABELS, a JSON file, or --stored")
    if labels is None:
        with opened() as (settings, database), database.begin() as connection:
            stored_series = stored_labels(connection, wiring.rulebook(settings))
        series, said = [each for each, _ in stored_series], [answer for _, answer in stored_series]
        if not series:
            raise Refusal("nobody has labelled a step yet; `stepwatch label` does")
    else:
        settings, said = settings_in_force(), []
        try:
            series = read_labels(labels.read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError) as error:
            raise Refusal(f"{labels}: {error}") from None
    with progress() as display:
        task = display.add_task("evaluating", total=None)
        rows = [
            job.row_json(row)
            for row in job.evaluate(
                series,
                settings=wiring.rulebook(settings).triage,
                peers=wiring.peers(settings) if peers else None,
                said=said,
                progress=lambda detector: display.update(task, description=f"asking {detector}"),
            )
        ]
    if as_json:
        show_json(rows)
        return
    steps = sum(len(each.truth) for each in series)
    write(f"{len(series)} series, {sum(len(each.values) for each in series)} nights, {steps} labelled steps")
    show_table([_in_words(row) for row in rows], COLUMNS, empty="")
    write(
        "delay and p90: results from the first on a new level to the alert, the median and nine in ten; false alerts, flips"
        " (said, then taken back) and those said twice for 1000 series-nights"
    )


def _in_words(row: dict[str, Any]) -> dict[str, str]:
    watched = row["online"]
    shares = (row["precision"], row["recall"], row["f1"], row["f1_within_1"], watched["f1"])
    waits = (watched["delay_median"], watched["delay_p90"])
    rates = (watched["false"], watched["flips"], watched["duplicates"])
    said = [f"{share:.3f}" for share in shares]
    said += ["-" if wait is None else f"{wait:.0f}" for wait in waits]
    said += [f"{rate:.1f}" for rate in rates]
    return dict(zip(COLUMNS, (row["detector"], *said), strict=True))


@click.command()
@click.argument("verdict", type=click.Choice([each.value for each in Label]))
@click.option(
    "--regression", "number", type=int, help="The regression that it is about (`regressions list`)."
)
@click.option("--benchmark", help="In place of it: the series in which a step is, or was missed …")
@click.option("--through", metavar="NIGHT", help="… and the first night on the new level.")
@click.option("--machine", help="The machine of the series, where there are several.")
@click.option("--source", help="The source of the series, where there are several.")
@click.option("--note", help="Why, in a few words.")
@click.option("--by", "author", help="Who says so (default: you).")
def label(
    verdict: str,
    number: int | None,
    benchmark: str | None,
    through: str | None,
    machine: str | None,
    source: str | None,
    note: str | None,
    author: str | None,
) -> None:
    """Say what a step is: real, noise, or the environment's.

    The words are kept for `stepwatch evaluate --stored`; said again about the same step, the new word counts.
    """
    from stepwatch.jobs.history import find_series, label_step
    from storage.reading import regression as read

    if (number is None) == (benchmark is None) or (benchmark is None) != (through is None):
        raise Refusal("accepted is either --regression, or --benchmark with --through")
    if number is not None and (machine or source):
        raise Refusal("--machine and --source go with --benchmark")
    with opened() as (_, database), database.begin() as connection:
        if number is not None:
            found = read(connection, number)
            if found is None:
                raise Refusal(f"there is no regression {number}; `stepwatch regressions list` names them")
            series_id, through = found["series_id"], found["through"]
        else:
            series_id = find_series(connection, str(benchmark), machine=machine, source=source)
        said = label_step(
            connection,
            series_id,
            through=str(through),
            verdict=Label(verdict),
            author=author or getpass.getuser(),
            note=note,
        )
    write(said)


@click.command()
@click.option(
    "--nights", type=click.IntRange(min=1), help="Only what would have been said in so many last nights."
)
@as_json
def shadow(*, nights: int | None, as_json: bool) -> None:
    """What would the thresholds of [shadow] have said that the live ones did not, and the other way round?

    Each stored series is played night by night with both, with the re-measurements that were made of it.
    """
    from stepwatch import wiring
    from stepwatch.jobs.history import difference_json, difference_text, differences

    if not settings_in_force().shadow.model_dump(exclude_none=True):
        raise Refusal("[shadow] sets nothing, so there is nothing to compare; accepted are thresholds in it")
    with opened() as (settings, database), progress() as display:
        task = display.add_task("playing")
        found = list(
            differences(
                database,
                wiring.rulebook(settings),
                wiring.shadow_rulebook(settings),
                nights=nights,
                progress=lambda done, total, name: display.update(
                    task, completed=done, total=total, description=name
                ),
            )
        )
    if as_json:
        show_json([difference_json(each) for each in found])
        return
    for each in found:
        write(difference_text(each))
    if not found:
        say("both say the same")


COMMANDS = (evaluate, label, shadow)
