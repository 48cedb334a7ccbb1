"""One consumer: what it gives, what counts as consumed, where it begins, what it filters."""

import asyncio
import contextlib
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.consumer import Consumer
from mqstore.consumer.settings import tag_hash
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.config_manager import read_only
from tests.store.conftest import Opener
from tests.waiting import wait_until

COUNT = 100
SOON = 0.05


def put(store: mqstore.MessageStore, bodies: Iterable[int], topic: str = "orders", **given: object) -> None:
    for number in bodies:
        store.put(topic, b"%d" % number, **given)  # type: ignore[arg-type]


def numbers(consumer: Iterable[mqstore.Message]) -> list[int]:
    return [int(bytes(message.body)) for message in consumer]


def open_consumer(store: mqstore.MessageStore, **given: object) -> Consumer:
    return store.consumer("group", "orders", **({"timeout": SOON} | given))  # type: ignore[arg-type]


def test_every_message_once_across_consumers(store: mqstore.MessageStore) -> None:
    put(store, range(COUNT))
    assert sorted(numbers(open_consumer(store))) == list(range(COUNT))
    put(store, range(COUNT, 2 * COUNT))
    with open_consumer(store) as consumer:
        assert sorted(numbers(consumer)) == list(range(COUNT, 2 * COUNT))
        assert len(consumer.queues) == 9
    assert numbers(open_consumer(store)) == []


def test_offsets_outlive_the_store(open_store: Opener) -> None:
    store = open_store()
    put(store, range(10), queue_id=0)
    assert numbers(open_consumer(store)) == list(range(10))
    store.close()
    offsets = ConsumerOffsetManager(store.path / "config" / "consumerOffset.json", lambda _path, _content: None)
    assert offsets.query_offset("group", "orders", 0) == 10
    store = open_store()
    put(store, [10], queue_id=0)
    assert numbers(open_consumer(store)) == [10]


def test_what_is_left_in_hand_comes_again(store: mqstore.MessageStore) -> None:
    put(store, range(10), queue_id=0)
    consumer = open_consumer(store)
    for message in consumer:
        if bytes(message.body) == b"3":
            break
    assert numbers(consumer) == list(range(3, 10))
    put(store, [10, 11], queue_id=0)
    with contextlib.suppress(RuntimeError):
        for _ in consumer:
            raise RuntimeError("halt")
    del consumer
    assert numbers(open_consumer(store)) == [10, 11]


def test_acks_out_of_order_hold_the_offset_at_the_first_that_is_open(store: mqstore.MessageStore) -> None:
    put(store, range(5), queue_id=0)
    with open_consumer(store) as consumer:
        given = [consumer.poll(SOON) for _ in range(5)]
        assert consumer.poll(SOON) is None
        for message in given[1:4]:
            assert message is not None
            consumer.ack(message)
        with pytest.raises(ValueError, match="not in the hands"):
            consumer.ack(given[1])  # type: ignore[arg-type]
        (stats,) = [one for one in store.consumers.consume_stats("group") if one.diff]
        assert (stats.topic, stats.queue_id, stats.consumer_offset, stats.diff) == ("orders", 0, 0, 5)
    assert numbers(open_consumer(store)) == [0, 1, 2, 3, 4]


def test_tags_are_compared_behind_their_hashes(open_store: Opener) -> None:
    assert tag_hash("Aa") == tag_hash("BB") == 2112
    for compat in (False, True):
        store = open_store(f"compat {compat}", compat=compat)
        for number, tag in enumerate(["Aa", "BB", "C", None]):
            put(store, [number], tags=tag)
        assert numbers(open_consumer(store, tags="Aa || C")) == [0, 2]
        assert sorted(numbers(store.consumer("other", {"orders": "*"}, timeout=SOON))) == [0, 1, 2, 3]
        # What was passed over does not come again.
        assert numbers(open_consumer(store)) == []


def test_a_filter_over_properties(open_store: Opener) -> None:
    for compat in (False, True):
        store = open_store(f"compat {compat}", compat=compat)
        for number in range(COUNT):
            put(store, [number], properties={"n": str(number), "parity": "odd" if number % 2 else "even"})
        consumer = open_consumer(store, sql="n BETWEEN 10 AND 19 AND parity = 'odd'")
        assert sorted(numbers(consumer)) == [11, 13, 15, 17, 19]
        kept = store.consumers.filters.get("orders", "group")
        assert kept is not None
        assert not kept.is_dead
        consumer.close()
        kept = store.consumers.filters.get("orders", "group")
        assert kept is not None
        assert kept.is_dead


