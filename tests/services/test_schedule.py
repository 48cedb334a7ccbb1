"""Delayed messages."""

import shutil
import struct
from pathlib import Path

import pytest

import mqstore
from mqstore.services import ScheduleMessageService
from mqstore.store.config_delay_offset import DelayOffsetManager
from mqstore.verify import verify
from tests.services.conftest import HandClock
from tests.services.delivery import bodies, service_of, wait_for_passes
from tests.store.conftest import Opener
from tests.store_files import copy_store
from tests.waiting import wait_until

LEVELS = "1s 5s 1h"


def offsets_in(store: Path) -> dict[int, int]:
    """How far each level is, by the file."""
    return DelayOffsetManager(store / "config" / "delayOffset.json", lambda _path, _content: None).all()


def test_a_message_is_delivered_when_it_is_due(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, messageDelayLevel=LEVELS, schedule_messages=True)
    store.put("orders", b"later", queue_id=3, delay_time_level=2, tags="T", keys="K", flag=7)
    store.put("orders", b"sooner", queue_id=2, delay_time_level=1)
    clock.now_ms += 999
    wait_for_passes(service_of(store, ScheduleMessageService))
    assert bodies(store) == []
    clock.now_ms += 1
    wait_until(lambda: len(store.topic("orders")) == 1)
    clock.now_ms += 3999
    wait_for_passes(service_of(store, ScheduleMessageService))
    assert bodies(store) == [b"sooner"]
    clock.now_ms += 1
    assert store.wait_for_message("orders", 3, 0, timeout=60)
    message = store.topic("orders").queue(3)[0]
    assert (bytes(message.body), message.tags, message.keys, message.flag) == (b"later", "T", ("K",), 7)
    assert message.store_timestamp == clock.now_ms
    kept = {name: message.properties[name] for name in ("DELAY", "REAL_TOPIC", "REAL_QID")}
    assert kept == {"DELAY": "2", "REAL_TOPIC": "orders", "REAL_QID": "3"}
    assert store.query_message("orders", "K")[-1].topic == "orders"


def test_thousands_of_due_messages_drain_at_once(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, messageDelayLevel=LEVELS)
    for number in range(3000):
        store.put("orders", b"%d" % number, queue_id=0, delay_time_level=1 + number % 2)
    store.close()
    clock.now_ms += 5000
    store = open_store(clock=clock, messageDelayLevel=LEVELS, schedule_messages=True)
    wait_until(lambda: store.topic("orders").queue(0).max_offset == 3000)
    found = [int(body) for body in bodies(store)]
    assert [number for number in found if number % 2 == 0] == list(range(0, 3000, 2))
    assert [number for number in found if number % 2] == list(range(1, 3000, 2))
    # A pass says how far it is behind what it has delivered.
    wait_until(lambda: service_of(store, ScheduleMessageService).offset_table == {1: 1500, 2: 1500})


def test_a_pass_delivers_a_batch_of_each_level(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, messageDelayLevel=LEVELS)
    for number in range(100):
        store.put("orders", b"%d" % number, delay_time_level=1 + number % 2)
    clock.now_ms += 1000
    store._reput()
    assert store._engine.deliver_delayed([(1, 0), (2, 0), (7, 3)], 30) == [
        (1, 30, 30, None, [], None),
        (2, 0, 0, clock.now_ms + 4000, [], None),
        (7, 3, 0, None, [], None),
    ]
    # An offset that the queue does not have is moved into it.
    assert store._engine.deliver_delayed([(1, 1000)], 30) == [(1, 50, 0, None, [], None)]


def test_nothing_comes_twice_after_a_restart(open_store: Opener, clock: HandClock, tmp_path: Path) -> None:
    given = {"clock": clock, "messageDelayLevel": LEVELS, "schedule_messages": True}
    store = open_store(**given)
    for number in range(10):
        store.put("orders", b"%d" % number, queue_id=0, delay_time_level=1)
    clock.now_ms += 1000
    wait_until(lambda: len(store.topic("orders")) == 10)
    store.put("orders", b"last", queue_id=0, delay_time_level=1)
    store.close()
    assert offsets_in(tmp_path / "store") == {1: 10}
    store = open_store(**given)
    clock.now_ms += 1000
    wait_until(lambda: len(store.topic("orders")) == 11)
    wait_for_passes(service_of(store, ScheduleMessageService))
    assert bodies(store) == [*(b"%d" % number for number in range(10)), b"last"]


