"""RocketMQ's configuration files, as fastjson writes and reads them.

Written: tabs, no space behind a colon, empty objects as ``{}``. Read: that, and keys that are numbers
without quotes. A file that is damaged or missing gives way to the ``.bak`` beside it.
Source: ``ConfigManager``, ``RemotingSerializable.toJson``.
"""

import json
import re
from pathlib import Path
from typing import Any

from mqstore.errors import MQStoreError

__all__ = ["dumps", "load", "loads"]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?\d+)(\s*:)', re.DOTALL)


def dumps(value: object) -> str:
    """A value as fastjson's pretty form."""
    return _dump(value, "")


def _dump(value: object, indent: str) -> str:
    inner = indent + "\t"
    if isinstance(value, dict):
        if not value:
            return "{}"
        pairs = (f"{json.dumps(str(key), ensure_ascii=False)}:{_dump(item, inner)}" for key, item in value.items())
        return "{\n" + ",\n".join(inner + pair for pair in pairs) + "\n" + indent + "}"
    if isinstance(value, list | tuple):
        if not value:
            return "[]"
        return "[\n" + ",\n".join(inner + _dump(item, inner) for item in value) + "\n" + indent + "]"
    return json.dumps(value, ensure_ascii=False)


def loads(text: str) -> Any:
    """A value from JSON as fastjson takes it, with keys that are numbers without quotes.

    Raises:
        ValueError: it is no JSON.
    """
    quoted = _TOKEN.sub(lambda found: f'{found[1]}"{found[2]}"{found[3]}' if found[2] else found[0], text)
    return json.loads(quoted)


def load(path: Path) -> Any:
    """A configuration file's value, or its ``.bak``'s; ``None`` where there is neither.

    Raises:
        MQStoreError: both are there and neither is whole.
    """
    reasons = []
    for candidate in (path, path.with_name(path.name + ".bak")):
        try:
            text = candidate.read_text(encoding="utf-8")
            if text.strip():
                return loads(text)
        except FileNotFoundError:
            continue
        except ValueError as error:
            reasons.append(f"{candidate}: expected JSON, {error}")
    if reasons:
        raise MQStoreError("; ".join(reasons))
    return None
