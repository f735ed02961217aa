"""Does the database hold the rules, whoever writes to it and how many at once?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from worlds import LADDER, MACHINE, SOURCE, START, ask, contents, emptied, pair_of

import storage
from stepwatch.core import model as m
from stepwatch.core.bisection.candidates import Candidate
from storage import bisections, incidents, nights, reading, rechecks, rows, runs, steps
from storage.engine import DatabaseUnreachableError, connect, migrate
from storage.rows import Connection, Database
from storage.tables import metadata
from storage.views import VIEWS

BENCHMARK = m.Benchmark(
    name="a.A.track_time", version="1", params={"edge": 4}, metric="cpu_time", unit="s", better=m.Better.LOWER
)


@pytest.fixture
def database(schema: Database) -> Database:
    return emptied(schema)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Start all calls at the same moment; what they return, or the first exception."""
    start = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [each.result(timeout=60) for each in [pool.submit(run, call) for call in calls]]


class TestSchema:
    def test_migrations_give_what_the_tables_say(self, database_url: str) -> None:
        engine = connect(database_url)
        migrate(engine)
        migrated = catalog(engine)
        with engine.begin() as connection:
            connection.execute(sa.text("drop schema public cascade; create schema public"))
            metadata.create_all(connection)
        made = catalog(engine)
        engine.dispose()
        assert migrated == made
        assert {kind: len(found) >= 25 for kind, found in made.items()} == dict.fromkeys(made, True)
        assert any("WHERE ((gone_at IS NULL)" in definition for _, definition in made["indexes"])

    def test_a_database_of_the_first_version_keeps_what_it_has(self, database_url: str) -> None:
        engine = connect(database_url)
        with engine.begin() as connection:
            config = Config()
            config.set_main_option("script_location", str(Path(storage.__file__).parent / "migrations"))
            config.attributes["connection"] = connection
            command.upgrade(config, "0001")
            connection.execute(sa.text(FIRST_VERSION))
        migrate(engine)
        assert ask(engine, "select judged, exact from series") == [(True, False)]
        assert ask(engine, "select samples, warnings from measurement") == [([1.0], [])]
        assert ask(engine, "select conditions, machine_state_id from run") == [([], None)]
        assert ask(engine, "select value, warnings from reporting.points") == [(1.0, [])]
        engine.dispose()

    def test_migrating_again_changes_nothing(self, database: Database) -> None:
        before, views = catalog(database), ask(database, VIEW_IDS)
        migrate(database)
        assert (catalog(database), ask(database, VIEW_IDS)) == (before, views)

    def test_two_at_once_make_one_schema(self, database_url: str) -> None:
        engines = [connect(database_url) for _ in range(2)]
        at_once(*(lambda engine=engine: migrate(engine) for engine in engines))
        assert len(catalog(engines[0])["columns"]) > 100
        assert ask(engines[0], "select count(*) from alembic_version") == [(1,)]
        for engine in engines:
            engine.dispose()

    def test_every_view_can_be_read_and_one_that_is_missing_is_made_again(self, database: Database) -> None:
        with database.begin() as connection:
            connection.execute(sa.text("drop view reporting.culprits"))
        assert reading.schema(database)[0] is None
        migrate(database)
        for view in VIEWS:
            assert ask(database, f"table reporting.{view}") == []
        current, newest = reading.schema(database)
        assert current == newest

    def test_a_command_that_starts_does_not_disturb_one_that_reads(self, database: Database) -> None:
        def read_all() -> None:
            for turn in range(15):
                with reading.snapshot(database) as connection:
                    for view in sorted(VIEWS, reverse=turn % 2 == 0):
                        reading.read(connection, f"table reporting.{view}")

        at_once(read_all, read_all, lambda: [migrate(database) for _ in range(8)])

    def test_every_time_has_its_zone(self, database: Database) -> None:
        found = ask(
            database,
            """
            select data_type, count(*) from information_schema.columns
            where table_schema in ('public', 'reporting') and (data_type like '%time%' or data_type = 'date')
            group by 1
            """,
        )
        assert [data_type for data_type, _ in found] == ["timestamp with time zone"]
        assert found[0][1] > 20

    @pytest.mark.parametrize(
        ("url", "sentence"),
        [
            ("mysql://me:secret@localhost/x", "mysql://me:***@localhost/x is no Postgres URL"),
            ("nonsense", "'nonsense' is not a database URL"),
            (
                "postgresql://me:secret@127.0.0.1:1/x",
                r"no database at postgresql://me:\*\*\*@127.0.0.1:1/x: .*refused",
            ),
        ],
    )
    def test_a_database_that_is_none_is_one_sentence(self, url: str, sentence: str) -> None:
        with pytest.raises(DatabaseUnreachableError, match=sentence.replace("***@local", r"\*\*\*@local")):
            connect(url)


