"""What do two environments give, a process of each in turn?"""

from __future__ import annotations

from pathlib import Path

from stepwatch.core import documents
from stepwatch.core.bisection.ends import Published
from stepwatch.core.documents import Document
from stepwatch.core.model import Benchmark, Image, Outcome
from stepwatch.jobs.bench import run_folder
from stepwatch.jobs.measure import alternate, every_group, measure_some, selections
from stepwatch.jobs.open_environment import changed_variables, differences
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure, Opened, Runner
from storage.bisections import BisectionRow
from storage.nights import find_night

# the new side's documents, and both sides' values, one a process
Both = tuple[list[Document], tuple[float, ...], tuple[float, ...]]


def side_by_side(
    place: Workplace,
    runner: Runner,
    sides: tuple[Opened, Opened],
    benchmark: Benchmark,
    folder: Path,
    count: int,
) -> Both | Failure:
    """`count` processes of each side; of one alone where both are the same."""
    suite, (old, new) = every_group(place.suite), sides
    if old is new:
        alone = measure_some(runner, new, suite, folder, only=selections([benchmark]), count=count)
        both = alone if isinstance(alone, Failure) else (alone, alone)
    else:
        both = alternate(runner, old, new, suite, folder, benchmarks=[benchmark], count=count)
    if isinstance(both, Failure):
        return both
    before, after = (tuple(documents.process_values(side, benchmark)) for side in both)
    if min(len(before), len(after)) < count:
        failed = next(iter(documents.failures([*both[0], *both[1]]).values()), None)
        outcome, reason = failed or (Outcome.BENCHMARK_FAILED, "it was not measured")
        return Failure(outcome=outcome, reason=reason)
    return both[1], before, after


def measure_published(
    place: Workplace, runner: Runner, row: BisectionRow, benchmark: Benchmark, count: int
) -> Published | Failure:
    """`count` processes of the published images of both ends of a range; a failure is one end's, or its image is not there."""
    place.say(f"bisection {row.id}: the published images of {row.good} and {row.bad}")
    images: list[Image] = []
    opened: list[Opened] = []
    for label in (row.good, row.bad):
        with place.database.begin() as connection:
            found = find_night(connection, row.source, label)
        if found is None or found[1].image is None:
            return Failure(outcome=Outcome.IMAGE_MISSING, reason=f"{label} is no night with an image")
        made = runner.open_night(found[1])
        if isinstance(made, Failure):
            return made
        images.append(found[1].image)
        opened.append(made)
    old, new = opened
    both = side_by_side(
        place, runner, (old, new), benchmark, run_folder(place.runs, f"published/{row.id}"), count
    )
    if isinstance(both, Failure):
        return both
    return Published(
        old=both[1],
        new=both[2],
        differences=(*differences(old.environment, new.environment), *changed_variables(*images)),
    )
