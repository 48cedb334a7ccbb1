"""Times as Python has them, and as the store does: milliseconds since 1970."""

import datetime as dt
from typing import TypeAlias

from mqstore.store.arguments import LONG_MIN, checked_integer

__all__ = ["Time", "checked_time", "to_datetime", "to_ms"]

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


def checked_time(argument: str, time: Time) -> int:
    """A time in milliseconds, which is refused under the name by which it was given.

    Raises:
        TypeError: it is neither.
        ValueError: a ``datetime`` without a time zone, or a number that is no Java ``long``.
    """
    if isinstance(time, dt.datetime):
        if time.tzinfo is None:
            raise ValueError(f"{argument}={time!r}: expected a datetime with a time zone")
        return to_ms(time)
    if not hasattr(time, "__index__"):
        raise TypeError(f"{argument}={time!r}: expected a datetime with a time zone, or milliseconds since 1970")
    return checked_integer(argument, time, LONG_MIN)


def to_datetime(time_ms: int) -> dt.datetime:
    """Milliseconds as a ``datetime`` in UTC."""
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=time_ms)
