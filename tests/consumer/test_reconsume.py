"""Messages that are consumed in vain: retries, dead letters, order."""

import threading
import time
from typing import Any

import pytest

import mqstore
from mqstore.store.topics import TopicConfig
from tests.store.conftest import Opener

SOON = 0.05
LATER = 60
FOREVER = 600
AT_ONCE = " ".join(["0s"] * 18)


class SixSeenError(BaseException):
    """Ends a consumer that waits without end: it goes through whatever handles an Exception."""


def deliver(open_store: Opener) -> mqstore.MessageStore:
    return open_store(messageDelayLevel=AT_ONCE, schedule_messages=True)


def test_a_message_comes_again_until_it_is_dead(open_store: Opener) -> None:
    store = deliver(open_store)
    store.consumers.groups.update(mqstore.SubscriptionGroupConfig(group_name="g", retry_max_times=2))
    store.put("orders", b"bad", keys="k", tags="T", properties={"p": "1"}, queue_id=3)
    original = store.topic("orders").queue(3)[0]
    seen = []
    with store.consumer("g", "orders") as consumer:
        for _ in range(3):
            message = consumer.poll(LATER)
            assert message is not None
            seen.append((message.topic, message.reconsume_times))
            consumer.reconsume_later(message)
        assert seen == [("orders", 0), ("%RETRY%g", 1), ("%RETRY%g", 2)]
        dead = store.topic("%DLQ%g").queue(0)[0]
        assert (bytes(dead.body), dead.reconsume_times, dead.tags, dead.keys) == (b"bad", 3, "T", ("k",))
        assert dead.properties["RETRY_TOPIC"] == "orders"
        assert dead.properties["ORIGIN_MESSAGE_ID"] == original.msg_id
        assert dead.properties["p"] == "1"
        assert (dead.born_timestamp, dead.born_host) == (original.born_timestamp, original.born_host)
        assert consumer.poll(SOON) is None
        figures = store.consumers.figures
        assert (figures["g", "orders"].send_back_nums, figures["g", "%RETRY%g"].send_back_nums) == (1, 2)


def test_each_attempt_has_its_level(open_store: Opener) -> None:
    store = open_store()
    store.put("orders", b"0", queue_id=0)
    store.put("orders", b"1", queue_id=0)
    with store.consumer("g", "orders") as consumer:
        for level in (0, 7):
            message = consumer.poll(SOON)
            assert message is not None
            consumer.reconsume_later(message, level)
    delayed = store.topic("SCHEDULE_TOPIC_XXXX")
    assert delayed.queue_ids == [2, 6]
    for message in delayed:
        assert message.properties["REAL_TOPIC"] == "%RETRY%g"
        assert message.reconsume_times == 1


def test_a_message_can_go_to_the_dead_letters_at_once(store: mqstore.MessageStore) -> None:
    store.put("orders", b"0", queue_id=0)
    with store.consumer("g", "orders", timeout=SOON) as consumer:
        for message in consumer:
            consumer.reconsume_later(message, -1)
    assert [bytes(message.body) for message in store.topic("%DLQ%g")] == [b"0"]


def test_a_function_that_raises_gets_the_message_again(open_store: Opener) -> None:
    store = deliver(open_store)
    for number in range(5):
        store.put("orders", b"%d" % number)
    seen: list[bytes] = []

    def listener(message: mqstore.Message) -> None:
        seen.append(bytes(message.body))
        if len(seen) == 6:
            raise SixSeenError
        if message.reconsume_times == 0 and seen[-1] == b"2":
            raise RuntimeError("not now")

    with store.consumer("g", "orders") as consumer, pytest.raises(SixSeenError):
        consumer.run(listener)
    assert sorted(seen) == [b"0", b"1", b"2", b"2", b"3", b"4"]
    # The one for which it ended was not consumed, and is the only one that is left.
    left: list[bytes] = []
    store.consumer("g", "orders", timeout=SOON).run(lambda message: left.append(bytes(message.body)))
    assert left == seen[-1:]


