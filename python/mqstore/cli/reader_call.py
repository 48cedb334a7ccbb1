"""What the commands for people share: a store that is only read, tables or JSON, times."""

import contextlib
import datetime as dt
import json
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import click

import mqstore
from mqstore.cli.shown import printable
from mqstore.cli.store_call import StoreCall, conf_option, print_lines
from mqstore.cli.tables import print_rows
from mqstore.errors import OptionError
from mqstore.store.arguments import INT_MAX, LONG_MAX, checked_topic
from mqstore.store.times import to_ms

__all__ = [
    "AGE",
    "EXIT_NOTHING_FOUND",
    "FROM_TIME_HELP",
    "OFFSET",
    "OPTION_HELP",
    "QUEUE_ID",
    "TEXT",
    "TIME",
    "TOPIC",
    "ReaderCall",
    "WholeNumber",
    "reader_call",
    "server_call",
]

EXIT_NOTHING_FOUND = 3
"""The exit code of a search that found nothing."""

_EXPECTED_TIME = (
    "expected ISO 8601 with hyphens like 2026-11-23, milliseconds since 1970 of 12 digits or more, or an age like -1h"
)
AGE = re.compile("-([0-9]+)([smhd])")
"""A time as an age."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class _Time(click.ParamType[int]):
    """A time: ISO 8601, milliseconds since 1970, or ``-1h`` for an hour ago.

    A number of fewer than twelve digits is refused: 20261123 is a date to who types it and 1795860418 seconds, and both
    would be times of 1970.
    """

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        ago = AGE.fullmatch(value)
        try:
            if ago is not None:
                found = time.time_ns() // 1_000_000 - int(ago[1]) * _UNITS[ago[2]] * 1000
            elif re.fullmatch(r"[0-9]{12,}", value):
                found = int(value)
            else:
                found = _moment_ms(value)
        except (ValueError, OverflowError):
            self.fail(f"{value!r}: {_EXPECTED_TIME}", param, ctx)
        if abs(found) > LONG_MAX:
            self.fail(f"{value!r}: expected a time of at most {LONG_MAX} milliseconds around 1970", param, ctx)
        return found


def _moment_ms(value: str) -> int:
    if re.fullmatch("[0-9]+", value):
        raise ValueError(f"{value} may be a date or milliseconds")
    moment = dt.datetime.fromisoformat(value)
    if moment.tzinfo is None:
        moment = moment.astimezone()  # as a clock on the wall shows it
    return to_ms(moment)


class WholeNumber(click.ParamType[int]):
    """A number from a least one on. Help shows no range, whose end would be the largest number that there is."""

    name = "N"

    def __init__(self, least: int, most: int = LONG_MAX) -> None:
        """A number.

        Args:
            least: The least one.
            most: The largest one.
        """
        self._range = click.IntRange(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that a text is."""
        return self._range.convert(value, param, ctx)


class _Text(click.ParamType[str]):
    """A text, which the system gives with surrogates where its bytes are no UTF-8."""

    name = "TEXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text!a}: expected UTF-8", param, ctx)
        return text


class _Topic(_Text):
    """A topic that a store can have."""

    name = "TOPIC"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        topic = super().convert(value, param, ctx)
        try:
            return checked_topic("TOPIC", topic)
        except OptionError as error:
            self.fail(f"{topic!r}: {error.reason}", param, ctx)


TIME = _Time()
TEXT = _Text()
TOPIC = _Topic()
OPTION_HELP = "An option that the broker has, by RocketMQ's name: maxIndexNum=400000. Can be repeated."
FROM_TIME_HELP = "Stored at this time or later: 2026-11-23, 2026-11-23T12:00Z, milliseconds, or -1h."
OFFSET = WholeNumber(0)
QUEUE_ID = WholeNumber(-1, INT_MAX)
"""A queue's number. That of 4.9.3's delayed messages is -1 where it has no delay levels."""


@dataclass(frozen=True, kw_only=True)
class ReaderCall:
    """Which store to read, and how to show what is found."""

    store: StoreCall
    as_json: bool

    @contextlib.contextmanager
    def open(self) -> Iterator[mqstore.MessageStore]:
        """Opens the store to read, and says on standard error what is wrong with it.

        Once it was read, what was passed over is told too: nobody knows it before.

        Raises:
            MQStoreError: as :func:`mqstore.open` does.
        """
        with self.store.open("r") as store:
            told = self._tell(store, ())
            try:
                yield store
            finally:
                self._tell(store, told)

    @staticmethod
    def _tell(store: mqstore.MessageStore, told: Collection[str]) -> list[str]:
        """Says what is wrong, aside from what was told before."""
        report = store.report()
        lines = [] if report.is_whole else str(report).splitlines()
        for line in lines:
            if line not in told:
                click.echo(printable(line), err=True)
        return lines

    def show(self, rows: Iterable[dict[str, object]], *, title: str | None = None) -> int:
        """Shows rows as a table, or as JSON lines with times in milliseconds; gives how many."""
        if self.as_json:
            lines = (json.dumps(row, ensure_ascii=False, default=str) for row in rows)
            return print_lines(lines, each_at_once=True)
        return print_rows(rows, title)

    def end_if_nothing(self, count: int, why: str = "") -> None:
        """Ends with the exit code for nothing found."""
        if count == 0:
            click.echo(f"nothing found{printable(why)}", err=True)
            sys.exit(EXIT_NOTHING_FOUND)

    def end_if_no_message(
        self, count: int, store: mqstore.MessageStore, topic: str | None, queue_id: int | None = None
    ) -> None:
        """As :meth:`end_if_nothing`, of messages of a topic: says where that or its queue has none at all."""
        why = ""
        if count == 0 and topic is not None:
            queue_ids = store.topic(topic).queue_ids
            if not queue_ids:
                why = f": the store has no message of topic {topic}"
            elif queue_id is not None and queue_id not in queue_ids:
                queues = f"queues from {queue_ids[0]} to {queue_ids[-1]}"
                why = f": {topic} has messages in {queues}, and none in queue {queue_id}"
        self.end_if_nothing(count, why)


def reader_call(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the argument ``DIR``, ``-o`` and ``--json``, as one :class:`ReaderCall`."""
    return _called(_with_format(command))


def server_call(command: Callable[..., None]) -> Callable[..., None]:
    """The same without ``--json``, for a command that shows no rows."""
    return _called(command)


def _with_format(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--json/--table",
        "as_json",
        default=None,
        help="JSON lines or tables; a table on a terminal and JSON elsewhere by default.",
    )(command)


def _called(command: Callable[..., None]) -> Callable[..., None]:
    @click.argument("directory", metavar="DIR", type=click.Path())
    @click.option("-o", "given", metavar="NAME=VALUE", multiple=True, help=OPTION_HELP)
    @conf_option
    def called(
        *, directory: str, given: tuple[str, ...], conf: str | None, as_json: bool | None = None, **others: Any
    ) -> None:
        store = StoreCall.parse(directory, given, {"compat": False}, conf)
        if as_json is None:
            as_json = not sys.stdout.isatty()
        command(ReaderCall(store=store, as_json=as_json), **others)

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__click_params__ = [  # type: ignore[attr-defined]  # click keeps a command's parameters here
        *getattr(command, "__click_params__", []),
        *getattr(called, "__click_params__", []),
    ]
    return called
