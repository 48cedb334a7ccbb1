"""Who asks for a pass in its middle, as a listener or a signal's handler can, does not wait for itself."""

import signal
from types import FrameType

import pytest

import mqstore
from tests.store.conftest import Opener

IS_AT_IT = "is under way in this thread already"


def test_a_listener_that_asks_for_a_check_is_told(open_store: Opener, caplog: pytest.LogCaptureFixture) -> None:
    clock = [1_780_000_000_000]
    store = open_store(clock=lambda: clock[0], transactionTimeOut=0)
    store.transaction().put("t", b"in doubt", queue_id=0)
    clock[0] += 1

    def asking(_: mqstore.Message) -> mqstore.LocalTransactionState:
        store.check_transactions(asking)
        return mqstore.LocalTransactionState.COMMIT_MESSAGE

    assert store.check_transactions(asking) == 1
    assert IS_AT_IT in caplog.text
    clock[0] += 1
    assert store.check_transactions(lambda _: mqstore.LocalTransactionState.COMMIT_MESSAGE) == 1
    assert [bytes(message.body) for message in store.topic("t")] == [b"in doubt"]


def test_a_handler_that_deletes_in_the_middle_of_it_is_told(open_store: Opener) -> None:
    store = open_store(fileReservedTime=0)
    store.put_many("t", [bytes(30_000)] * 10, queue_id=0)
    store.flush()
    found = []

    def handler(_number: int, _frame: FrameType | None) -> None:
        with pytest.raises(mqstore.MQStoreError, match=IS_AT_IT) as told:
            store.execute_delete_files_manually()
        found.append(told)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        store._cleaner._delete_log_files(at_once=False, wait=lambda _ms: signal.raise_signal(signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert found
    store.execute_delete_files_manually()