def test_where_a_new_group_begins(open_store: Opener) -> None:
    # Nothing counts as being in memory, so that 4.9.3's broker has no offset for a new group.
    store = open_store(accessMessageInMemoryMaxRatio=0)
    put(store, range(3), queue_id=0)
    time_of_3 = store.now() + 10
    while store.now() <= time_of_3:
        pass
    put(store, range(3, 6), queue_id=0)
    stored = store.topic("orders").queue(0)[3].store_timestamp

    def begin(group: str, **given: object) -> list[int]:
        consumer = store.consumer(group, "orders", timeout=SOON, **given)  # type: ignore[arg-type]
        assert consumer.poll(SOON) is None or given
        consumer.close()
        consumer = store.consumer(group, "orders", timeout=SOON, **given)  # type: ignore[arg-type]
        put(store, [6], queue_id=1)
        return [number for number in numbers(consumer) if number < 6]

    assert begin("last") == []
    assert begin("first", from_where="first") == list(range(6))
    assert begin("time", from_where="timestamp", from_time=stored) == [3, 4, 5]


def test_a_group_that_was_there_from_the_start_begins_at_the_beginning(store: mqstore.MessageStore) -> None:
    put(store, range(3), queue_id=0)
    assert numbers(open_consumer(store, from_where="last")) == [0, 1, 2]


def test_a_queue_without_its_beginning_is_not_read_from_there(open_store: Opener) -> None:
    now_ms = 1_780_000_000_000
    store = open_store(fileReservedTime=0, clock=lambda: now_ms)
    for number in range(200):
        store.put("orders", b"%d" % number, queue_id=0, properties={"pad": "x" * 1000})
    store.flush()
    now_ms += 1000
    assert store.execute_delete_files_manually() > 0
    consumer = open_consumer(store)
    assert numbers(consumer) == []
    put(store, [200], queue_id=0)
    assert numbers(consumer) == [200]


