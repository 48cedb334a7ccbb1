"""Prepared messages that are in doubt: who is asked for which, and what becomes of them."""

import json
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore import LocalTransactionState, Message
from mqstore.store.half_messages import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC
from tests.store.conftest import Opener
from tests.store.test_transaction import COMMIT, ROLLBACK, UNKNOW, Clock, answers, bodies, clock
from tests.store_files import copy_store
from tests.waiting import wait_until

__all__ = ["clock"]


def test_what_a_crash_left_in_doubt_is_asked_for(open_store: Opener, clock: Clock, tmp_path: Path) -> None:
    store = open_store(clock=clock)
    transaction = store.transaction("billing")
    for body in (b"done", b"not done", b"not known"):
        transaction.put("orders", body, queue_id=1, flag=9)
    with store.transaction() as ended:
        ended.put("orders", b"committed", queue_id=0)
    store.flush()
    copy_store(tmp_path / "store", tmp_path / "crashed")
    store = open_store("crashed", clock=clock)
    asked, listener = answers(COMMIT, ROLLBACK, UNKNOW)
    assert store.check_transactions(listener) == 0  # too young to be asked for
    clock.now_ms += 6000
    assert store.check_transactions(listener) == 3
    assert [bytes(message.body) for message in asked] == [b"done", b"not done", b"not known"]
    found = asked[0].properties
    assert (found["REAL_TOPIC"], found["PGROUP"], found["TRANSACTION_CHECK_TIMES"]) == ("orders", "billing", "1")
    assert bodies(store) == [b"committed", b"done"]
    assert store.topic("orders").queue(1)[0].flag == 9
    # The one that is not known is asked for again, and nothing else is, by this store or the next.
    store.close()
    store = open_store("crashed", clock=clock)
    asked, listener = answers(COMMIT)
    assert store.check_transactions(listener) == 1
    assert asked[0].properties["TRANSACTION_CHECK_TIMES"] == "2"
    assert bodies(store) == [b"committed", b"done", b"not known"]
    assert store.check_transactions(answers()[1]) == 0
    offsets = json.loads((store.path / "config" / "consumerOffset.json").read_text().replace("0:", '"0":'))
    ends = {topic: store.topic(topic).queue(0).max_offset for topic in (HALF_TOPIC, OP_TOPIC)}
    assert offsets["offsetTable"] == {f"{topic}@CID_RMQ_SYS_TRANS": {"0": end} for topic, end in ends.items()}


def test_a_message_nobody_decides_on_is_given_up(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock, transactionCheckMax=3)
    store.transaction().put("orders", b"in doubt", queue_id=0, tags="T")
    asked, listener = answers(UNKNOW, UNKNOW, UNKNOW)
    for _ in range(5):
        clock.now_ms += 6000
        store.check_transactions(listener)
    assert len(asked) == 3
    (dead,) = store.topic(CHECK_MAX_TIME_TOPIC)
    assert bytes(dead.body) == b"in doubt"
    assert (dead.tags, dead.properties["REAL_TOPIC"]) == ("T", "orders")
    assert bodies(store) == []


