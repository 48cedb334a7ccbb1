"""Groups that had read what a log has lost at its end: what is put next has the same offsets."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.consumer import process_queue
from mqstore.store import config_json
from mqstore.store import group_offsets as module
from mqstore.store.follower import Follower
from tests.permissions import refuse_listing
from tests.store.conftest import SMALL, Opener
from tests.store_files import copy_store

END = 6
"""Where the queue ends once it was cut."""


def put(store: mqstore.MessageStore, life: str, count: int, topic: str = "t") -> list[bytes]:
    """Puts messages to one queue; gives their bodies."""
    bodies = [f"{life} {number}".encode() for number in range(count)]
    for body in bodies:
        store.put(topic, body, queue_id=0)
    return bodies


def read(store: mqstore.MessageStore, **given: Any) -> list[bytes]:
    """What the group is given, which has no consumer just now."""
    with store.consumer("g", "t", from_where="first", timeout=0.05, **given) as consumer:
        return [bytes(message.body) for message in consumer]


def cut(store: mqstore.MessageStore, topic: str = "t", offset: int = END) -> None:
    """Closes a store, and damages a message: all from there on is lost once it is opened."""
    place = store.topic(topic).queue(0)[offset].commit_log_offset
    store.close()
    file, at = divmod(place, SMALL["mappedFileSizeCommitLog"])
    with (store.path / "commitlog" / f"{file * SMALL['mappedFileSizeCommitLog']:020}").open("r+b") as log:
        log.seek(at + 4)
        log.write(b"\0")


def reopened(open_store: Opener, **given: Any) -> mqstore.MessageStore:
    """The store, once its end is cut."""
    return open_store(on_damage="truncate", **given)


def as_rocketmq_writes(path: Path, topic: str, offset: int, group: str = "g") -> None:
    """An offset beside which nothing stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"offsetTable": {f"{topic}@{group}": {"0": offset}}}))


def offsets_in(path: Path) -> dict[str, dict[str, int]]:
    """What a file of offsets has."""
    table: dict[str, dict[str, int]] = config_json.loads(path.read_text())["offsetTable"]
    return table


@pytest.mark.parametrize("compat", [False, True])
def test_a_group_is_given_all_that_comes_where_the_queue_lost_its_end(open_store: Opener, *, compat: bool) -> None:
    """What comes is smaller, so that it stands before where the log ended when the group read."""
    store = open_store(compat=compat)
    assert len(read(store) + put(store, "read, and larger than what comes", 10) + read(store)) == 20
    cut(store)
    store = reopened(open_store, compat=compat)
    last = store.topic("t").queue(0)[END - 1]
    assert store.consumers.offsets.read_offset("g", "t", 0) == (END, last.commit_log_offset + 1)
    new = put(store, "", 10)
    assert read(store) == new
    later = put(store, "later", 2)
    assert read(store) == later


@pytest.mark.parametrize("close", [False, True])
def test_a_kill_behind_the_puts_changes_nothing(open_store: Opener, tmp_path: Path, *, close: bool) -> None:
    store = open_store()
    put(store, "read, and larger than what comes", 10)
    read(store)
    cut(store)
    store = reopened(open_store)
    new = put(store, "", 10)
    if close:
        store.close()
    copy_store(store.path, tmp_path / "killed")
    assert read(open_store("killed")) == new


