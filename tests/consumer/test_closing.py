"""Consumers beside the close of their store."""

from typing import Any

import pytest

import mqstore
from mqstore.consumer import consumer as module
from mqstore.consumer.pull import Puller
from tests.permissions import refuse_removing
from tests.store.conftest import Opener


def test_one_that_is_made_while_the_store_is_closed_is_no_member(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    store.put("t", b"body", queue_id=0)
    store.consumer("g", "t", from_where="first").close()

    def closed_meanwhile(*given: Any) -> Puller:
        store.close()
        return Puller(*given)

    monkeypatch.setattr(module, "Puller", closed_meanwhile)
    with pytest.raises(mqstore.StoreClosedError) as kept:
        store.consumer("g", "t")
    monkeypatch.undo()
    with open_store().consumer("g", "t", from_where="first", timeout=0) as consumer:
        assert [bytes(message.body) for message in consumer] == [b"body"]
    assert kept.value.__traceback__ is not None


def test_one_whose_file_nobody_may_remove_has_left_its_group(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    store.put_many("t", [b"body"] * 8)
    leaving, staying = (store.consumer("g", "t", from_where="first", timeout=0) for _ in range(2))
    assert leaving.poll(30) is not None
    with monkeypatch.context() as refused:
        refuse_removing(refused, store.path / "mqstore" / "consumers" / "g" / "members")
        leaving.close()
    assert len(list(staying)) == 8
