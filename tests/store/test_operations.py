"""4.9.3's operations on a running store."""

import re
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.services import ScheduleMessageService, StoreStatsService
from tests.store.conftest import Opener
from tests.waiting import wait_until

TABLE = Path(__file__).parents[2] / "docs" / "operations.md"


def test_every_operation_of_the_table_is_there(store: mqstore.MessageStore) -> None:
    text = TABLE.read_text(encoding="utf-8")
    names = re.findall(r"`store\.((?:aio\.)?\w+)", text)
    assert len(set(names)) > 40
    for name in names:
        holder, _, method = name.rpartition(".")
        assert hasattr(getattr(store, holder) if holder else store, method), name


def test_how_a_store_is(open_store: Opener) -> None:
    store = open_store(schedule_messages=True, messageDelayLevel="0s 1h")
    store.put("t", b"", delay_time_level=1)
    store.put("t", b"", delay_time_level=2)
    wait_until(lambda: "scheduleMessageOffset_1" in store.get_runtime_info())
    info = store.get_runtime_info()
    assert info["scheduleMessageOffset_1"] == "1,1"
    assert info["commitLogMinOffset"] == "0"
    assert info["commitLogMaxOffset"] == str(store.get_max_phy_offset())
    assert 0 < float(info["commitLogDiskRatio"]) <= 1
    assert f"commitLogMaxOffset: {info['commitLogMaxOffset']}\n" in store.get_running_data_info()
    store.put("t", b"", deliver_at=store.now() + 3_600_000)
    wait_until(lambda: store.get_runtime_info().get("timedMessageWaiting") == "1")


def test_a_store_has_run_since_it_was_opened_by_its_own_clock(open_store: Opener) -> None:
    now_ms = 1_700_000_000_000
    store = open_store(clock=lambda: now_ms)
    now_ms += 61_000
    info = store.get_runtime_info()
    assert info["bootTimestamp"] == "1700000000000"
    assert info["runtime"] == "[ 0 days, 0 hours, 1 minutes, 1 seconds ]"


def test_what_was_put_and_got_stands_there_as_4_9_3_has_it(store: mqstore.MessageStore) -> None:
    names = {line.partition(":")[0] for line in store.get_running_data_info().splitlines()}
    assert {"bootTimestamp", "runtime", "dispatchMaxBuffer", "getTotalTps", "putMessageAverageSize"} <= names
    assert store.get_runtime_info()["putTps"] == "  "
    assert store.get_runtime_info()["getTotalTps"] == "0.0 0.0 0.0"
    (service,) = [service for service in store._services if isinstance(service, StoreStatsService)]
    service.stop()
    service.join_stopped()
    service._samples.clear()
    samples = 61
    for number in range(samples):
        store.put("t", bytes(100), queue_id=0)
        store.get_message("t", 0, number, 1)
        store.get_message("t", 0, number + 1, 1)
        service.sample(store)
    info = store.get_runtime_info()
    (first, _), (last, _) = service._samples[0], service._samples[-1]
    ten, minute, ten_minutes = info["putTps"].split(" ")
    assert float(minute) == pytest.approx(60 / (last - first))
    assert float(ten) == pytest.approx(10 / (last - service._samples[-11][0]))
    assert ten_minutes == ""
    assert info["getFoundTps"] == info["getMissTps"] == info["getTransferedTps"] == info["putTps"]
    assert float(info["getTotalTps"].split(" ")[0]) == pytest.approx(2 * float(ten))
    assert (info["putMessageTimesTotal"], info["putMessageFailedTimes"]) == (str(samples), "0")
    assert int(info["putMessageSizeTotal"]) == store.get_max_phy_offset()
    assert float(info["putMessageAverageSize"]) == store.get_max_phy_offset() / samples
    assert sum(int(part.rpartition(":")[2]) for part in info["putMessageDistributeTime"].split()) == samples
    assert info["runtime"].startswith("[ 0 days, 0 hours, 0 minutes, ")


def test_what_came_by_midnight(open_store: Opener) -> None:
    now_ms = 1_780_000_000_000
    store = open_store(clock=lambda: now_ms)
    (service,) = [service for service in store._services if isinstance(service, StoreStatsService)]
    service.stop()
    service.join_stopped()
    for count in (2, 3, 4):
        store.put_many("t", [b""] * count, queue_id=0)
        store.get_message("t", 0, 0, 1)
        now_ms += 24 * 3_600_000
        service.sample(store)
        service.sample(store)
    now_ms -= 48 * 3_600_000
    service.sample(store)
    info = store.get_runtime_info()
    totals = [int(info[f"msgPutTotal{when}"]) for when in ("YesterdayMorning", "TodayMorning", "TodayNow")]
    assert totals == [5, 9, 9]
    assert [int(info[f"msgGetTotal{when}"]) for when in ("YesterdayMorning", "TodayMorning", "TodayNow")] == [2, 3, 3]
    assert store.figures().totals_at_midnight["msgPutTotalYesterdayMorning"] == 5


