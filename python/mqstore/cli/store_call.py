"""What the commands that speak JSON lines share: a store's folder, ``-o`` options, lines in and out."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

import mqstore
from mqstore import _native
from mqstore.broker_conf import parse_conf
from mqstore.cli.opening import shown_while_opening
from mqstore.cli.shown import one_line
from mqstore.errors import MQStoreError
from mqstore.option_error import bad_option
from mqstore.options import StoreOptions, snake_case, unknown_option
from mqstore.store.byte_ranges import is_remote, resolved

__all__ = [
    "BAD_LINE",
    "StoreCall",
    "conf_option",
    "end_without_closing",
    "input_lines",
    "print_lines",
    "store_call",
]

BAD_LINE = (ValueError, TypeError, OverflowError, RecursionError)
"""What a line raises that holds what it cannot."""
_STORE_OPTIONS = {option.name for option in fields(StoreOptions)}
_OPEN_SWITCHES = frozenset({"pread", "replication", "retention", "schedule_messages"})
_OPEN_WORDS = frozenset({"born_host", "on_damage", "store_host"})
"""What else :func:`mqstore.open` takes that a command line can say; it checks the words itself."""
_OF_THE_LOG = frozenset({"store_path_commit_log", "read_only_commit_log_store_paths"})
"""Options that say where a log lies."""
_DRIVERS_SWITCHES = MappingProxyType({"compat": True, "crash": False})


@dataclass(frozen=True, kw_only=True)
class StoreCall:
    """Which store to open, and how.

    The options are those of the Java store's driver, so that both run under the same tests.
    """

    directory: str
    """The store's folder."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the store, as :func:`mqstore.open` takes them."""
    compat: bool = True
    """Whether 4.9.3's answers are given where the two differ visibly."""
    crash: bool = False
    """Whether the process ends without closing the store."""
    bench: Mapping[str, str] = field(default_factory=dict)
    """Options of the bench, without their prefix."""

    @classmethod
    def parse(
        cls,
        directory: str,
        given: Iterable[str],
        switches: Mapping[str, bool] = _DRIVERS_SWITCHES,
        conf: str | None = None,
    ) -> "StoreCall":
        """A call from ``NAME=VALUE`` arguments.

        Args:
            directory: The store's folder.
            given: The arguments.
            switches: Which of ``compat`` and ``crash`` the command takes, and what they are unless they are given.
            conf: A ``broker.conf`` whose options hold unless an argument gives them.

        Raises:
            OptionError: there is no such option, or the file cannot be read.
            click.BadParameter: one has no ``=``, or a switch is neither true nor false.
        """
        from_conf = {} if conf is None else _options_of_conf(conf)
        options: dict[str, str | bool] = {}
        bench: dict[str, str] = {}
        switches = dict(switches)
        for argument in given:
            name, equals, value = argument.partition("=")
            if not equals or not name:
                raise click.BadParameter(f"{argument!r}: expected NAME=VALUE", param_hint="-o")
            if name in switches:
                switches[name] = _switch(name, value)
            elif name.startswith("bench.") and "crash" in switches:
                bench[name.removeprefix("bench.")] = value
            elif name.startswith("broker."):
                # A broker has many more options than those that concern its store.
                broker_option = name.removeprefix("broker.")
                if snake_case(broker_option) in _STORE_OPTIONS:
                    options[broker_option] = value
            else:
                options[name] = _option(name, value)
        said = set(map(snake_case, options))
        options = {name: value for name, value in from_conf.items() if snake_case(name) not in said} | options
        if conf is not None and "store_path_commit_log" not in said:
            _check_log_of_conf(directory, conf, options)
        return cls(directory=directory, options=options, bench=bench, **switches)

    def open(self, mode: str) -> mqstore.MessageStore:
        """Opens the store.

        Raises:
            MQStoreError: as :func:`mqstore.open` does.
        """
        with shown_while_opening(self.directory):
            return mqstore.open(self.directory, mode, compat=self.compat, **self.options)

    def refuse_lack(self) -> None:
        """Refuses a folder without a store, which opening it for writing would make there.

        Raises:
            StoreNotFoundError: there is none, as for who reads it.
            OptionError: what says where it lies does not work.
        """
        if is_remote(self.directory):  # it can't be written to in any case
            return
        root = resolved(self.directory)
        options = _log_options(root, self.options)
        _native.check_exists(options.engine(compat=False, truncate_on_damage=False, pread=False))


