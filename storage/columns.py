"""How is a column said in one word? The tables stand in `storage.tables`."""

from __future__ import annotations

import enum

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION, JSONB

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def identity() -> sa.Column[int]:
    """The primary key `id`, numbered by Postgres."""
    return sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True)


def ref(name: str, to: str, *, nullable: bool = False) -> sa.Column[int]:
    """The id of a row of another table."""
    return sa.Column(name, sa.BigInteger, sa.ForeignKey(f"{to}.id"), nullable=nullable)


def text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    """Text of any length."""
    return sa.Column(name, sa.Text, nullable=nullable)


def texts(name: str) -> sa.Column[list[str]]:
    """Several texts, none where nothing is said."""
    return sa.Column(name, ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'"))


def time(name: str, *, nullable: bool = False, now: bool = False) -> sa.Column[object]:
    """A `timestamptz`; `now`: where nothing is said, the transaction's."""
    default = sa.text("now()") if now else None
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable, server_default=default)


def number(name: str, *, nullable: bool = True) -> sa.Column[float]:
    """A double."""
    return sa.Column(name, DOUBLE_PRECISION, nullable=nullable)


def numbers(name: str) -> sa.Column[list[float]]:
    """Several doubles, none where nothing is said."""
    return sa.Column(name, ARRAY(DOUBLE_PRECISION), nullable=False, server_default=sa.text("'{}'"))


def document(name: str, *, empty: str | None = None) -> sa.Column[object]:
    """A `jsonb`; `empty` is what it is where nothing is said."""
    default = None if empty is None else sa.text(f"'{empty}'::jsonb")
    return sa.Column(name, JSONB, nullable=False, server_default=default)


def one_of(column: str, words: type[enum.StrEnum], *, nullable: bool = False) -> sa.CheckConstraint:
    """The rule that a text is one of some words."""
    accepted = ", ".join(f"'{word.value}'" for word in words)
    test = f"{column} in ({accepted})"
    return sa.CheckConstraint(f"{column} is null or {test}" if nullable else test, name=f"{column}_known")
