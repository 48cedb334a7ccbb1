"""Topics and queues as sequences."""

import datetime as dt
import threading
from typing import Any

import pytest

import mqstore
from tests.store.conftest import Opener


@pytest.fixture
def queue(store: mqstore.MessageStore) -> mqstore.Queue:
    """A queue of ten messages."""
    store.put_many("t", [b"%d" % number for number in range(10)], queue_id=0)
    return store.topic("t").queue(0)


def bodies(messages: object) -> list[int]:
    return [int(bytes(message.body)) for message in messages]  # type: ignore[attr-defined]


@pytest.mark.parametrize("other", ["0", None, 1.5, -1, 1 << 70])
def test_what_is_no_queue_is_not_in_a_topic(store: mqstore.MessageStore, other: Any) -> None:
    store.put("t", b"", queue_id=0)
    assert 0 in store.topic("t")
    assert other not in store.topic("t")


def test_offsets_and_slices(queue: mqstore.Queue) -> None:
    assert (len(queue), queue.min_offset, queue.max_offset) == (10, 0, 10)
    assert bodies([queue[0], queue[9], queue[-1], queue[-10]]) == [0, 9, 9, 0]
    assert bodies(queue[3:5]) == [3, 4]
    assert bodies(queue[-3:]) == [7, 8, 9]
    assert bodies(queue[:]) == bodies(queue) == list(range(10))
    assert bodies(queue[8:100]) == [8, 9]
    assert bodies(queue[5:2]) == []


def test_a_slice_goes_as_far_as_python_has_numbers(queue: mqstore.Queue) -> None:
    for far in (1 << 63, 1 << 64, 1 << 70):
        assert bodies(queue[far:]) == bodies(queue[:-far]) == bodies(queue[-far:-far]) == []
        assert bodies(queue[far:-far]) == []
        assert bodies(queue[8:far]) == [8, 9]
        assert bodies(queue[-far:]) == list(range(10))
        assert (queue[far:].count(), queue[8:far].count()) == (0, 2)
    wrong: Any = "5"
    for cut in (slice(wrong, None), slice(None, wrong)):
        with pytest.raises(TypeError, match="offset='5': expected an integer"):
            _ = queue[cut]
    with pytest.raises(TypeError, match="offset='5': expected an integer or a slice, found str"):
        _ = queue[wrong]


@pytest.mark.parametrize("offset", [10, 1000, 1 << 63, 1 << 70])
def test_an_offset_that_is_not_there(queue: mqstore.Queue, offset: int) -> None:
    with pytest.raises(mqstore.OffsetOutOfRangeError, match="from 0 to 9") as raised:
        _ = queue[offset]
    assert (raised.value.offset, raised.value.min, raised.value.max) == (offset, 0, 10)
    with pytest.raises(ValueError, match="without a step"):
        _ = queue[::2]


def test_a_topic_is_its_queues(store: mqstore.MessageStore) -> None:
    for number in range(6):
        store.put("t", b"%d" % number, queue_id=number % 2)
    topic = store.topic("t")
    assert topic.queue_ids == [0, 1]
    assert 1 in topic
    assert 2 not in topic
    assert len(topic) == 6
    assert bodies(topic) == [0, 2, 4, 1, 3, 5]
    assert store.topics() == ["t"]
    assert len(store.topic("absent")) == 0
    assert list(store.topic("absent").queue(0)) == []


def test_offsets_by_time(open_store: Opener) -> None:
    now = {"ms": 1000}
    store = open_store(clock=lambda: now["ms"])
    for now["ms"] in (1000, 1000, 2000, 2000, 3500):
        store.put("t", b"", queue_id=0)
    queue = store.topic("t").queue(0)
    times = [0, 1000, 1001, 1600, 2000, 2100, 3500, 9000]
    assert queue.offsets_by_time(times, "lower") == [0, 0, 2, 2, 2, 4, 4, 5]
    assert queue.offsets_by_time(times, "upper") == [0, 1, 1, 1, 3, 3, 4, 4]
    assert queue.offsets_by_time(times, "nearest") == [0, 0, 0, 2, 2, 2, 4, 4]
    with pytest.raises(ValueError, match='boundary="middle": expected "nearest", "lower" or "upper"'):
        queue.offset_by_time(0, "middle")


