"""A store that is closed says so, whatever it is asked."""

from typing import Any

import pyarrow as pa
import pytest

import mqstore
from tests.store.conftest import Opener


def test_a_closed_store_takes_and_gives_nothing(open_store: Opener) -> None:
    store = open_store()
    store.put("t", b"kept", queue_id=0)
    message = store.topic("t").queue(0)[0]
    store.close()
    store.close()
    with pytest.raises(mqstore.StoreClosedError):
        store.put("t", b"")
    with pytest.raises(mqstore.StoreClosedError):
        store.get_message("t", 0, 0)
    with pytest.raises(mqstore.StoreClosedError):
        store.execute_delete_files_manually()
    with pytest.raises(mqstore.StoreClosedError):
        store.check_transactions(lambda _message: mqstore.LocalTransactionState.UNKNOW)
    assert bytes(message.body) == b"kept"


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_a_closed_store_says_so_of_a_new_topic_too(open_store: Opener, mode: str) -> None:
    with open_store() as made:
        made.put("t", b"", queue_id=0)
    store = open_store(mode=mode)
    store.close()
    table = pa.table({"body": [b""]})
    puts: list[Any] = [
        lambda: store.put("new", b""),
        lambda: store.put("t", b"", deliver_at=1 << 40),
        lambda: store.put_many("new", [b""]),
        lambda: store.put_arrow(table, topic="new"),
    ]
    for put in puts:
        with pytest.raises(mqstore.StoreClosedError, match=r"^the store is closed$"):
            put()
