"""Messages that are delivered at a time that is told with each."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mqstore
from mqstore.services import ScheduleMessageService, TimedMessageService
from mqstore.store.delayed import DELIVER_AT, TIMED_TOPIC
from tests.services.conftest import HandClock
from tests.services.delivery import append_foreign, bodies, service_of, wait_for_passes
from tests.store.conftest import Opener
from tests.store_files import copy_store
from tests.waiting import wait_until

HOUR = 3_600_000
YEAR = 365 * 24 * HOUR
NEVER: dict[str, Any] = {"flush_delay_offset_interval": 3_600_000}
"""What is delivered is written when the store is closed, and not before."""


def deliver_now(store: mqstore.MessageStore) -> int:
    """Delivers what is due in a store without the service; gives how many."""
    count = 0
    while (delivered := store._engine.deliver_timed(1024)[0]) > 0:
        count += delivered
    return count


def test_a_message_is_delivered_as_it_was_put_when_it_is_due(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, schedule_messages=True)
    due = dt.datetime.fromtimestamp((clock.now_ms + HOUR) / 1000, dt.UTC)
    given: dict[str, Any] = {"queue_id": 3, "tags": "T", "keys": "K", "flag": 7, "properties": {"zone": "eu"}}
    store.put("orders", b"later", deliver_at=due, **given)
    store.put("orders", b"sooner", queue_id=2, deliver_at=clock.now_ms + 1000)
    waiting = store.topic(TIMED_TOPIC).queue(0)[0]
    assert waiting.properties[DELIVER_AT] == str(clock.now_ms + HOUR)
    assert (waiting.properties["REAL_TOPIC"], waiting.properties["REAL_QID"]) == ("orders", "3")
    assert waiting.born_timestamp == clock.now_ms
    clock.now_ms += 999
    wait_for_passes(service_of(store, TimedMessageService))
    assert bodies(store) == []
    clock.now_ms += 1
    wait_until(lambda: bodies(store) == [b"sooner"])
    clock.now_ms += HOUR - 1001
    wait_for_passes(service_of(store, TimedMessageService))
    assert bodies(store) == [b"sooner"]
    clock.now_ms += 1
    assert store.wait_for_message("orders", 3, 0, timeout=60)
    message = store.topic("orders").queue(3)[0]
    wanted = {name: value for name, value in waiting.properties.items() if not name.startswith(("REAL_", "MQSTORE_"))}
    assert message.properties == wanted
    assert wanted["zone"] == "eu"
    assert (bytes(message.body), message.tags, message.keys, message.flag) == (b"later", "T", ("K",), 7)
    assert (message.store_timestamp, message.born_timestamp) == (clock.now_ms, clock.now_ms - HOUR)
    assert store.query_message("orders", "K")[-1].queue_id == 3


def test_what_is_due_already_is_put_at_once(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock)
    for deliver_at in (clock.now_ms, clock.now_ms - YEAR, 0, -5):
        store.put("orders", b"now", queue_id=0, deliver_at=deliver_at)
    assert len(store.topic("orders").queue(0)) == 4
    assert DELIVER_AT not in store.topic("orders").queue(0)[1].properties
    assert TIMED_TOPIC not in store.topics()


def test_thousands_at_the_same_time_come_in_their_order(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, schedule_messages=True)
    due = clock.now_ms + 1000
    store.put_many("orders", [b"%d" % number for number in range(5000)], queue_id=0, deliver_at=due)
    each = [None if number % 2 else due + number % 7 for number in range(100)]
    store.put_many("others", [b"%d" % number for number in range(100)], queue_id=0, deliver_at=each)
    assert bodies(store, "others") == [b"%d" % number for number in range(1, 100, 2)]
    clock.now_ms += 2000
    wait_until(lambda: len(store.topic("orders")) == 5000)
    wait_until(lambda: len(store.topic("others")) == 100)
    assert bodies(store) == [b"%d" % number for number in range(5000)]
    delivered = [int(body) for body in bodies(store, "others")[50:]]
    assert delivered == sorted(range(0, 100, 2), key=lambda number: (number % 7, number))
    assert store._timed_waiting() == (0, None)


def test_a_pass_delivers_a_batch(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock)
    assert store._timed_waiting() is None
    for number in range(100):
        store.put("orders", b"%d" % number, queue_id=0, deliver_at=clock.now_ms + 1000 + 1000 * (number % 2))
    store._reput()
    assert store._engine.deliver_timed(30) == (0, clock.now_ms + 1000, [], None)
    clock.now_ms += 1000
    assert store._engine.deliver_timed(30) == (30, clock.now_ms, [], None)
    assert store._engine.deliver_timed(30) == (20, clock.now_ms + 1000, [], None)
    assert store._timed_waiting() == (50, clock.now_ms + 1000)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"deliver_at": 1 << 60}, "farther ahead than max_deliver_distance_ms"),
        ({"deliver_at": 1 << 60, "delay_time_level": 1}, "has a delay level too"),
        ({"properties": {DELIVER_AT: "soon"}}, "expected a time in milliseconds"),
    ],
)
def test_a_time_that_cannot_be_is_refused(open_store: Opener, given: dict[str, Any], reason: str) -> None:
    store = open_store()
    with pytest.raises(mqstore.MessageIllegalError, match=reason):
        store.put("orders", b"", **given)
    assert store.get_max_phy_offset() == 0
    with pytest.raises(ValueError, match="time zone"):
        store.put("orders", b"", deliver_at=dt.datetime(2030, 1, 1))  # noqa: DTZ001 - that is what is refused


def test_where_a_time_cannot_be_told(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock)
    batch = mqstore.MessageExtBatch(topic="orders", messages=[(b"", 0, {DELIVER_AT: str(clock.now_ms + 1)})])
    assert store.put_messages(batch).status is mqstore.PutMessageStatus.MESSAGE_ILLEGAL
    with store.transaction() as transaction, pytest.raises(mqstore.MessageIllegalError, match="cannot be delayed"):
        transaction.put("orders", b"", deliver_at=clock.now_ms + 1)
    with pytest.raises(ValueError, match="deliver_at: expected 2, one for each body"):
        store.put_many("orders", [b"", b""], deliver_at=[1])
    store.close()
    store = open_store("compat", clock=clock, compat=True, schedule_messages=True)
    with pytest.raises(mqstore.MessageIllegalError, match="compat=True what it has"):
        store.put("orders", b"", deliver_at=clock.now_ms + 1)
    assert store.topics() == []


def test_messages_wait_where_nobody_delivers_them(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock)
    store.put("orders", b"body", deliver_at=clock.now_ms + 1)
    clock.now_ms += HOUR
    assert bodies(store) == []
    store.close()
    with open_store(clock=clock, compat=True, schedule_messages=True) as compat:
        assert {type(service).__name__ for service in compat._services}.isdisjoint({"TimedMessageService"})
    store = open_store(clock=clock, schedule_messages=True)
    wait_until(lambda: bodies(store) == [b"body"])


def test_nothing_comes_twice_after_a_restart(open_store: Opener, clock: HandClock) -> None:
    given: dict[str, Any] = {"clock": clock, "schedule_messages": True} | NEVER
    store = open_store(**given)
    for number in range(10):
        store.put("orders", b"%d" % number, queue_id=0, deliver_at=clock.now_ms + 1 + number)
    clock.now_ms += 5
    wait_until(lambda: len(store.topic("orders")) == 5)
    store.close()
    for _ in range(2):
        store = open_store(**given)
        wait_for_passes(service_of(store, TimedMessageService))
        assert bodies(store) == [b"%d" % number for number in range(5)]
        store.close()
    clock.now_ms += 5
    store = open_store(**given)
    wait_until(lambda: len(store.topic("orders")) == 10)
    assert len(store.topic(TIMED_TOPIC).queue(1)) == 1  # written once something was delivered
    store.close()
    # The queues and the index can be made from the log again.
    for derived in ("consumequeue", "index", "mqstore", "checkpoint"):
        moved = store.path / derived
        moved.rename(store.path.with_name(derived))
    store = open_store(**given)
    wait_for_passes(service_of(store, TimedMessageService))
    assert len(store.topic("orders")) == 10


def test_a_crash_repeats_what_was_delivered_since_it_was_written(
    open_store: Opener, clock: HandClock, tmp_path: Path
) -> None:
    store = open_store(clock=clock)
    for number in range(10):
        store.put("orders", b"%d" % number, queue_id=0, deliver_at=clock.now_ms + 1 + number)
    store._reput()
    clock.now_ms += 4
    assert deliver_now(store) == 4
    assert store._engine.persist_timed() is None
    clock.now_ms += 3
    assert deliver_now(store) == 3
    store.flush()
    copy_store(tmp_path / "store", tmp_path / "crashed")
    crashed = open_store("crashed", clock=clock, schedule_messages=True)
    wait_until(lambda: len(crashed.topic("orders")) == 10)
    wait_for_passes(service_of(crashed, TimedMessageService))
    assert bodies(crashed) == [b"%d" % number for number in [*range(7), *range(4, 7)]]


def test_a_clock_that_is_set_back_brings_nothing_forward_or_twice(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock)
    put = store.put
    put("orders", b"first", queue_id=0, deliver_at=clock.now_ms + HOUR)
    put("orders", b"far", queue_id=0, deliver_at=clock.now_ms + 48 * HOUR)
    clock.now_ms += 24 * HOUR  # too far, by mistake
    store._reput()
    assert deliver_now(store) == 1
    clock.now_ms -= 24 * HOUR
    put("orders", b"second", queue_id=0, deliver_at=clock.now_ms + HOUR // 2)
    put("orders", b"third", queue_id=0, deliver_at=clock.now_ms + 30 * HOUR)
    store._reput()
    assert deliver_now(store) == 0
    assert store._timed_waiting() == (3, clock.now_ms + HOUR // 2)
    for _ in range(2):
        store._engine.persist_timed()
        store.close()
        store = open_store(clock=clock)
        assert deliver_now(store) == 0
    clock.now_ms += HOUR
    assert deliver_now(store) == 1
    store._engine.persist_timed()
    store.close()
    store = open_store(clock=clock)
    clock.now_ms += 48 * HOUR
    assert deliver_now(store) == 2
    assert bodies(store) == [b"first", b"second", b"third", b"far"]


def test_what_cannot_be_delivered_keeps_nobody_waiting(
    open_store: Opener, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(clock=clock, schedule_messages=True)
    deliver_at, topic = DELIVER_AT.replace("M", "X", 1), TIMED_TOPIC.replace("M", "X", 1)
    for properties in ({}, {deliver_at: "x"}, {deliver_at: "9", "REAL_TOPIC": topic, "REAL_QID": "0"}):
        append_foreign(store, 0, b"to nowhere", properties)
    store.put("orders", b"good", deliver_at=clock.now_ms + 1)
    clock.now_ms += 1000
    wait_until(lambda: len(store.topic("orders")) == 1)
    wait_for_passes(service_of(store, TimedMessageService))
    told = [record.getMessage() for record in caplog.records if "cannot be delivered" in record.getMessage()]
    assert len(told) == 3
    assert "it has no REAL_TOPIC" in told[0]
    assert f"its REAL_TOPIC is {TIMED_TOPIC}" in "".join(told)
    assert store._timed_waiting() == (0, None)


def test_what_others_bring_between_the_records_of_progress_hides_none(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock)
    for number in range(3):
        store.put("orders", b"%d" % number, queue_id=0, deliver_at=clock.now_ms + 1)
    store._reput()
    clock.now_ms += 1
    assert deliver_now(store) == 3
    store._engine.persist_timed()
    for _ in range(20):
        append_foreign(store, 1, b"garbage", {})
    with pytest.raises(mqstore.MessageIllegalError, match="time of delivery"):
        store.put(TIMED_TOPIC, b"garbage", queue_id=1)
    store.close()
    store = open_store(clock=clock)
    assert deliver_now(store) == 0
    assert bodies(store) == [b"0", b"1", b"2"]


def test_a_store_that_takes_no_messages_loses_none(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, schedule_messages=True)
    store.put("orders", b"body", deliver_at=clock.now_ms + 1)
    store._engine.make_logics_queue_error("no space")
    clock.now_ms += 1000
    wait_until(lambda: bool(service_of(store, TimedMessageService)._waiting))
    store.close()
    store = open_store(clock=clock, schedule_messages=True)
    wait_until(lambda: bodies(store) == [b"body"])


def test_times_that_4_9_3_dispatched_are_found_in_the_records(
    open_store: Opener, clock: HandClock, tmp_path: Path
) -> None:
    store = open_store(clock=clock)
    for number in range(3):
        store.put("orders", b"%d" % number, tags="T", queue_id=0, deliver_at=clock.now_ms + 3 - number)
    store.close()
    (tmp_path / "store" / "consumequeue").rename(tmp_path / "queues")
    with open_store(clock=clock, compat=True) as compat:  # dispatches as 4.9.3 does
        assert [unit[2] for unit in compat._units(TIMED_TOPIC, 0, 0, 3)] == [ord("T")] * 3
    store = open_store(clock=clock)
    clock.now_ms += 2
    assert deliver_now(store) == 2
    assert bodies(store) == [b"2", b"1"]


def test_a_time_is_found_without_the_extension_that_has_it(open_store: Opener, clock: HandClock) -> None:
    extension = {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 4096}
    store = open_store(clock=clock, **extension)
    store.put("orders", b"timed", queue_id=0, deliver_at=clock.now_ms + HOUR)
    store.put("orders", b"delayed", queue_id=0, delay_time_level=1)
    store.close()
    store = open_store(clock=clock)
    assert deliver_now(store) == 0
    assert store._engine.deliver_delayed([(1, 0)], 10) == [(1, 0, 0, clock.now_ms + 1000, [], None)]
    assert store._timed_waiting() == (1, clock.now_ms + HOUR)


def test_a_queue_that_was_removed_begins_anew(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, schedule_messages=True)
    for body in (b"one", b"two"):
        store.put("orders", body, queue_id=0, deliver_at=clock.now_ms + 1)
    clock.now_ms += 1
    wait_until(lambda: len(store.topic("orders")) == 2)
    assert store.clean_unused_topic({"orders"}) == 0
    service_of(store, TimedMessageService).persist()
    store.close()
    store = open_store(clock=clock)
    store._destroy_queue(TIMED_TOPIC, 0)
    store.put("orders", b"three", queue_id=0, deliver_at=clock.now_ms + 1)
    store.put("orders", b"four", queue_id=0, deliver_at=clock.now_ms + 1)
    store.close()
    clock.now_ms += 1
    store = open_store(clock=clock, schedule_messages=True)
    wait_until(lambda: len(store.topic("orders")) == 4)
    wait_for_passes(service_of(store, TimedMessageService))
    assert bodies(store) == [b"one", b"two", b"three", b"four"]


def test_delivered_messages_go_to_further_queues(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, schedule_messages=True, enable_lmq=True, enable_multi_dispatch=True)
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}
    store.put("orders", b"body", queue_id=0, deliver_at=clock.now_ms + 1, properties=properties)
    assert store.topic("%LMQ%a").queue_ids == []
    clock.now_ms += 1
    wait_until(lambda: len(store.topic("%LMQ%a")) == 1)
    assert store.topic("orders").queue(0)[0].properties["INNER_MULTI_QUEUE_OFFSET"] == "0,0"


def test_the_topic_is_known_as_others_are(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock)
    store.put("orders", b"", deliver_at=clock.now_ms + 1)
    table = json.loads((store.path / "config" / "topics.json").read_text())["topicConfigTable"]
    assert table[TIMED_TOPIC]["writeQueueNums"] == 2
    assert set(table) == {"orders", TIMED_TOPIC}


@pytest.mark.parametrize("put", ["put", "put_many", "put_many each", "arrow", "arrow rows"])
def test_the_topic_is_known_whichever_way_a_time_is_said(open_store: Opener, clock: HandClock, put: str) -> None:
    """As a property, which messages have that come from somewhere else."""
    store = open_store(clock=clock)
    given, table = {DELIVER_AT: str(clock.now_ms + 1)}, pa.table({"body": ["a"]})
    match put:
        case "put":
            store.put("orders", b"", properties=given)
        case "put_many":
            store.put_many("orders", [b"", b""], properties=given)
        case "put_many each":
            store.put_many("orders", [b"", b""], properties=[{}, given])
        case "arrow":
            store.put_arrow(table, topic="orders", properties=given)
        case _:
            rows = pa.array([[], None, list(given.items())], pa.map_(pa.string(), pa.string()))
            store.put_arrow(pa.table({"body": ["a", "b", "c"], "properties": rows}), topic="orders")
    assert len(store.topic(TIMED_TOPIC)) > 0
    known = json.loads((store.path / "config" / "topics.json").read_text())["topicConfigTable"]
    assert known[TIMED_TOPIC]["writeQueueNums"] == 2


def test_roles_change_while_messages_wait(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, schedule_messages=True, **NEVER)
    for number in range(4):
        store.put("orders", b"%d" % number, queue_id=0, deliver_at=clock.now_ms + 1 + number)
    clock.now_ms += 2
    wait_until(lambda: len(store.topic("orders")) == 2)
    store.handle_schedule_message_service("SLAVE")
    clock.now_ms += 2
    assert not [
        service for service in store._services if "MessageService" in service.name and "Reput" not in service.name
    ]
    assert len(store.topic("orders")) == 2
    store.handle_schedule_message_service("SYNC_MASTER")
    wait_until(lambda: len(store.topic("orders")) == 4)
    wait_for_passes(service_of(store, TimedMessageService))
    assert bodies(store) == [b"%d" % number for number in range(4)]


def test_a_role_changes_though_offsets_cannot_be_written(
    open_store: Opener, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(clock=clock, schedule_messages=True, messageDelayLevel="1s", **NEVER)
    kinds = (ScheduleMessageService, TimedMessageService)

    def refuse(_self: object) -> None:
        raise mqstore.StoreIOError("no space left")

    with monkeypatch.context() as full:
        full.setattr(ScheduleMessageService, "persist", refuse)
        with pytest.raises(mqstore.StoreIOError, match="no space"):
            store.handle_schedule_message_service("SLAVE")
    assert not [service for service in store._services if isinstance(service, kinds)]
    store.handle_schedule_message_service("SYNC_MASTER")
    assert [type(service) for service in store._services if isinstance(service, kinds)] == list(kinds)
