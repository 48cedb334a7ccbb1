"""What is given where it does not work is told by its argument's name and value, before anything is done with it."""

import asyncio
import datetime as dt
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.metrics import serve
from mqstore.verify import repair, verify

NAIVE = dt.datetime(2026, 11, 26, 12)  # noqa: DTZ001 - one that could mean any time
LONG = 1 << 63
NO_TEXT = "\udcff"
"""What a command's argument is that was no text: UTF-8 has it not."""
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
    (lambda store, value: store.reset_write_offset(value), "phy_offset", ["0", None, LONG]),
    (lambda store, value: store.check_message_and_return_size(value), "commit_log_offset", ["0", -1, 1 << 64]),
    (lambda store, value: store.check_message_and_return_size(0, check_crc=value), "check_crc", ["true", 1]),
    (lambda store, value: store.check_message_and_return_size(0, read_body=value), "read_body", ["true", 1]),
    (lambda store, value: store.append_to_commit_log(value, b""), "start_offset", ["0", -1, 1 << 64]),
    (lambda store, value: store.append_to_commit_log(0, value), "data", ["0", 1]),
    (lambda store, value: store.append_records(value), "records", [3, "ab", b"ab"]),
    (lambda store, value: store.append_records([], keep_times=value), "keep_times", ["true", 1]),
    (lambda store, value: store.append_records([], store_host=value), "store_host", [3]),
    (lambda store, value: store.clean_unused_topic(value), "topics", [3, "t", b"t"]),
    (lambda store, value: store.query_messages("t", value), "keys", [3, "k", None]),
    (lambda store, value: store.select(value), "topic", [b"t", bytearray(b"t")]),
    (lambda store, value: store.select("t", key=value), "key", [b"k"]),
    (lambda store, value: store.put("t", b"", queue_id=value), "queue_id", [True, "0", 1 << 31]),
    (lambda store, value: store.put("t", b"", born_timestamp=value), "born_timestamp", [True, "0"]),
    (lambda store, value: store.put("t", b"", deliver_at=value), "deliver_at", [True, 1.5]),
    (lambda store, value: store.put_many("t", [b""], deliver_at=value), "deliver_at", [True]),
    (lambda store, value: store.get_message("t", value, 0), "queue_id", [False]),
    (lambda store, value: store.get_message("t", 0, value), "offset", [True]),
    (lambda store, value: store.wait_for_message("t", 0, 0, timeout=value), "timeout", ["1", 10**400, math.nan]),
    (lambda store, value: store.get_offsets_in_queue_by_time("t", 0, value), "timestamps", [3, "12"]),
    (lambda store, value: store.get_offsets_in_queue_by_time("t", value, [0]), "queue_id", ["0", 1 << 31]),
    (lambda store, value: store.get_offset_in_queue_by_time("t", 0, 0, value), "boundary", [3]),
    (lambda store, value: store.query_message("t", value), "key", [3, NO_TEXT]),
    (lambda store, value: store.put("t", b"", queue_id=0, keys=value), "keys", [NO_TEXT]),
    (lambda store, value: store.put("t", b"", queue_id=0, tags=value), "tags", [NO_TEXT]),
    (lambda store, value: store.select("t", sql=value), "sql", [3, NO_TEXT]),
    (lambda store, value: store.consumer("g", "t", sql=value), "sql", [3, NO_TEXT]),
    (lambda store, value: store.select(queues=value), "queues", [3, "t"]),
    (lambda store, value: store.check_transactions(value), "listener", [3, None]),
    (lambda store, value: store.topic("t").queue(0).offset_by_time(0, value), "boundary", [3]),
    (lambda store, value: store.topic("t").queue(0).offsets_by_time(value), "times", [3, "12", b"12"]),
    (lambda store, value: store.select("t").look_up_times(value), "times", [3, "12"]),
    (lambda store, value: store.select("t").look_up_keys(value), "keys", [3, "k", b"k"]),
    (lambda store, value: store.select("t").to_arrow(value), "columns", [3, "topic"]),
    (lambda store, value: store.select("t").to_arrow(body=value), "body", [3]),
    (lambda store, value: store.select("t").to_arrow(use_threads=value), "use_threads", ["no", 1]),
    (mqstore.Selection, "queues", [3, "t"]),
    (lambda store, value: mqstore.Selection(store, keys=value), "key", [3]),
    (lambda store, value: mqstore.Selection(store, sql=value), "sql", [3]),
    (lambda store, value: mqstore.Selection(store, places=value), "places", [3, "12"]),
    (lambda store, value: store.figures().rates_since(value), "earlier", [3, None]),
    (lambda store, value: store.consumers.queue_ids(value), "topic", [3, NO_TEXT]),
    (lambda store, value: store.consumers.folder(value), "group", [3, None, "", "../g"]),
    (lambda store, value: store.consumers.consume_stats(value), "group", [3, None, NO_TEXT]),
    (lambda store, value: store.consumers.consume_stats("g", value), "topics", [3, ["t", 3]]),
    (lambda store, value: store.consumers.figures_of(value, "t"), "group", [3, None]),
    (lambda store, value: store.consumers.figures_of("g", value), "topic", [3, None]),
    (lambda store, value: store.consumers.topics.get(value), "topic", [3, None]),
    (lambda store, value: store.consumers.topics.delete(value), "topic", [3, None]),
    (lambda store, value: store.consumers.groups.get(value), "group", [3, None]),
    (lambda store, value: store.consumers.groups.delete(value), "group", [3, None]),
    (lambda store, value: store.consumer("g", value), "topics", ["", "a/b", ".", "..", "a\0b", "t" * 256]),
    (lambda store, value: store.consumer("g", {value: "*"}), "topics", ["", "a/b", 3]),
    (lambda store, value: store.consumer("g", ["t", value], sql="a = 1"), "topics", ["", "a/b", 3]),
    (lambda _store, value: mqstore.Selection(value, sql="a > 1"), "store", [3, None]),
    (lambda _store, value: serve(value, 0), "store", [3, None]),
    (lambda store, value: serve(store, 0, address=value), "address", [3, None]),
    (lambda store, value: serve(store, 0, cluster=value), "cluster", [3, None]),
    (lambda store, value: serve(store, 0, broker=value), "broker", [3]),
    (lambda store, value: store.put("t", b"", queue_id=0, born_timestamp=value), "born_timestamp", [1.5]),
    (lambda _store, value: mqstore.SqlFilter("a = 1", compat=value), "compat", ["true", 1]),
    (lambda _store, value: verify(value), "store", [3, b"store"]),
    (lambda _store, value: repair(value), "store", [3, b"store"]),
    (lambda store, value: repair(store.path, value), "out", [3, b"out"]),
    (serve, "port", [-1, 65_536, "5557"]),
    *(
        (use, "topic", [3, None, NO_TEXT])
        for use in (
            lambda store, value: store.put(value, b""),
            lambda store, value: store.get_message(value, 0, 0),
            lambda store, value: store.get_max_offset_in_queue(value, 0),
            lambda store, value: store.get_min_offset_in_queue(value, 0),
            lambda store, value: store.get_message_total_in_queue(value, 0),
            lambda store, value: store.get_message_store_time_stamp(value, 0, 0),
            lambda store, value: store.get_commit_log_offset_in_queue(value, 0, 0),
            lambda store, value: store.get_offset_in_queue_by_time(value, 0, 0),
            lambda store, value: store.get_offsets_in_queue_by_time(value, 0, [0]),
            lambda store, value: store.check_in_disk_by_consume_offset(value, 0, 0),
            lambda store, value: store.query_message(value, "k"),
            lambda store, value: store.query_messages(value, ["k"]),
            lambda store, value: store.clean_unused_lmq_topic(value),
        )
    ),
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
    ("use", "named"),
    [
        (lambda store: store.clean_unused_topic(["t", 3]), "topics[1]=3"),
        (lambda store: store.query_messages("t", ["k", b"k"]), "keys[1]=b'k'"),
        (lambda store: store.get_offsets_in_queue_by_time("t", 0, [0, LONG]), f"timestamps[1]={LONG}"),
        (lambda store: store.append_records([b"", "x"]), "records[1]='x'"),
        (lambda store: store.put("t", b"", keys=["k", NO_TEXT]), f"option keys[1]={NO_TEXT!r}"),
    ],
)
def test_one_of_several_is_told_by_its_place(
    store: mqstore.MessageStore, use: Callable[[mqstore.MessageStore], object], named: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(named)}: expected"):
        use(store)


