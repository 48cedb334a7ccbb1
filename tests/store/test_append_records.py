"""Finished records brought from one store into another."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mqstore
from mqstore import MessageExtBrokerInner, MessageStore
from tests.store.conftest import Opener

LIGHT = {"INNER_MULTI_DISPATCH": "%LMQ%1,%LMQ%2"}
FEATURES: dict[str, Any] = {"enableLmq": True, "enableMultiDispatch": True}


@pytest.fixture
def source(tmp_path: Path) -> Iterator[MessageStore]:
    """A store with three messages that light queues have too."""
    with mqstore.open(tmp_path / "source", "rw", mapped_file_size_commit_log=1 << 16, **FEATURES) as store:
        for number in range(3):
            put_light(store, b"source %d" % number)
        yield store


def put_light(store: MessageStore, body: bytes) -> None:
    """Puts a message that two light queues have too."""
    result = store.put_message(MessageExtBrokerInner(topic="a", body=body, properties=LIGHT))
    assert result.is_ok, result.reason


def bodies(store: MessageStore, topic: str) -> list[bytes]:
    """The bodies of a queue's messages, in order."""
    return [bytes(message.body) for message in store.topic(topic).queue(0)]


def test_records_get_offsets_of_their_own_in_light_queues(source: MessageStore, tmp_path: Path) -> None:
    path = tmp_path / "target"
    with mqstore.open(path, "rw", mapped_file_size_commit_log=1 << 16, **FEATURES) as target:
        put_light(target, b"before")
        target.append_records(list(source.select()))
        put_light(target, b"after")
        expected = [b"before", b"source 0", b"source 1", b"source 2", b"after"]
        for topic in ("a", "%LMQ%1", "%LMQ%2"):
            assert bodies(target, topic) == expected
    with mqstore.open(path, "r", **FEATURES) as reopened:
        for topic in ("a", "%LMQ%1", "%LMQ%2"):
            assert bodies(reopened, topic) == expected


def test_appending_waits_for_the_disk_where_a_put_would(source: MessageStore, tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "target", "rw", flushDiskType="SYNC_FLUSH") as target:
        for _ in range(20):
            target.append_records(list(source.select()))
            assert target.get_flushed_where() == target.get_max_phy_offset()


def test_a_time_ahead_of_the_clock_is_kept_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now_ms = 1_780_000_000_000
    with mqstore.open(tmp_path / "source", "rw", clock=lambda: now_ms) as source:
        source.put("t", b"on time", queue_id=0)
        now_ms += 60_000
        source.put("t", b"a minute", queue_id=0)
        now_ms += 1
        source.put("t", b"ahead", queue_id=0)
        source.put("t", b"ahead as well", queue_id=0)
        records = list(source.select())
        now_ms -= 60_001
        encoded = bytes(source.get_commit_log_data(0))[: source.get_max_phy_offset()]
        places = pa.table(
            {"commit_log_offset": pa.array([message.commit_log_offset for message in records], pa.int64())}
        )
        ways: dict[str, Callable[[MessageStore, bool], object]] = {
            "records": lambda store, keep: store.append_records(records, keep_times=keep),
            "encoded": lambda store, keep: store._append_encoded(encoded, keep, keep_offsets=False),
            "from": lambda store, keep: store._append_from(source, places, None, keep),
        }
        for name, append in ways.items():
            for compat in (False, True):
                with mqstore.open(tmp_path / f"{name} {compat}", "rw", clock=lambda: now_ms, compat=compat) as target:
                    append(target, False)
                    assert caplog.messages == []
                    append(target, True)
                    append(target, True)
                    assert target.put("t", b"behind").store_timestamp == now_ms + (0 if compat else 60_001)
                    third = target.topic("t").queue(0)[6]
                    if not compat:
                        (told,) = caplog.messages
                        assert f"the message at {third.commit_log_offset} of the log" in told
                        assert f"{now_ms + 60_001}, that is 60 s ahead" in told
                    caplog.clear()


def test_a_blank_ends_the_file(source: MessageStore, tmp_path: Path) -> None:
    blank = (100).to_bytes(4) + (0xCBD43194).to_bytes(4) + bytes(92)
    record, *_ = source.select()
    with mqstore.open(tmp_path / "target", "rw", mapped_file_size_commit_log=1 << 16) as target:
        # At a file's begin there is nothing to end.
        target.append_records([blank, record, blank, record])
        target.append_records([blank, record])
        assert [message.commit_log_offset for message in target.select()] == [0, 1 << 16, 2 << 16]


def test_what_says_which_prepared_messages_of_another_store_ended_ends_none_here(tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "source", "rw") as source, mqstore.open(tmp_path / "target", "rw") as target:
        with source.transaction("g") as ended:
            ended.put("orders", b"ended there")
        (op,) = source.select("RMQ_SYS_TRANS_OP_HALF_TOPIC")
        half = target.transaction("g").put("orders", b"in doubt here")
        # Both halves are the first of their queue.
        end = target.get_max_phy_offset()
        with pytest.raises(mqstore.MessageIllegalError, match="RMQ_SYS_TRANS_OP_HALF_TOPIC"):
            target.append_records([op])
        assert target.get_max_phy_offset() == end
        places = pa.table({"commit_log_offset": pa.array([m.commit_log_offset for m in source.select()], pa.int64())})
        assert target._append_from(source, places, None, keep_times=True) == len(list(source.select())) - 1
        assert not list(target.select("RMQ_SYS_TRANS_OP_HALF_TOPIC"))
        assert half.queue_offset == 0
        # A log that becomes the same says the same of the same messages.
        with mqstore.open(tmp_path / "copy", "rw") as copy:
            copy.append_records(list(source.select()), keep_times=True)
            assert len(list(copy.select("RMQ_SYS_TRANS_OP_HALF_TOPIC"))) == 1


def test_finished_records_are_appended_with_new_offsets(open_store: Opener) -> None:
    source, target = open_store("source"), open_store("target")
    for number in range(5):
        source.put("t", b"%d" % number, queue_id=0, keys=f"k{number}")
    target.put("t", b"before", queue_id=0)
    messages = list(source.topic("t").queue(0))
    target.append_records(messages[:2], keep_times=True)
    target.append_records([bytes(message.record_bytes) for message in messages[2:]], store_host="9.8.7.6:5")
    copies = list(target.topic("t").queue(0))[1:]
    assert [bytes(copy.body) for copy in copies] == [b"0", b"1", b"2", b"3", b"4"]
    assert [copy.queue_offset for copy in copies] == [1, 2, 3, 4, 5]
    assert copies[0].store_timestamp == messages[0].store_timestamp
    assert copies[4].store_host == "9.8.7.6:5"
    damaged = bytearray(messages[0].record_bytes)
    damaged[88] ^= 1
    with pytest.raises(mqstore.MessageIllegalError):
        target.append_records([bytes(damaged)])
