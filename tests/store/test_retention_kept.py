"""What of the log is still needed is kept, however old it is."""

import json
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore import Retention
from tests.store.aging import HOUR, Clock, fill, log_files
from tests.store.conftest import Opener
from tests.waiting import wait_until


def offsets_file(store: Path, name: str, offsets: dict[str, dict[str, int]]) -> None:
    """Writes what consumers have read."""
    path = store / name / "consumerOffset.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"offsetTable": offsets}))


def test_what_a_named_group_has_not_read_is_kept(open_store: Opener, clock: Clock, tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = open_store(clock=clock, fileReservedTime=0, retention=Retention(keep_unread_of=["billing"]))
    fill(store, 4)
    fill(store, 1, topic="other")
    in_second = next(m for m in store.topic("t").queue(0) if m.commit_log_offset >= 65_536).queue_offset
    assert store.execute_delete_files_manually() == 0  # it has read nothing yet
    offsets_file(root, "config", {"t@billing": {"0": in_second}, "t@others": {"0": 0}})
    assert store.execute_delete_files_manually() == 1
    in_third = next(m for m in store.topic("t").queue(0) if m.commit_log_offset >= 2 * 65_536).queue_offset
    offsets_file(root, "mqstore/consumers/billing", {"t@billing": {"0": in_third}})
    assert store.execute_delete_files_manually() == 1
    store.put("t", b"unread", queue_id=5)
    fill(store, 1, topic="other")
    offsets_file(root, "config", {"t@billing": {"0": 1 << 40}})
    assert store.execute_delete_files_manually() == 3  # up to the queue that it has not begun
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"t@bil')
    fill(store, 2)
    with pytest.raises(mqstore.MQStoreError, match=r"consumerOffset\.json: expected JSON"):
        store.execute_delete_files_manually()
    assert len(log_files(store)) == 4


def test_what_a_named_group_has_not_read_of_a_topic_with_an_at_sign_is_kept(
    open_store: Opener, clock: Clock, tmp_path: Path
) -> None:
    store = open_store(clock=clock, fileReservedTime=0, retention=Retention(keep_unread_of=["billing"]))
    fill(store, 4, topic="t@home")
    offsets_file(tmp_path / "store", "config", {"t@billing": {"0": 1 << 40}, "t@home@billing": {"0": 0}})
    assert store.execute_delete_files_manually() == 0


def test_a_group_of_which_only_the_retry_topic_is_known_keeps_everything(
    open_store: Opener, clock: Clock, tmp_path: Path
) -> None:
    store = open_store(clock=clock, fileReservedTime=0, retention=Retention(keep_unread_of=["billing"]))
    fill(store, 2)
    offsets_file(tmp_path / "store", "config", {"%RETRY%billing@billing": {"0": 0}})
    assert store.execute_delete_files_manually() == 0


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_what_comes_to_a_topic_that_had_no_queue_when_a_group_looked_is_kept(
    open_store: Opener, clock: Clock, tmp_path: Path, mode: str
) -> None:
    store = open_store(clock=clock, fileReservedTime=0, retention=Retention(keep_unread_of=["billing"]))
    fill(store, 1, topic="read")
    reader = store if mode == "rw" else mqstore.open(tmp_path / "store")
    with reader.consumer("billing", ["read", "t"], from_where="first") as consumer:
        while (message := consumer.poll(0)) is not None:
            consumer.ack(message)
    fill(store, 2, topic="t")
    fill(store, 2, topic="read")
    assert store.execute_delete_files_manually() == 1
    with reader.consumer("billing", ["read", "t"], from_where="first") as consumer:
        while (message := consumer.poll(0)) is not None:
            consumer.ack(message)
    assert store.execute_delete_files_manually() == 4
    reader.close()


def test_delayed_messages_that_wait_are_kept(open_store: Opener, clock: Clock) -> None:
    given: dict[str, Any] = {"clock": clock, "messageDelayLevel": "10h", "fileReservedTime": 1}
    store = open_store(schedule_messages=True, **given)
    fill(store, 1)
    store.put("late", b"kept", delay_time_level=1, queue_id=0)
    fill(store, 2)
    clock.now_ms += 5 * HOUR
    fill(store, 1)
    assert store.execute_delete_files_manually() == 1
    clock.now_ms += 5 * HOUR
    wait_until(lambda: len(store.topic("late")) == 1)
    fill(store, 1)
    wait_until(lambda: store.execute_delete_files_manually() > 0)


def late_in_first_file(store: mqstore.MessageStore, clock: Clock) -> None:
    """A message that is due in ten hours, and files behind it, of which the last is five hours younger."""
    store.put("late", b"kept", delay_time_level=1, queue_id=0)
    fill(store, 2)
    clock.now_ms += 5 * HOUR
    fill(store, 1)


def test_delayed_messages_are_kept_until_they_are_due_where_nobody_delivers_them(
    open_store: Opener, clock: Clock
) -> None:
    given: dict[str, Any] = {"clock": clock, "messageDelayLevel": "10h", "fileReservedTime": 1}
    store = open_store(**given)
    late_in_first_file(store, clock)
    store.close()
    for role in ("ASYNC_MASTER", "SLAVE"):
        store = open_store(**given, brokerRole=role)
        assert store.execute_delete_files_manually() == 0
        store.close()
    # A slave has a file of offsets from the time when it was made, if it has one.
    path = store.path / "config" / "delayOffset.json"
    path.write_text('{"offsetTable":{1:0}}')
    clock.now_ms += 5 * HOUR
    store = open_store(**given)
    fill(store, 1)
    assert store.execute_delete_files_manually() == 0
    store.close()
    store = open_store(**given, brokerRole="SLAVE")
    assert store.execute_delete_files_manually() > 0


def test_delayed_messages_are_kept_while_delivery_is_paused(open_store: Opener, clock: Clock) -> None:
    given: dict[str, Any] = {"clock": clock, "messageDelayLevel": "10h", "fileReservedTime": 1}
    store = open_store(**given, schedule_messages=True)
    late_in_first_file(store, clock)
    store.handle_schedule_message_service("SLAVE")
    # It is due by now, and nobody has delivered anything yet.
    clock.now_ms += 20 * HOUR
    fill(store, 1)
    assert store.execute_delete_files_manually() == 0
    store.close()
    store = open_store(**given)
    assert store.execute_delete_files_manually() == 0
    store.handle_schedule_message_service("ASYNC_MASTER")
    wait_until(lambda: [bytes(message.body) for message in store.topic("late")] == [b"kept"])
    wait_until(lambda: store.execute_delete_files_manually() > 0)


def test_timed_messages_that_wait_are_kept_whoever_delivers_them(open_store: Opener, clock: Clock) -> None:
    given: dict[str, Any] = {"clock": clock, "fileReservedTime": 1}
    store = open_store(schedule_messages=True, **given)
    fill(store, 1)
    store.put("late", b"first", deliver_at=clock.now_ms + 20 * HOUR, queue_id=0)
    fill(store, 1)
    store.put("late", b"second", deliver_at=clock.now_ms + 10 * HOUR, queue_id=0)
    fill(store, 2)
    clock.now_ms += 5 * HOUR
    fill(store, 1)
    assert store.execute_delete_files_manually() == 1
    clock.now_ms += 5 * HOUR
    wait_until(lambda: len(store.topic("late")) == 1)
    fill(store, 1)
    assert store.execute_delete_files_manually() == 0  # the first waits in the first file
    store.close()
    store = open_store(**given)
    assert store.execute_delete_files_manually() == 0
    store.close()
    store = open_store(schedule_messages=True, **given)
    clock.now_ms += 10 * HOUR
    wait_until(lambda: len(store.topic("late")) == 2)
    fill(store, 1)
    wait_until(lambda: store.execute_delete_files_manually() > 0)
    # The record of what was delivered may go with what it speaks of.
    store.close()
    clock.now_ms += 10 * HOUR
    store = open_store(**given)
    fill(store, 2)
    assert store.execute_delete_files_manually() > 0
    store.clean_expired_consume_queue()
    assert (store.path / "consumequeue" / "MQSTORE_TIMED_TOPIC").exists()
    store.put("late", b"third", deliver_at=clock.now_ms + 1, queue_id=0)
    clock.now_ms += 1
    store.close()
    store = open_store(schedule_messages=True, **given)
    wait_until(lambda: [bytes(message.body) for message in store.topic("late")][-1:] == [b"third"])
    store.close()
    # With compat they are messages as others are.
    fill(open_store(clock=clock), 1)