FIRST_VERSION = """
    insert into source (kind, name) values ('releases', 'releases');
    insert into machine (name, accelerator) values ('local', 'cpu');
    insert into night (source_id, label, at) values (1, '0.5.0', now());
    insert into series (benchmark, version, params, metric, unit, better, machine_id, protocol, source_id, judged)
        values ('a.A.track_time', '1', '{}', 'cpu_time', 's', 'lower', 1, '1', 1, true);
    insert into run (run_key, machine_id, suite, origin, night_id, attempt, outcome, finished_at)
        values ('x', 1, 'core', 'nightly', 1, 1, 'ok', now());
    insert into measurement (run_id, series_id, outcome, value, samples, process, counts, hashes)
        values (1, 1, 'ok', 1, '{1}', '{0}', '{"flops": 1}', '{}');
"""
VIEW_IDS = "select oid, relname from pg_class where relnamespace = 'reporting'::regnamespace order by 1"


def catalog(database: Database) -> dict[str, set[tuple[Any, ...]]]:
    """The schema as Postgres itself describes it."""
    queries = {
        "columns": """
            select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity::text,
                   pg_get_expr(d.adbin, d.adrelid)
            from pg_attribute a join pg_class c on c.oid = a.attrelid
            left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
            where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attnum > 0
              and not a.attisdropped and c.relname <> 'alembic_version'
        """,
        "constraints": """
            select conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid)
            from pg_constraint
            where connamespace = 'public'::regnamespace and conrelid::regclass::text <> 'alembic_version'
        """,
        "indexes": """
            select c.relname, pg_get_indexdef(c.oid) from pg_class c join pg_index i on i.indexrelid = c.oid
            where c.relnamespace = 'public'::regnamespace and i.indrelid::regclass::text <> 'alembic_version'
        """,
    }
    return {kind: set(ask(database, query)) for kind, query in queries.items()}


def store_night(connection: Connection, label: str, *, gap: str | None = None) -> int:
    pair = None if gap else pair_of(label, label)
    night = m.Night(source=SOURCE, label=label, at=pair_of(label, label).at, pair=pair, gap_reason=gap)
    return nights.save_night(connection, night)


def store_run(
    connection: Connection,
    night_id: int | None,
    value: float | None,
    *,
    attempt: int = 1,
    origin: m.Origin = m.Origin.NIGHTLY,
    outcome: m.Outcome = m.Outcome.OK,
) -> None:
    rows.ensure_machine(connection, MACHINE)
    run = runs.open_run(
        connection,
        run_key=f"{origin.value}/{night_id}/{attempt}",
        machine="local",
        suite="core",
        origin=origin,
        attempt=attempt,
        night_id=night_id,
    )
    if value is not None:
        measured = measurement(BENCHMARK, value)
        runs.save_measurements(connection, run.id, [measured], machine="local", protocol="1", source=SOURCE)
    runs.finish_run(connection, run.id, outcome=outcome)


def measurement(benchmark: m.Benchmark, value: float) -> m.Measurement:
    return m.Measurement(
        benchmark=benchmark, outcome=m.Outcome.OK, value=value, samples=(value, value), process=(0, 1)
    )


def series_id(connection: Connection) -> int:
    rows.ensure_machine(connection, MACHINE)
    return rows.ensure_series(connection, [BENCHMARK], machine="local", protocol="1", source=SOURCE)[0]


