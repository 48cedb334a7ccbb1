"""What is deleted, when, and what is kept."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore import MessageExtBrokerInner, PutMessageStatus, Retention
from tests.store.aging import HOUR, Clock, fill, log_files, names_in
from tests.store.conftest import Opener
from tests.waiting import wait_until

STORE_TIMESTAMP_AT = 56


@pytest.fixture
def disk() -> dict[str, float]:
    """How full the disks are: of the log, and of the rest."""
    return {"log": 0.5, "rest": 0.5}


@pytest.fixture
def usage(disk: dict[str, float]) -> Callable[[str], float]:
    """Reads them."""
    return lambda folder: disk["log" if folder.endswith("commitlog") else "rest"]


def clean(store: mqstore.MessageStore) -> None:
    """One pass of the service, without its waits."""
    store._cleaner.clean(lambda _ms: None)


def test_files_go_at_their_hour_when_they_are_old_enough(
    open_store: Opener, clock: Clock, usage: Callable[[str], float]
) -> None:
    store = open_store(clock=clock, retention=False, fileReservedTime=24)
    store._cleaner._disk_usage = usage
    fill(store, 2)
    clock.now_ms += HOUR
    fill(store, 2)
    assert log_files(store) == [0, 1, 2, 3, 4]
    clock.now_ms += 23 * HOUR  # 02:00: the first is old enough, and it is not the hour
    clean(store)
    assert log_files(store) == [0, 1, 2, 3, 4]
    clock.now_ms += 2 * HOUR - 24 * HOUR
    clean(store)
    assert log_files(store) == [0, 1, 2, 3, 4]  # the hour, and nothing is old enough
    clock.now_ms += 24 * HOUR
    clean(store)
    assert log_files(store) == [4]  # the last stays whatever its age
    queue = store.topic("t").queue(0)
    assert store.get_min_phy_offset() == 4 * 65_536
    assert queue[queue.min_offset].commit_log_offset == 4 * 65_536
    assert queue.min_offset > 0
    kept = [message.commit_log_offset for message in store.query_message("t", "k", 10_000)]
    assert kept
    assert min(kept) == 4 * 65_536


def test_queue_and_index_files_go_behind_those_of_the_log(open_store: Opener, clock: Clock, tmp_path: Path) -> None:
    store = open_store(clock=clock, fileReservedTime=1)
    fill(store, 6)
    store._reput()
    store.flush()  # the newest queue file stays, and which one that is hangs on how much is written
    queue_files = tmp_path / "store" / "consumequeue" / "t" / "0"
    before = (len(names_in(queue_files)), len(names_in(tmp_path / "store" / "index")))
    clock.now_ms += 2 * HOUR
    store.put("t", b"last", queue_id=0, keys="k")
    assert store.execute_delete_files_manually() == 6
    first = store.topic("t").queue(0).min_offset
    assert min(int(name) for name in names_in(queue_files)) == first * 20 // 1000 * 1000
    after = (len(names_in(queue_files)), len(names_in(tmp_path / "store" / "index")))
    assert after[0] < before[0]
    assert after[1] < before[1]
    found = [bytes(message.body) for message in store.topic("t").queue(0)]
    store.close()
    # The same after the store is opened again, and after everything derived is built again.
    reopened = open_store(clock=clock)
    assert [bytes(message.body) for message in reopened.topic("t").queue(0)] == found
    assert reopened.topic("t").queue(0).min_offset == first


def test_slices_outlive_their_file(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock, fileReservedTime=0)
    store.put("t", b"in hand", queue_id=0)
    message = store.topic("t").queue(0)[0]
    body = message.body
    fill(store, 2)
    assert store.execute_delete_files_manually() == 2
    assert store.get_message("t", 0, 0).status == "OFFSET_TOO_SMALL"
    assert bytes(body) == b"in hand"
    assert bytes(message.body) == b"in hand"


def test_readers_go_on_while_files_go(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock, fileReservedTime=0, mappedFileSizeConsumeQueue=200)
    failed: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for message in store.select("t"):
                    assert len(message.body) == 900
        except BaseException as error:
            failed.append(error)

    reader = threading.Thread(target=read)
    fill(store, 3)
    reader.start()
    for _ in range(15):
        fill(store, 1)
        store.execute_delete_files_manually()
    done.set()
    reader.join()
    assert failed == []
    assert store.rejected_count == 0


def test_a_full_disk_is_a_status_and_ends_by_itself(
    open_store: Opener, disk: dict[str, float], usage: Callable[[str], float]
) -> None:
    given: dict[str, Any] = {"cleanResourceInterval": 1, "fileReservedTime": 72}
    store = open_store(retention=Retention(disk_usage=usage), **given)
    message = MessageExtBrokerInner(topic="t", body=b"body")
    disk["log"] = 0.91
    wait_until(lambda: store.put_message(message).status is PutMessageStatus.SERVICE_NOT_AVAILABLE)
    with pytest.raises(mqstore.ServiceNotAvailableError):
        store.put("t", b"body")
    disk["log"] = 0.9
    wait_until(lambda: store.put_message(message).status is PutMessageStatus.PUT_OK)


def test_one_full_disk_of_two_is_enough(
    store: mqstore.MessageStore, disk: dict[str, float], usage: Callable[[str], float]
) -> None:
    store._cleaner._disk_usage = usage
    disk["log"] = 0.95
    assert store._cleaner.check_disk() == (True, True)
    assert store.put_message(MessageExtBrokerInner(topic="t")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    disk |= {"log": 0.2, "rest": 0.95}
    assert store._cleaner.check_disk() == (True, True)
    assert store.put_message(MessageExtBrokerInner(topic="t")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    disk["rest"] = 0.8
    assert store._cleaner.check_disk() == (True, False)
    disk["rest"] = 0.75
    assert store._cleaner.check_disk() == (False, False)
    assert store.put_message(MessageExtBrokerInner(topic="t")).status is PutMessageStatus.PUT_OK


def test_a_disk_on_which_no_file_is_made_has_no_room_for_the_log(open_store: Opener, tmp_path: Path) -> None:
    own, old = tmp_path / "own", tmp_path / "old"
    given: dict[str, Any] = {"storePathCommitLog": f"{own},{old}", "readOnlyCommitLogStorePaths": str(old)}
    for compat in (False, True):
        store = open_store(retention=False, compat=compat, **given)
        store._cleaner._disk_usage = lambda folder: 0.95 if folder == str(own) else 0.2
        assert store._cleaner.check_disk() == ((False, False) if compat else (True, True))
        store.close()


def test_a_disk_that_cannot_be_read_costs_nothing(open_store: Opener, clock: Clock) -> None:
    def unreadable(folder: str) -> float:
        raise OSError(folder)

    store = open_store(clock=clock, fileReservedTime=0)
    store._cleaner._disk_usage = unreadable
    fill(store, 2)
    with pytest.raises(OSError, match="commitlog"):
        clean(store)
    assert log_files(store) == [0, 1, 2]


def test_a_disk_that_fills_costs_what_has_expired_and_then_the_oldest(
    open_store: Opener, clock: Clock, disk: dict[str, float], usage: Callable[[str], float]
) -> None:
    store = open_store(clock=clock, fileReservedTime=24)
    store._cleaner._disk_usage = usage
    fill(store, 1)
    clock.now_ms += 25 * HOUR  # 03:00
    fill(store, 12)
    disk["log"] = 0.76
    clean(store)
    assert log_files(store)[0] == 1  # of the first file all is a day old; the next holds newer ones
    disk["log"] = 0.86
    clean(store)
    assert log_files(store) == [11, 12, 13]  # ten a pass
    store.close()
    store = open_store(clock=clock, cleanFileForciblyEnable=False)
    store._cleaner._disk_usage = usage
    clean(store)
    assert len(log_files(store)) == 3


def test_the_disk_is_used_as_far_as_is_asked_and_messages_are_taken(
    open_store: Opener, clock: Clock, disk: dict[str, float], usage: Callable[[str], float]
) -> None:
    """An option that many a ``broker.conf`` has larger than those that are not in it."""
    for most, full_at in ((88, 0.89), (95, 0.91)):
        store = open_store(f"to {most}", clock=clock, diskMaxUsedSpaceRatio=most)
        store._cleaner._disk_usage = usage
        fill(store, 12)
        disk["log"] = 0.87
        clean(store)
        assert log_files(store)[0] == 0
        disk["log"] = full_at
        clean(store)
        assert log_files(store)[0] == 10


def test_a_file_that_cannot_be_removed_stays_and_is_tried_again(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock, fileReservedTime=0, redeleteHangedFileInterval=0)
    fill(store, 2)
    first = store.path / "commitlog" / "00000000000000000000"
    store.topic("t").queue(0)[0]
    first.rename(store.path / "aside")
    first.mkdir()
    with pytest.raises(mqstore.StoreIOError, match="remove"):
        store.execute_delete_files_manually()
    assert store.get_min_phy_offset() == 0
    assert len(store.topic("t").queue(0)[0].body) == 900
    first.rmdir()
    (store.path / "aside").rename(first)
    assert store.execute_delete_files_manually() == 2


def test_queues_without_messages_are_removed_when_asked_for(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock, fileReservedTime=0)
    store.put("gone", b"first", queue_id=3)
    store.put("delayed", b"", delay_time_level=1)
    clock.now_ms += 1000
    fill(store, 2)
    store.execute_delete_files_manually()
    assert store.topic("gone").queue_ids == [3]
    assert store.clean_expired_consume_queue() == 1
    assert not (store.path / "consumequeue" / "gone").exists()
    assert (store.path / "consumequeue" / "SCHEDULE_TOPIC_XXXX").exists()
    assert store.put("gone", b"again", queue_id=3).logics_offset == 0
    assert [bytes(message.body) for message in store.topic("gone")] == [b"again"]


def test_queues_of_transactions_go_on_where_they_are(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock, fileReservedTime=1, transactionTimeOut=0)
    for _ in range(5):
        with store.transaction() as transaction:
            transaction.put("orders", b"ended", queue_id=0)
    clock.now_ms += 1
    assert store.check_transactions(lambda _message: mqstore.LocalTransactionState.UNKNOW) == 0
    fill(store, 2)
    clock.now_ms += 2 * HOUR
    fill(store, 1)
    assert store.execute_delete_files_manually() > 0
    assert store.clean_expired_consume_queue() == 1  # the one of orders
    store.transaction().put("orders", b"in doubt", queue_id=0)
    store.close()
    store = open_store(clock=clock, transactionTimeOut=0)
    clock.now_ms += 1
    assert store.check_transactions(lambda _message: mqstore.LocalTransactionState.COMMIT_MESSAGE) == 1
    assert [bytes(message.body) for message in store.topic("orders")] == [b"in doubt"]


def test_topics_nobody_uses_are_removed_when_asked_for(open_store: Opener) -> None:
    store = open_store(enable_lmq=True, enable_multi_dispatch=True)
    store.transaction().put("used", b"in doubt", queue_id=0, born_timestamp=store.now() - 60_000)
    for topic in ("used", "unused", "RMQ_SYS_TRANS_OP_HALF_TOPIC"):
        store.put(topic, b"", queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    store.put("used", b"", delay_time_level=1)
    with pytest.raises(TypeError, match=r"topics=.*: expected the names of several topics, found str"):
        store.clean_unused_topic("used")
    assert store.clean_unused_topic({"used": 1, "never there": 2}.keys()) == 1
    system = ["RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"]
    assert store.topics() == ["%LMQ%a", *system, "used"]
    wait_until(lambda: store.check_transactions(lambda _message: mqstore.LocalTransactionState.UNKNOW) == 1)


def test_what_topics_take(store: mqstore.MessageStore) -> None:
    for number in range(120):
        store.put("a", bytes(number), queue_id=number % 2)
    store.put("b", b"alone", queue_id=0)
    store._reput()
    store.flush()
    a, b = store.topic_usage()
    sizes = [message.store_size for message in store.select("a")]
    assert (a.topic, a.queue_count, a.message_count, a.log_size) == ("a", 2, 120, sum(sizes))
    assert a.queue_size == 4 * 1000
    assert (b.topic, b.message_count, b.queue_size) == ("b", 1, 1000)


def test_nothing_is_deleted_unless_it_is_asked_for(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock, fileReservedTime=0, deleteWhen=";".join(map(str, range(24))))
    fill(store, 2)
    assert "CleanFilesService" not in {service.name for service in store._services}
    with pytest.raises(mqstore.OptionError, match='expected "rw", which retention is for'):
        open_store(mode="r", retention=True)
    store.close()
    with open_store(mode="r") as reader, pytest.raises(mqstore.ReadOnlyError):
        reader.execute_delete_files_manually()
    store = open_store(clock=clock, fileReservedTime=0, deleteWhen=";".join(map(str, range(24))), retention=True)
    wait_until(lambda: log_files(store) == [2])


@pytest.mark.parametrize("given", [{"deleteWhen": "24"}, {"deleteWhen": "4;x"}, {"diskMaxUsedSpaceRatio": 101}])
def test_options_that_cannot_be(open_store: Opener, given: dict[str, Any]) -> None:
    with pytest.raises(mqstore.OptionError):
        open_store(**given)


def test_a_store_is_not_full_before_space_is_made(open_store: Opener) -> None:
    expected = (
        r"diskSpaceWarningLevelRatio=80: expected at least diskSpaceCleanForciblyRatio, 85: .* cleanFileForciblyEnable"
    )
    with pytest.raises(mqstore.OptionError, match=expected):
        open_store(diskSpaceWarningLevelRatio=80)
    open_store("equal", diskSpaceWarningLevelRatio=85)
    open_store("nothing goes before its time", diskSpaceWarningLevelRatio=80, cleanFileForciblyEnable=False)


@pytest.mark.parametrize("damage", [{0: 0x7F}, {2: 0x01}, {2: 0x02}], ids=["later", "earlier", "much later"])
def test_a_damaged_time_makes_no_file_older(open_store: Opener, clock: Clock, damage: dict[int, int]) -> None:
    """No checksum covers the time of the message that says how old the file before is."""
    store = open_store(clock=clock, fileReservedTime=1)
    fill(store, 1)
    store.close()
    with (store.path / "commitlog" / f"{65_536:020}").open("r+b") as log:
        for at, bits in damage.items():
            log.seek(STORE_TIMESTAMP_AT + at)
            (byte,) = log.read(1)
            log.seek(STORE_TIMESTAMP_AT + at)
            log.write(bytes([byte ^ bits]))
    store = open_store(clock=clock, fileReservedTime=1)
    assert log_files(store) == [0, 1]
    assert store.execute_delete_files_manually() == 0
    clock.now_ms += 2 * HOUR
    assert store.execute_delete_files_manually() == 1


def test_what_was_imported_with_its_times_takes_nothing_recent_along(tmp_path: Path) -> None:
    now_ms = 1_700_000_000_000
    old_ms = now_ms - 8 * 24 * 3_600_000
    with mqstore.open(tmp_path / "old", "rw", clock=lambda: old_ms) as old:
        for _ in range(5):
            old.put("old", bytes(100), queue_id=0)
        history = bytes(old.get_commit_log_data(0))[: old.get_max_phy_offset()]
    clock = [now_ms]
    with mqstore.open(tmp_path / "store", "rw", clock=lambda: clock[0], mappedFileSizeCommitLog=4096) as store:
        for _ in range(18):
            store.put("t", bytes(80), queue_id=0)
        for _ in range(8):
            store._append_encoded(history, keep_times=True, keep_offsets=False)
        store.flush()
        assert store.execute_delete_files_manually() == 0
        assert store.execute_delete_files_manually() == 0
        assert len(store.topic("t").queue(0)) == 18
        clock[0] += 73 * 3_600_000
        store.put("t", b"x", queue_id=0)
        assert store.execute_delete_files_manually() > 0
