"""Groups that have read queues which were removed since, and have come as far again."""

import json
from pathlib import Path

import pytest

import mqstore
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.config_manager import read_only
from tests.store.conftest import Opener
from tests.store_files import copy_store

HOUR = 3_600_000


def put(store: mqstore.MessageStore, life: str, count: int) -> list[bytes]:
    """Puts messages to one queue; gives their bodies."""
    bodies = [f"{life} {number}".encode() for number in range(count)]
    for body in bodies:
        store.put("t", body, queue_id=0)
    return bodies


def expire_all(store: mqstore.MessageStore, clock: list[int]) -> None:
    """Has retention delete what was put before."""
    for _ in range(2):
        store.put_many("other", [bytes(30_000)] * 5, queue_id=0)
        clock[0] += 2 * HOUR
    store.flush()
    assert store.execute_delete_files_manually() > 0


def read(store: mqstore.MessageStore, from_where: str = "first", model: str = "clustering") -> list[bytes]:
    """What the group is given, which has no consumer just now."""
    with store.consumer("g", "t", from_where=from_where, timeout=0.05, message_model=model) as consumer:
        return [bytes(message.body) for message in consumer]


@pytest.mark.parametrize("count", [3, 5, 6, 8])
@pytest.mark.parametrize("from_where", ["first", "last"])
def test_a_group_gets_all_of_the_queue_that_has_the_name_now(open_store: Opener, count: int, from_where: str) -> None:
    store = open_store()
    old = put(store, "old", 5)
    assert read(store) == old
    assert store.clean_unused_topic({"other"}) == 1
    new = put(store, "new", count)
    assert [stats.diff for stats in store.consumers.consume_stats("g", ["t"]) if stats.queue_id == 0] == [count]
    assert read(store, from_where) == new
    later = put(store, "later", 2)
    assert read(store, from_where) == later


def test_a_kill_behind_the_removal_changes_nothing(open_store: Opener, tmp_path: Path) -> None:
    store = open_store()
    put(store, "old", 5)
    read(store)
    store.clean_unused_topic({"other"})
    copy_store(store.path, tmp_path / "killed")
    killed = open_store("killed")
    new = put(killed, "new", 8)
    assert read(killed) == new


def test_a_group_gets_what_comes_once_all_had_expired(open_store: Opener) -> None:
    clock = [1_780_000_000_000]
    store = open_store(clock=lambda: clock[0], fileReservedTime=1)
    put(store, "old", 5)
    read(store)
    expire_all(store, clock)
    assert store.clean_expired_consume_queue() == 1
    new = put(store, "new", 8)
    store.close()
    assert read(open_store()) == new


def test_a_consumer_that_saw_nothing_of_the_removal_writes_nothing_that_counts(open_store: Opener) -> None:
    store = open_store()
    put(store, "old", 5)
    consumer = store.consumer("g", "t", from_where="first", timeout=0.05)
    assert len(list(consumer)) == 5
    store.clean_unused_topic({"other"})
    new = put(store, "new", 8)
    consumer.close()
    assert read(store) == new


def test_a_queue_that_is_removed_before_its_first_pull_is_read_from_its_begin(open_store: Opener) -> None:
    store = open_store()
    put(store, "old", 1)
    assert read(store) == [b"old 0"]
    store.put("t", b"of another queue", queue_id=1)
    with store.consumer("g", "t", from_where="first", timeout=0.05) as consumer:
        # Queues take turns: this one has its turn next.
        consumer._turn = 1
        taken = consumer.poll(0)
        assert taken is not None
        assert bytes(taken.body) == b"of another queue"
        consumer.ack(taken)
        store.clean_unused_topic({"other"})
        new = put(store, "new", 3)
        assert [bytes(message.body) for message in consumer] == new


@pytest.mark.parametrize("model", ["clustering", "broadcasting"])
def test_beside_the_writer_it_is_the_same(open_store: Opener, model: str) -> None:
    store = open_store()
    put(store, "old", 5)
    with open_store(mode="r") as reader:
        assert len(read(reader, model=model)) == 5
    store.clean_unused_topic({"other"})
    new = put(store, "new", 8)
    with open_store(mode="r") as reader:
        assert read(reader, model=model) == new
        later = put(store, "later", 2)
        assert read(reader, model=model) == later


def test_beside_a_writer_whose_offset_is_of_the_removed_queue_a_group_is_set_back(open_store: Opener) -> None:
    store = open_store()
    put(store, "old", 5)
    read(store)
    store.clean_unused_topic({"other"})
    new = put(store, "new", 8)
    with open_store(mode="r") as reader:
        reader.consumers.reset_offset("g", {("t", 0): 3})
        assert read(reader) == new[3:]
    assert read(store) == []


def test_what_a_group_has_not_read_of_the_new_queue_is_kept(open_store: Opener) -> None:
    clock = [1_780_000_000_000]
    keep = mqstore.Retention(keep_unread_of=["g"])
    store = open_store(clock=lambda: clock[0], fileReservedTime=1, retention=keep)
    put(store, "old", 5)
    read(store)
    store.put_many("t", [bytes(30_000)] * 5, queue_id=0)
    assert len(read(store)) == 5
    store.clean_unused_topic({"other"})
    new = put(store, "new", 12)
    store.put_many("other", [bytes(30_000)] * 5, queue_id=0)
    clock[0] += 2 * HOUR
    store.put_many("other", [bytes(30_000)] * 5, queue_id=0)
    store.flush()
    store.execute_delete_files_manually()
    assert read(store) == new
    assert store.execute_delete_files_manually() > 0


def test_an_offset_goes_on_counting_once_what_was_read_has_expired(open_store: Opener) -> None:
    clock = [1_780_000_000_000]
    store = open_store(clock=lambda: clock[0], fileReservedTime=1)
    put(store, "old", 5)
    read(store)
    expire_all(store, clock)
    assert read(store) == []
    # It has pulled where nothing is left of what stood before.
    assert store.clean_expired_consume_queue() == 1
    new = put(store, "new", 8)
    assert read(store) == new


def test_offsets_of_which_nothing_else_is_known_are_believed(open_store: Opener) -> None:
    store = open_store()
    put(store, "old", 5)
    read(store)
    store.close()
    path = store.path / "config" / "consumerOffset.json"
    assert "logEndTable" in path.read_text()
    # As RocketMQ writes them.
    path.write_text(json.dumps({"offsetTable": {"t@g": {"0": 3}}}))
    store = open_store()
    assert read(store) == [b"old 3", b"old 4"]
    assert ConsumerOffsetManager(path, read_only).read_offset("g", "t", 0) == (
        5,
        store.topic("t").queue(0)[4].commit_log_offset + 1,
    )
