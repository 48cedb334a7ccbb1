"""Times as Python has them, and as the store does: milliseconds since 1970."""

import datetime as dt
from typing import TypeAlias

__all__ = ["Time", "to_datetime", "to_ms"]

Time: TypeAlias = int | dt.datetime
"""A ``datetime`` with a time zone, or milliseconds since 1970."""


def to_ms(time: Time) -> int:
    """A time in milliseconds.

    Raises:
        ValueError: a ``datetime`` without a time zone, which could mean any.
    """
    if isinstance(time, dt.datetime):
        if time.tzinfo is None:
            raise ValueError(f"expected a datetime with a time zone, found {time!r}")
        since = time - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return since // dt.timedelta(milliseconds=1)
    return time


def to_datetime(time_ms: int) -> dt.datetime:
    """Milliseconds as a ``datetime`` in UTC."""
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=time_ms)
