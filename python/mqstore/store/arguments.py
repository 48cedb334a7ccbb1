"""What callers give, checked before anything is done with it."""

import math
import operator

from mqstore.option_error import bad_argument

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "LONG_MIN",
    "check_function",
    "check_kind",
    "check_timeout",
    "checked_integer",
    "checked_text",
    "expected_other",
]

INT_MAX = (1 << 31) - 1
"""The largest number of a queue."""
LONG_MAX = (1 << 63) - 1
"""The largest offset, and the largest time."""
LONG_MIN = -(1 << 63)
"""The smallest time."""


def checked_integer(argument: str, value: object, least: int = 0, most: int = LONG_MAX) -> int:
    """An argument that has to be an integer within bounds; those of numpy are some too.

    Raises:
        TypeError: it is no integer.
        ValueError: it is out of its bounds.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(_expected_integer(argument, value, least, most))
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(_expected_integer(argument, value, least, most))
    return number


def _expected_integer(argument: str, value: object, least: int, most: int) -> str:
    return f"{argument}={value!r}: expected an integer from {least} to {most}"


def checked_text(argument: str, value: object) -> str:
    """An argument that has to be a string.

    Raises:
        TypeError: it is none.
        OptionError: UTF-8 has it not, as a command's argument that was no text.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument}={value!r}: expected a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise bad_argument(argument, value, "expected text, of which UTF-8 has all") from error
    return value


def check_kind(argument: str, value: object, kind: type) -> None:
    """Refuses what is of another class.

    Raises:
        TypeError: it is.
    """
    if not isinstance(value, kind):
        raise expected_other(argument, value, f"a {kind.__name__}")


def expected_other(argument: str, value: object, what: str) -> TypeError:
    """The error for an argument of another type than is expected."""
    return TypeError(f"{argument}={value!r}: expected {what}, found {type(value).__name__}")


def check_function(argument: str, value: object, what: str) -> None:
    """Refuses what cannot be called: nobody would see that before it is, in the background.

    Raises:
        TypeError: it is no function.
    """
    if not callable(value):
        raise TypeError(f"{argument}={value!r}: expected {what}")


def check_timeout(timeout: float | None) -> None:
    """Refuses a number of seconds that is none: it would never be up.

    Raises:
        OptionError: it is none.
    """
    if timeout is not None and math.isnan(timeout):
        raise bad_argument("timeout", timeout, "expected a number of seconds")