def test_what_can_be_asked(open_store: Opener) -> None:
    store = open_store(enable_lmq=True, enable_multi_dispatch=True)
    assert not store.is_os_page_cache_busy()
    assert not store.is_transient_store_pool_deficient()
    store.put_many("t", [bytes(900)] * 300, queue_id=0)
    end = store.get_max_phy_offset()
    assert store.reset_write_offset(end - 2 * 65_536)
    assert not store.reset_write_offset(end - 2 * 65_536 - 1)
    assert store.get_max_phy_offset() == end
    store.put("t", b"", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    assert "%LMQ%a" in store.topics()
    assert store.clean_unused_lmq_topic("%LMQ%a")
    assert not store.clean_unused_lmq_topic("%LMQ%a")
    assert "%LMQ%a" not in store.topics()


def test_delivery_stops_and_goes_on_with_the_role(open_store: Opener) -> None:
    store = open_store(schedule_messages=True, messageDelayLevel="0s")
    store.handle_schedule_message_service("SLAVE")
    store.handle_schedule_message_service("SLAVE")
    assert not [service for service in store._services if isinstance(service, ScheduleMessageService)]
    store.put("t", b"", delay_time_level=1)
    store.handle_schedule_message_service("ASYNC_MASTER")
    store.handle_schedule_message_service("SYNC_MASTER")
    wait_until(lambda: len(store.topic("t")) == 1)
    with pytest.raises(mqstore.OptionError):
        store.handle_schedule_message_service("MASTER")


def test_an_offset_that_cannot_be_is_one_that_is_not_there(store: mqstore.MessageStore) -> None:
    store.put("t", b"", queue_id=0)
    store.refresh()
    for offset in (-1, 1):
        assert store.get_message_store_time_stamp("t", 0, offset) == -1
        assert store.get_commit_log_offset_in_queue("t", 0, offset) == 0


def test_wrong_arguments_of_look_ups_are_named(store: mqstore.MessageStore) -> None:
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: store.query_message("t", "k", -1), ValueError, "max_num=-1: expected an integer from 0 to "),
        (lambda: store.query_message("t", "k", 1 << 70), ValueError, "max_num=1180591620717411303424: expected"),
        (lambda: store.query_message("t", "k", 1, 0, 1 << 70), ValueError, "end=1180591620717411303424: expected"),
        (lambda: store.query_message("t", "k", 1, "0"), TypeError, "begin='0': expected a datetime or milli"),  # type: ignore[arg-type]
        (lambda: store.query_messages("t", ["k"], -1), ValueError, "max_num=-1: expected"),
        (lambda: store.select("t").look_up_keys(["k"], max_num=-1), ValueError, "max_num=-1: expected"),
        (lambda: store.get_message("t", 0, 0, -1), ValueError, "max_msg_nums=-1: expected an integer from 0 to "),
        (
            lambda: store.get_message("t", 0, 0, subscription=3),  # type: ignore[arg-type]
            TypeError,
            "^subscription=3: expected tags, a string, or a SqlFilter, found int",
        ),
    ]
    for call, error, message in calls:
        with pytest.raises(error, match=message):
            call()
    assert store.query_message("t", "k", 0, -(1 << 63)) == []


def test_one_damaged_time_is_not_that_of_all_that_follows(tmp_path: Path) -> None:
    now_ms = 1_700_000_000_000
    with mqstore.open(tmp_path / "store", "rw", clock=lambda: now_ms) as store:
        offsets = [store.put("t", b"a", queue_id=0).wrote_offset or 0 for _ in range(3)]
    log_file = tmp_path / "store" / "commitlog" / f"{0:020}"
    with log_file.open("r+b") as file:
        file.seek(offsets[-1] + 56)
        damaged = int.from_bytes(file.read(8)) ^ 1 << 44
        file.seek(offsets[-1] + 56)
        file.write(damaged.to_bytes(8))
    for later in (10, 20):
        with mqstore.open(tmp_path / "store", "rw", clock=lambda: now_ms + later) as store:  # noqa: B023 - called here
            store.put("t", b"b", queue_id=0)
            times = [message.store_timestamp for message in store.topic("t").queue(0)]
            assert times[-1] == now_ms + later
            assert times[2] == damaged
    # A clock that was set back, and not one time that is damaged: times go on behind it.
    with mqstore.open(tmp_path / "back", "rw", clock=lambda: now_ms) as store:
        store.put_many("t", [b"a"] * 3, queue_id=0)
    with mqstore.open(tmp_path / "back", "rw", clock=lambda: now_ms - 1000) as store:
        store.put("t", b"b", queue_id=0)
        assert store.topic("t").queue(0)[3].store_timestamp == now_ms
