"""What a consumer has in hand, and what is in nobody's hands."""

import asyncio
import contextlib
import heapq
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mqstore
from mqstore.consumer import Consumer, hold, rebalance
from mqstore.consumer.process_queue import Place, ProcessQueue
from mqstore.consumer.settings import Subscription
from mqstore.store.read_offset import ReadOffset
from tests.store.conftest import SMALL, open_rw
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[mqstore.Message]]:
    """Messages of a queue."""
    with open_rw(tmp_path_factory.mktemp("messages") / "s") as store:
        store.put_many("t", [b""] * 400, queue_id=0)
        yield list(store.topic("t").queue(0))


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


def test_a_signals_handler_in_the_middle_of_a_poll_finds_nothing_and_acks_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_rw(tmp_path / "s") as store:
        store.put_many("t", [b"%d" % number for number in range(6)], queue_id=0)
        consumer = store.consumer("g", "t", from_where="first")
        first = consumer.poll(30)
        assert first is not None
        handled: list[object] = []

        def handler(heap: list[Place], place: Place) -> None:
            monkeypatch.undo()
            handled.append(consumer.poll(30))
            with pytest.raises(mqstore.MQStoreError, match="would wait for ever"):
                consumer.poll()
            consumer.ack(first)
            heappush(heap, place)

        heappush = heapq.heappush
        monkeypatch.setattr(heapq, "heappush", handler)
        given = [consumer.poll(30)]
        assert handled == [None]
        with pytest.raises(ValueError, match="is not in the hands"):
            consumer.ack(first)
        given += [consumer.poll(0) for _ in range(5)]
        assert [bytes(message.body) for message in given if message is not None] == [b"1", b"2", b"3", b"4", b"5"]
        assert store.consumers.consume_stats("g", ["t"])[0].consumer_offset == 1


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_ctrl_c_anywhere_in_a_poll_gives_nothing_twice_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    # What was broken off while queues were taken over is made up for at the next look.
    monkeypatch.setattr(rebalance, "_CHECK_INTERVAL", 0.0)
    with open_rw(tmp_path / "s") as writer:
        writer.put_many("t", [b""] * 4, queue_id=0)
        at = 0
        while True:
            with contextlib.ExitStack() as closing:
                store = writer if mode == "rw" else closing.enter_context(mqstore.open(tmp_path / "s", **SMALL))
                consumer = closing.enter_context(store.consumer(f"g{at}", "t", from_where="first"))
                if not broken_off_at(at, lambda: consumer.poll(0)):  # noqa: B023 - it is called at once
                    break
                given = [message.queue_offset for message in iter(lambda: consumer.poll(0), None)]  # noqa: B023
                assert sorted(given) == [0, 1, 2, 3], at
            at += 1 if mode == "r" else 7
    assert at > 50


def broken_off_at(number: int, call: Callable[[], object]) -> bool:
    """Calls with a Ctrl-C before one of the lines of what consumers are made of; whether there are as many."""
    left = number

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        name = frame.f_globals.get("__name__", "")
        # What `poll` itself has, its caller has as good as got; `make` is proof against signals, not against this.
        if name.startswith("mqstore.consumer.") and event == "line" and frame.f_code.co_name not in {"poll", "make"}:
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


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


def steps(call: Callable[[], object]) -> int:
    """How many steps Python makes in a call, those of what runs in between aside."""
    count = 0

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        nonlocal count
        if frame.f_globals.get("__name__") != ProcessQueue.__module__:
            return None
        frame.f_trace_opcodes = True
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def test_a_message_costs_the_same_whatever_else_is_in_hand(messages: list[mqstore.Message]) -> None:
    def cost(count: int) -> tuple[int, ...]:
        queue = ProcessQueue(Subscription("t"), 0, ReadOffset(0), None)
        queue.put(messages[:count], count, -1)
        places = [taken[0] for _ in range(count) if (taken := queue.take(orderly=False)) is not None]
        assert len(places) == count
        for place in places[: count // 2]:
            queue.give_again(place, 3600, orderly=False)
        assert queue.seconds_until_again() is not None
        return (
            steps(lambda: queue.done(places[-1])),
            steps(lambda: queue.consume_offset),
            steps(lambda: queue.give_again(places[-2], 0, orderly=False)),
            steps(lambda: queue.take(orderly=False)),
            steps(queue.seconds_until_again),
        )

    assert cost(400) == cost(40)


def test_a_message_costs_the_same_however_many_queues_have_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalance, "_CHECK_INTERVAL", 3600.0)

    def cost(queue_count: int) -> int:
        with open_rw(tmp_path / str(queue_count)) as store:
            for queue_id in range(queue_count):
                store.put_many("t", [b""] * 4, queue_id=queue_id)
            consumer = store.consumer("g", "t", from_where="first")

            def one() -> None:
                message = consumer.poll(30)
                assert message is not None
                consumer.ack(message)

            one()
            # Some pull messages as well, or look for some that come again.
            return min(steps(one) for _ in range(2 * queue_count))

    assert cost(30) == cost(3)


def test_what_went_back_of_a_dropped_queue_is_not_passed_over_for_what_is_in_hand(
    messages: list[mqstore.Message],
) -> None:
    queue = ProcessQueue(Subscription("t"), 0, ReadOffset(0), None)
    queue.put(messages[:3], 3, -1)
    for place in [taken[0] for _ in range(2) if (taken := queue.take(orderly=False)) is not None]:
        if place == (0, 0):
            queue.give_again(place, 3600, orderly=False)
    queue.drop()
    assert queue.take(orderly=False) is None
    assert queue.consume_offset == 0
    queue.give_again((0, 1), 3600, orderly=False)
    assert queue.consume_offset == 0


