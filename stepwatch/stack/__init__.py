"""The services of one machine: an embedded Postgres and Airflow, started and ended together."""

from stepwatch.stack.folders import StackError
from stepwatch.stack.front import Services, Stack, embedded_postgres, running_database

__all__ = ["Services", "Stack", "StackError", "embedded_postgres", "running_database"]
