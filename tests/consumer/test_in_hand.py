"""What a consumer has in hand, and what is in nobody's hands."""

from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.consumer.process_queue import ProcessQueue
from tests.store.conftest import SMALL, open_rw
from tests.waiting import wait_until


def test_a_poll_ends_beside_a_dropped_queue_with_a_message_that_was_given_back(tmp_path: Path) -> None:
    with open_rw(tmp_path / "s", messageDelayLevel="1s 1s 1s") as store:
        store.put_many("t", [b"0", b"1"], queue_id=0)
        with mqstore.open(tmp_path / "s", **(SMALL | {"messageDelayLevel": "1s 1s 1s"})) as reader:
            one = reader.consumer("g", "t", from_where="first", consumer_id="b")
            first, second = one.poll(30), one.poll(30)
            assert first is not None
            assert second is not None
            other = reader.consumer("g", "t", from_where="first", consumer_id="a")
            other.poll(0)
            wait_until(lambda: one.poll(0) is None and ("t", 0) not in one.queues)
            one.reconsume_later(first)
            assert one.poll(1.5) is None
            one.ack(second)
            again = next(iter(other))
            assert again.queue_offset == 0


def test_a_loop_acks_what_it_gave_and_not_what_another_thread_was_given(tmp_path: Path) -> None:
    with open_rw(tmp_path / "s") as store:
        store.put("t", b"", queue_id=0)
        consumer = store.consumer(
            "g", "t", from_where="first", orderly=True, suspend_current_queue_time_ms=1, timeout=0.1
        )
        others = None
        for message in consumer:
            consumer.reconsume_later(message)
            others = consumer.poll(30)  # as another thread does
        assert others is not None
        consumer.ack(others)


def test_what_ctrl_c_left_in_nobodys_hands_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_rw(tmp_path / "s") as store:
        store.put("t", b"", queue_id=0)
        consumer = store.consumer("g", "t", from_where="first")
        take = ProcessQueue.take

        def interrupted(self: ProcessQueue, **given: Any) -> Any:
            if take(self, **given) is not None:
                monkeypatch.undo()
                raise KeyboardInterrupt
            return None

        monkeypatch.setattr(ProcessQueue, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(30)
        assert consumer.poll(30) is not None


def test_a_removed_queue_that_has_come_as_far_again_is_read_from_its_beginning(tmp_path: Path) -> None:
    with open_rw(tmp_path / "s") as store:
        store.put("t", b"old", queue_id=0)
        consumer = store.consumer("g", "t", from_where="first", timeout=0.1)
        old = consumer.poll(30)
        assert old is not None
        store.clean_unused_topic(set())
        store.put_many("t", [b"new", b"newer"], queue_id=0)
        new = consumer.poll(30)
        assert new is not None
        assert bytes(new.body) == b"new"
        consumer.ack(old)
        assert store.consumers.consume_stats("g", ["t"])[0].consumer_offset == 0
        consumer.reconsume_later(new, -1)
        assert [bytes(message.body) for message in consumer] == [b"newer"]


def test_a_queue_whose_end_was_cut_off_goes_on_there(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with open_rw(path) as store:
        puts = [store.put("t", b"%d" % number, queue_id=0) for number in range(10)]
    with mqstore.open(path) as reader:
        consumer = reader.consumer("g", "t", from_where="first", timeout=0.1)
        assert len(list(consumer)) == 10
        damage(path, puts[7])
        with open_rw(path, on_damage="truncate") as store:
            reader.refresh()
            assert consumer.poll(0) is None
            store.put_many("t", [b"a", b"b"], queue_id=0)
            reader.refresh()
            assert [bytes(message.body) for message in consumer] == [b"a", b"b"]


def damage(path: Path, put: mqstore.PutMessageResult) -> None:
    """Damages a message in the log."""
    with (path / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek((put.wrote_offset or 0) + 4)
        log.write(b"\0")


def test_what_is_in_hand_of_a_queue_whose_end_was_cut_off_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with open_rw(path) as store:
        puts = [store.put("t", b"%d" % number, queue_id=0) for number in range(10)]
    with mqstore.open(path) as reader:
        consumer = reader.consumer("g", "t", from_where="first", timeout=0.1)
        given = [found for _ in range(10) if (found := consumer.poll(30)) is not None]
        for message in given[:4]:
            consumer.ack(message)
        damage(path, puts[7])
        with open_rw(path, on_damage="truncate") as store:
            reader.refresh()
            assert consumer.poll(0) is None
            consumer.ack(given[4])
            # It is lost, and what has its offset next is another one.
            consumer.ack(given[8])
            damage(path, puts[6])
        with open_rw(path, on_damage="truncate") as store:
            reader.refresh()
            assert consumer.poll(0) is None
            store.put_many("t", [b"a", b"b", b"c"], queue_id=0)
            reader.refresh()
            assert [bytes(message.body) for message in consumer] == [b"a", b"b", b"c"]
            consumer.close()
        with reader.consumer("g", "t", from_where="first", timeout=0.1) as again:
            assert [bytes(message.body) for message in again] == [b"5", b"a", b"b", b"c"]


def test_a_group_goes_on_at_a_queues_end_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with open_rw(path) as store:
        puts = [store.put("t", b"%d" % number, queue_id=1) for number in range(10)]
    with mqstore.open(path) as reader:
        with reader.consumer("g", "t", from_where="first", timeout=0.1) as consumer:
            assert len(list(consumer)) == 10
        with open_rw(path) as store:
            store.put("t", b"other", queue_id=0)
        reader.refresh()
        # It has the queue, and has not looked at it yet.
        consumer = reader.consumer("g", "t", from_where="first", timeout=0.1)
        assert consumer.poll(30) is not None
        assert ("t", 1) in consumer.queues
        damage(path, puts[7])
        with open_rw(path, on_damage="truncate") as store:
            reader.refresh()
            (found,) = (each for each in reader.consumers.consume_stats("g", ["t"]) if each.queue_id == 1)
            assert (found.consumer_offset, found.diff) == (7, 0)
            assert consumer.poll(0) is None
            consumer.close()
            with reader.consumer("g", "t", from_where="first", timeout=0.1) as again:
                assert again.poll(0) is None
                store.put_many("t", [b"a", b"b"], queue_id=1)
                reader.refresh()
                assert [bytes(message.body) for message in again] == [b"a", b"b"]


def test_retention_keeps_what_a_group_has_in_hand_of_a_topic_that_it_begins(tmp_path: Path) -> None:
    now = [10**12]
    keep = mqstore.Retention(keep_unread_of=["g"])
    with open_rw(
        tmp_path / "s", retention=keep, clock=lambda: now[0], fileReservedTime=1, cleanResourceInterval=10**6
    ) as store:
        store.put("a", b"", queue_id=0)
        store.put_many("b", [b"y" * 1000] * 200, queue_id=0)
        consumer = store.consumer("g", ["a", "b"], from_where="first", timeout=0.1)
        kept = [message for message in (consumer.poll(30), consumer.poll(30)) if message is not None]
        for message in kept:
            if message.topic == "a":
                consumer.ack(message)
        consumer.persist()
        now[0] += 3 * 3_600_000
        store.execute_delete_files_manually()
        assert store.topic("b").queue(0).min_offset == 0