def test_every_time_may_be_a_datetime(open_store: Opener) -> None:
    now = {"ms": 1000}
    store = open_store(clock=lambda: now["ms"])
    for now["ms"] in (1000, 2000, 3000):
        store.put("t", b"", queue_id=0, keys="k")
    second = dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)
    assert store.get_offset_in_queue_by_time("t", 0, second) == 1
    assert store.get_offsets_in_queue_by_time("t", 0, [second, 3000]) == [1, 2]
    assert [message.queue_offset for message in store.query_message("t", "k", begin=second)] == [1, 2]
    assert [message.queue_offset for message in store.query_message("t", "k", end=second)] == [0, 1]
    assert [len(found) for found in store.query_messages("t", ["k"], begin=second, end=second)] == [1]
    naive = second.replace(tzinfo=None)
    asks: dict[str, Any] = {
        "timestamp": lambda: store.get_offset_in_queue_by_time("t", 0, naive),
        r"timestamps\[1\]": lambda: store.get_offsets_in_queue_by_time("t", 0, [second, naive]),
        "begin": lambda: store.query_message("t", "k", begin=naive),
        "end": lambda: store.query_messages("t", ["k"], end=naive),
    }
    for name, ask in asks.items():
        with pytest.raises(ValueError, match=f"^{name}: expected a datetime with a time zone"):
            ask()


def test_what_was_put_is_found_at_once(store: mqstore.MessageStore) -> None:
    queue = store.topic("t").queue(0)
    for number in range(200):
        store.put("t", b"%d" % number, queue_id=0, keys=f"k{number}")
        assert int(bytes(queue[number].body)) == number
        assert store.select("t", key=f"k{number}").count() == 1


def test_following_a_queue_waits_for_messages(store: mqstore.MessageStore) -> None:
    seen: list[int] = []
    three = threading.Event()

    def follow() -> None:
        for message in store.topic("t").queue(0).follow(0):
            seen.append(int(bytes(message.body)))
            if len(seen) == 3:
                three.set()
                return

    thread = threading.Thread(target=follow)
    thread.start()
    for number in range(3):
        store.put("t", b"%d" % number, queue_id=0)
    assert three.wait(30)
    thread.join()
    assert seen == [0, 1, 2]


def test_a_queue_is_followed_from_an_offset_that_it_can_have(store: mqstore.MessageStore) -> None:
    with pytest.raises(ValueError, match="offset=-1: expected an integer from 0"):
        next(store.topic("t").queue(0).follow(-1))


def test_following_ends_when_nothing_comes(store: mqstore.MessageStore) -> None:
    store.put("t", b"1", queue_id=0)
    assert bodies(store.topic("t").queue(0).follow(0, timeout=0.01)) == [1]
    assert not store.wait_for_message("t", 0, 1, timeout=0.01)


def test_closing_a_store_ends_the_waiting(open_store: Opener) -> None:
    store = open_store()
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(mqstore.StoreClosedError):
            store.wait_for_message("t", 0, 0)
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    while not store._message_waiters._waiting:
        pass
    store.close()
    assert ended.wait(30)
    thread.join()


def test_the_last_message_first(queue: mqstore.Queue) -> None:
    assert bodies(reversed(queue)) == list(range(9, -1, -1))
    queue.store.put_many("t", [b"%d" % number for number in range(10, 700)], queue_id=0)
    assert bodies(reversed(queue)) == list(range(699, -1, -1))
    assert list(reversed(queue.store.topic("absent").queue(0))) == []


@pytest.mark.parametrize("offset", [-1, 0, 5])
def test_a_queue_without_a_message_says_so(queue: mqstore.Queue, offset: int) -> None:
    with pytest.raises(mqstore.OffsetOutOfRangeError, match=f": it has no message, and so none at {offset}"):
        _ = queue.store.topic("absent").queue(0)[offset]


@pytest.mark.parametrize("offset", [-11, -(10**9), -(1 << 70)])
def test_an_offset_before_the_first_is_not_there(queue: mqstore.Queue, offset: int) -> None:
    with pytest.raises(mqstore.OffsetOutOfRangeError, match=f"from 0 to 9, found {offset}"):
        _ = queue[offset]
    assert bodies(queue[offset:]) == list(range(10))


def test_an_offset_is_whatever_is_an_index(open_store: Opener) -> None:
    class Index:
        def __index__(self) -> int:
            return -1

    store = open_store()
    for body in (b"first", b"last"):
        store.put("t", body, queue_id=0)
    assert bytes(store.topic("t").queue(0)[Index()].body) == b"last"