def test_what_arrives_ends_the_waiting(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing else ends it.
    monkeypatch.setattr("mqstore.consumer.rebalance._CHECK_INTERVAL", 1e6)
    monkeypatch.setattr("mqstore.consumer.hold._CHECK_INTERVAL_MS", 10**9)
    monkeypatch.setattr("mqstore.consumer.hold._BROKER_SUSPEND_MAX_TIME_MS", 10**9)
    for number, given in enumerate(({}, {"longPollingEnable": False, "shortPollingTimeMills": 20})):
        store = open_store(f"store {number}", **given)
        put(store, [0], queue_id=0)
        consumer = open_consumer(store)
        assert numbers(consumer) == [0]
        waiting = threading.Event()
        found: list[int] = []

        def read(consumer: Consumer = consumer, found: list[int] = found, waiting: threading.Event = waiting) -> None:
            waiting.set()
            message = consumer.poll()
            assert message is not None
            found.append(int(bytes(message.body)))

        thread = threading.Thread(target=read)
        thread.start()
        waiting.wait()
        if store.options.long_polling_enable:
            wait_until(lambda store=store: bool(store._listeners))  # type: ignore[misc]
        put(store, [1], queue_id=5)
        thread.join(20)
        assert found == [1]


def test_closing_the_store_ends_the_waiting(store: mqstore.MessageStore) -> None:
    consumer = store.consumer("group", "orders")
    errors: list[BaseException] = []

    def read() -> None:
        try:
            consumer.poll()
        except mqstore.MQStoreError as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    store.close()
    thread.join(20)
    (error,) = errors
    assert isinstance(error, mqstore.StoreClosedError)


def test_a_store_that_is_being_closed_is_closed_to_its_consumers(store: mqstore.MessageStore) -> None:
    consumer = store.consumer("g", "orders")
    store.consumers.close()  # the first step of the store's own close
    with pytest.raises(mqstore.StoreClosedError, match="the store is closed"):
        consumer.poll(timeout=0)


def test_asyncio(store: mqstore.MessageStore) -> None:
    put(store, range(10), queue_id=0)

    async def read() -> list[int]:
        found = []
        async for message in open_consumer(store, timeout=60):
            found.append(int(bytes(message.body)))
            if len(found) == 10:
                put(store, [10], queue_id=2)
            if len(found) == 11:
                break
        return found

    assert asyncio.run(read()) == list(range(11))
    assert numbers(open_consumer(store)) == [10]


def test_a_topic_deleted_while_it_is_read(store: mqstore.MessageStore) -> None:
    put(store, range(40), queue_id=0)
    consumer = open_consumer(store)
    in_hand = consumer.poll(SOON)
    assert in_hand is not None
    store._destroy_queue("orders", 0)
    consumer.ack(in_hand)
    # What was pulled before is still given: its records are in the log.
    assert numbers(consumer) == list(range(1, 32))
    put(store, [100, 101], queue_id=0)
    assert numbers(consumer) == [100, 101]
    assert bytes(in_hand.body) == b"0"


def test_several_topics_take_turns(store: mqstore.MessageStore) -> None:
    put(store, range(10), topic="a", queue_id=0, tags="x")
    put(store, range(10, 20), topic="b", queue_id=0, tags="y")
    found = numbers(store.consumer("group", {"a": "x", "b": "*"}, timeout=SOON))
    assert sorted(found) == list(range(20))
    assert {number // 10 for number in found[:4]} == {0, 1}
    assert numbers(store.consumer("both", ["a", "b"], tags="y", timeout=SOON)) == list(range(10, 20))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"group": "../g"}, "group"),
        ({"group": ""}, "group"),
        ({"consumer_id": "a/b"}, "consumer_id"),
        ({"tags": "a", "sql": "b = 1"}, "tags"),
        ({"topics": {"a": "x"}, "tags": "y"}, "tags"),
        ({"topics": []}, "topics"),
        ({"topics": {}}, "topics"),
        ({"topics": 5}, "topics"),
        ({"topics": ["t", 5]}, "topics"),
        ({"topics": "t\ud800"}, "topics"),
        ({"topics": {"t": None}}, "tags"),
        ({"topics": {"t": " || "}}, "tags"),
        ({"tags": 5}, "tags"),
        ({"tags": "||"}, "tags"),
        ({"orderly": "no"}, "orderly"),
        ({"allocate": 5}, "allocate"),
        ({"consumer_id": 5}, "consumer_id"),
        ({"max_reconsume_times": "3"}, "max_reconsume_times"),
        ({"max_reconsume_times": -2}, "max_reconsume_times"),
        ({"suspend_current_queue_time_ms": -1}, "suspend_current_queue_time_ms"),
        ({"from_where": "timestamp", "from_time": "2026"}, "from_time"),
        ({"sql": "a ="}, "sql"),
        ({"from_where": "middle"}, "from_where"),
        ({"from_where": "timestamp"}, "from_time"),
        ({"from_time": 5}, "from_time"),
        ({"message_model": "unicasting"}, "message_model"),
        ({"pull_batch_size": 0}, "pull_batch_size"),
        ({"pull_batch_size": 1.5}, "pull_batch_size"),
        ({"pull_batch_size": 1 << 64}, "pull_batch_size"),
        ({"timeout": float("nan")}, "timeout"),
    ],
)
def test_what_does_not_work_is_named(store: mqstore.MessageStore, given: dict[str, object], named: str) -> None:
    with pytest.raises(mqstore.OptionError) as raised:
        store.consumer(**({"group": "g", "topics": "t"} | given))  # type: ignore[arg-type]
    assert raised.value.option == named


def test_a_poll_that_would_never_end_is_refused(store: mqstore.MessageStore) -> None:
    with open_consumer(store) as consumer, pytest.raises(ValueError, match="timeout=nan: expected"):
        consumer.poll(float("nan"))


def test_a_group_may_be_kept_from_consuming(store: mqstore.MessageStore) -> None:
    groups = store.consumers.groups
    groups.update(mqstore.SubscriptionGroupConfig(group_name="off", consume_enable=False))
    groups.update(mqstore.SubscriptionGroupConfig(group_name="quiet", consume_broadcast_enable=False))
    with pytest.raises(mqstore.OptionError, match="consumeEnable"):
        store.consumer("off", "orders")
    with pytest.raises(mqstore.OptionError, match="consumeBroadcastEnable"):
        store.consumer("quiet", "orders", message_model="broadcasting")


