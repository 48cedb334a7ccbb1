"""Transactions."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import mqstore
from mqstore import LocalTransactionState, Message
from mqstore.store.half_messages import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC
from tests.store.conftest import Opener

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW


class Clock:
    """A clock that moves a millisecond each time it is looked at."""

    def __init__(self) -> None:
        """Some day in 2026."""
        self.now_ms = 1_780_000_000_000

    def __call__(self) -> int:
        """The time in milliseconds."""
        self.now_ms += 1
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    """A clock in the test's hand."""
    return Clock()


@pytest.fixture
def threads_that_take_turns() -> Iterator[None]:
    """Threads that have the interpreter for a moment only."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval_s)


def bodies(store: mqstore.MessageStore, topic: str = "orders") -> list[bytes]:
    """The bodies of a topic's messages, by queue."""
    return [bytes(message.body) for message in store.topic(topic)]


def answers(*states: LocalTransactionState) -> tuple[list[Message], Callable[[Message], LocalTransactionState]]:
    """A listener that gives these answers, and what it was asked for."""
    asked: list[Message] = []
    left = list(states)

    def listener(message: Message) -> LocalTransactionState:
        asked.append(message)
        return left.pop(0)

    return asked, listener


def test_messages_are_seen_when_the_block_ends(store: mqstore.MessageStore) -> None:
    with store.transaction("billing") as transaction:
        prepared = transaction.put("orders", b"first", queue_id=3, tags="T", keys="K", flag=5, properties={"p": "v"})
        transaction.put("orders", b"second", queue_id=3)
        assert bodies(store) == []
        assert transaction.prepared[0] == prepared
    assert transaction.prepared == []
    first, second = store.topic("orders").queue(3)
    assert (bytes(first.body), bytes(second.body)) == (b"first", b"second")
    assert (first.tags, first.keys, first.flag, first.sys_flag) == ("T", ("K",), 5, 8)
    assert first.unique_key == prepared.transaction_id
    assert first.prepared_transaction_offset == prepared.commit_log_offset
    assert first.properties | {"p": "v", "PGROUP": "billing", "TRAN_MSG": "true"} == first.properties
    assert [message.commit_log_offset for message in store.query_message("orders", "K")] == [first.commit_log_offset]
    assert bodies(store, OP_TOPIC) == [b"0", b"1"]


def test_an_exception_rolls_back(store: mqstore.MessageStore) -> None:
    def fail() -> None:
        with store.transaction() as transaction:
            transaction.put("orders", b"never", queue_id=0)
            raise RuntimeError("work failed")

    with pytest.raises(RuntimeError, match="work failed"):
        fail()
    assert bodies(store) == []
    assert bodies(store, OP_TOPIC) == [b"0"]
    asked, listener = answers()
    assert store.check_transactions(listener) == 0
    assert asked == []


def test_a_transaction_ends_once(store: mqstore.MessageStore) -> None:
    with store.transaction() as transaction:
        transaction.put("orders", b"a", queue_id=0)
        transaction.commit()
        transaction.commit()
        with pytest.raises(ValueError, match="has ended"):
            transaction.put("orders", b"b")
    assert bodies(store) == [b"a"]
    with pytest.raises(mqstore.MQStoreError, match="expected a prepared message"):
        store._transactions.end(store.topic("orders").queue(0)[0].commit_log_offset, commit=True)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.usefixtures("threads_that_take_turns")
def test_threads_that_end_it_at_once_end_each_message_once(store: mqstore.MessageStore, *, commit: bool) -> None:
    transaction = store.transaction()
    put = [b"%d" % number for number in range(300)]
    for body in put:
        transaction.put("orders", body, queue_id=0)
    with ThreadPoolExecutor(4) as threads:
        all_at_once = threading.Barrier(4)

        def end() -> None:
            all_at_once.wait()
            (transaction.commit if commit else transaction.rollback)()

        for done in [threads.submit(end) for _ in range(4)]:
            done.result()
    assert (bodies(store), transaction.prepared) == (put if commit else [], [])
    assert bodies(store, OP_TOPIC) == put


