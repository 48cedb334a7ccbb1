"""What a terminal shows while a store is opened."""

import io
import sys

import pytest

from mqstore.cli import opening
from tests.waiting import wait_until


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_a_terminal_shows_that_a_store_is_being_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(opening, "_AT_ONCE_S", 0)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with opening.shown_while_opening("store\x1b"):
        wait_until(lambda: r"opening store\x1b" in terminal.getvalue())
    hidden, shown = terminal.getvalue().rpartition("\x1b[?25")[::2]
    assert (hidden != "", shown[:1]) == (True, "h")  # the cursor is there again


def test_what_is_open_soon_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(opening, "_AT_ONCE_S", 3600)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with pytest.raises(KeyboardInterrupt), opening.shown_while_opening("store"):
        raise KeyboardInterrupt
    assert terminal.getvalue() == ""