def test_what_is_no_consumer_group_or_topic_is_told(store: mqstore.MessageStore) -> None:
    consumers: Any = store.consumers
    calls: list[tuple[Any, str]] = [
        (lambda: consumers.add(3), "consumer=3: expected a Consumer, found int"),
        (lambda: consumers.remove(None), "consumer=None: expected a Consumer, found NoneType"),
        (lambda: consumers.group(3), "name=3: expected a string"),
        (lambda: consumers.groups.update("g"), "config='g': expected a SubscriptionGroupConfig, found str"),
        (lambda: consumers.topics.update("t"), "config='t': expected a TopicConfig, found str"),
        (lambda: consumers.register_filter("t", 3, "a > 1", 1), "group=3: expected a string"),
        (lambda: consumers.register_filter("t", "g", "a > 1", "1"), "client_version='1': expected an integer"),
    ]
    for wrong, named in calls:
        with pytest.raises(TypeError, match=f"^{named}"):
            wrong()
    assert not list(store.path.glob("config/*Filter.json"))
    assert not list(store.path.glob("config/*Group.json"))


def test_offsets_that_are_set_by_hand_are_written_at_the_end(open_store: Opener) -> None:
    store = open_store()
    put(store, range(4), queue_id=0)
    store.consumers.offsets.commit_offset("group", "orders", 0, 3)
    store.close()
    assert numbers(open_consumer(open_store())) == [3]


def test_offsets_are_written_behind_the_flush_of_what_they_say(open_store: Opener) -> None:
    # The log is flushed by nobody else.
    intervals = (
        "flush_interval_commit_log",
        "flush_commit_log_thorough_interval",
        "flush_interval_consume_queue",
    )
    store = open_store(**dict.fromkeys(intervals, 600_000))
    put(store, range(3), queue_id=0)
    with open_consumer(store) as consumer:
        assert numbers(consumer) == [0, 1, 2]
        assert store.get_flushed_where() == 0
        consumer.persist()
        assert store.get_flushed_where() == store.get_max_phy_offset()
    offsets = ConsumerOffsetManager(store.path / "config" / "consumerOffset.json", read_only)
    assert offsets.query_offset("group", "orders", 0) == 3


def test_a_poll_without_time_finds_what_another_process_has_put(open_store: Opener) -> None:
    writer = open_store()
    put(writer, range(1), queue_id=0)
    with open_store(mode="r").consumer("group", "orders") as consumer:
        for number in range(1, 4):
            message = consumer.poll(timeout=0)
            assert message is not None
            consumer.ack(message)
            put(writer, range(number, number + 1), queue_id=0)
        assert consumer.poll(timeout=0) is not None
        assert consumer.poll(timeout=0) is None


def test_beside_a_writer_offsets_are_written_behind_the_log_too(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(open_store(), range(3), queue_id=0)
    reader = open_store(mode="r")
    written: list[str] = []

    class Noting:
        """The engine, with a note of what writes."""

        def __init__(self, engine: mqstore._native.Engine) -> None:
            """Nothing is written yet."""
            self._engine = engine
            self.now = engine.now

        def sync_log_seen(self) -> None:
            """Noted."""
            written.append("log")
            self._engine.sync_log_seen()

        def replace_config(self, path: Path, content: bytes) -> None:
            """Noted."""
            written.append(path.name)
            self._engine.replace_config(path, content)

    monkeypatch.setattr(reader.consumers, "_engine", Noting(reader._engine))
    with open_consumer(reader) as consumer:
        assert numbers(consumer) == [0, 1, 2]
    assert written[:2] == ["log", "consumerOffset.json"]


def test_a_consumer_that_cannot_write_its_offsets_keeps_no_other_from_it(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    put(store, range(3), queue_id=0)
    consumers = [store.consumer(group, "orders", timeout=SOON) for group in ("a", "b", "c")]
    for consumer in consumers:
        assert numbers(consumer) == [0, 1, 2]

    def refuse() -> None:
        raise mqstore.StoreIOError("no space left")

    for consumer in consumers[1:]:
        monkeypatch.setattr(consumer._rebalance._offsets, "persist", refuse)
    with pytest.raises(mqstore.StoreIOError, match="no space"):
        store.close()
    assert [consumer.queues for consumer in consumers] == [[], [], []]
    offsets = ConsumerOffsetManager(store.path / "config" / "consumerOffset.json", read_only)
    assert offsets.query_offset("a", "orders", 0) == 3


def test_what_is_no_function_consumes_nothing(store: mqstore.MessageStore) -> None:
    """Each message would have failed, and come again later."""
    store.put("t", b"1", queue_id=0)
    consumer = store.consumer("g", "t", from_where="first")
    with pytest.raises(TypeError, match="listener='no function': expected a function of a message"):
        consumer.run("no function")  # type: ignore[arg-type]
    message = consumer.poll(30)
    assert message is not None
    assert bytes(message.body) == b"1"
    consumer.close()