class TestConstraints:
    @pytest.fixture
    def connection(self, database: Database) -> Iterator[Connection]:
        with database.connect() as opened:
            yield opened

    @pytest.fixture
    def incident(self, connection: Connection) -> int:
        series_id(connection)
        after, through = store_night(connection, "0.10.1"), store_night(connection, "0.10.2")
        return incidents.open_incident(
            connection,
            machine="local",
            source=SOURCE,
            direction=m.Direction.REGRESSION,
            after_id=after,
            through_id=through,
        )

    def refused(self, connection: Connection, constraint: str, statement: str) -> None:
        with pytest.raises(sa.exc.IntegrityError, match=f'constraint "{constraint}"'):
            connection.execute(sa.text(statement))

    def test_an_incident_has_one_open_bisection(self, connection: Connection, incident: int) -> None:
        assert search(connection, incident) == search(connection, incident), "attaches to the open one"
        self.refused(
            connection,
            "ix_bisection_one_open_an_incident",
            "insert into bisection (incident_id, attempt, series_id, good_pair_id, bad_pair_id, good, bad, policy)"
            " select incident_id, 2, series_id, good_pair_id, bad_pair_id, good, bad, policy from bisection",
        )

    def test_one_that_ended_makes_room_for_the_next_attempt(
        self, connection: Connection, incident: int
    ) -> None:
        first = search(connection, incident)
        assert bisections.finish_bisection(connection, first, state="failed", reason="no disk")
        assert not bisections.finish_bisection(connection, first, state="finished")
        second = search(connection, incident)
        assert second != first
        query = sa.text("select attempt from bisection order by id")
        assert [row.attempt for row in connection.execute(query)] == [1, 2]

    def test_a_search_by_hand_is_always_a_new_one(self, connection: Connection, incident: int) -> None:
        del incident
        assert search(connection, None) != search(connection, None)

    def test_an_incident_says_each_thing_once(self, connection: Connection, incident: int) -> None:
        for words in ("first", "second"):
            incidents.write(connection, kind="head", message={"title": words}, incident_id=incident)
        (kept,) = incidents.unsent(connection, "console")
        assert kept.message == {"title": "first"}
        self.refused(
            connection,
            "uq_outbox_incident_id_kind",
            "insert into outbox (incident_id, kind, message) select incident_id, kind, message from outbox",
        )

    def test_a_bisection_by_hand_says_its_end_once(self, connection: Connection, incident: int) -> None:
        del incident
        bisection = search(connection, None)
        for _ in range(2):
            incidents.write(connection, kind=f"bisection {bisection}", message={}, bisection_id=bisection)
        assert len(incidents.unsent(connection, "console")) == 1

    def test_what_is_said_of_the_detector_itself_is_said_once(self, connection: Connection) -> None:
        said = "insert into outbox (kind, message) values ('x', '{}')"
        connection.exec_driver_sql(said)
        with pytest.raises(sa.exc.IntegrityError, match="ix_outbox_one_of_a_kind"):
            connection.exec_driver_sql(said)

    def test_a_result_has_samples(self, connection: Connection) -> None:
        store_run(connection, store_night(connection, "0.10.1"), 1.0)
        self.refused(
            connection,
            "ck_measurement_no_empty_sample",
            "update measurement set samples = '{}', process = '{}'",
        )

    def test_a_result_has_a_value(self, connection: Connection) -> None:
        store_run(connection, store_night(connection, "0.10.1"), 1.0)
        self.refused(connection, "ck_measurement_no_empty_sample", "update measurement set value = null")

    def test_each_sample_has_its_process(self, connection: Connection) -> None:
        store_run(connection, store_night(connection, "0.10.1"), 1.0)
        self.refused(
            connection, "ck_measurement_process_for_each_sample", "update measurement set process = '{0}'"
        )

    def test_a_probe_that_is_ok_has_ratios(self, connection: Connection, incident: int) -> None:
        bisections.open_probe(connection, search(connection, incident), pair_of("0.10.1", "0.10.1"))
        self.refused(connection, "ck_probe_no_empty_sample", "update probe set outcome = 'ok'")

    @pytest.mark.parametrize(
        ("table", "statement"),
        [
            ("incident", "update incident set after_night_id = through_night_id"),
            ("regression", "update regression set after_night_id = through_night_id"),
            ("recheck", "update recheck set after_night_id = through_night_id"),
        ],
    )
    def test_a_range_is_never_empty(
        self, connection: Connection, incident: int, table: str, statement: str
    ) -> None:
        series, (old, new) = (
            series_id(connection),
            (night.id for night in steps.night_refs(connection, SOURCE)),
        )
        found = m.Regression(
            suspect=m.SuspectRange(after="old", through="new"),
            direction=m.Direction.REGRESSION,
            state=m.State.SUSPECTED,
            baseline=1,
            level=2,
        )
        steps.save_regression(
            connection, found, {"old": old, "new": new}, series_id=series, incident_id=incident
        )
        where = {"machine": "local", "source": SOURCE, "after_id": old, "through_id": new}
        rechecks.ask_recheck(connection, series_id=series, **where)
        self.refused(connection, f"ck_{table}_range_not_empty", statement)

    def test_a_search_has_two_ends(self, connection: Connection, incident: int) -> None:
        search(connection, incident)
        self.refused(
            connection, "ck_bisection_range_not_empty", "update bisection set bad_pair_id = good_pair_id"
        )

    def test_only_known_words_are_stored(self, connection: Connection) -> None:
        store_run(connection, store_night(connection, "0.10.1"), 1.0)
        self.refused(connection, "ck_measurement_outcome_known", "update measurement set outcome = 'fine'")


