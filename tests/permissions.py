"""What a process is not allowed to do. The superuser may do everything, so that a test says it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["refuse_listing", "refuse_removing"]


def refuse_listing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Nobody may list a folder."""
    _refuse(monkeypatch, "scandir", lambda path: Path(path) == folder)
    _refuse(monkeypatch, "listdir", lambda path: Path(path) == folder)


def refuse_removing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Nobody may remove what is in a folder."""
    _refuse(monkeypatch, "unlink", lambda path: Path(path).parent == folder)


def _refuse(monkeypatch: pytest.MonkeyPatch, name: str, is_refused: Callable[[Any], bool]) -> None:
    allowed = getattr(os, name)

    def refusing(path: Any = ".", *given: Any, **named: Any) -> Any:
        if is_refused(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return allowed(path, *given, **named)

    monkeypatch.setattr(os, name, refusing)
