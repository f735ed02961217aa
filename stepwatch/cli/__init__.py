"""The command line: the same verbs as the DAGs, without Airflow."""

from stepwatch.cli.entry import main

__all__ = ["main"]