def test_a_kill_in_the_opening_changes_nothing(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    put(store, "read, and larger than what comes", 10)
    read(store)
    cut(store)
    with monkeypatch.context() as killed:
        killed.setattr(module, "set_back", lambda *_, **__: copy_store(store.path, tmp_path / "killed") and [])
        reopened(open_store).close()
    assert (tmp_path / "killed").is_dir()
    store = open_store("killed")
    new = put(store, "", 10)
    assert read(store) == new


def test_an_opening_that_cannot_write_it_fails_and_the_next_one_does(open_store: Opener) -> None:
    store = open_store()
    put(store, "read, and larger than what comes", 10)
    read(store)
    cut(store)
    in_the_way = store.path / "config" / "consumerOffset.json.tmp"
    in_the_way.mkdir()
    with pytest.raises(mqstore.StoreIOError, match="consumerOffset"):
        reopened(open_store)
    in_the_way.rmdir()
    store = open_store()
    new = put(store, "", 10)
    assert read(store) == new


FILES = {
    "the broker's": ("config/consumerOffset.json", "t"),
    "one with light queues": ("config/lmqConsumerOffset.json", "t"),
    "a group's beside the writer": ("mqstore/consumers/g/consumerOffset.json", "t"),
    "one that broadcasts": ("mqstore/consumers/g/broadcast/DEFAULT.json", "t"),
    "of a topic that was never there": ("config/consumerOffset.json", "other"),
    "of prepared messages": ("config/consumerOffset.json", "RMQ_SYS_TRANS_HALF_TOPIC"),
}


@pytest.mark.parametrize("which", FILES)
def test_no_offset_of_which_nothing_else_is_known_is_behind_its_queue(open_store: Opener, which: str) -> None:
    store = open_store()
    put(store, "", END)
    store.close()
    name, topic = FILES[which]
    as_rocketmq_writes(store.path / name, topic, 10)
    open_store(mode="r").close()
    slave = open_store(brokerRole="SLAVE")
    slave.close()
    # A reader writes nothing, and a slave's log may be shorter than that of the master, whose offsets they are.
    assert offsets_in(store.path / name) == {f"{topic}@g": {"0": 10}}
    open_store().close()
    assert offsets_in(store.path / name) == {f"{topic}@g": {"0": END if topic == "t" else 0}}


def test_light_groups_are_set_back_too(open_store: Opener) -> None:
    light = {"enableLmq": True, "enableMultiDispatch": True}
    store = open_store(**light)
    for _ in range(END):
        store.put("t", b"", queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    store.close()
    path = store.path / "config" / "lmqConsumerOffset.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"lmqOffsetTable":{"%LMQ%a@%LMQ%far":10,"%LMQ%a@%LMQ%near":3},"offsetTable":{"t@far":{0:10}}}')
    open_store(**light).close()
    written = config_json.loads(path.read_text())
    assert written["lmqOffsetTable"] == {"%LMQ%a@%LMQ%far": END, "%LMQ%a@%LMQ%near": 3}
    assert written["offsetTable"] == {"t@far": {"0": END}}


def test_what_a_group_reads_beside_the_writer_goes_on_there_too(open_store: Opener) -> None:
    store = open_store()
    put(store, "read, and larger than what comes", 10)
    with open_store(mode="r") as reader:
        assert len(read(reader)) == 10
        assert len(read(reader, message_model="broadcasting")) == 10
    cut(store)
    store = reopened(open_store)
    new = put(store, "", 10)
    with open_store(mode="r") as reader:
        assert read(reader, message_model="broadcasting") == new
        assert read(reader) == new


def test_the_file_of_a_consumer_that_is_open_is_its_own(open_store: Opener) -> None:
    """It writes what it has in memory, and notices itself."""
    store = open_store()
    put(store, "", 10)
    with open_store(mode="r") as reader:
        with reader.consumer("g", "t", from_where="first", message_model="broadcasting", timeout=0.05) as consumer:
            assert len(list(consumer)) == 10
            consumer.persist()
            cut(store)
            path = store.path / "mqstore" / "consumers" / "g" / "broadcast" / "DEFAULT.json"
            before = path.read_bytes()
            store = reopened(open_store)
            assert path.read_bytes() == before
            reader.refresh()
            assert consumer.poll(0) is None
            new = put(store, "", 10)
            assert [bytes(message.body) for message in consumer] == new
        assert offsets_in(path)["t@g"]["0"] == END + 10


@pytest.mark.parametrize("body", ["", "read, and larger than what comes", "what comes is larger than what was read"])
@pytest.mark.parametrize("model", ["clustering", "broadcasting"])
def test_a_consumer_that_looks_once_the_queue_has_come_as_far_again_misses_nothing(
    open_store: Opener, body: str, model: str
) -> None:
    store = open_store()
    put(store, "read, and larger than what comes", 10)
    with open_store(mode="r") as reader:
        with reader.consumer("g", "t", from_where="first", message_model=model, timeout=0.05) as consumer:
            assert len(list(consumer)) == 10
            cut(store)
            store = reopened(open_store)
            new = put(store, body, 10)
            reader.refresh()
            assert [bytes(message.body) for message in consumer] == new
        assert read(reader, message_model=model) == []


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("model", ["clustering", "broadcasting"])
def test_a_consumer_that_ends_before_it_looks_writes_nothing_that_is_gone(
    open_store: Opener, model: str, *, looks: bool
) -> None:
    store = open_store()
    old = put(store, "read, and larger than what comes", 10)
    with open_store(mode="r") as reader:
        consumer = reader.consumer("g", "t", from_where="first", message_model=model, timeout=0.05)
        assert [bytes(message.body) for message in consumer] == old
        cut(store)
        store = reopened(open_store)
        new = put(store, "", 10)
        if looks:
            reader.refresh()
        consumer.close()
        assert read(reader, message_model=model) == new


@pytest.mark.parametrize("is_known", [False, True])
def test_a_queue_that_was_removed_is_given_from_its_begin(open_store: Opener, *, is_known: bool) -> None:
    store = open_store()
    put(store, "old", 10)
    read(store)
    store.clean_unused_topic({"other"})
    new = put(store, "new", 3)
    store.close()
    if not is_known:
        as_rocketmq_writes(store.path / "config" / "consumerOffset.json", "t", 10)
    store = open_store()
    later = put(store, "later", 10)
    assert read(store) == new + later


def test_a_queue_without_messages_keeps_its_offsets(open_store: Opener) -> None:
    clock = [1_780_000_000_000]
    store = open_store(clock=lambda: clock[0], fileReservedTime=1)
    put(store, "old", 10)
    read(store)
    for _ in range(2):
        store.put_many("other", [bytes(30_000)] * 5, queue_id=0)
        clock[0] += 2 * 3_600_000
    store.flush()
    assert store.execute_delete_files_manually() > 0
    store.close()
    store = open_store()
    queue = store.topic("t").queue(0)
    assert (queue.min_offset, queue.max_offset) == (10, 10)
    assert store.consumers.offsets.query_offset("g", "t", 0) == 10
    new = put(store, "new", 2)
    assert read(store) == new


def test_a_file_that_is_damaged_keeps_no_store_closed(open_store: Opener) -> None:
    store = open_store()
    put(store, "", 2)
    store.close()
    as_rocketmq_writes(store.path / "mqstore" / "consumers" / "g" / "consumerOffset.json", "t", 10)
    (store.path / "config" / "consumerOffset.json").write_text('{"offsetTable":{')
    store = open_store()
    assert offsets_in(store.path / "mqstore" / "consumers" / "g" / "consumerOffset.json") == {"t@g": {"0": 2}}
    with pytest.raises(mqstore.MQStoreError, match="consumerOffset"):
        read(store)


def test_what_is_set_back_is_told_in_few_lines(open_store: Opener, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store()
    put(store, "", 2)
    store.close()
    path = store.path / "config" / "consumerOffset.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"offsetTable": {f"t@g{number}": {"0": 10} for number in range(30)}}))
    with caplog.at_level(logging.WARNING, "mqstore"):
        store = open_store()
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == f"{store.path}: group g0 was at 10 in queue 0 of t, behind its end, and goes on at 2"
    assert told[-1] == f"{store.path}: 20 more groups and delay levels were set back so"
    assert len(told) == 11
    assert offsets_in(path) == {f"t@g{number}": {"0": 2} for number in range(30)}
    caplog.clear()
    store.close()
    open_store()
    assert caplog.records == []


@pytest.mark.parametrize("way", ["follower", "consumer"])
def test_a_writer_that_comes_just_before_a_look_has_nothing_given_twice(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """What it puts stands behind where it found the log's end, and was not there when the openings were looked at."""
    # Else it would look only once something has come.
    monkeypatch.setattr(process_queue, "_LOOKED_AT_EVERY", 0.0)
    store = open_store()
    bodies = put(store, "before", 3)
    with mqstore.open(store.path, "r", **SMALL) as reader:
        get_message = reader.get_message

        def get_behind_another_writer(topic: str, queue_id: int, *given: Any) -> mqstore.GetMessageResult:
            nonlocal store
            if queue_id != 0:
                return get_message(topic, queue_id, *given)
            monkeypatch.setattr(reader, "get_message", get_message)
            store.close()
            store = open_store()
            bodies.extend(put(store, "since", 3))
            reader.refresh()
            return get_message(topic, queue_id, *given)

        found: list[bytes] = []
        if way == "follower":
            follower = Follower(reader.topic("t").queue(0), 0)
            found += [bytes(message.body) for message in follower.take()]
            monkeypatch.setattr(reader, "get_message", get_behind_another_writer)
            found += [bytes(message.body) for _ in range(3) for message in follower.take()]
        else:
            with reader.consumer("g", "t", from_where="first", timeout=0.05) as consumer:
                found += [bytes(message.body) for message in consumer]
                monkeypatch.setattr(reader, "get_message", get_behind_another_writer)
                found += [bytes(message.body) for _ in range(3) for message in consumer]
        assert found == bodies
        assert len(found) == 6


def test_a_group_whose_folder_may_not_be_listed_is_not_passed_over(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    old = put(store, "old", 10)
    assert read(open_store(mode="r")) == old
    cut(store)
    group = store.path / "mqstore" / "consumers" / "g"
    refuse_listing(monkeypatch, group)
    with pytest.raises(mqstore.StoreIOError, match=f"^list the folder {group}: Permission denied$"):
        reopened(open_store)
    monkeypatch.undo()
    new = put(reopened(open_store), "new", 10)
    assert read(open_store(mode="r")) == new
