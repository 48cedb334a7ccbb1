"""Further queues of messages: whose offsets the store gives, whatever a message brings."""

from pathlib import Path

import pytest

import mqstore
from mqstore import MessageExtBatch
from mqstore.verify import verify
from tests.store.conftest import SMALL, Opener
from tests.waiting import wait_until

LIGHT = {"enableMultiDispatch": True, "enableLmq": True}
TO_A = {"INNER_MULTI_DISPATCH": "%LMQ%a"}
STORED_BEFORE = TO_A | {"INNER_MULTI_QUEUE_OFFSET": "500"}


def light_bodies(store: mqstore.MessageStore) -> list[bytes]:
    """What the light queue has, from its first offset on."""
    queue = store.topic("%LMQ%a").queue(0)
    bodies = [bytes(message.body) for message in queue]
    assert (queue.min_offset, queue.max_offset) == (0, len(bodies))
    return bodies


def put_again(store: mqstore.MessageStore, how: str) -> None:
    """Puts a message as it was stored elsewhere."""
    if how == "batch":
        store.put_messages(MessageExtBatch(topic="t", messages=[(b"again", 0, STORED_BEFORE)]))
    elif how == "batch's own":
        store.put_messages(MessageExtBatch(topic="t", messages=[(b"again", 0, {})], properties=STORED_BEFORE))
    elif how == "timed":
        store.put("t", b"again", properties=STORED_BEFORE, deliver_at=store.now() + 3_600_000)
    elif how == "delayed":
        store.put("t", b"again", properties=STORED_BEFORE, delay_time_level=3)
    else:
        store.put("t", b"again", queue_id=0, properties=STORED_BEFORE)


@pytest.mark.parametrize("how", ["batch", "batch's own", "timed", "delayed", "plain"])
def test_an_offset_that_a_message_brings_moves_no_queue(open_store: Opener, how: str) -> None:
    store = open_store(**LIGHT)
    store.put("t", b"first", queue_id=0, properties=TO_A)
    put_again(store, how)
    store.put("t", b"later", queue_id=0, properties=TO_A)
    found = light_bodies(store)
    assert [body for body in found if body != b"again"] == [b"first", b"later"]
    store.close()
    assert light_bodies(open_store(**LIGHT)) == found


def test_a_prepared_message_is_in_further_queues_once_it_is_committed(open_store: Opener) -> None:
    store = open_store(**LIGHT)
    with store.transaction() as transaction:
        transaction.put("t", b"never seen", properties=STORED_BEFORE)
        transaction.rollback()
    assert light_bodies(store) == []
    with store.transaction() as transaction:
        transaction.put("t", b"committed", properties=TO_A)
        assert light_bodies(store) == []
    assert light_bodies(store) == [b"committed"]


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("crashed", [False, True])
def test_light_queues_are_there_without_their_options(
    open_store: Opener, tmp_path: Path, mode: str, *, crashed: bool
) -> None:
    store = open_store(**LIGHT)
    bodies = [str(number).encode() for number in range(5)]
    for body in bodies:
        store.put("t", body, queue_id=3, properties=TO_A)
    store.close()
    if crashed:
        (tmp_path / "store" / "abort").touch()
    store = open_store(mode=mode)
    assert light_bodies(store) == bodies
    assert store.report().is_whole


@pytest.mark.parametrize("compat", [False, True])
def test_a_prepared_message_that_nobody_decided_on_is_in_no_further_queue(open_store: Opener, *, compat: bool) -> None:
    clock = [1_780_000_000_000]
    store = open_store(**LIGHT, clock=lambda: clock[0], transactionTimeOut=0, transactionCheckMax=0, compat=compat)
    store.transaction().put("t", b"in doubt", properties=TO_A)
    clock[0] += 1
    assert store.check_transactions(lambda _: mqstore.LocalTransactionState.UNKNOW) == 0
    assert [bytes(message.body) for message in store.topic("TRANS_CHECK_MAX_TIME_TOPIC")] == [b"in doubt"]
    # 4.9.3 has it there when it is prepared already, and once more now.
    assert light_bodies(store) == ([b"in doubt"] * 2 if compat else [])


def test_a_queue_that_is_named_twice_is_whole(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(**LIGHT)
    for names in ("%LMQ%a,%LMQ%a", "t", "%LMQ%a"):
        store.put("t", b"body", queue_id=0, properties={"INNER_MULTI_DISPATCH": names})
    store.close()
    audit, findings = verify(str(tmp_path / "store"), **(SMALL | LIGHT))
    assert (audit.counts, findings) == ({}, [])


@pytest.mark.parametrize("compat", [False, True])
def test_a_delayed_message_is_in_further_queues_once_it_is_delivered(open_store: Opener, *, compat: bool) -> None:
    clock = [1_780_000_000_000]
    given = LIGHT | {"clock": lambda: clock[0], "messageDelayLevel": "1s", "compat": compat}
    store = open_store(**given, schedule_messages=True)
    store.put("t", b"delayed", queue_id=0, delay_time_level=1, properties=TO_A)
    store.put("t", b"other", queue_id=0)
    # With compat it is there before it is due, and once more then.
    assert light_bodies(store) == ([b"delayed"] if compat else [])
    clock[0] += 1000
    wait_until(lambda: len(store.topic("t").queue(0)) == 2)
    assert light_bodies(store) == [b"delayed"] * (2 if compat else 1)


def test_keys_are_looked_up_in_further_queues(open_store: Opener) -> None:
    store = open_store(**LIGHT)
    for number in range(4):
        properties = {"INNER_MULTI_DISPATCH": "%LMQ%a,twin"}
        store.put("t", str(number).encode(), queue_id=0, keys=["all", f"k{number}"], properties=properties)
    store.put("twin", b"own", queue_id=0, keys="all")
    for topic, expected in [("%LMQ%a", [b"2", b"3"]), ("twin", [b"3", b"own"]), ("t", [b"2", b"3"])]:
        found = store.select(topic).look_up_keys(["all", "k1", "absent"], max_num=2)
        assert [bytes(message.body) for message in found["all"]] == expected, topic
        assert [bytes(message.body) for message in found["k1"]] == [b"1"], topic
        assert found["absent"] == []
        assert store.select(topic).look_up_keys(["all"], max_num=0) == {"all": []}
    both = store.select(["t", "twin"]).look_up_keys(["all"])["all"]
    assert [bytes(message.body) for message in both] == [b"0", b"1", b"2", b"3", b"own"]
