"""What the real store deletes, and what mqstore does."""

import os
import time
from pathlib import Path
from typing import Any

import mqstore
from tests.compat.java_store import JavaStore
from tests.compat.peer.messages import messages
from tests.compat.streams import FEATURES, options_for
from tests.store_files import copy_store

DAY_S = 86_400
_END_PHY_OFFSET_AT = 24
"""In the header of an index file."""


def files_of(store: Path) -> dict[str, set[str]]:
    """The files of the log and of each queue, those aside that were made ahead; how many of the index."""
    with mqstore.open(store) as opened:
        end = opened.get_max_phy_offset()
    found = {"commitlog": {path.name for path in (store / "commitlog").iterdir() if int(path.name) < end}}
    for path in (store / "consumequeue").glob("*/*/*"):
        found.setdefault(str(path.parent.relative_to(store)), set()).add(path.name)
    return found | {"index": {path.name for path in (store / "index").iterdir()}}


def last_of_first_index_file(store: Path) -> int:
    """The last offset of the log that the first index file speaks of."""
    header = min((store / "index").iterdir()).read_bytes()[: _END_PHY_OFFSET_AT + 8]
    return int.from_bytes(header[_END_PHY_OFFSET_AT:], "big")


def test_the_same_files_go(java: JavaStore, tmp_path: Path, seed: int) -> None:
    options: dict[str, Any] = options_for(set(FEATURES)) | {"fileReservedTime": "24"}
    java.run("put", tmp_path / "java", options, messages(seed, 900, set(FEATURES)))
    log = sorted((tmp_path / "java" / "commitlog").iterdir())
    # So many that an index file goes with them.
    old = [path for path in log if int(path.name) <= last_of_first_index_file(tmp_path / "java")]
    assert len(log) > len(old) + 2
    now = time.time()
    for path in old:
        os.utime(path, (now - 2 * DAY_S, now - 2 * DAY_S))
    before = files_of(tmp_path / "java")
    ours = copy_store(tmp_path / "java", tmp_path / "ours")
    by_stored_times = copy_store(tmp_path / "java", tmp_path / "by stored times")
    java.run("clean", tmp_path / "java", options)
    with mqstore.open(ours, "rw", compat=True, **options) as store:
        assert store.execute_delete_files_manually() == len(old)
        mins = {(topic, queue_id): min_offset for topic, queue_id, min_offset, *_ in store._queues()}
    after = files_of(tmp_path / "java")
    assert files_of(ours) == after
    assert before["commitlog"] - after["commitlog"] == {path.name for path in old}
    assert len(after["index"]) < len(before["index"])
    with mqstore.open(tmp_path / "java", compat=True, **options) as store:
        assert {(topic, queue_id): min_offset for topic, queue_id, min_offset, *_ in store._queues()} == mins
    # A file whose time says nothing is not deleted for it.
    with mqstore.open(by_stored_times, "rw", **options) as store:
        assert store.execute_delete_files_manually() == 0