def test_a_crash_repeats_what_was_delivered_since_the_offset_was_written(
    open_store: Opener, clock: HandClock, tmp_path: Path
) -> None:
    given = {"clock": clock, "messageDelayLevel": LEVELS, "schedule_messages": True}
    store = open_store(**given, flush_delay_offset_interval=0)
    for number in range(4):
        store.put("orders", b"%d" % number, queue_id=0, delay_time_level=1)
    clock.now_ms += 1000
    wait_until((tmp_path / "store" / "config" / "delayOffset.json").exists)
    wait_until(lambda: offsets_in(tmp_path / "store") == {1: 4})
    written = (tmp_path / "store" / "config" / "delayOffset.json").read_bytes()
    for number in range(4, 7):
        store.put("orders", b"%d" % number, queue_id=0, delay_time_level=1)
    clock.now_ms += 1000
    wait_until(lambda: len(store.topic("orders")) == 7)
    # No file is replaced any more while the store is copied.
    wait_until(lambda: offsets_in(tmp_path / "store") == {1: 7})
    store.flush()
    crashed = copy_store(tmp_path / "store", tmp_path / "crashed")
    (crashed / "config" / "delayOffset.json").write_bytes(written)
    store.close()
    store = open_store("crashed", **given)
    wait_until(lambda: len(store.topic("orders")) == 10)
    wait_for_passes(service_of(store, ScheduleMessageService))
    assert bodies(store) == [b"%d" % number for number in [*range(7), *range(4, 7)]]


def test_offsets_are_written_behind_the_flush_of_what_they_say(
    open_store: Opener, clock: HandClock, tmp_path: Path
) -> None:
    # The log is flushed by nobody else.
    quiet = {
        "flush_interval_commit_log": 600_000,
        "flush_commit_log_thorough_interval": 600_000,
        "flush_interval_consume_queue": 600_000,
        "flush_delay_offset_interval": 600_000,
    }
    store = open_store(clock=clock, messageDelayLevel=LEVELS, schedule_messages=True, **quiet)
    store.put("orders", b"body", delay_time_level=1)
    clock.now_ms += 1000
    wait_until(lambda: len(store.topic("orders")) == 1)
    service = service_of(store, ScheduleMessageService)
    # What is delivered is there before its pass says so.
    wait_for_passes(service)
    end = store.get_max_phy_offset()
    assert store.get_flushed_where() < end
    service.persist()
    assert store.get_flushed_where() == end
    assert offsets_in(tmp_path / "store") == {1: 1}