@pytest.mark.parametrize(
    ("use", "named"),
    [
        (lambda store: store.put("t", b"", born_timestamp=1 << 70), "born_timestamp"),
        (lambda store: store.put_many("t", [b"", b""], deliver_at=[None, 1 << 70]), "deliver_at[1]"),
    ],
)
def test_a_time_that_no_long_has_is_told(
    store: mqstore.MessageStore, use: Callable[[mqstore.MessageStore], object], named: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(named)}: expected milliseconds that a long has, found "):
        use(store)
    assert store.get_max_phy_offset() == 0


@pytest.mark.parametrize(
    ("use", "argument"),
    [
        (lambda _store: mqstore.SqlFilter("a >"), "expression"),
        (lambda store: store.select("t", sql="a >"), "sql"),
        (lambda store: store.select("t").where(sql="a >"), "sql"),
        (lambda store: mqstore.Selection(store, sql="a >"), "sql"),
        (lambda store: store.consumer("g", "t", sql="a >"), "sql"),
    ],
)
def test_a_filter_that_is_none_is_told_by_the_argument_that_has_it(
    store: mqstore.MessageStore, use: Callable[[mqstore.MessageStore], object], argument: str
) -> None:
    with pytest.raises(mqstore.OptionError, match=f"^option {argument}=a >: expected a property") as raised:
        use(store)
    assert (raised.value.option, raised.value.value) == (argument, "a >")
    assert str(raised.value) == f"option {argument}=a >: {raised.value.reason}"


def test_the_figures_of_a_group_are_those_of_whole_topics(store: mqstore.MessageStore) -> None:
    store.put_many("t", [b"one"], queue_id=0)
    store.put_many("tt", [b"one"], queue_id=0)
    store.consumers.reset_offset("g", {("t", 0): 0, ("tt", 0): 1})
    assert [stats.topic for stats in store.consumers.consume_stats("g", "tt")] == ["tt"], "not each letter of it"
    assert [stats.topic for stats in store.consumers.consume_stats("g", ["t", "tt"])] == ["t", "tt"]
    assert store.consumers.consume_stats("g", []) == []


def test_a_filter_beside_topics_with_tags_is_told_by_its_name(store: mqstore.MessageStore) -> None:
    with pytest.raises(mqstore.OptionError, match=r"^option sql='a = 1': it does not go with topics"):
        store.consumer("g", {"t": "*"}, sql="a = 1")


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
