"""What puts give, in another process than theirs."""

import pickle

import pytest

import mqstore
from mqstore import MessageExtBatch, PutMessageResult
from tests.store.conftest import Opener


def in_another_process(thing: object) -> object:
    """What a pool's worker gives, or raises, as who waits for it has it."""
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - what was pickled just here


def check_same(result: object, other: object) -> None:
    """All that is told of a put."""
    assert isinstance(result, PutMessageResult)
    told = [name for name in vars(PutMessageResult) if not name.startswith("_")]
    assert len(told) > 10
    assert {name: getattr(result, name) for name in told} == {name: getattr(other, name) for name in told}


def test_a_result_is_the_same_in_another_process(store: mqstore.MessageStore) -> None:
    batch = MessageExtBatch(topic="t", messages=[(b"a", 0, {}), (b"b", 0, {})])
    too_large = mqstore.MessageExtBrokerInner(topic="t", body=bytes(5 << 20))
    results = [store.put("t", b"one"), store.put_messages(batch), store.put_message(too_large)]
    assert [result.msg_num for result in results] == [1, 2, 0]
    for result in results:
        check_same(in_another_process(result), result)


def test_an_error_with_a_result_is_the_same_in_another_process(open_store: Opener) -> None:
    store = open_store(replication=True, brokerRole="SYNC_MASTER", haListenPort=0)
    with pytest.raises(mqstore.SlaveNotAvailableError) as raised:
        store.put("t", b"stored all the same")
    error = in_another_process(raised.value)
    assert isinstance(error, mqstore.SlaveNotAvailableError)
    assert str(error) == str(raised.value)
    check_same(error.result, raised.value.result)


@pytest.mark.parametrize("parts", [("PUT", None), ("PUT_OK", "PUT")])
def test_what_are_no_parts_of_a_result_is_refused(parts: tuple[str, str | None]) -> None:
    with pytest.raises(ValueError, match="parts of a PutMessageResult"):
        PutMessageResult._of(*parts, [], "127.0.0.1:10911", None)
    with pytest.raises(ValueError, match="parts of a PutMessageResult"):
        PutMessageResult._of("PUT_OK", None, [], "nowhere", None)
