"""Delayed messages, delivered by the real store and by mqstore, in real time."""

import json
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mqstore
from mqstore.cli.json_lines import put_lines
from mqstore.store.config_delay_offset import DelayOffsetManager
from tests.compat.java_store import JavaStore
from tests.compat.streams import SMALL_FILES
from tests.waiting import wait_until

OPTIONS: dict[str, Any] = SMALL_FILES | {"messageDelayLevel": "1s 2s 1h"}
LIGHT = {"enableLmq": "true", "enableMultiDispatch": "true"}
PHYSICAL_OFFSET_AT = 28
STORE_TIMESTAMP_AT = 56
TIME = struct.Struct(">q")


def lines(first: int = 0) -> list[str]:
    """Delayed messages with everything that a record can have."""
    fields: list[dict[str, Any]] = [
        {"delayTimeLevel": 1, "tags": "T", "keys": "a b", "flag": 3, "reconsumeTimes": 2},
        {"delayTimeLevel": 2, "queueId": 2, "properties": {"zone": "eu", "Aa": "1", "BB": "2"}},
        {"delayTimeLevel": 1, "waitStoreMsgOK": False, "bornHost": "1.2.3.4:5", "storeHost": "6.7.8.9:1"},
        {"delayTimeLevel": 1, "sysFlag": 8, "preparedTransactionOffset": 77},
        {"delayTimeLevel": 3, "body": "aG91cg=="},
        {"tags": "at once"},
    ]
    return [json.dumps({"topic": "orders", "bornTimestamp": first + at} | item) for at, item in enumerate(fields)]


def until_delivered(ends: dict[int, int]) -> list[str]:
    """Steps with which the real store waits until the topic's queues are so far."""
    wanted = [{"topic": "orders", "queueId": queue_id, "offset": end} for queue_id, end in ends.items()]
    return [json.dumps({"await": it}) for it in wanted]


def records(store: Path) -> dict[tuple[str, int], list[bytes]]:
    """The records of each queue, without what hangs on when and in which order they were delivered."""
    found: dict[tuple[str, int], list[bytes]] = {}
    with mqstore.open(store, **OPTIONS) as opened:
        for message in opened.select():
            record = bytearray(message.record_bytes)
            TIME.pack_into(record, PHYSICAL_OFFSET_AT, 0)
            TIME.pack_into(record, STORE_TIMESTAMP_AT, 0)
            found.setdefault((message.topic, message.queue_id), []).append(bytes(record))
    return found


def offsets(store: Path) -> dict[int, int]:
    """How far each level is, by the file."""
    return DelayOffsetManager(store / "config" / "delayOffset.json", lambda _path, _content: None).all()


def deliver_ours(store: Path, given: Iterable[str], count: int, options: dict[str, Any] = OPTIONS) -> None:
    """Puts messages, and waits until so many are delivered."""
    with mqstore.open(store, "rw", schedule_messages=True, **options) as opened:
        list(put_lines(opened, given))
        wait_until(lambda: len(opened.topic("orders")) == count)


def test_delivered_records_are_the_real_stores(java: JavaStore, tmp_path: Path) -> None:
    put = java.start("put", tmp_path / "java", OPTIONS, [*lines(), *until_delivered({0: 4, 2: 1})])
    deliver_ours(tmp_path / "ours", lines(), 5)
    put.lines()
    assert records(tmp_path / "ours") == records(tmp_path / "java")
    with mqstore.open(tmp_path / "ours", **OPTIONS) as opened:
        delivered = [message for message in opened.topic("orders") if "DELAY" in message.properties]
        waited = opened.topic("SCHEDULE_TOPIC_XXXX")
        for message in delivered:
            level = int(message.properties["DELAY"])
            stored = min(found.store_timestamp for found in waited.queue(level - 1))
            assert 1000 * level <= message.store_timestamp - stored < 1000 * level + 30_000
    assert offsets(tmp_path / "ours") == {1: 3, 2: 1}


def test_a_restart_of_4_9_3_repeats_a_batch(java: JavaStore, tmp_path: Path) -> None:
    # All come due while the service waits for its first pass: they are one batch.
    java.run("put", tmp_path / "java", OPTIONS | {"messageDelayLevel": "1h 1h"}, [lines()[0]] * 3)
    shutil.copytree(tmp_path / "java", tmp_path / "ours")
    at_once = OPTIONS | {"messageDelayLevel": "0s 0s"}
    java.run("put", tmp_path / "java", at_once, until_delivered({0: 3}))
    assert offsets(tmp_path / "java") == {1: 1}
    deliver_ours(tmp_path / "java", [], 5, at_once)
    deliver_ours(tmp_path / "ours", [], 3, at_once)
    assert offsets(tmp_path / "ours") == {1: 3}
    java.run("put", tmp_path / "ours", at_once, ['{"sleep": 2500}'])
    with mqstore.open(tmp_path / "ours", **OPTIONS) as opened:
        assert len(opened.topic("orders")) == 3


def test_each_goes_on_where_the_other_stopped(java: JavaStore, tmp_path: Path) -> None:
    store = tmp_path / "store"
    deliver_ours(store, lines(), 5)
    java.run("put", store, OPTIONS, [*lines(10), *until_delivered({0: 8, 2: 2})])
    with mqstore.open(store, **OPTIONS) as opened:
        assert len(opened.topic("orders")) == 10
    # What 4.9.3 delivered in one batch behind its first message.
    repeated = 6 - offsets(store)[1]
    deliver_ours(store, lines(20), 15 + repeated)
    java.run("put", store, OPTIONS, ['{"sleep": 2000}'])
    with mqstore.open(store, **OPTIONS) as opened:
        assert len(opened.topic("orders")) == 15 + repeated
        assert len(opened.topic("SCHEDULE_TOPIC_XXXX")) == 15


def test_further_queues_of_delivered_messages(java: JavaStore, tmp_path: Path) -> None:
    options = OPTIONS | LIGHT
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a,other"}
    given = [json.dumps({"topic": "orders", "bornTimestamp": 1, "delayTimeLevel": 1, "properties": properties})]
    put = java.start("put", tmp_path / "java", options, [*given, *until_delivered({0: 1})])
    # Only there they are in the further queues before they are due.
    deliver_ours(tmp_path / "ours", given, 1, options | {"compat": True})
    put.lines()
    assert records(tmp_path / "ours") == records(tmp_path / "java")
