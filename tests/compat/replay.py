"""Puts at given times."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import mqstore
from mqstore.cli.json_lines import put_lines

__all__ = ["put_at_times"]


def put_at_times(store: Path, options: Mapping[str, Any], messages: Iterable[str], results: Iterable[str]) -> list[str]:
    """Puts messages at the times of the results that they had before, and gives the results."""
    now_ms = 0
    puts = (line for line in messages if "sleep" not in json.loads(line))
    given: list[str] = []
    with mqstore.open(store, "rw", clock=lambda: now_ms, compat=True, **options) as opened:
        for message, result in zip(puts, results, strict=True):
            now_ms = json.loads(result).get("storeTimestamp", now_ms)
            given += put_lines(opened, [message])
    return given
