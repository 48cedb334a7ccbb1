"""What callers give, checked before anything is done with it."""

import math
import operator
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from mqstore._native import SqlFilter
from mqstore.errors import OptionError
from mqstore.option_error import bad_argument, bad_option

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "LONG_MIN",
    "check_fields",
    "check_function",
    "check_kind",
    "check_store",
    "check_timeout",
    "checked_filter",
    "checked_integer",
    "checked_pair",
    "checked_path",
    "checked_several",
    "checked_text",
    "checked_texts",
    "checked_topic",
    "expected_other",
]

T = TypeVar("T")
INT_MAX = (1 << 31) - 1
"""The largest number of a queue."""
LONG_MAX = (1 << 63) - 1
"""The largest offset, and the largest time."""
LONG_MIN = -(1 << 63)
"""The smallest time."""
_MAX_NAME_SIZE = 255
"""Of a file's name, in bytes."""
_BOUNDS = 2


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


def checked_topic(argument: str, value: object) -> str:
    """An argument that has to be a topic that a store can have, the name of its queues' folder.

    Who waits for messages of another one would wait for ever.

    Raises:
        TypeError: it is no string.
        OptionError: it is none.
    """
    topic = checked_text(argument, value)
    if topic in {"", ".", ".."} or not {"/", "\0"}.isdisjoint(topic) or len(topic.encode()) > _MAX_NAME_SIZE:
        raise bad_argument(argument, topic, f"expected a topic, a folder's name of at most {_MAX_NAME_SIZE} bytes")
    return topic


def checked_filter(argument: str, value: str, *, compat: bool) -> SqlFilter:
    """An argument that has to be a SQL92 filter, which is refused under the name by which it was given.

    Raises:
        TypeError: it is no string.
        OptionError: it is no filter; says where.
    """
    checked_text(argument, value)
    try:
        return SqlFilter(value, compat=compat)
    except OptionError as error:
        raise bad_option(argument, error.value, error.reason) from error


def check_kind(argument: str, value: object, kind: type) -> None:
    """Refuses what is of another class.

    Raises:
        TypeError: it is.
    """
    if not isinstance(value, kind):
        raise expected_other(argument, value, f"a {kind.__name__}")


def check_store(value: object) -> None:
    """Refuses an argument ``store`` that is none.

    Raises:
        TypeError: it is none.
    """
    from mqstore.store.message_store import MessageStore  # noqa: PLC0415 - which is made of what takes stores

    check_kind("store", value, MessageStore)


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
    try:
        is_up_some_time = timeout is None or not math.isnan(timeout)
    except (TypeError, OverflowError):
        is_up_some_time = False
    if not is_up_some_time:
        raise bad_argument("timeout", timeout, "expected a number of seconds")


def checked_pair(argument: str, value: tuple[int | None, int | None] | None) -> tuple[int | None, int | None]:
    """An argument that has to be two bounds; without it there are none.

    Raises:
        TypeError: it is something else.
    """
    if value is None:
        return None, None
    if not isinstance(value, tuple | list) or len(value) != _BOUNDS:
        raise expected_other(argument, value, "two numbers, the first and the one behind the last")
    return value[0], value[1]


def checked_texts(argument: str, value: str | bytes | bytearray | Iterable[str]) -> tuple[str, ...]:
    """An argument that has to be a string, or several.

    Raises:
        TypeError: it is neither.
        OptionError: UTF-8 has not all of one.
    """
    if isinstance(value, str):
        return (checked_text(argument, value),)
    if isinstance(value, bytes | bytearray) or not isinstance(value, Iterable):
        raise expected_other(argument, value, "a string, or several")
    return tuple(checked_text(argument, text) for text in value)


def checked_several(argument: str, value: Iterable[T], what: str) -> tuple[T, ...]:
    """An argument that has to be several of something.

    Raises:
        TypeError: it is none, or a string.
    """
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Iterable):
        raise expected_other(argument, value, what)
    return tuple(value)


def checked_path(argument: str, value: object) -> str:
    """An argument that has to be a path, as text.

    Raises:
        TypeError: it is none, or has bytes.
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise expected_other(argument, value, "a string or a path")
    return text


def check_fields(config: "DataclassInstance", most: Mapping[str, int]) -> None:
    """Refuses an entry of a configuration with a field of another type: nobody could read the file that has it.

    Args:
        config: The entry; its fields are strings, switches and integers.
        most: The largest number of a field that is no Java ``int``.

    Raises:
        TypeError: a field has another type.
        ValueError: a number is out of bounds.
    """
    for field in fields(config):
        name, value = field.name, getattr(config, field.name)
        if field.type is str:
            checked_text(name, value)
        elif field.type is bool:
            check_kind(name, value, bool)
        else:
            largest = most.get(name, INT_MAX)
            checked_integer(name, value, -largest - 1, largest)