def search(connection: Connection, incident_id: int | None) -> int:
    return bisections.open_bisection(
        connection,
        incident_id=incident_id,
        series_id=series_id(connection),
        path=[
            Candidate(pair=pair_of(*refs))
            for refs in (("0.10.1", "0.10.1"), ("0.10.1", "0.10.2"), ("0.10.2", "0.10.2"))
        ],
        good="0.10.1",
        bad="0.10.2",
        setup=bisections.Setup(policy="explore"),
    )


class TestTwoAtOnce:
    def test_the_same_measurements_in_opposite_orders(self, database: Database) -> None:
        with database.begin() as connection:
            rows.ensure_machine(connection, MACHINE)
            keys = [
                runs.open_run(
                    connection, run_key=str(i), machine="local", suite="core", origin=m.Origin.NIGHTLY
                ).id
                for i in range(12)
            ]

        def save_all(order: Callable[[Sequence[m.Measurement]], Any]) -> None:
            for run_id in keys:  # new series in each run, so that both race to make them
                measured = [measurement(benchmark(f"{run_id}.{i}"), 1.0) for i in range(5)]
                with database.begin() as connection:
                    runs.save_measurements(
                        connection,
                        run_id,
                        list(order(measured)),
                        machine="local",
                        protocol="1",
                        source=SOURCE,
                    )

        at_once(lambda: save_all(list), lambda: save_all(reversed), lambda: save_all(reversed))
        assert ask(database, "select count(*), count(distinct benchmark) as names from series") == [(60, 60)]
        assert ask(database, "select count(*) from measurement") == [(60,)]

    def test_a_night_is_resolved_while_a_probe_of_it_is_stored(self, database: Database) -> None:
        pair = pair_of("0.10.2", "0.10.2")
        with database.begin() as connection:
            store_run(connection, store_night(connection, "0.10.2"), 1.0)

        def resolve() -> None:
            for _ in range(40):
                with database.begin() as connection:
                    store_night(connection, "0.10.2")

        def record() -> None:
            for i in range(40):
                with database.begin() as connection:
                    run = runs.open_run(
                        connection, run_key=str(i), machine="local", suite="core", origin=m.Origin.PROBE
                    )
                    runs.attach_environment(connection, run.id, m.Environment(pair=pair, base="python"))
                    runs.save_measurements(
                        connection,
                        run.id,
                        [measurement(BENCHMARK, 1.0)],
                        machine="local",
                        protocol="1",
                        source=SOURCE,
                    )

        at_once(resolve, record)
        assert ask(database, "select count(*) from night") == [(1,)]

    def test_the_same_values_are_made_once(self, database: Database) -> None:
        def ensure() -> tuple[int, ...]:
            found = []
            for i in range(10):
                pair = pair_of(f"new{i}", f"new{i}")
                with database.begin() as connection:
                    found += [
                        rows.ensure_source(connection, m.Source(kind=m.SourceKind.RELEASES, name=f"s{i}")),
                        rows.ensure_environment(connection, m.Environment(pair=pair, base="python")),
                        rows.ensure_machine(connection, m.Machine(name=f"m{i}")),
                    ]
            return tuple(found)

        first, second = at_once(ensure, ensure)
        assert first == second
        for table in ("source", "pair", "environment", "machine"):
            assert len(ask(database, f"table {table}")) == 10


