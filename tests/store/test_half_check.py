"""Checks of prepared messages that are cut short, or come again to what others have done."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import mqstore
from mqstore import LocalTransactionState, Message
from mqstore.services import TransactionalMessageCheckService
from mqstore.store.half_messages import CHECK_MAX_TIME_TOPIC, FIRST_OFFSET, HALF_TOPIC, OP_TOPIC
from tests.store.conftest import Opener
from tests.store.test_transaction import COMMIT, ROLLBACK, UNKNOW, Clock, answers, bodies, clock
from tests.store_files import copy_store

__all__ = ["clock"]

IMMUNE = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}
BODIES = [b"%d" % number for number in range(6)]


def decided(message: Message) -> LocalTransactionState:
    """What a listener says of one of :data:`BODIES`, once it knows."""
    return ROLLBACK if bytes(message.body) == b"2" else COMMIT


def crashing(
    store: mqstore.MessageStore, folder: Path, call: int, decide: Callable[[Message], LocalTransactionState]
) -> Callable[[Message], LocalTransactionState]:
    """A listener; what a crash in one of its calls leaves is copied."""
    calls: list[Message] = []

    def listener(message: Message) -> LocalTransactionState:
        calls.append(message)
        if len(calls) == call:
            store.flush()
            copy_store(store.path, folder)
        return decide(message)

    return listener


def check_all(store: mqstore.MessageStore, clock: Clock) -> list[bytes]:
    """Checks until nothing is in doubt; gives what was asked for."""
    asked: list[bytes] = []

    def listener(message: Message) -> LocalTransactionState:
        asked.append(bytes(message.body))
        return decided(message)

    clock.now_ms += 100_000
    while store.check_transactions(listener):
        pass
    return asked


@pytest.mark.parametrize("call", range(1, 7))
def test_a_crash_in_a_check_commits_nothing_twice(open_store: Opener, clock: Clock, tmp_path: Path, call: int) -> None:
    store = open_store(clock=clock)
    for body in BODIES:
        store.transaction().put("orders", body, queue_id=0)
    clock.now_ms += 6000
    # A first check leaves all in doubt, so that two copies of each lie behind the second one's offset.
    assert store.check_transactions(answers(*[UNKNOW] * 6)[1]) == 6
    store.check_transactions(crashing(store, tmp_path / "crashed", call, decided))
    crashed = open_store("crashed", clock=clock)
    before = bodies(crashed)
    asked = check_all(crashed, clock)
    assert sorted(asked) == BODIES[call - 1 :]
    assert sorted(bodies(crashed)) == [body for body in BODIES if body != b"2"]
    assert len(before) == len([body for body in BODIES[: call - 1] if body != b"2"])
    # Nothing of it is looked at again.
    assert crashed.check_transactions(answers()[1]) == 0
    end = crashed.topic(OP_TOPIC).queue(0).max_offset
    assert crashed.consumers.offsets.query_offset("CID_RMQ_SYS_TRANS", OP_TOPIC, 0) == end


def test_crashes_one_after_another_commit_nothing_twice(open_store: Opener, clock: Clock, tmp_path: Path) -> None:
    store = open_store(clock=clock)
    for body in BODIES:
        store.transaction().put("orders", body, queue_id=0)
    for life in range(5):
        clock.now_ms += 6000

        def decide(message: Message, life: int = life) -> LocalTransactionState:
            return UNKNOW if int(bytes(message.body)) > life else decided(message)

        store.check_transactions(crashing(store, tmp_path / f"life {life}", 2, decide))
        store = open_store(f"life {life}", clock=clock)
    check_all(store, clock)
    assert sorted(bodies(store)) == [body for body in BODIES if body != b"2"]


def test_what_was_put_back_for_its_immunity_before_a_crash_is_committed_once(
    open_store: Opener, clock: Clock, tmp_path: Path
) -> None:
    store = open_store(clock=clock)
    for body in (b"0", b"1"):
        store.transaction().put("orders", body, queue_id=0, properties=IMMUNE)
    store.transaction().put("orders", b"3", queue_id=0)
    clock.now_ms += 10_000
    store.check_transactions(crashing(store, tmp_path / "crashed", 1, decided))
    crashed = open_store("crashed", clock=clock)
    assert sorted(check_all(crashed, clock)) == [b"0", b"1", b"3"]
    assert sorted(bodies(crashed)) == [b"0", b"1", b"3"]


def prepare_without_room(store: mqstore.MessageStore, where: str) -> None:
    """Prepares a message that is as long as one can be, so that nothing can be noted among its properties."""
    transaction = store.transaction()
    prepared = transaction.put("orders", b"1", queue_id=0, properties={"p": "v"})
    half = store.look_message_by_offset(prepared.commit_log_offset)
    transaction.rollback()
    assert half is not None
    body, padding = b"1", "v"
    if where == "properties":
        padding *= 32_767 - len(half.raw_properties) + 1
    else:
        body *= store.options.max_message_size - half.store_size + 1
        if where == "record":
            # As much as it is longer where it is given up.
            body = body[len(CHECK_MAX_TIME_TOPIC) - len(HALF_TOPIC) :]
    store.transaction().put("orders", body, queue_id=0, properties={"p": padding})


@pytest.mark.parametrize("where", ["properties", "record", "record to the byte"])
def test_a_half_without_room_for_its_checks_is_asked_for_and_keeps_no_other_from_it(
    open_store: Opener, clock: Clock, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    store = open_store(clock=clock, fileReservedTime=1, maxMessageSize=40_000, transactionCheckMax=2)
    prepare_without_room(store, where)
    store.transaction().put("orders", b"2", queue_id=0)
    for _ in range(3):
        clock.now_ms += 6000
        asked, listener = answers(UNKNOW, UNKNOW)
        store.check_transactions(listener)
        assert bytes(asked[0].body)[:1] == b"1"
    assert "no room" in caplog.text
    # The other one was asked for often enough. This one is until it is committed, or has expired.
    assert [body[:1] for body in bodies(store, CHECK_MAX_TIME_TOPIC)] == [b"2"]
    clock.now_ms += 6000
    assert store.check_transactions(answers(COMMIT)[1]) == 1
    assert [body[:1] for body in bodies(store)] == [b"1"]
    assert store.check_transactions(answers()[1]) == 0
    prepare_without_room(store, where)
    store.transaction().put("orders", b"3", queue_id=0)
    clock.now_ms += 2 * 3_600_000
    assert store.check_transactions(answers()[1]) == 0
    given_up = [body[:1] for body in bodies(store, CHECK_MAX_TIME_TOPIC)]
    assert given_up == ([b"2", b"3"] if "byte" in where else [b"2", b"1", b"3"])


@pytest.mark.parametrize("immune", [{}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}])
def test_a_half_that_the_store_does_not_take_any_more_keeps_no_other_from_its_check(
    open_store: Opener, clock: Clock, caplog: pytest.LogCaptureFixture, immune: dict[str, str]
) -> None:
    store = open_store(clock=clock)
    store.transaction().put("orders", b"1" * 30_000, queue_id=0, properties=immune)
    store.transaction().put("orders", b"2", queue_id=0)
    store.close()
    store = open_store(clock=clock, maxMessageSize=20_000)
    clock.now_ms += 10_000
    asked, listener = answers(COMMIT, COMMIT)
    assert store.check_transactions(listener) == 2
    assert [bytes(message.body)[:1] for message in asked] == [b"1", b"2"]
    assert "cannot be put back" in caplog.text
    assert "cannot end" in caplog.text
    assert bodies(store) == [b"2"]


def test_what_is_no_half_keeps_no_half_from_its_check(
    open_store: Opener, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(clock=clock)
    for _ in range(3):
        store.put(HALF_TOPIC, b"junk", queue_id=0)
    store.transaction().put("orders", b"1", queue_id=0)
    clock.now_ms += 10_000
    store.check_transactions(answers(*[COMMIT] * 4)[1])
    assert caplog.text.count("cannot end") == 3
    assert bodies(store) == [b"1"]


def test_an_end_counts_until_the_last_place_of_its_message_is_passed(
    open_store: Opener, clock: Clock, tmp_path: Path
) -> None:
    store = open_store(clock=clock)
    ended = store.transaction()
    ended.put("orders", b"0", queue_id=0, properties=IMMUNE)
    store.transaction().put("orders", b"1", queue_id=0)
    clock.now_ms += 10_000
    store.check_transactions(crashing(store, tmp_path / "crashed", 1, decided))
    store = open_store("crashed", clock=clock)
    # The crash took the offset: it stands where it was first, and where it was put back.
    store._transactions.end(ended.prepared[0].commit_log_offset, commit=True)
    clock.now_ms -= 7000
    assert store.check_transactions(answers()[1]) == 0  # it ends before the other one, which is too young
    assert check_all(store, clock) == [b"1"]
    assert bodies(store) == [b"0", b"1"]


def test_a_message_that_is_given_up_before_a_crash_is_so_once(open_store: Opener, clock: Clock, tmp_path: Path) -> None:
    store = open_store(clock=clock)
    old = clock.now_ms - 73 * 3_600_000
    store.transaction().put("orders", b"old", queue_id=0, born_timestamp=old)
    store.transaction().put("orders", b"1", queue_id=0)
    clock.now_ms += 6000
    store.check_transactions(crashing(store, tmp_path / "crashed", 1, decided))
    crashed = open_store("crashed", clock=clock)
    assert check_all(crashed, clock) == [b"1"]
    assert bodies(crashed, CHECK_MAX_TIME_TOPIC) == [b"old"]


@pytest.mark.parametrize("compat", [False, True])
def test_a_close_breaks_off_a_check_in_another_thread(open_store: Opener, clock: Clock, *, compat: bool) -> None:
    store = open_store(clock=clock, compat=compat)
    for body in BODIES:
        store.transaction().put("orders", body, queue_id=0)
    clock.now_ms += 6000
    asked: list[bytes] = []
    failed: list[BaseException] = []
    waits, is_closed = threading.Event(), threading.Event()

    def slow(message: Message) -> LocalTransactionState:
        asked.append(bytes(message.body))
        if len(asked) == 4:
            waits.set()
            is_closed.wait()
        return COMMIT

    def check() -> None:
        try:
            store.check_transactions(slow)
        except BaseException as error:
            failed.append(error)

    checking = threading.Thread(target=check)
    checking.start()
    waits.wait()
    store.close()
    is_closed.set()
    checking.join()
    assert [type(error) for error in failed] == [mqstore.StoreClosedError]
    store = open_store(clock=clock, compat=compat)
    assert bodies(store) == BODIES[:3]
    clock.now_ms += 6000
    while store.check_transactions(lambda _message: COMMIT):
        pass
    assert sorted(bodies(store)) == BODIES


def test_a_close_does_not_wait_for_the_listener_of_the_service(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    for body in BODIES:
        store.transaction().put("orders", body, queue_id=0)
    store.close()
    clock.now_ms += 6000
    asked: list[bytes] = []
    waits, is_closed = threading.Event(), threading.Event()

    def slow(message: Message) -> LocalTransactionState:
        asked.append(bytes(message.body))
        if len(asked) == 2:
            waits.set()
            is_closed.wait()
        return COMMIT

    store = open_store(clock=clock, check_transactions=slow)
    (service,) = (each for each in store._services if isinstance(each, TransactionalMessageCheckService))
    waits.wait()
    closing = threading.Thread(target=store.close)
    closing.start()
    closing.join(30)
    is_over = not closing.is_alive()
    is_closed.set()
    closing.join()
    service.join()
    assert is_over
    # What it said then is not done any more, and it is asked for the others by the next one.
    assert len(asked) == 2
    store = open_store(clock=clock)
    assert bodies(store) == asked[:1]
    clock.now_ms += 6000
    while store.check_transactions(lambda _message: COMMIT):
        pass
    assert sorted(bodies(store)) == BODIES


def test_a_message_that_was_one_of_a_transaction_before_can_be_one_again(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    with store.transaction() as transaction:
        transaction.put("orders", b"first", queue_id=0)
    stale = {FIRST_OFFSET: "0", "TRANSACTION_CHECK_TIMES": "15"}
    store.transaction().put("orders", b"again", queue_id=0, properties=stale)
    clock.now_ms += 6000
    asked, listener = answers(COMMIT)
    assert store.check_transactions(listener) == 1
    assert asked[0].properties["TRANSACTION_CHECK_TIMES"] == "1"
    found = store.topic("orders").queue(0)[1]
    assert FIRST_OFFSET not in found.properties


def test_a_transaction_that_nobody_has_any_more_is_forgotten(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    for _ in range(5):
        store.transaction().put("orders", b"left", queue_id=0)
    kept = store.transaction()
    kept.put("orders", b"kept", queue_id=0)
    gc.collect()
    clock.now_ms += 6000
    assert store.check_transactions(answers(*[UNKNOW] * 6)[1]) == 6
    assert len(store._transactions._live) == 1
    kept.commit()
    assert bodies(store) == [b"kept"]
    assert len(store._transactions._live) == 0


def test_what_nobody_confirmed_is_committed_and_told(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock, replication=True, brokerRole="SYNC_MASTER", haListenPort=0)
    transaction = store.transaction()
    for body in (b"a", b"b"):
        with pytest.raises(mqstore.SlaveNotAvailableError):
            transaction.put("orders", body, queue_id=0)
    with pytest.raises(mqstore.SlaveNotAvailableError, match="is stored") as raised:
        transaction.commit()
    assert transaction.prepared == []
    assert bodies(store) == [b"a", b"b"]
    assert raised.value.result.wrote_offset == store.topic("orders").queue(0)[0].commit_log_offset
    transaction.commit()
    clock.now_ms += 6000
    assert store.check_transactions(answers()[1]) == 0
    # A rollback has nothing that has to be kept.
    with pytest.raises(mqstore.SlaveNotAvailableError):
        (undone := store.transaction()).put("orders", b"c", queue_id=0)
    undone.rollback()
    assert bodies(store) == [b"a", b"b"]


def test_a_clock_that_is_set_back_keeps_no_message_from_being_asked_for(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    store.put("orders", b"the log's time stands still from here on")
    clock.now_ms -= 3_600_000
    store.transaction().put("orders", b"in doubt", queue_id=0)
    clock.now_ms += 5000
    assert store.check_transactions(lambda _message: COMMIT) == 0
    clock.now_ms += 1000
    assert store.check_transactions(lambda _message: COMMIT) == 1


def test_a_check_does_not_come_to_what_it_has_put_back(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock, transactionCheckMax=1)
    for number in range(40):
        store.transaction().put("orders", b"%d" % number, queue_id=0)
    clock.now_ms += 6000
    assert store.check_transactions(lambda _message: UNKNOW) == 40
    assert bodies(store, CHECK_MAX_TIME_TOPIC) == []
    assert store.check_transactions(lambda _message: UNKNOW) == 0
    assert len(bodies(store, CHECK_MAX_TIME_TOPIC)) == 40