@pytest.mark.parametrize(
    ("topic", "given"),
    [("a/b", {}), ("t" * 128, {}), ("t", {"delay_time_level": 1}), ("t", {"properties": {"DELAY": "1"}})],
)
def test_what_could_never_be_committed_is_refused_at_once(
    store: mqstore.MessageStore, topic: str, given: dict[str, Any]
) -> None:
    with pytest.raises(mqstore.MessageIllegalError), store.transaction() as transaction:
        transaction.put(topic, b"", **given)
    assert bodies(store, HALF_TOPIC) == []


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"topic": 3}, TypeError, "topic=3: expected a string, found int"),
        ({"topic": ["t"]}, TypeError, "topic=['t']: expected a string, found list"),
        ({"body": "text"}, TypeError, "body='text': expected bytes or what has the buffer protocol, found str"),
        ({"keys": ["k", 3]}, TypeError, "keys[1]=3: expected a string, found int"),
        ({"queue_id": "x"}, TypeError, "queue_id='x': expected an integer from 0 to 2147483647"),
        ({"queue_id": -1}, ValueError, "queue_id=-1: expected an integer from 0 to 2147483647"),
        ({"properties": 3}, TypeError, "properties=3: expected a mapping of strings, found int"),
        ({"properties": "p"}, TypeError, "properties='p': expected a mapping of strings, found str"),
        ({"properties": {"p": 3}}, TypeError, 'properties["p"]=3: expected a string, found int'),
        ({"properties": {3: "p"}}, TypeError, "properties: name=3: expected a string, found int"),
        ({"sys_flag": None}, TypeError, "sys_flag=None: expected an integer from -2147483648 to 2147483647"),
        ({"sys_flag": "x"}, TypeError, "sys_flag='x': expected an integer from -2147483648 to 2147483647"),
        ({"sys_flag": 1 << 31}, ValueError, "sys_flag=2147483648: expected an integer from -2147483648 to "),
        ({"delay_time_level": "x"}, TypeError, "delay_time_level='x': expected an integer from "),
    ],
)
def test_an_argument_is_told_by_its_name(
    store: mqstore.MessageStore, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    transaction = store.transaction()
    with pytest.raises(error) as raised:
        transaction.put(**{"topic": "t", "body": b""} | given)
    assert str(raised.value).startswith(message)
    assert (transaction.prepared, store.get_max_phy_offset()) == ([], 0)


def test_a_group_that_is_no_string_is_refused(store: mqstore.MessageStore) -> None:
    group: Any = 3
    with pytest.raises(TypeError, match="group=3: expected a string"):
        store.transaction(group)


def test_a_body_is_whatever_a_put_takes(store: mqstore.MessageStore) -> None:
    with store.transaction() as transaction:
        transaction.put("orders", memoryview(b"body")[1:], queue_id=0, delay_time_level=-1)
    assert bodies(store) == [b"ody"]


def test_a_message_that_fits_as_a_half_alone_is_refused_at_once(open_store: Opener) -> None:
    store = open_store(maxMessageSize=1000)
    with store.transaction() as transaction:
        transaction.put("t", bytes(100), queue_id=0)
    (half,) = store.topic(HALF_TOPIC).queue(0)
    fitting = 1000 - (half.store_size - 100)
    with store.transaction() as transaction:
        transaction.put("t", bytes(fitting), queue_id=0)
        with pytest.raises(mqstore.MessageIllegalError, match="when it is committed"):
            transaction.put("t" * len(HALF_TOPIC) + "t", bytes(fitting - len(HALF_TOPIC)), queue_id=0)
    assert [len(body) for body in bodies(store, "t")] == [100, fitting]
    assert bodies(store, OP_TOPIC) == [b"0", b"2", b"1"]


def test_a_transaction_that_takes_longer_than_a_check_is_committed_once(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    with store.transaction() as transaction:
        transaction.put("orders", b"a", queue_id=0)
        clock.now_ms += 6000
        assert store.check_transactions(answers(UNKNOW)[1]) == 1
        assert store.check_transactions(answers(UNKNOW)[1]) == 1
    assert bodies(store) == [b"a"]
    assert store.check_transactions(answers()[1]) == 0
    # It ends while the listener thinks about it.
    transaction = store.transaction()
    transaction.put("orders", b"b", queue_id=0)
    clock.now_ms += 6000

    def slow(_message: Message) -> LocalTransactionState:
        transaction.commit()
        return COMMIT

    assert store.check_transactions(slow) == 1
    assert bodies(store) == [b"a", b"b"]
    assert store.check_transactions(answers()[1]) == 0


def test_no_time_of_delivery_is_none(store: mqstore.MessageStore) -> None:
    with store.transaction() as transaction:
        transaction.put("orders", b"a", queue_id=0, deliver_at=None)
    assert bodies(store) == [b"a"]


def test_transactions_in_a_store_with_a_pool(open_store: Opener, clock: Clock) -> None:
    # What the pool holds is committed by nobody else.
    pool = {"transient_store_pool_enable": True, "transient_store_pool_size": 2, "commit_interval_commit_log": 600_000}
    store = open_store(clock=clock, **pool)
    transaction = store.transaction()
    transaction.put("orders", b"a", queue_id=0)
    store.transaction().put("orders", b"b", queue_id=0)
    transaction.commit()
    clock.now_ms += 6000
    assert store.check_transactions(answers(COMMIT)[1]) == 1
    store.flush()
    assert bodies(store) == [b"a", b"b"]


def put_beside_checks(
    store: mqstore.MessageStore, clock: Clock, monkeypatch: pytest.MonkeyPatch, *decisions: LocalTransactionState
) -> mqstore.Transaction:
    """A transaction with a message that waited for the disk, or for a slave, until checks had come to it."""
    put = store.put

    def slow(*given: Any, **named: Any) -> mqstore.PutMessageResult:
        result = put(*given, **named)
        for decision in decisions:
            clock.now_ms += 6000
            assert store.check_transactions(answers(decision)[1]) == 1
        return result

    transaction = store.transaction()
    with monkeypatch.context() as patch:
        patch.setattr(store, "put", slow)
        transaction.put("orders", b"a", queue_id=0)
    return transaction


def test_a_check_while_a_message_is_being_prepared(
    open_store: Opener, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(clock=clock)
    put_beside_checks(store, clock, monkeypatch, UNKNOW, UNKNOW).commit()
    clock.now_ms += 6000
    assert store.check_transactions(answers()[1]) == 0
    assert bodies(store) == [b"a"]
    assert len(store._transactions._live) == 0


def test_a_decision_while_a_message_is_being_prepared_is_told(
    open_store: Opener, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(clock=clock)
    transaction = put_beside_checks(store, clock, monkeypatch, ROLLBACK)
    with pytest.raises(mqstore.MQStoreError, match="rolled back by a check"):
        transaction.commit()
    assert bodies(store) == []


def test_a_message_that_ends_while_others_are_checked_is_not_given_up(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    old = store.transaction()
    store.transaction().put("orders", b"young", queue_id=0)
    old.put("orders", b"old", queue_id=0, born_timestamp=clock.now_ms - 73 * 3_600_000)
    clock.now_ms += 6000

    def slow(_message: Message) -> LocalTransactionState:
        old.commit()
        return COMMIT

    assert store.check_transactions(slow) == 1
    assert bodies(store) == [b"old", b"young"]
    assert bodies(store, CHECK_MAX_TIME_TOPIC) == []
    assert store.check_transactions(answers()[1]) == 0


def test_a_half_that_somebody_else_has_committed_by_now_is_found(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(transientStorePoolEnable=True, commitIntervalCommitLog=600_000)
    look = store.look_message_by_offset

    def look_before_the_commit_service(offset: int) -> Message | None:
        found = look(offset)
        store._engine.commit(0)
        return found

    monkeypatch.setattr(store, "look_message_by_offset", look_before_the_commit_service)
    with store.transaction() as transaction:
        transaction.put("orders", b"body", queue_id=0)
    store._engine.commit(0)
    assert [bytes(message.body) for message in store.topic("orders").queue(0)] == [b"body"]


@pytest.mark.parametrize(
    "topic", [HALF_TOPIC, OP_TOPIC, "SCHEDULE_TOPIC_XXXX", "MQSTORE_TIMED_TOPIC"], ids=["half", "op", "level", "timed"]
)
def test_a_message_that_a_commit_could_only_put_in_doubt_again_is_refused(
    store: mqstore.MessageStore, topic: str
) -> None:
    end = store.get_max_phy_offset()
    with store.transaction("billing") as transaction:
        with pytest.raises(mqstore.MessageIllegalError, match=f"cannot go to {topic}"):
            transaction.put(topic, b"body", queue_id=0)
        assert transaction.prepared == []
    assert store.get_max_phy_offset() == end
