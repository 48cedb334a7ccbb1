"""Finished records brought from one store into another."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore import MessageExtBrokerInner, MessageStore

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


def test_a_blank_ends_the_file(source: MessageStore, tmp_path: Path) -> None:
    blank = (100).to_bytes(4) + (0xCBD43194).to_bytes(4) + bytes(92)
    record, *_ = source.select()
    with mqstore.open(tmp_path / "target", "rw", mapped_file_size_commit_log=1 << 16) as target:
        # At a file's begin there is nothing to end.
        target.append_records([blank, record, blank, record])
        target.append_records([blank, record])
        assert [message.commit_log_offset for message in target.select()] == [0, 1 << 16, 2 << 16]
