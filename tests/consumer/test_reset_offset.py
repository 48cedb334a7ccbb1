"""Offsets that a group is to go on at."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import mqstore
from mqstore.consumer.membership import FileLock
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.config_manager import read_only
from mqstore.store.read_offset import ReadOffset
from tests.consumer.test_consumer import numbers, open_consumer, put
from tests.store.conftest import Opener


def test_offsets_are_reset(store: mqstore.MessageStore) -> None:
    put(store, range(10), queue_id=0)
    consumer = open_consumer(store)
    assert numbers(consumer) == list(range(10))
    with pytest.raises(mqstore.MQStoreError, match="no consumer"):
        store.consumers.reset_offset("group", {("orders", 0): 4})
    consumer.close()
    store.consumers.reset_offset("group", {("orders", 0): 4})
    assert store.consumers.group_names() == ["group"]
    assert numbers(open_consumer(store)) == list(range(4, 10))


@pytest.mark.parametrize(
    ("queue", "offset", "named"),
    [
        (("orders", 0), "3", "offset='3'"),
        (("orders", 0), None, "offset=None"),
        (("orders", 0), True, "offset=True"),
        (("orders", 0), 2.5, "offset=2.5"),
        (("orders", 0), float("nan"), "offset=nan"),
        (("orders", 0), -5, "offset=-5"),
        (("orders", 0), 1 << 63, "offset=9223372036854775808"),
        (("orders", "0"), 3, "queue_id='0'"),
        (("orders", 1 << 40), 3, "queue_id=1099511627776"),
        ((5, 0), 3, "topic=5"),
    ],
)
def test_an_offset_that_is_none_is_refused_and_changes_nothing(
    open_store: Opener, queue: Any, offset: Any, named: str
) -> None:
    store = open_store()
    put(store, range(4), queue_id=0)
    with pytest.raises((TypeError, ValueError), match=f"^{named}: expected"):
        store.consumers.reset_offset("group", {("orders", 1): 7, queue: offset})
    assert store.consumers.group_names() == []
    store.consumers.reset_offset("other", {("orders", 0): 4})
    store.close()
    assert open_store().consumers.offsets.query_offset("other", "orders", 0) == 4


@pytest.mark.parametrize(
    ("offsets", "named"),
    [
        (3, "offsets=3: expected a mapping of a topic and a queue to an offset, found int"),
        ([(("orders", 0), 1)], r"offsets=.*: expected a mapping .*, found list"),
        ({"orders": 3}, "queue='orders': expected a topic and a queue, found str"),
        ({("orders", 0, 1): 3}, r"queue=\('orders', 0, 1\): expected a topic and a queue, found tuple"),
    ],
)
def test_offsets_that_are_no_mapping_are_refused(store: mqstore.MessageStore, offsets: Any, named: str) -> None:
    with pytest.raises(TypeError, match=f"^{named}$"):
        store.consumers.reset_offset("group", offsets)
    assert store.consumers.group_names() == []


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("group", ["", "a@b", "../../../elsewhere", 5])
def test_offsets_of_what_is_no_group_are_refused(open_store: Opener, mode: str, group: Any) -> None:
    """A name that is a path would lead out of the store, one with the separator be read as another group's."""
    store = open_store()
    path = store.path
    if mode == "r":
        store.close()
        store = open_store(mode="r")
    files = sorted(path.parent.rglob("*.json"))
    with pytest.raises(mqstore.OptionError, match="option group="):
        store.consumers.reset_offset(group, {("orders", 0): 1})
    assert store.consumers.group_names() == []
    assert sorted(path.parent.rglob("*.json")) == files


def test_integers_of_numpy_are_offsets(store: mqstore.MessageStore) -> None:
    store.consumers.reset_offset("group", {("orders", np.int32(2)): np.int64(3)})  # type: ignore[dict-item]
    offsets = ConsumerOffsetManager(store.path / "config" / "consumerOffset.json", read_only)
    assert offsets.offsets("group", "orders") == {2: 3}


def test_a_reset_that_cannot_take_effect_beside_a_writer_is_refused(open_store: Opener) -> None:
    writer = open_store()
    put(writer, range(10), queue_id=0)
    writer.consumers.reset_offset("group", {("orders", 0): 6})
    reader = open_store(mode="r")
    with pytest.raises(mqstore.ReadOnlyError, match=r"offset=4 of queue 0 of orders: expected at least 6"):
        reader.consumers.reset_offset("group", {("orders", 0): 4})
    reader.consumers.reset_offset("group", {("orders", 0): 9})
    reader.consumers.reset_offset("group", {("orders", 0): 8})
    assert numbers(open_consumer(reader)) == [8, 9]


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_reset_does_not_undo_what_another_process_writes_meanwhile(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Each writes the whole file: who read it before another one wrote would put the old offsets back."""
    open_store().close()
    reader = open_store(mode="r")
    reader.consumers.reset_offset("group", {("orders", 0): 6})
    path = reader.consumers.folder("group") / "consumerOffset.json"
    if mode == "rw":
        reader.close()
    store = reader if mode == "r" else open_store()
    is_locked: dict[str, bool] = {}
    reset = ConsumerOffsetManager.reset_offsets

    def seen(table: ConsumerOffsetManager, group: str, offsets: Mapping[tuple[str, int], ReadOffset]) -> None:
        lock = FileLock.take(table._path.with_suffix(".lock"))
        is_locked[str(table._path)] = lock is None
        if lock is not None:
            lock.release()
        reset(table, group, offsets)

    monkeypatch.setattr(ConsumerOffsetManager, "reset_offsets", seen)
    store.consumers.reset_offset("group", {("orders", 0): 7})
    assert is_locked[str(path)]
    assert ConsumerOffsetManager(path, read_only).query_offset("group", "orders", 0) == 7