def test_a_message_older_than_messages_are_kept_is_given_up(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    store.transaction().put("orders", b"in doubt", queue_id=0)
    clock.now_ms += 73 * 3_600_000
    assert store.check_transactions(answers()[1]) == 0
    assert bodies(store, CHECK_MAX_TIME_TOPIC) == [b"in doubt"]


def test_a_message_with_an_immunity_of_its_own_waits_for_it(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    immune = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}
    ended = store.transaction()
    ended.put("orders", b"ended", queue_id=0, properties=immune)
    store.transaction().put("orders", b"in doubt", queue_id=0, properties=immune)
    store.transaction().put("orders", b"others go on", queue_id=0)
    clock.now_ms += 10_000
    asked, listener = answers(ROLLBACK, COMMIT)
    assert store.check_transactions(listener) == 1
    assert bytes(asked[0].body) == b"others go on"
    # It was put back behind the others; its producer ends it by where it was first.
    store._transactions.end(ended.prepared[0].commit_log_offset, commit=True)
    clock.now_ms += 10_000
    assert store.check_transactions(listener) == 0
    clock.now_ms += 50_000
    assert store.check_transactions(listener) == 1
    assert bytes(asked[1].body) == b"in doubt"
    assert bodies(store) == [b"ended", b"in doubt"]
    assert store.check_transactions(listener) == 0


def test_what_a_check_has_decided_is_not_decided_again(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    same, other = store.transaction(), store.transaction()
    same.put("orders", b"a", queue_id=0)
    other.put("orders", b"b", queue_id=0)
    clock.now_ms += 6000
    assert store.check_transactions(answers(COMMIT, ROLLBACK)[1]) == 2
    same.commit()
    with pytest.raises(mqstore.MQStoreError, match="rolled back by a check"):
        other.commit()
    assert bodies(store) == [b"a"]


def test_a_listener_that_fails_leaves_the_message_in_doubt(
    open_store: Opener, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(clock=clock)
    for body in (b"a", b"b"):
        store.transaction().put("orders", body, queue_id=0)

    def failing(message: Message) -> LocalTransactionState:
        if bytes(message.body) == b"a":
            raise RuntimeError("no answer")
        return COMMIT

    clock.now_ms += 6000
    assert store.check_transactions(failing) == 2
    assert bodies(store) == [b"b"]
    assert "no answer" in caplog.text
    assert store.check_transactions(answers(COMMIT)[1]) == 1
    assert bodies(store) == [b"b", b"a"]


def test_what_is_no_listener_is_refused_and_is_no_check(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    store.transaction().put("orders", b"a", queue_id=0)
    clock.now_ms += 6000
    wrong: Any = 5
    with pytest.raises(TypeError, match="listener=5: expected a function"):
        store.check_transactions(wrong)
    asked, listener = answers(COMMIT)
    assert store.check_transactions(listener) == 1
    assert asked[0].properties["TRANSACTION_CHECK_TIMES"] == "1"


def test_a_check_that_a_full_disk_interrupts_repeats_nothing(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    for body in (b"a", b"b", b"c"):
        store.transaction().put("orders", body, queue_id=0)
    clock.now_ms += 6000
    asked: list[bytes] = []

    def filling(message: Message) -> LocalTransactionState:
        asked.append(bytes(message.body))
        store._set_disk_full(len(asked) == 2)
        return COMMIT

    with pytest.raises(mqstore.ServiceNotAvailableError):
        store.check_transactions(filling)
    store._set_disk_full(full=False)
    while store.check_transactions(filling):
        pass
    assert asked == [b"a", b"b", b"c", b"b"]
    assert bodies(store) == [b"a", b"c", b"b"]


def test_what_says_of_nothing_that_it_is_done_holds_nobody_up(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    store.put(OP_TOPIC, b"not a number", tags="d", queue_id=0)
    store.put(OP_TOPIC, b"0", tags="other", queue_id=0)
    store.transaction().put("orders", b"a", queue_id=0)
    clock.now_ms += 6000
    assert store.check_transactions(answers(COMMIT)[1]) == 1
    assert bodies(store) == [b"a"]


def test_the_service_decides_when_a_store_is_opened(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    store.transaction().put("orders", b"a", queue_id=0)
    store.close()
    clock.now_ms += 6000
    store = open_store(clock=clock, check_transactions=lambda _message: COMMIT)
    wait_until(lambda: bodies(store) == [b"a"])
    with pytest.raises(mqstore.OptionError, match='expected "rw", which check_transactions is for'):
        open_store(mode="r", check_transactions=lambda _message: COMMIT)
    with pytest.raises(TypeError, match="check_transactions=5: expected a function"):
        open_store("other", check_transactions=5)


@pytest.mark.parametrize("length", [19, 20, 5000])
def test_a_number_too_long_to_be_one_holds_nobody_up(open_store: Opener, clock: Clock, length: int) -> None:
    store = open_store(clock=clock)
    store.put(OP_TOPIC, b"9" * length, tags="d", queue_id=0)
    store.transaction().put("orders", b"a", queue_id=0)
    clock.now_ms += 6000
    assert store.check_transactions(answers(COMMIT)[1]) == 1
    assert bodies(store) == [b"a"]


def test_what_is_done_is_not_read_again_for_ever(open_store: Opener, clock: Clock) -> None:
    """Transactions end in another order than they were prepared, and some is always too young to be asked for."""
    store = open_store(clock=clock)
    before = store.transaction("billing")
    before.put("orders", b"before", queue_id=0)
    left: list[int] = []
    for _ in range(6):
        older = store.transaction("billing")
        older.put("orders", b"older", queue_id=0)
        with store.transaction("billing") as newer:
            newer.put("orders", b"newer", queue_id=0)
        before.commit()
        before = older
        clock.now_ms += 5000
        assert store.check_transactions(answers()[1]) == 0
        offsets = json.loads((store.path / "config" / "consumerOffset.json").read_text().replace("0:", '"0":'))
        done = offsets["offsetTable"].get(f"{OP_TOPIC}@CID_RMQ_SYS_TRANS", {}).get("0", 0)
        left.append(store.topic(OP_TOPIC).queue(0).max_offset - done)
    assert max(left) <= 6, left
    before.commit()