def test_what_cannot_be_delivered_keeps_nobody_waiting(
    open_store: Opener, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(clock=clock, messageDelayLevel=LEVELS, schedule_messages=True)
    bad = mqstore.MessageExtBrokerInner(topic="SCHEDULE_TOPIC_XXXX", queue_id=0, body=b"to nowhere")
    store.put_message(bad)
    store.put("orders", b"good", delay_time_level=1)
    clock.now_ms += 1000
    wait_until(lambda: len(store.topic("orders")) == 1)
    wait_for_passes(service_of(store, ScheduleMessageService))
    told = [record.getMessage() for record in caplog.records if "cannot be delivered" in record.getMessage()]
    assert len(told) == 1
    assert "it has no REAL_TOPIC" in told[0]
    assert bodies(store, "SCHEDULE_TOPIC_XXXX") == [b"to nowhere", b"good"]


def test_a_store_that_takes_no_messages_loses_none(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, messageDelayLevel=LEVELS, schedule_messages=True)
    store.put("orders", b"body", delay_time_level=1)
    store._engine.make_logics_queue_error("no space")
    clock.now_ms += 1000
    wait_until(lambda: bool(service_of(store, ScheduleMessageService)._waiting))
    assert service_of(store, ScheduleMessageService).offset_table == {}
    store.close()
    store = open_store(clock=clock, messageDelayLevel=LEVELS, schedule_messages=True)
    wait_until(lambda: bodies(store) == [b"body"])


def test_a_clock_that_was_set_back_keeps_nothing_back(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, messageDelayLevel=LEVELS, schedule_messages=True)
    store.put("orders", b"an hour", queue_id=0, delay_time_level=3)
    clock.now_ms -= 24 * 3_600_000
    store.put("orders", b"a second", queue_id=0, delay_time_level=1)
    # Both are due farther away than their levels allow: one was born in what is the future now.
    wait_until(lambda: len(store.topic("orders")) == 1)
    clock.now_ms += 999
    wait_for_passes(service_of(store, ScheduleMessageService))
    assert bodies(store) == [b"an hour"]
    clock.now_ms += 1
    wait_until(lambda: len(store.topic("orders")) == 2)
    assert sorted(bodies(store)) == [b"a second", b"an hour"]


def test_a_delay_counts_though_the_log_is_ahead_of_the_clock(open_store: Opener, clock: HandClock) -> None:
    ahead = open_store("ahead", clock=lambda: clock.now_ms + 120_000)
    ahead.put("orders", b"of a broker whose clock is ahead", queue_id=0)
    store = open_store(clock=clock, messageDelayLevel=LEVELS, schedule_messages=True)
    store.append_records(list(ahead.select("orders")), keep_times=True)
    store.put("orders", b"a second", queue_id=0, delay_time_level=1)
    wait_for_passes(service_of(store, ScheduleMessageService))
    clock.now_ms += 999
    wait_for_passes(service_of(store, ScheduleMessageService))
    assert len(store.topic("orders")) == 1
    clock.now_ms += 1
    wait_until(lambda: len(store.topic("orders")) == 2)


def test_a_delay_longer_than_the_log_is_ahead_counts_from_the_clock(
    open_store: Opener, clock: HandClock, tmp_path: Path
) -> None:
    given = {"clock": clock, "messageDelayLevel": LEVELS, "schedule_messages": True}
    store = open_store(**given)
    store.put("orders", b"before the clock is set back")
    clock.now_ms -= 3000
    put = store.put("orders", b"five seconds", delay_time_level=2)
    assert put.store_timestamp == clock.now_ms + 3000
    store.close()
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    store = open_store(**given)
    clock.now_ms += 4999
    wait_for_passes(service_of(store, ScheduleMessageService))
    assert len(store.topic("orders")) == 1
    clock.now_ms += 1
    wait_until(lambda: len(store.topic("orders")) == 2)
    assert verify(tmp_path / "store")[1] == []
    assert set(list(store.topic("orders"))[1].properties) == {"DELAY", "REAL_TOPIC", "REAL_QID", "UNIQ_KEY"}


def test_a_due_time_that_a_recovery_of_4_9_3_lost_is_found_again(
    open_store: Opener, clock: HandClock, tmp_path: Path
) -> None:
    store = open_store(clock=clock, messageDelayLevel=LEVELS)
    store.put("orders", b"body", tags="T", delay_time_level=2)
    store.close()
    (units,) = (tmp_path / "store" / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "1").iterdir()
    with units.open("r+b") as file:
        file.seek(12)
        assert struct.unpack(">q", file.read(8)) == (clock.now_ms + 5000,)
        file.seek(12)
        file.write(struct.pack(">q", ord("T")))
    store = open_store(clock=clock, messageDelayLevel=LEVELS, schedule_messages=True)
    clock.now_ms += 4999
    wait_for_passes(service_of(store, ScheduleMessageService))
    assert bodies(store) == []
    clock.now_ms += 1
    wait_until(lambda: bodies(store) == [b"body"])


def test_damaged_offsets_give_way_to_those_before(open_store: Opener, clock: HandClock, tmp_path: Path) -> None:
    given = {"clock": clock, "messageDelayLevel": LEVELS, "schedule_messages": True}
    store = open_store(**given)
    for count in (1, 2):
        store.put("orders", b"body", delay_time_level=1)
        clock.now_ms += 1000
        wait_until(lambda count=count: service_of(store, ScheduleMessageService).offset_table == {1: count})  # type: ignore[misc]
        service_of(store, ScheduleMessageService).persist()
    store.close()
    path = tmp_path / "store" / "config" / "delayOffset.json"
    path.write_bytes(path.read_bytes()[:-9])
    store = open_store(**given)
    wait_until(lambda: len(store.topic("orders")) == 3)
    store.close()
    for damaged in (path, path.with_name("delayOffset.json.bak")):
        damaged.write_text('{"offsetTable":{1:-2}}')
    with pytest.raises(mqstore.MQStoreError, match="expected a delay level and its offset"):
        open_store(**given)
    # What refused to open left the store to others.
    shutil.rmtree(path.parent)
    assert len(open_store().topic("orders")) == 3


def test_messages_wait_where_delivery_is_not_asked_for(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, messageDelayLevel=LEVELS)
    store.put("orders", b"body", delay_time_level=1)
    clock.now_ms += 10_000
    assert not [service for service in store._services if isinstance(service, ScheduleMessageService)]
    assert bodies(store) == []
    with pytest.raises(mqstore.OptionError, match='expected "rw", which schedule_messages is for'):
        open_store(mode="r", schedule_messages=True)


def test_delivered_messages_go_to_further_queues(open_store: Opener, clock: HandClock) -> None:
    store = open_store(
        clock=clock,
        messageDelayLevel=LEVELS,
        schedule_messages=True,
        enable_lmq=True,
        enable_multi_dispatch=True,
    )
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}
    store.put("orders", b"body", queue_id=0, delay_time_level=1, properties=properties)
    clock.now_ms += 1000
    wait_until(lambda: len(store.topic("orders")) == 1)
    found = store.topic("orders").queue(0)[0].properties
    assert found["INNER_MULTI_QUEUE_OFFSET"] == "0,0"
    assert "DELAY" not in found
    assert len(store.topic("%LMQ%a").queue(0)) == 1