def _options_of_conf(path: str) -> dict[str, str | bool]:
    """A broker's options that are its store's. Where the store is the command line says."""
    wanted = _STORE_OPTIONS - {"store_path_root_dir"}
    return {name: value for name, value in parse_conf(path).items() if snake_case(name) in wanted}


def _log_options(directory: str, options: Mapping[str, Any]) -> StoreOptions:
    """What of a store's options says where its log lies.

    Raises:
        OptionError: that does not work.
    """
    return StoreOptions.of(
        directory, {name: value for name, value in options.items() if snake_case(name) in _OF_THE_LOG}
    )


def _check_log_of_conf(directory: str, conf: str, options: Mapping[str, str | bool]) -> None:
    """Of a copy the broker's options still say where the broker has its log."""
    own = Path(directory, "commitlog")
    if is_remote(directory) or not own.is_dir():
        return
    root, paths = Path(directory).resolve(), _log_options(directory, options).commit_log_paths()
    if all(not Path(path).resolve().is_relative_to(root) for path in paths):
        reason = f"by {conf} it lies elsewhere, and {own} is there: say with -o storePathCommitLog=... which is meant"
        raise bad_option("storePathCommitLog", ",".join(paths), reason)


def _option(name: str, value: str) -> str | bool:
    """An option's value; of those that :func:`mqstore.open` has for programs none is taken."""
    if name in _OPEN_SWITCHES:
        return _switch(name, value)
    if name not in _OPEN_WORDS and snake_case(name) not in _STORE_OPTIONS:
        raise unknown_option(name, value, _STORE_OPTIONS | _OPEN_SWITCHES | _OPEN_WORDS)
    return value


def _switch(name: str, value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise click.BadParameter(f"{name}={value!r}: expected true or false", param_hint="-o")
    return value.lower() == "true"


def conf_option(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command ``-c``, which a broker has too."""
    return click.option(
        "-c", "--conf", type=click.Path(), metavar="FILE", help="The broker's broker.conf; what -o says comes first."
    )(command)


def store_call(command: Callable[[StoreCall], None]) -> Callable[..., None]:
    """Gives a command the argument ``DIR`` and the option ``-o``, as one :class:`StoreCall`."""

    @click.argument("directory", metavar="DIR", type=click.Path())
    @click.option(
        "-o",
        "given",
        metavar="NAME=VALUE",
        multiple=True,
        help="An option of the store by RocketMQ's name; crash=true ends without closing the store, "
        "compat=false gives right answers where 4.9.3's are wrong, broker.* are a broker's.",
    )
    @conf_option
    def called(directory: str, given: tuple[str, ...], conf: str | None) -> None:
        command(StoreCall.parse(directory, given, conf=conf))

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    return called


def input_lines(answer: Callable[[Iterator[str]], Iterable[str]]) -> Iterator[str]:
    """What a function makes of the lines of standard input.

    Raises:
        click.UsageError: a line is not what the function takes; it names the line's number.
    """
    number = 0

    def numbered() -> Iterator[str]:
        nonlocal number
        for line in _read_lines():
            number += 1
            yield line.decode()

    try:
        yield from answer(numbered())
    except MQStoreError:
        raise
    except BAD_LINE as error:
        raise click.UsageError(f"line {number} of standard input: {one_line(error)}") from error


def _read_lines() -> Iterator[bytes]:
    if sys.stdin is None:
        raise click.ClickException("standard input is closed: the command takes its lines there")
    try:
        yield from sys.stdin.buffer
    except OSError as error:
        raise click.ClickException(f"standard input: {error.strerror or error}") from error


def print_lines(lines: Iterable[str], *, each_at_once: bool = False) -> int:
    """Prints lines of JSON in UTF-8, whatever the terminal has; gives how many.

    With ``each_at_once`` each reaches the reader before the next is made.
    """
    out, count = sys.stdout.buffer, 0
    for line in lines:
        # What UTF-8 does not have, halves of surrogate pairs, JSON has as the escape that this makes.
        out.write(line.encode(errors="backslashreplace") + b"\n")
        count += 1
        if each_at_once:
            out.flush()
    out.flush()
    return count


def end_without_closing(status: int = 0) -> None:
    """Ends the process as a crash would, so that the store is left with its mark of an unclean stop."""
    sys.stdout.flush()
    os._exit(status)
