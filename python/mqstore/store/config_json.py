"""The JSON of RocketMQ's configuration files, as fastjson writes it.

Written: tabs, no space behind a colon, empty objects as ``{}``. Keys that are numbers have no quotes
and stand on one line, as a Java ``Map<Integer, …>`` is written; a tuple stands on one line, as an
``int[]`` is. Read: all that, with numbers as keys becoming text. What fastjson would take beside (commas
too many, single quotes, comments) it never writes, and is refused as damage.
Source: ``RemotingSerializable.toJson``, ``JSON.toJSONString``.
"""

import functools
import itertools
import json
import re
from typing import Any, NoReturn, Self

__all__ = ["Dumped", "Fraction", "dump_entry", "dumps", "loads"]

_MAX_DEPTH = 100
"""How deep objects may be nested: RocketMQ's files have five levels."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|([{,]\s*)(-?\d+)(\s*:)', re.DOTALL)
"""A string, or a key that is a number. A string without an end reaches to the text's: each of its quotes would
else be tried as the begin of another one."""
_ESCAPED_BY_FASTJSON_ALONE = re.compile("[\x7f-\x9f\u2028\u2029]")
_JSON_ESCAPE = re.compile(r"(\\\\)|\\u([0-9a-f]{4})")


class Dumped(str):
    """The form of a value at its depth: who changes one entry of thousands need not dump the others again."""

    __slots__ = ()


class Fraction(float):
    """A number that is no whole one. As text it is what it was read from: 1.50 is not 1.5, nor 1e999 infinite."""

    _text: str

    def __new__(cls, text: str) -> Self:
        """The number that a text is."""
        number = super().__new__(cls, text)
        number._text = text
        return number

    def __str__(self) -> str:
        """The text."""
        return self._text


def dumps(value: object) -> str:
    """A value as fastjson's pretty form."""
    return _dump(value, "")


def dump_entry(value: object) -> Dumped:
    """A value's form as an entry of one of the file's tables, to be put into what is dumped."""
    return Dumped(_dump(value, "\t\t"))


def _dump(value: object, indent: str) -> str:
    inner = indent + "\t"
    if isinstance(value, Dumped | Fraction):
        return str(value)
    if isinstance(value, str):
        return _dump_text(value)
    if isinstance(value, dict) and value:
        return _dump_entries(value, indent)
    if isinstance(value, tuple):
        return "[" + ",".join(_dump(item, inner) for item in value) + "]"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(inner + _dump(item, inner) for item in value) + "\n" + indent + "]"
    return json.dumps(value)


def _dump_entries(value: dict[Any, Any], indent: str) -> str:
    inner = indent + "\t"
    written = "{"
    for number, (key, item) in enumerate(value.items()):
        separator = "," if number else ""
        place = "" if isinstance(key, int) else "\n" + inner
        written += f"{separator}{place}{_dump(key, inner)}:{_dump(item, inner)}"
    return f"{written}\n{indent}}}"


@functools.lru_cache(maxsize=1 << 12)
def _dump_text(text: str) -> str:
    # Python's escapes are fastjson's, but for the case of their digits and the characters that it alone escapes.
    written = _JSON_ESCAPE.sub(
        lambda found: found[0] if found[1] else f"\\u{found[2].upper()}", json.dumps(text, ensure_ascii=False)
    )
    return _ESCAPED_BY_FASTJSON_ALONE.sub(lambda found: f"\\u{ord(found[0]):04X}", written)


def loads(text: str) -> Any:
    """A value from JSON, in which keys that are numbers may stand without quotes.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    quoted = _TOKEN.sub(lambda found: f'{found[1]}"{found[2]}"{found[3]}' if found[2] else found[0], text)
    try:
        value = json.loads(quoted, parse_constant=_refuse_constant, parse_float=Fraction)
    except RecursionError:
        value = None
    else:
        if _is_shallow(value):
            return value
    raise ValueError("objects are nested too deeply")


def _is_shallow(value: object) -> bool:
    """Whether what was read can be written again: that goes down into it."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = list(itertools.chain.from_iterable(inner))
        if not level:
            return True
    return False


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