def test_what_offsets_say_is_in_the_files_before_them(open_store: Opener, clock: HandClock, tmp_path: Path) -> None:
    # What the pool holds is committed by nobody else.
    pool = {"transient_store_pool_enable": True, "transient_store_pool_size": 2, "commit_interval_commit_log": 600_000}
    given = {"clock": clock, "messageDelayLevel": LEVELS, "schedule_messages": True}
    store = open_store(**given, **pool, flush_delay_offset_interval=600_000)
    store.put("orders", b"body", queue_id=0, delay_time_level=1)
    store._engine.commit(0)
    clock.now_ms += 1000
    wait_until(lambda: service_of(store, ScheduleMessageService).offset_table == {1: 1})
    service_of(store, ScheduleMessageService).persist()
    killed = copy_store(tmp_path / "store", tmp_path / "killed")
    assert offsets_in(killed) == {1: 1}
    store.close()
    assert bodies(open_store("killed", **given)) == [b"body"]


@pytest.mark.parametrize("compat", [False, True])
def test_a_delayed_message_comes_to_no_delayed_topic(open_store: Opener, clock: HandClock, *, compat: bool) -> None:
    """Once it was due it would come back there, delayed as before, for ever."""
    store = open_store(clock=clock, compat=compat)
    with pytest.raises(mqstore.MessageIllegalError, match="SCHEDULE_TOPIC_XXXX"):
        store.put("SCHEDULE_TOPIC_XXXX", b"again", properties={"DELAY": "1"})
    assert store.get_max_phy_offset() == 0


def test_a_level_that_there_is_no_more_is_the_last_one(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, messageDelayLevel="1s 2s 1h 2h")
    for level in (3, 4):
        store.put("orders", b"%d" % level, queue_id=0, delay_time_level=level)
    store.close()
    store = open_store(clock=clock, messageDelayLevel="1s 2s", schedule_messages=True)
    clock.now_ms += 1999
    wait_for_passes(service_of(store, ScheduleMessageService))
    assert bodies(store) == []
    clock.now_ms += 1
    wait_until(lambda: sorted(bodies(store)) == [b"3", b"4"])
    wait_until(lambda: service_of(store, ScheduleMessageService).offset_table == {3: 1, 4: 1})
    store.close()
    assert offsets_in(store.path) == {3: 1, 4: 1}


def test_what_is_put_where_the_log_was_cut_is_delivered(open_store: Opener, clock: HandClock) -> None:
    store = open_store(clock=clock, messageDelayLevel=LEVELS)
    store.put("orders", b"delivered", queue_id=0, delay_time_level=1)
    store.close()
    path = store.path / "config" / "delayOffset.json"
    # As a broker writes it whose log loses its end in a power cut.
    path.write_text('{"offsetTable":{1:3,2:1,3000000000:1}}')
    slave = open_store(clock=clock, messageDelayLevel=LEVELS, brokerRole="SLAVE")
    slave.close()
    assert offsets_in(store.path)[1] == 3  # its master's log is longer
    store = open_store(clock=clock, messageDelayLevel=LEVELS)
    assert offsets_in(store.path) == {1: 1, 2: 0, 3_000_000_000: 0}
    for number in range(5):
        store.put("orders", b"%d" % number, queue_id=0, delay_time_level=1)
    store.close()
    clock.now_ms += 1000
    store = open_store(clock=clock, messageDelayLevel=LEVELS, schedule_messages=True)
    wait_until(lambda: bodies(store) == [b"%d" % number for number in range(5)])


def test_damaged_delay_offsets_keep_no_store_closed(open_store: Opener) -> None:
    store = open_store()
    store.close()
    (store.path / "config").mkdir(exist_ok=True)
    (store.path / "config" / "delayOffset.json").write_text('{"offsetTable":{1:')
    open_store().close()
    with pytest.raises(mqstore.MQStoreError, match="delayOffset"):
        open_store(schedule_messages=True)
