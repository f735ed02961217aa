"""What did a run measure, in the database?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from stepwatch.core import documents
from stepwatch.core.model import Benchmark, Measurement, Origin, Outcome, digest
from stepwatch.jobs.bench import run_folder
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Opened
from storage.rows import Connection, exclusively
from storage.runs import (
    attach_environment,
    attach_machine_state,
    find_run,
    finish_run,
    known_benchmarks,
    open_run,
    save_measurements,
)
from storage.steps import source_id


def record(place: Workplace, run_key: str) -> int:
    """Store the documents of a run; doing it again, or twice at once, changes nothing.

    Returns how many series got a measurement: 0 for a run that failed as a whole.
    """
    with exclusively(place.database, "record", run_key) as connection:
        run = find_run(connection, run_key)
        if run is None:
            raise LookupError(f"no run {run_key!r}")
        if run.outcome is not None:
            return 0
        files = sorted(run_folder(place.runs, run_key).glob("process-*.json"))
        read = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        if len(read) < place.suite.processes:
            raise LookupError(f"the run {run_key!r} has {len(read)} of {place.suite.processes} documents")
        known = known_benchmarks(
            connection,
            machine=place.machine.name,
            protocol=read[0]["protocol"],
            source_id=source_id(connection, place.source),
        )
        failed = _failed(read, [benchmark for _, benchmark in known])
        unmeasured = [
            f"{name}: {outcome.value}: {reason}"
            for (name, _), (outcome, reason) in documents.failures(read).items()
        ]
        saved = _store(connection, place, run.id, read, failed, dict.fromkeys(unmeasured))
    for line in dict.fromkeys(unmeasured):
        place.say(line)
    return saved


def record_documents(
    connection: Connection,
    place: Workplace,
    read: Sequence[documents.Document],
    *,
    run_key: str,
    origin: Origin,
    opened: Opened,
    night_id: int | None = None,
    recheck_id: int | None = None,
    probe_id: int | None = None,
) -> None:
    """Store a whole run from its documents: one side of a recheck, a probe or a control. Again, it changes nothing."""
    run = open_run(
        connection,
        run_key=run_key,
        machine=place.machine.name,
        suite=place.suite.name,
        origin=origin,
        night_id=night_id,
        recheck_id=recheck_id,
        probe_id=probe_id,
    )
    attach_environment(connection, run.id, opened.environment, opened.notes)
    _store(connection, place, run.id, read)


def _store(
    connection: Connection,
    place: Workplace,
    run_id: int,
    read: Sequence[documents.Document],
    failed: Sequence[Measurement] = (),
    unmeasured: Iterable[str] = (),
) -> int:
    """All that the documents of a run say, which is over with this; how many series got a measurement."""
    saved = save_measurements(
        connection,
        run_id,
        [*documents.measurements(read), *failed],
        machine=place.machine.name,
        protocol=read[0]["protocol"],
        source=place.source,
    )
    attach_machine_state(connection, run_id, documents.fingerprint(read), documents.conditions(read))
    warnings = [*documents.warnings(read), *unmeasured]
    finish_run(connection, run_id, outcome=Outcome.OK, warnings=warnings)
    return saved


def _failed(read: list[documents.Document], known: list[Benchmark]) -> list[Measurement]:
    """A failure is a row: for each known series of a benchmark that has no result in any process."""
    failures = documents.failures(read)
    measured = {(each.benchmark.name, digest(each.benchmark.params)) for each in documents.measurements(read)}
    rows = []
    for benchmark in known:
        key = (benchmark.name, digest(benchmark.params))
        if key in failures and key not in measured:
            outcome, reason = failures[key]
            rows.append(Measurement(benchmark=benchmark, outcome=outcome, reason=reason))
    return rows
