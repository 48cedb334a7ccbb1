"""Commits that were broken off, or that a check was before: nothing is seen twice, and nothing that was rolled back."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import mqstore
from mqstore.store.half_messages import HALF_TOPIC, OP_TOPIC
from tests.store.conftest import Opener
from tests.store.test_transaction import COMMIT, ROLLBACK, UNKNOW, Clock, answers, bodies, clock

__all__ = ["clock"]


def prepared(store: mqstore.MessageStore, *given: bytes) -> mqstore.Transaction:
    """A transaction with messages."""
    transaction = store.transaction()
    for body in given:
        transaction.put("orders", body, queue_id=0)
    return transaction


@pytest.mark.parametrize("again", [mqstore.Transaction.commit, mqstore.Transaction.rollback])
def test_what_a_check_has_decided_holds_no_other_message_up_and_is_told_once(
    open_store: Opener, clock: Clock, again: Callable[[mqstore.Transaction], None]
) -> None:
    store = open_store(clock=clock)
    transaction, undone = prepared(store, b"a", b"b", b"c"), prepared(store, b"d", b"e")
    clock.now_ms += 6000
    assert store.check_transactions(answers(COMMIT, ROLLBACK, UNKNOW, COMMIT, UNKNOW)[1]) == 5
    with pytest.raises(mqstore.MQStoreError, match="rolled back by a check"):
        transaction.commit()
    with pytest.raises(mqstore.MQStoreError, match="committed by a check"):
        undone.rollback()
    assert transaction.prepared == undone.prepared == []
    again(transaction)
    again(undone)
    assert bodies(store) == [b"a", b"d", b"c"]
    assert store.check_transactions(answers()[1]) == 0
    assert len(store._transactions._live) == 0


def interrupt(store: mqstore.MessageStore, monkeypatch: pytest.MonkeyPatch, topic: str, *, is_stored: bool) -> None:
    """Presses Ctrl-C in the next put to a topic, before or behind the storing."""
    put = store.put_message

    def interrupted(message: mqstore.MessageExtBrokerInner) -> mqstore.PutMessageResult:
        if message.topic != topic:
            return put(message)
        monkeypatch.undo()
        if is_stored:
            put(message)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "put_message", interrupted)


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("topic", ["orders", OP_TOPIC])
def test_a_commit_that_ctrl_c_breaks_off_is_taken_up(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch, topic: str, *, is_stored: bool, pool: bool
) -> None:
    never = 600_000
    given = {"transient_store_pool_enable": True, "transient_store_pool_size": 2, "commit_interval_commit_log": never}
    store = open_store(**(given if pool else {}))
    transaction = prepared(store, b"a", b"b")
    interrupt(store, monkeypatch, topic, is_stored=is_stored)
    with pytest.raises(KeyboardInterrupt):
        transaction.commit()
    assert len(transaction.prepared) == 2
    transaction.commit()
    transaction.commit()
    store.flush()
    assert bodies(store) == [b"a", b"b"]
    assert store._transactions._begun == {}


def test_a_commit_is_taken_up_where_a_check_has_put_the_message_back(
    open_store: Opener, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(clock=clock)
    transaction = prepared(store, b"a")
    clock.now_ms += 6000
    assert store.check_transactions(answers(UNKNOW)[1]) == 1
    interrupt(store, monkeypatch, "orders", is_stored=False)
    with pytest.raises(KeyboardInterrupt):
        transaction.commit()
    assert store.check_transactions(answers(UNKNOW)[1]) == 1
    interrupt(store, monkeypatch, "orders", is_stored=True)
    with pytest.raises(KeyboardInterrupt):
        transaction.commit()
    # It is seen already: nobody is asked.
    assert store.check_transactions(answers()[1]) == 0
    transaction.commit()
    assert bodies(store) == [b"a"]
    assert len(store.topic(HALF_TOPIC).queue(0)) == 3
    assert store.check_transactions(answers()[1]) == 0


def test_what_a_commit_let_be_seen_before_it_was_broken_off_is_not_rolled_back(
    open_store: Opener, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(clock=clock)
    transaction = prepared(store, b"a", b"b")
    interrupt(store, monkeypatch, "orders", is_stored=True)
    with pytest.raises(KeyboardInterrupt):
        transaction.commit()
    with pytest.raises(mqstore.MQStoreError, match="committed by a commit that was broken off"):
        transaction.rollback()
    assert transaction.prepared == []
    assert bodies(store) == [b"a"]
    clock.now_ms += 6000
    assert store.check_transactions(answers()[1]) == 0


def test_a_commit_whose_end_the_store_refuses_is_taken_up(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    transaction = prepared(store, b"a")
    put = store.put_message

    def filling(message: mqstore.MessageExtBrokerInner) -> mqstore.PutMessageResult:
        result = put(message)
        store._set_disk_full(full=True)
        return result

    monkeypatch.setattr(store, "put_message", filling)
    with pytest.raises(mqstore.ServiceNotAvailableError):
        transaction.commit()
    with pytest.raises(mqstore.ServiceNotAvailableError):
        transaction.commit()
    monkeypatch.undo()
    store._set_disk_full(full=False)
    transaction.commit()
    assert bodies(store) == [b"a"]


def test_a_block_says_what_was_not_rolled_back(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    with pytest.raises(ZeroDivisionError) as raised, store.transaction() as transaction:  # noqa: PT012
        transaction.put("orders", b"a", queue_id=0)
        clock.now_ms += 6000
        store.check_transactions(answers(COMMIT)[1])
        raise ZeroDivisionError
    assert "was not all rolled back: the message prepared at" in raised.value.__notes__[0]


@pytest.mark.parametrize("end", [mqstore.Transaction.commit, mqstore.Transaction.rollback])
def test_a_message_that_is_being_put_while_another_thread_ends_the_transaction_is_refused(
    open_store: Opener, clock: Clock, monkeypatch: pytest.MonkeyPatch, end: Callable[[mqstore.Transaction], None]
) -> None:
    store = open_store(clock=clock)
    transaction = prepared(store, b"a")
    put = store.put

    def ended_meanwhile(*given: Any, **named: Any) -> mqstore.PutMessageResult:
        result = put(*given, **named)
        with ThreadPoolExecutor(1) as threads:
            threads.submit(end, transaction).result()
        return result

    monkeypatch.setattr(store, "put", ended_meanwhile)
    with pytest.raises(ValueError, match="the transaction has ended"):
        transaction.put("orders", b"late", queue_id=0)
    assert transaction.prepared == []
    assert bodies(store) == ([b"a"] if end is mqstore.Transaction.commit else [])
    # It is rolled back: nobody is asked for it.
    clock.now_ms += 6000
    assert store.check_transactions(answers()[1]) == 0
    assert len(store._transactions._live) == 0