def benchmark(name: str) -> m.Benchmark:
    return m.Benchmark(name=name, version="1", metric="cpu_time", unit="s", better=m.Better.LOWER)


class TestUpsert:
    def test_what_is_known_again_changes_nothing(self, database: Database) -> None:
        def store() -> None:
            with database.begin() as connection:
                night_id = store_night(connection, "0.10.1")
                store_run(connection, night_id, 1.0)
                store_night(connection, "0.10.2", gap="taken back")

        store()
        before = contents(database)
        store()
        assert contents(database) == before

    def test_what_is_known_better_replaces_what_was(self, database: Database) -> None:
        with database.begin() as connection:
            first = store_night(connection, "0.10.2", gap="never released")
            assert store_night(connection, "0.10.2") == first
            found = nights.find_night(connection, SOURCE, "0.10.2")
            assert found is not None
            assert (found[1].gap_reason, found[1].pair) == (None, pair_of("0.10.2", "0.10.2"))

            machine = rows.ensure_machine(connection, MACHINE)
            assert rows.ensure_machine(connection, m.Machine(name="local", accelerator="H200")) == machine
        assert ask(database, "select accelerator from machine") == [("H200",)]

    def test_a_gap_does_not_overwrite_a_night(self, database: Database) -> None:
        with database.begin() as connection:
            store_night(connection, "0.10.2")
            gap = m.Night(source=SOURCE, label="0.10.2", at=START, gap_reason="no line")
            nights.save_gaps(connection, SOURCE, [gap])
        assert ask(database, "select gap_reason from night") == [(None,)]

    def test_a_log_with_a_nul_is_kept(self, database: Database) -> None:
        with database.begin() as connection:
            rows.ensure_machine(connection, MACHINE)
            run = runs.open_run(
                connection, run_key="x", machine="local", suite="core", origin=m.Origin.NIGHTLY
            )
            runs.finish_run(
                connection,
                run.id,
                outcome=m.Outcome.BENCHMARK_FAILED,
                reason="a\0b",
                log="\0",
                warnings=["\0"],
            )
        assert ask(database, "select reason, log, warnings from run") == [("a\\0b", "\\0", ["\\0"])]


class TestMachineState:
    def test_a_machine_that_stays_is_one_row_and_each_run_has_its_own_conditions(
        self, database: Database
    ) -> None:
        conditions = [[{"before": {"load": load}, "after": {}}] for load in (1.0, 7.5, 2.0)]
        for attempt, (kernel, moved) in enumerate(zip(("6.1", "6.1", "6.2"), conditions, strict=True)):
            with database.begin() as connection:
                run = opened_run(connection, str(attempt))
                for _ in range(2):
                    runs.attach_machine_state(connection, run.id, {"cpu": "EPYC", "kernel": kernel}, moved)
        assert ask(
            database,
            "select fingerprint ->> 'kernel' as kernel, conditions from reporting.runs order by run_id",
        ) == [("6.1", conditions[0]), ("6.1", conditions[1]), ("6.2", conditions[2])]
        assert ask(database, "select count(*) from machine_state") == [(2,)]

    def test_what_nobody_read_is_nothing(self, database: Database) -> None:
        with database.begin() as connection:
            runs.attach_machine_state(connection, opened_run(connection, "x").id, {}, [])
        assert ask(database, "select fingerprint, conditions from reporting.runs") == [(None, [])]


