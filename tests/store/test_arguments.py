"""What is given where it does not work is told by its argument's name and value, before anything is done with it."""

import asyncio
import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mqstore

NAIVE = dt.datetime(2026, 11, 26, 12)  # noqa: DTZ001 - one that could mean any time
LONG = 1 << 63
Use = Callable[[mqstore.MessageStore, Any], object]


def follow_async(store: mqstore.MessageStore, offset: Any) -> object:
    async def first() -> mqstore.Message:
        return await anext(store.aio.follow("t", 0, offset))

    return asyncio.run(first())


USES: list[tuple[Use, str, list[Any]]] = [
    (lambda store, value: store.topic(value), "name", [3, None]),
    (lambda store, value: store.topic("t").queue(value), "queue_id", ["0", 1.5, 1 << 31]),
    (lambda store, value: store.select(value), "topic", [3, ["t", 3]]),
    (lambda store, value: store.select("t", offsets=value), "offsets", [5, "05", (1,), (1, 2, 3)]),
    (lambda store, value: store.select(phy_offsets=value), "phy_offsets", [5, (1, 2, 3)]),
    (lambda store, value: store.select("t", key=value), "key", [3, ["k", 3]]),
    (lambda store, value: store.select("t", begin=value), "begin", [NAIVE, "2026", LONG]),
    (lambda store, value: store.topic("t").queue(0).offset_by_time(value), "time", [NAIVE, 1.5, LONG]),
    (lambda store, value: store.topic("t").queue(0).offsets_by_time([value]), "time", [NAIVE, "2026", LONG]),
    (lambda store, value: next(iter(store.topic("t").queue(0).follow(value))), "offset", ["0", LONG]),
    (follow_async, "offset", ["0", LONG]),
    (lambda store, value: store.wait_for_message("t", 0, value, timeout=0), "offset", ["0", LONG]),
    (lambda store, value: asyncio.run(store.aio.wait_for_message("t", 0, value, timeout=0)), "offset", ["0"]),
    (lambda store, value: store.wait_for_message("t", 0, 0, timeout=value), "timeout", ["1", [1]]),
    (lambda store, value: store.consumer("g", "t", timeout=value), "timeout", ["1"]),
    (
        lambda store, value: store.consumer("g", "t", from_where="timestamp", from_time=value),
        "from_time",
        [NAIVE, "2026", LONG],
    ),
    (lambda store, value: store.get_message("t", value, 0), "queue_id", ["0", 1 << 31]),
    (lambda store, value: store.get_message("t", 0, value), "offset", ["0", LONG]),
    (lambda store, value: store.get_max_offset_in_queue("t", value), "queue_id", ["0", 1 << 31]),
    (lambda store, value: store.get_earliest_message_time("t", value), "queue_id", ["0", 1 << 31]),
    (lambda store, value: store.get_offset_in_queue_by_time("t", 0, value), "timestamp", ["0", LONG]),
    (lambda store, value: store.get_commit_log_offset_in_queue("t", 0, value), "offset", ["0", LONG]),
    (lambda store, value: store.get_commit_log_data(value), "offset", ["0", -1, 1 << 64]),
    (lambda store, value: store.check_in_disk_by_consume_offset("t", 0, value), "offset", ["0", -1]),
    (lambda store, value: store.look_message_by_offset(value), "commit_log_offset", ["0", LONG]),
    (lambda store, value: store.set_confirm_offset(value), "offset", ["0", LONG]),
]


@pytest.mark.parametrize(("use", "argument", "value"), [(use, name, one) for use, name, many in USES for one in many])
def test_what_does_not_work_is_told_by_its_argument_and_value(
    store: mqstore.MessageStore, use: Use, argument: str, value: Any
) -> None:
    store.put("t", b"body", queue_id=0)
    wrong = value[-1] if isinstance(value, list) and len(value) > 1 else value
    with pytest.raises((TypeError, ValueError), match=f"^(option )?{argument}={re.escape(repr(wrong))}: expected"):
        use(store, value)
    assert store.topics() == ["t"]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("path", 3), ("path", b"store"), ("conf", 3), ("conf", b"broker.conf"), ("filesystem", 3)],
)
def test_what_a_store_is_opened_with_is_told_by_its_argument_and_value(
    tmp_path: Path, argument: str, value: Any
) -> None:
    given: dict[str, Any] = {"path": tmp_path / "store"} | {argument: value}
    with pytest.raises(TypeError, match=f"^{argument}={re.escape(repr(value))}: expected"):
        mqstore.open(**given)


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_file_is_no_store(tmp_path: Path, mode: str) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(mqstore.StoreLayoutError, match="expected a store, which is a folder, found a file") as raised:
        mqstore.open(tmp_path / "file", mode)
    error = raised.value
    assert (error.path, error.expected, error.found) == (str(tmp_path / "file"), "a folder", "a file")
    assert (tmp_path / "file").read_bytes() == b"content"
