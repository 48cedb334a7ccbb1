"""The stores under ``golden/`` that the real store wrote, with what it answered; see ``peer/README.md``."""

import gzip
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["GOLDENS", "Golden", "read_options"]

_FOLDER = Path(__file__).with_name("golden")


def read_options(text: str) -> dict[str, Any]:
    """Options from lines ``name=value``."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return {name: value for name, _, value in pairs}


@dataclass(frozen=True)
class Golden:
    """A recorded store."""

    name: str

    @property
    def folder(self) -> Path:
        """Where it is recorded. Nothing in it is ever opened as a store."""
        return _FOLDER / self.name

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options that it was written and queried with."""
        return read_options((self.folder / "options.txt").read_text(encoding="utf-8"))

    def unpack(self, to: Path) -> Path:
        """Unpacks the store below a folder, with its file times, and gives where it is."""
        with tarfile.open(self.folder / "store.tar.gz") as archive:
            archive.extractall(to, filter="data")
        return to / "store"

    def lines(self, name: str) -> list[str]:
        """A recording's lines: messages, results, dump, queries or answers."""
        with gzip.open(self.folder / f"{name}.jsonl.gz", "rt", encoding="utf-8", newline="\n") as file:
            return file.read().splitlines()


GOLDENS = [Golden(folder.name) for folder in sorted(_FOLDER.iterdir()) if folder.is_dir()]
"""All of them."""