def opened_run(connection: Connection, key: str) -> runs.RunRow:
    rows.ensure_machine(connection, MACHINE)
    return runs.open_run(connection, run_key=key, machine="local", suite="core", origin=m.Origin.NIGHTLY)


class TestCounts:
    def test_a_zero_and_what_is_to_be_doubted_are_stored(self, database: Database) -> None:
        counted = replace(BENCHMARK, metric="temp_bytes", unit="bytes", exact=True, judged=False)
        with database.begin() as connection:
            night = store_night(connection, "0.10.1")
            store_run(connection, night, 1.0)
            run = runs.find_run(connection, f"nightly/{night}/1")
            assert run is not None
            warned = replace(measurement(counted, 0.0), warnings=("not the\0 same",))
            runs.save_measurements(connection, run.id, [warned], machine="local", protocol="1", source=SOURCE)
            number = rows.ensure_series(connection, [counted], machine="local", protocol="1", source=SOURCE)[
                0
            ]
            assert rows.load_series(connection, number).benchmark == counted
            (point,) = steps.points(connection, number)
            assert point.value == 0.0
        assert ask(
            database,
            "select exact, judged, value, warnings from reporting.points join reporting.series using (series_id)"
            " where metric = 'temp_bytes'",
        ) == [(True, False, 0.0, ["not the\\0 same"])]
        assert ask(
            database, "select warnings from reporting.series_nights where series_id = :id", id=number
        ) == [(["not the\\0 same"],)]

    def test_a_known_benchmark_is_one_of_the_same_protocol(self, database: Database) -> None:
        with database.begin() as connection:
            series_id(connection)
            newer = [replace(BENCHMARK, exact=True)]
            rows.ensure_series(connection, newer, machine="local", protocol="2", source=SOURCE)
            where = {"machine": "local", "source_id": steps.source_id(connection, SOURCE)}
            found = {
                protocol: [each for _, each in runs.known_benchmarks(connection, protocol=protocol, **where)]
                for protocol in "12"
            }
        assert found == {"1": [BENCHMARK], "2": newer}

    def test_a_name_means_what_is_measured_now(self, database: Database) -> None:
        counted = replace(BENCHMARK, metric="memory_bytes", exact=True)
        with database.begin() as connection:
            older = series_id(connection)
            first, newest = (
                rows.ensure_series(connection, each, machine="local", protocol=protocol, source=SOURCE)[0]
                for protocol, each in (("2", [BENCHMARK]), ("2", [replace(BENCHMARK, version="2")]))
            )
            rows.ensure_series(connection, [counted], machine="local", protocol="2", source=SOURCE)
            assert bisections.series_named(connection, "a.A.track_time") == [newest]
            assert bisections.series_named(connection, "a.A.track_time(edge=4)") == [newest]
            assert older < first < newest