def test_the_next_member_is_given_what_waited_when_the_queue_was_taken_away(tmp_path: Path) -> None:
    with open_rw(tmp_path / "s") as store:
        store.put_many("t", [b"0", b"1"], queue_id=0)
        with mqstore.open(tmp_path / "s", **SMALL) as reader:
            one = reader.consumer("g", "t", from_where="first", consumer_id="b")
            first, second = one.poll(30), one.poll(30)
            assert first is not None
            assert second is not None
            one.reconsume_later(first)
            other = reader.consumer("g", "t", from_where="first", consumer_id="a")
            other.poll(0)
            wait_until(lambda: one.poll(0) is None and ("t", 0) not in one.queues)
            one.reconsume_later(second)
            found = other.poll(30)
            assert found is not None
            assert bytes(found.body) == b"0"


@given(
    st.lists(st.tuples(st.sampled_from(["pull", "take", "done", "now", "later", "anew", "drop"]), st.integers(0, 9)))
)
def test_a_queue_goes_on_at_the_first_message_that_is_not_done(
    messages: list[mqstore.Message], steps: list[tuple[str, int]]
) -> None:
    queue = ProcessQueue(Subscription("t"), 0, ReadOffset(0), None)
    which = 0
    pulled: list[Place] = []
    in_hand: list[Place] = []
    again: dict[Place, bool] = {}
    gone_back: list[Place] = []
    pulled_to = 0
    for step, number in steps:
        if step == "pull" and queue.wants_pull:
            begin, end = queue.next_offset, min(queue.next_offset + number, len(messages))
            queue.put(messages[begin:end], end, -1)
            pulled, pulled_to = [(which, offset) for offset in range(begin, end)], end
        elif step == "anew" and queue.wants_pull:
            which, pulled_to = which + 1, 0
            queue.begin_anew(0)
        elif step == "drop" and not queue.is_dropped:
            queue.drop()
            gone_back = [*pulled, *again]
            pulled.clear()
            again.clear()
        elif step == "take" and not queue.is_dropped:
            due = [place for place, is_due in again.items() if is_due]
            expected = min(due) if due else pulled.pop(0) if pulled else None
            taken = queue.take(orderly=False)
            assert (None if taken is None else taken[0]) == expected
            if expected is not None:
                again.pop(expected, None)
                in_hand.append(expected)
        elif in_hand and step in {"done", "now", "later"}:
            place = in_hand.pop(number % len(in_hand))
            if step == "done":
                assert queue.done(place)
            else:
                queue.give_again(place, 0 if step == "now" else 3600, orderly=False)
                again[place] = step == "now"
        waiting = [offset for of, offset in [*pulled, *in_hand, *again, *gone_back] if of == which]
        assert queue.consume_offset == min(waiting, default=pulled_to)
        until = queue.seconds_until_again()
        assert (until is None) == (queue.is_dropped or not again)
        assert (until == 0) == (not queue.is_dropped and any(again.values()))


@pytest.fixture
def only_wakings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has nobody who waits look by himself whether something came."""
    monkeypatch.setattr(rebalance, "_CHECK_INTERVAL", 3600)
    monkeypatch.setattr(hold, "_CHECK_INTERVAL_MS", 3_600_000)
    monkeypatch.setattr(hold, "_BROKER_SUSPEND_MAX_TIME_MS", 3_600_000)


@pytest.mark.usefixtures("only_wakings")
def test_what_comes_wakes_all_threads_that_wait(tmp_path: Path) -> None:
    with open_rw(tmp_path / "s") as store:
        store.put("t", b"", queue_id=0)
        consumer = store.consumer("g", "t", from_where="first")
        first = consumer.poll(30)
        assert first is not None
        consumer.ack(first)
        found: SimpleQueue[mqstore.Message | None] = SimpleQueue()
        count = 4

        def poll() -> None:
            found.put(consumer.poll(3600))

        for _ in range(20):
            threads = [threading.Thread(target=poll, daemon=True) for _ in range(count)]
            for thread in threads:
                thread.start()
            wait_until(lambda: len(store._listeners) == count)
            store.put_many("t", [b""] * count, queue_id=0)
            for message in [found.get(timeout=60) for _ in threads]:
                assert message is not None
                consumer.ack(message)
            for thread in threads:
                thread.join()


@pytest.mark.usefixtures("only_wakings")
def test_what_a_thread_is_done_with_lets_a_task_go_on(tmp_path: Path) -> None:
    async def take(consumer: Consumer) -> int:
        return await anext(message.queue_offset async for message in consumer)

    with open_rw(tmp_path / "s") as store:
        store.put_many("t", [b"", b""], queue_id=0)
        consumer = store.consumer("g", "t", from_where="first", orderly=True, timeout=60)
        first = consumer.poll(30)
        assert first is not None
        second: list[int] = []
        thread = threading.Thread(target=lambda: second.append(asyncio.run(take(consumer))), daemon=True)
        thread.start()
        wait_until(lambda: len(store._listeners) == 1)
        consumer.ack(first)
        thread.join(60)
        assert second == [1]
