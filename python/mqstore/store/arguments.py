"""What callers give, checked before anything is done with it."""

import operator

__all__ = ["LONG_MAX", "checked_integer", "checked_text"]

LONG_MAX = (1 << 63) - 1


def checked_integer(argument: str, value: object, least: int = 0, most: int = LONG_MAX) -> int:
    """An argument that has to be an integer within bounds; those of numpy are some too.

    Raises:
        TypeError: it is no integer.
        ValueError: it is out of its bounds.
    """
    expected = f"{argument}={value!r}: expected an integer from {least} to {most}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(expected)
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(expected)
    return number


def checked_text(argument: str, value: object) -> str:
    """An argument that has to be a string.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument}={value!r}: expected a string")
    return value
