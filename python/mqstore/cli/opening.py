"""What people see while a store is opened: that of one that crashed much of the log is read."""

import contextlib
import sys
import threading
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from mqstore.cli.shown import printable

__all__ = ["shown_while_opening"]

_AT_ONCE_S = 0.5
"""What is open sooner says nothing."""


@contextlib.contextmanager
def shown_while_opening(directory: str) -> Iterator[None]:
    """Shows on a terminal, on standard error, that a store is being opened, until it is."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    status = Console(file=sys.stderr).status(Text(f"opening {printable(directory)}"))
    begin = threading.Timer(_AT_ONCE_S, status.start)
    begin.daemon = True
    begin.start()
    try:
        yield
    finally:
        begin.cancel()
        begin.join()
        status.stop()
