"""Operators of stepwatch: work that measures, and that Airflow's page can end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow.sdk import BaseOperator, BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from stepwatch import wiring
from stepwatch.jobs.open_bisection import RefusedError
from stepwatch.jobs.workplace import Workplace


@contextmanager
def refusals_fail() -> Iterator[None]:
    """A request that is refused fails its task at once: another try would be refused too."""
    try:
        yield
    except RefusedError as refusal:
        raise AirflowFailException(str(refusal)) from None


class BenchmarkOperator(BaseOperator):
    """Calls one measuring job at a machine's workplace; marking the task failed ends its processes."""

    template_fields: Sequence[str] = ("arguments", "machine_asked", "suite", "source")

    def __init__(
        self,
        *,
        job: Callable[..., Any],
        machine: str,
        arguments: Any = None,
        machine_asked: Any = "{{ params.machine }}",
        suite: Any = "{{ params.suite }}",
        source: Any = "{{ params.source }}",
        **kwargs: Any,
    ) -> None:
        super().__init__(**wiring.slot(machine), **kwargs)
        self.job = job
        self.machine = machine
        self.arguments = arguments or {}
        self.machine_asked = machine_asked
        self.suite = suite
        self.source = source
        self._place: Workplace | None = None

    def execute(self, context: Context) -> Any:
        """What the job returns."""
        del context
        if self.machine_asked not in (None, self.machine):
            raise AirflowSkipException(f"this run is for the machine {self.machine_asked}")
        with wiring.service(machine=self.machine, suite=self.suite, source=self.source) as self._place:
            return self.job(self._place, **self.arguments)

    def on_kill(self) -> None:
        """End what runs."""
        if self._place is not None:
            self._place.runner.cancel()


class BisectionSensor(BaseSensorOperator):
    """Works at one phase of a bisection for some minutes a poke, and gives the machine's slot back in between."""

    template_fields: Sequence[str] = ("bisection",)

    def __init__(self, *, job: Callable[..., bool], machine: str, bisection: Any, **kwargs: Any) -> None:
        # a shorter interval than 20 s fails runs in Airflow 3.3: "executor reported success, but state is scheduled"
        super().__init__(
            **wiring.slot(machine), mode="reschedule", poke_interval=20, timeout=7 * 24 * 3600, **kwargs
        )
        self.job = job
        self.machine = machine
        self.bisection = bisection
        self._place: Workplace | None = None

    def poke(self, context: Context) -> bool:
        """Whether the phase is done."""
        del context
        if self.bisection["machine"] != self.machine:
            raise AirflowSkipException(f"this bisection is for the machine {self.bisection['machine']}")
        with refusals_fail(), wiring.bisection_service(self.bisection) as self._place:
            return self.job(self._place, self.bisection["bisection"])

    def on_kill(self) -> None:
        """End what runs."""
        if self._place is not None:
            self._place.runner.cancel()
