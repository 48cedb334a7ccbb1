"""A store whose folder is moved while it is open, as logs are rotated."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import verify
from tests.store.conftest import SMALL


def put_until_refused(store: mqstore.MessageStore, numbers: Iterator[int]) -> None:
    """Puts until the log's file is full."""
    for number in numbers:
        store.put("t", b"%d" % number + bytes(1000), keys=f"k{number}", queue_id=0)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_store_that_is_moved_stays_one_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_replaced: bool
) -> None:
    path, moved = tmp_path / "store", tmp_path / "moved"
    acknowledged = iter(range(10_000))
    store = mqstore.open(path, "rw", **SMALL)
    store.put("t", b"first", queue_id=0)
    path.rename(moved)
    other = mqstore.open(path, "rw", **SMALL) if is_replaced else None
    if other is not None:
        other.put("others", b"first", queue_id=0)
        other.flush()
    reason = f"the store was moved or replaced: {path}/lock is not the file that was locked"
    with pytest.raises(mqstore.StoreIOError, match=reason):
        put_until_refused(store, acknowledged)
    with pytest.raises(mqstore.StoreIOError, match="moved or replaced"):
        store._engine.replace_config(path / "config" / "delayOffset.json", b"{}")
    with pytest.raises(mqstore.StoreIOError, match="moved or replaced"):
        store.close()
    assert all("moved or replaced" in record.message for record in caplog.records)
    # Nothing of it is in the folder that has its name by now.
    assert path.exists() == is_replaced
    if other is not None:
        assert [entry.name for entry in (path / "consumequeue").iterdir()] == ["others"]
        assert (path / "abort").exists()
        other.put("others", b"second", queue_id=0)
        other.close()
        assert verify(path, **SMALL)[0].is_whole
    # What was acknowledged has moved with its folder.
    count = next(acknowledged) - 1
    with mqstore.open(moved, "rw", **SMALL) as store:
        bodies = [bytes(message.body).rstrip(b"\0") for message in store.topic("t")]
        assert bodies == [b"first", *(b"%d" % number for number in range(count))]
        assert len(store.query_message("t", f"k{count - 1}")) == 1
    assert verify(moved, **SMALL)[0].is_whole
