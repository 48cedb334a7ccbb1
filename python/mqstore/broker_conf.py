"""A ``broker.conf``: a file of options, as Java's ``Properties`` reads it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mqstore.option_error import bad_option

__all__ = ["parse_conf"]

_PROPERTY = re.compile(r"((?:\\.|[^=:\s\\])+)\s*[=:]\s*(.*)", re.DOTALL)
_GOES_ON = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
"""An odd number of backslashes: of an even one each escapes the next."""
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_conf(path: str | os.PathLike[str]) -> dict[str, str]:
    """The properties of a ``broker.conf``: ``key=value`` lines as Java's ``Properties`` reads them.

    ``#`` and ``!`` begin comments. A backslash at a line's end goes on in the next one, but for a comment's; elsewhere
    it escapes the character behind it.

    Raises:
        OptionError: it cannot be read, or a line has no ``=`` or ``:``.
    """
    found: dict[str, str] = {}
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise bad_option("conf", path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise bad_option("conf", path, f"at byte {error.start}: expected UTF-8, found {error.reason}") from error
    for number, line in _logical_lines(text):
        match = _PROPERTY.match(line)
        if match is None:
            raise bad_option(f"{path}, line {number}", line, "expected key=value")
        found[_unescaped(match[1])] = _unescaped(match[2]).strip()
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that say something, each with its number, and with those that it goes on in."""
    begun_at, line = 0, ""
    for number, part in enumerate(map(str.lstrip, text.split("\n")), 1):
        if not line and (not part or part[0] in "#!"):
            continue
        begun_at, line = (begun_at if line else number), line + part
        if _GOES_ON.search(line):
            line = line[:-1]
        else:
            yield begun_at, line
            line = ""
    if line:
        yield begun_at, line


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPES.get(found[2], found[2]), text)
