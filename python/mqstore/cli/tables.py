"""Rows as people read them: a table, or where the terminal is too narrow for it a line for each value."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mqstore.cli.shown import printable, time_text

__all__ = ["print_rows"]

_TIMES = frozenset({"stored", "first stored", "last stored"})
"""Columns of times in milliseconds. The time of day may stand below the date."""
_WIDTH_OF_TIMES = 12
_ONE_LINE = frozenset({"body"})
"""Columns that show a begin: what has no room is left out."""
_LEAST = 6
"""What a column of text keeps at least, where it has so much."""
_ROWS_OF_A_TABLE = 1000
"""How many rows are waited for before they are shown."""
_FRAME = 3
"""What lines and blanks beside a cell take."""


@dataclass(frozen=True)
class _Column:
    name: str
    cells: Sequence[str]
    is_number: bool
    width: int
    """Of the widest cell, or of the name."""
    least: int
    """Below that something of it could not be read."""

    @classmethod
    def of(cls, name: str, values: Sequence[object]) -> "_Column":
        is_time = name in _TIMES
        cells = [_cell(value, is_time=is_time) for value in values]
        is_number = not is_time and any(isinstance(value, int) for value in values)
        width = max(map(cell_len, (name, *cells)))
        least = width if is_number else min(width, max(_WIDTH_OF_TIMES, cell_len(name)) if is_time else _LEAST)
        return cls(name, cells, is_number, width, least)


def _cell(value: object, *, is_time: bool) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, int):
        return time_text(value) if is_time else f"{value:,}"
    return printable(str(value))


def print_rows(rows: Iterable[dict[str, object]], title: str | None) -> int:
    """Prints rows, which have the same names; gives how many.

    How wide a column is its cells say, and of a large store not all are waited for, nor kept: of many rows some at a
    time are a table, as soon as they are there.
    """
    left, console, count = iter(rows), Console(), 0
    while values := list(itertools.islice(left, _ROWS_OF_A_TABLE)):
        if count:
            console.print()
        _print_some(console, values, None if title is None or count else Text(printable(title)))
        count += len(values)
    return count


def _print_some(console: Console, rows: Sequence[dict[str, object]], heading: Text | None) -> None:
    columns = [_Column.of(name, [row[name] for row in rows]) for name in rows[0]]
    room = console.width - _FRAME * len(columns) - 1
    if sum(column.least for column in columns) > room:
        _print_blocks(console, columns, heading)
    else:
        _print_table(console, columns, _widths(columns, room), heading)
    console.file.flush()


def _widths(columns: Sequence[_Column], room: int) -> list[int]:
    """How wide columns that have room are. Times are on one line or on two, the widest of the others give way."""
    beside_times = sum(column.width if column.name in _TIMES else column.least for column in columns)
    is_tight = beside_times > room
    widths = [column.least if is_tight and column.name in _TIMES else column.width for column in columns]
    giving = [index for index, column in enumerate(columns) if column.name not in _TIMES and not column.is_number]
    while sum(widths) > room:
        widths[max(giving, key=lambda index: widths[index])] -= 1
    return widths


def _print_table(console: Console, columns: Sequence[_Column], widths: Sequence[int], title: Text | None) -> None:
    table = Table(title=title)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.name,
            justify="right" if column.is_number else "left",
            width=width,
            no_wrap=column.name in _ONE_LINE,
            overflow="ellipsis" if column.name in _ONE_LINE else "fold",
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, row))  # what a message says is no markup: brackets are brackets
    console.print(table)


def _print_blocks(console: Console, columns: Sequence[_Column], title: Text | None) -> None:
    if title is not None:
        console.print(title)
    for number, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        block = Table.grid(padding=(0, 2, 0, 0))
        block.add_column()
        block.add_column(overflow="fold")
        for column, value in zip(columns, row, strict=True):
            block.add_row(column.name, Text(value))
        if number:
            console.print()
        console.print(block)