def test_an_orderly_queue_waits_for_its_first_message(store: mqstore.MessageStore) -> None:
    for number in range(6):
        store.put("orders", b"%d" % number, queue_id=number % 2)
    seen: list[int] = []
    with store.consumer("g", "orders", orderly=True, suspend_current_queue_time_ms=30, timeout=LATER) as consumer:
        for message in consumer:
            seen.append(int(bytes(message.body)))
            if seen.count(2) in {1, 2} and seen[-1] == 2:
                consumer.reconsume_later(message)
            if len(seen) == 8:
                consumer.ack(message)
                break
    assert [number for number in seen if number % 2 == 0] == [0, 2, 2, 2, 4]
    assert [number for number in seen if number % 2] == [1, 3, 5]


def test_an_orderly_message_is_given_up_after_so_many_attempts(store: mqstore.MessageStore) -> None:
    for number in range(2):
        store.put("orders", b"%d" % number, queue_id=0)
    given = {"orderly": True, "suspend_current_queue_time_ms": 1, "max_reconsume_times": 2, "timeout": SOON}
    seen = []
    with store.consumer("g", "orders", **given) as consumer:  # type: ignore[arg-type]
        for message in consumer:
            seen.append(int(bytes(message.body)))
            if seen[-1] == 0:
                consumer.reconsume_later(message)
    assert seen == [0, 0, 0, 1]
    assert [bytes(message.body) for message in store.topic("%DLQ%g")] == [b"0"]


@pytest.mark.parametrize("orderly", [False, True])
def test_no_number_of_attempts_is_minus_one_as_in_rocketmq(store: mqstore.MessageStore, *, orderly: bool) -> None:
    store.put("orders", b"0", queue_id=0)
    with store.consumer(
        "g", "orders", orderly=orderly, suspend_current_queue_time_ms=1, max_reconsume_times=-1
    ) as consumer:
        first = consumer.poll(LATER)
        assert first is not None
        consumer.reconsume_later(first)
        assert (consumer.poll(LATER if orderly else 0) is first) == orderly
    assert store.topic("%DLQ%g").queue_ids == []


