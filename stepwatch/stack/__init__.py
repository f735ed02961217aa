"""The services of one machine: an embedded Postgres and Airflow, started and ended together."""

from stepwatch.stack.folders import StackError
from stepwatch.stack.front import Services, Stack, embedded_postgres, running_database
from stepwatch.stack.processes import end_with_make

__all__ = ["Services", "Stack", "StackError", "embedded_postgres", "end_with_make", "running_database"]
