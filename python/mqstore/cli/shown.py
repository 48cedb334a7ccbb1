"""Messages as rows that people and programs read."""

import codecs
import datetime as dt
import re
from collections.abc import Iterable, Iterator

from mqstore._native import Message
from mqstore.cli.json_lines import message_to_json
from mqstore.errors import RecordError

__all__ = ["message_rows", "one_line", "printable", "time_text"]

_PREVIEW_SIZE = 60
_FIRST_PRINTABLE = " "
_END_SIZE = 1000
_UTF_8 = codecs.getincrementaldecoder("utf-8")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal would obey instead of showing it, or could not show."""


def printable(text: str) -> str:
    """Text as it may go to a terminal: control characters escaped."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(error: Exception | str) -> str:
    """What an error says, as one line for a terminal. Of one that quotes megabytes both ends are kept."""
    text = " ".join(str(error).split())
    if len(text) > 2 * _END_SIZE:
        text = f"{text[:_END_SIZE]} … {text[-_END_SIZE:]}"
    return printable(text)


def time_text(time_ms: int) -> str:
    """A time as people read it, in the machine's time zone."""
    try:
        local = dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).astimezone()
        return local.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(time_ms)


def message_rows(messages: Iterable[Message], *, as_json: bool) -> Iterator[dict[str, object]]:
    """A row a message: every field for programs, what tells messages apart for people."""
    for message in messages:
        if as_json:
            yield message_to_json(message)
        else:
            yield {
                "topic": message.topic,
                "queue": message.queue_id,
                "offset": message.queue_offset,
                "stored": message.store_timestamp,
                "tags": message.tags,
                "keys": " ".join(message.keys),
                "size": len(message),
                "body": _preview(message),
            }


def _preview(message: Message) -> str:
    """The begin of a body: text where it is UTF-8, else its bytes."""
    try:
        body = message.body
    except RecordError:
        return "(does not inflate)"
    start = bytes(body[: _PREVIEW_SIZE * 2])
    is_cut = len(start) < len(body)
    try:  # a character that the cut has divided is left out
        text = _UTF_8().decode(start, final=not is_cut)
    except UnicodeDecodeError:
        text = start.hex(" ")
    if any(character < _FIRST_PRINTABLE and character not in "\t\n\r" for character in text):
        text = start.hex(" ")
    more = "…" if is_cut or len(text) > _PREVIEW_SIZE else ""
    return " ".join(text[:_PREVIEW_SIZE].split()) + more