def test_a_retry_that_cannot_be_put_comes_again_here(
    store: mqstore.MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqstore.consumer.consumer._AGAIN_AFTER_FAILED_PUT", 0.0)
    store.put("orders", b"0", queue_id=0)
    with store.consumer("g", "orders", timeout=SOON) as consumer:
        first = consumer.poll(SOON)
        assert first is not None
        store._engine.make_logics_queue_error("no space")
        consumer.reconsume_later(first)
        assert consumer.poll(SOON) is first
    assert store.topic("%RETRY%g").queue_ids == []


def test_broadcast_messages_do_not_come_again(store: mqstore.MessageStore) -> None:
    store.put("orders", b"0", queue_id=0)
    with store.consumer("g", "orders", message_model="broadcasting", from_where="first", timeout=SOON) as consumer:
        for message in consumer:
            consumer.reconsume_later(message)
        assert consumer.poll(SOON) is None
    assert store.topics() == ["orders"]


def test_what_one_thread_is_done_with_lets_another_go_on(store: mqstore.MessageStore) -> None:
    for number in range(2):
        store.put("orders", b"%d" % number, queue_id=0)
    with store.consumer("g", "orders", orderly=True) as consumer:
        first = consumer.poll(LATER)
        assert first is not None
        begin = time.monotonic()
        threading.Timer(0.1, consumer.ack, [first]).start()
        second = consumer.poll(FOREVER)
        assert second is not None
        assert bytes(second.body) == b"1"
        assert time.monotonic() - begin < LATER


def test_what_was_consumed_in_vain_too_often_to_count_goes_to_the_dead_letters(store: mqstore.MessageStore) -> None:
    most = (1 << 31) - 1
    store.put_message(mqstore.MessageExtBrokerInner(topic="orders", body=b"0", reconsume_times=most))
    with store.consumer("g", "orders", from_where="first", timeout=SOON) as consumer:
        message = consumer.poll(SOON)
        assert message is not None
        consumer.reconsume_later(message)
    (dead,) = store.topic("%DLQ%g")
    assert dead.reconsume_times == most


def test_a_retry_that_is_broken_off_comes_again(store: mqstore.MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    store.put("orders", b"0", queue_id=0)
    with store.consumer("g", "orders", max_reconsume_times=0, orderly=True, timeout=SOON) as consumer:
        first = consumer.poll(SOON)
        assert first is not None
        with monkeypatch.context() as broken:
            broken.setattr("mqstore.consumer.consumer.send_message_back", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.reconsume_later(first)
        assert consumer.poll(LATER) is first
        consumer.reconsume_later(first)
    assert [bytes(message.body) for message in store.topic("%DLQ%g")] == [b"0"]


@pytest.mark.parametrize("level", ["1", None, 1.5, 1 << 31])
def test_what_is_no_delay_level_leaves_a_message_in_hand(store: mqstore.MessageStore, level: Any) -> None:
    store.put("orders", b"0", queue_id=0)
    with store.consumer("g", "orders") as consumer:
        message = consumer.poll(LATER)
        assert message is not None
        with pytest.raises((TypeError, ValueError), match=r"^delay_level=.*: expected an integer"):
            consumer.reconsume_later(message, level)
        consumer.ack(message)
        assert consumer.poll(SOON) is None


def test_numbers_of_queues_are_bounded(open_store: Opener) -> None:
    store = open_store()
    store.put("orders", b"0", queue_id=0)
    store.consumers.topics.update(TopicConfig(topic_name="orders", read_queue_nums=1 << 62))
    assert len(store.consumers.queue_ids("orders")) == 1 << 12
    store.close()
    groups = store.path / "config" / "subscriptionGroup.json"
    groups.parent.mkdir(exist_ok=True)
    groups.write_text('{"subscriptionGroupTable":{"g":{"retryQueueNums":2147483648}}}')
    with pytest.raises(mqstore.MQStoreError, match="retryQueueNums"):
        open_store().consumer("g", "orders")


def test_what_comes_again_is_in_further_queues_once(open_store: Opener) -> None:
    light = {"enableMultiDispatch": True, "enableLmq": True}
    store = open_store(messageDelayLevel=AT_ONCE, schedule_messages=True, **light)
    store.consumers.groups.update(mqstore.SubscriptionGroupConfig(group_name="g", retry_max_times=2))
    store.put("orders", b"bad", queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    with store.consumer("g", "orders") as consumer:
        for _ in range(3):
            message = consumer.poll(LATER)
            assert message is not None
            consumer.reconsume_later(message)
    assert len(store.topic("%DLQ%g")) == 1
    assert [message.topic for message in store.topic("%LMQ%a").queue(0)] == ["orders"]


def longest(store: mqstore.MessageStore, topic: str, properties: dict[str, str] | None = None) -> int:
    """How long a body can be at most; messages of that topic are put."""
    fits, too_long = 0, store.options.max_message_size
    while too_long - fits > 1:
        length = (fits + too_long) // 2
        try:
            store.put(topic, bytes(length), queue_id=0, properties=properties)
            fits = length
        except mqstore.MessageIllegalError:
            too_long = length
    return fits


def test_a_message_as_long_as_one_can_be_is_given_up_in_the_end(open_store: Opener) -> None:
    store = open_store(messageDelayLevel=AT_ONCE, maxMessageSize=2000)
    group = "g" * 60
    store.put("t", bytes(longest(store, "probe") + len("probe") - len("t")), queue_id=0)
    store.put("t", b"behind", queue_id=0)
    seen = []
    with store.consumer(group, "t", max_reconsume_times=2, timeout=SOON) as consumer:
        for message in consumer:
            seen.append(len(message.body))
            if len(message.body) > 10:
                consumer.reconsume_later(message)
    assert len(seen) == 4
    assert seen.count(len(b"behind")) == 1
    (stats,) = (each for each in store.consumers.consume_stats(group, ["t"]) if each.queue_id == 0)
    assert stats.diff == 0
    assert store.topic(f"%DLQ%{group}").queue_ids == []


def test_a_message_without_room_for_what_a_retry_notes_is_put_without_it(open_store: Opener) -> None:
    store = open_store(maxMessageSize=2000)
    own = {"p": "1" * 300}
    # The dead letters' name is shorter than the one and longer than the other.
    for topic, other in (("t" * 100, "u" * 100), ("t", "u")):
        store.put(topic, bytes(longest(store, other, own)), queue_id=0, properties=own)
        with store.consumer("g", topic) as consumer:
            message = consumer.poll(LATER)
            assert message is not None
            consumer.reconsume_later(message, -1)
    with_own, without = store.topic("%DLQ%g").queue(0)
    assert with_own.properties["p"] == own["p"]
    assert "RETRY_TOPIC" not in with_own.properties
    assert "p" not in without.properties
    assert with_own.reconsume_times == without.reconsume_times == 1
