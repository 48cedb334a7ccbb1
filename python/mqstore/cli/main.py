"""The ``mqstore`` command: its group. Each command has a file of its own beside this one.

Its help says what the exit codes mean. A message that ``put`` is refused is an answer, as of the Java store's
driver: its line says so, and the exit code is 0.
"""

import contextlib
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from mqstore.cli.shown import one_line, printable
from mqstore.errors import MQStoreError

__all__ = ["main"]

_SECTIONS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "Look at a store": ["ls", "get", "find", "seek", "tail", "groups", "du", "metrics"],
        "Check and mend one": ["verify", "repair", "recover"],
        "JSON lines, for programs": ["put", "dump", "query", "bench"],
        "On Spark": ["spark"],
    }
)
"""The commands. Each is imported when it is called: all of them take longer than most have to do."""
_EPILOG = """\
DIR is the folder of a broker's store. What only reads takes s3://bucket/store too, or any other URI that
pyarrow opens, and the store of a live broker.

\b
Exit codes:
  0    all went well
  1    something is wrong with the store or with an -o, or it could not be done
  2    the call is wrong otherwise
  3    nothing was found
  130  Ctrl-C broke it off
"""
_GIVEN = "mqstore.given"
"""Under which a call's context has its arguments."""
_INDENT = 6
"""Blanks before a command's name and behind it."""
_STDERR = 2
_BROKEN_OFF = 128 + signal.SIGINT
"""As a shell has it for a process that the signal ends."""


class _StoreGroup(click.Group):
    """A group whose commands tell a failure of the store in one line, without a traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_GIVEN] = list(args)
        _prepare_output()
        # The group's own --help and --version are said in here.
        with _failures_told(ctx):
            return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for names in _SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command(cmd_name) if cmd_name in self.list_commands(ctx) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(len(name) for name in self.list_commands(ctx))
        for title, names in _SECTIONS.items():
            rows = [
                (f"{name:{longest}}", _command(name).get_short_help_str(formatter.width - longest - _INDENT))
                for name in names
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        with _failures_told(ctx):
            return super().invoke(ctx)


def _command(name: str) -> click.Command:
    command: click.Command = getattr(importlib.import_module(f"mqstore.cli.{name}"), name)
    return command


def _prepare_output() -> None:
    if sys.stdout is None:  # closed by who started this: the store's own files would get its number
        raise click.ClickException("standard output is closed: send it to /dev/null where it is not wanted")
    if sys.stderr is None:
        _open_stderr()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that is not UTF-8's shows escapes
        sys.stdout.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def _failures_told(ctx: click.Context) -> Iterator[None]:
    """Has what fails told in one line, what standard output does not take among it."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except MQStoreError as error:
        raise click.ClickException(one_line(error)) from error
    except UnicodeEncodeError as error:
        if not any(error.object in argument for argument in ctx.meta[_GIVEN]):
            raise click.ClickException(one_line(error)) from error
        raise click.UsageError(f"{error.object!a}: expected UTF-8") from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        # Nothing else than these two has no name.
        nameless = "the current folder" if error.errno == errno.ENOENT else "standard output"
        where = nameless if error.filename is None else error.filename
        _drop_output()
        raise click.ClickException(printable(f"{where}: {error.strerror or error}")) from error
    except KeyboardInterrupt as interrupt:
        raise click.exceptions.Exit(_BROKEN_OFF) from interrupt


def _open_stderr() -> None:
    """Opens what whoever started this has closed: a file of the store would get its number, and what is told there."""
    sink = os.open(os.devnull, os.O_WRONLY)
    if sink != _STDERR:
        os.dup2(sink, _STDERR)
        os.close(sink)
    sys.stderr = os.fdopen(_STDERR, "w", closefd=False)


def _drop_output() -> None:
    """Lets go of what standard output did not take: the interpreter would try, and fail, again at its end."""
    with contextlib.suppress(OSError):
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)


@click.group(
    cls=_StoreGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="mqstore")
def main() -> None:
    """Read, search, write and recover the store of a RocketMQ 4.9.3 broker."""
