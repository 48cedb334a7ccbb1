"""A store's figures as values."""

from pathlib import Path

import pytest

import mqstore
from mqstore.store.figures import PUT_TIME_CLASSES
from tests.store.conftest import Opener
from tests.waiting import wait_until


def test_what_is_put_and_got_is_counted(store: mqstore.MessageStore) -> None:
    before = store.figures()
    for number in range(10):
        store.put("orders", b"%d" % number, queue_id=number % 2)
    store.put_many("orders", [b"a", b"b", b"c"], queue_id=0)
    batch = mqstore.MessageExtBatch(topic="orders", queue_id=1, messages=[(b"x", 0, {}), (b"y", 0, {})])
    assert store.put_messages(batch).msg_num == 2
    with pytest.raises(mqstore.MessageIllegalError):
        store.put("", b"no topic")
    assert len(store.get_message("orders", 0, 0).messages) == 8
    assert len(store.get_message("orders", 0, 8).messages) == 0
    after = store.figures()
    assert before.put_message_times_total == before.put_message_size_total == 0
    assert after.put_message_times_total == 15
    assert after.put_message_size_total == store.get_max_phy_offset()
    assert after.put_message_failed_times == 1
    assert tuple(after.put_message_distribute_time) == PUT_TIME_CLASSES
    assert sum(after.put_message_distribute_time.values()) == 12
    assert after.put_message_entire_time_max_us > 0
    assert (after.get_message_times_total_found, after.get_message_times_total_miss) == (1, 1)
    assert after.get_message_transfered_msg_count == 8
    queues = {queue.queue_id: queue for queue in after.queues}
    assert (queues[0].depth, queues[1].depth) == (8, 7)
    assert queues[0].dispatched_size + queues[1].dispatched_size == store.get_max_phy_offset()


def test_rates_are_differences_a_second(store: mqstore.MessageStore) -> None:
    store.put("orders", b"0", queue_id=0)
    store._reput()
    before = store.figures()
    for number in range(10):
        store.put("orders", b"%d" % number, queue_id=number % 2)
    store._reput()
    after = store.figures()
    seconds = after.taken_at - before.taken_at
    rates = after.rates_since(before)
    assert rates.put_tps == pytest.approx(10 / seconds)
    assert rates.queues["orders", 0].messages == pytest.approx(5 / seconds)
    # A queue that was not there before has no rate yet.
    assert ("orders", 1) not in rates.queues
    with pytest.raises(ValueError, match="not earlier"):
        before.rates_since(after)


def test_how_far_the_disk_and_the_queues_are_behind(open_store: Opener) -> None:
    intervals = ("flushIntervalCommitLog", "flushCommitLogThoroughInterval", "flushConsumeQueueThoroughInterval")
    store = open_store(**dict.fromkeys(intervals, 1_000_000))
    store.put("orders", b"body")
    wait_until(lambda: store.figures().dispatch_behind_bytes == 0)
    assert store.figures().remain_how_many_data_to_flush == store.get_max_phy_offset()
    store.flush()
    figures = store.figures()
    assert figures.remain_how_many_data_to_flush == 0
    assert not figures.is_os_page_cache_busy
    assert 0 < figures.disk_ratio < 1
    assert figures.earliest_message_time_ms > 0


def test_what_a_refused_call_has_stored_is_counted(open_store: Opener) -> None:
    store = open_store()
    room = store.options.mapped_file_size_commit_log
    with pytest.raises(mqstore.PutError):
        store.put_many("orders", [b"x", b"x", bytes(room)], queue_id=0)
    assert len(store.topic("orders").queue(0)) == 2
    figures = store.figures()
    assert (figures.put_message_times_total, figures.put_message_failed_times) == (2, 0)


def test_how_full_the_log_is_is_asked_of_its_own_disk(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()

    def used_ratio(folder: str) -> float:
        asked.append(folder)
        return len(asked) / 4

    store = open_store(storePathCommitLog=",".join(map(str, folders)))
    monkeypatch.setattr("mqstore.store.figures.disk_used_ratio", used_ratio)
    assert store.figures().disk_ratio == 0.25
    assert sorted(asked) == sorted(map(str, folders))