class TestPoints:
    def found(self, database: Database) -> list[tuple[str, float | None, m.Outcome | None]]:
        with database.begin() as connection:
            points = steps.points(connection, series_id(connection))
        view = ask(database, "select label, value, outcome from reporting.series_nights order by at, label")
        read = [(point.label, point.value, point.outcome) for point in points]
        # the view holds a failed attempt's value as it was measured; a point has none
        assert [(label, outcome) for label, _, outcome in view] == [
            (label, outcome and outcome.value) for label, _, outcome in read
        ]
        return read

    def test_a_later_failure_takes_nothing_back(self, database: Database) -> None:
        with database.begin() as connection:
            night = store_night(connection, "0.10.1")
            store_run(connection, night, 1.0, attempt=1)
            store_run(connection, night, 2.0, attempt=2)
            store_run(connection, night, None, attempt=3, outcome=m.Outcome.BUILD_FAILED)
        assert self.found(database) == [("0.10.1", 2.0, m.Outcome.OK)]
        assert ask(database, "select label, value from reporting.points") == [("0.10.1", 2.0)]

    def test_an_attempt_without_this_series_says_nothing_about_it(self, database: Database) -> None:
        with database.begin() as connection:
            night = store_night(connection, "0.10.1")
            store_run(connection, night, 1.0, attempt=1)
            store_run(connection, night, None, attempt=2)
        assert self.found(database) == [("0.10.1", 1.0, m.Outcome.OK)]

    @pytest.mark.parametrize(
        "origin", [each for each in m.Origin if each not in {m.Origin.NIGHTLY, m.Origin.BACKFILL}]
    )
    def test_what_is_measured_for_other_reasons_never_enters(
        self, database: Database, origin: m.Origin
    ) -> None:
        with database.begin() as connection:
            store_run(connection, store_night(connection, "0.10.1"), 1.0)
            for label in ("0.10.1", "0.10.2"):
                store_run(connection, store_night(connection, label), 9.0, origin=origin, attempt=9)
        assert self.found(database) == [("0.10.1", 1.0, m.Outcome.OK), ("0.10.2", None, None)]

    def test_gaps_and_failures_are_points_without_a_value(self, database: Database) -> None:
        with database.begin() as connection:
            store_run(connection, store_night(connection, "0.4.30"), 1.0)
            store_night(connection, "0.4.31", gap="taken back")
            failed = store_night(connection, "0.4.33")
            store_run(connection, failed, None, outcome=m.Outcome.BENCHMARK_FAILED)
            unended = store_night(connection, "0.5.0")
            runs.open_run(
                connection,
                run_key="unended",
                machine="local",
                suite="core",
                origin=m.Origin.NIGHTLY,
                night_id=unended,
            )
        assert self.found(database) == [
            ("0.4.30", 1.0, m.Outcome.OK),
            ("0.4.31", None, None),
            ("0.4.33", None, m.Outcome.BENCHMARK_FAILED),
            ("0.5.0", None, None),
        ]

    def test_a_backfilled_night_takes_its_place(self, database: Database) -> None:
        for label in ("0.10.2", "0.4.30", "0.5.0"):
            with database.begin() as connection:
                store_run(
                    connection,
                    store_night(connection, label),
                    float(LADDER.index(label)),
                    origin=m.Origin.BACKFILL,
                )
        assert [(label, value) for label, value, _ in self.found(database)] == [
            ("0.4.30", 0.0),
            ("0.5.0", 3.0),
            ("0.10.2", 6.0),
        ]
        assert ask(database, "select label from reporting.nights order by sequence") == [
            ("0.4.30",),
            ("0.5.0",),
            ("0.10.2",),
        ]

    def test_another_machine_or_protocol_is_another_series(self, database: Database) -> None:
        with database.begin() as connection:
            night = store_night(connection, "0.10.1")
            store_run(connection, night, 1.0)
            rows.ensure_machine(connection, m.Machine(name="other"))
            mine = series_id(connection)
            for machine, protocol in (("other", "1"), ("local", "2")):
                run = runs.open_run(
                    connection,
                    run_key=f"{machine}{protocol}",
                    machine=machine,
                    suite="core",
                    origin=m.Origin.NIGHTLY,
                    attempt=5,
                    night_id=night,
                )
                runs.save_measurements(
                    connection,
                    run.id,
                    [measurement(BENCHMARK, 7.0)],
                    machine=machine,
                    protocol=protocol,
                    source=SOURCE,
                )
                runs.finish_run(connection, run.id, outcome=m.Outcome.OK)
            assert [point.value for point in steps.points(connection, mine)] == [1.0]
        assert ask(database, "select count(*) from series") == [(3,)]

    def test_times_come_back_aware(self, database: Database) -> None:
        with database.begin() as connection:
            store_night(connection, "0.4.31")
            (point,) = steps.points(connection, series_id(connection))
        assert point.at == START + dt.timedelta(days=1)
        assert point.at.tzinfo is not None


def test_a_database_of_a_newer_version_is_left_alone(database_url: str) -> None:
    engine = connect(database_url)
    migrate(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("update alembic_version set version_num = '9999'")
    with pytest.raises(
        DatabaseUnreachableError, match="has the schema 9999 of a newer stepwatch; accepted is"
    ):
        migrate(engine)
    engine.dispose()
