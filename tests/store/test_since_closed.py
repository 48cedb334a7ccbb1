"""Queues of a closed store that lost what they had: it is known, and comes back."""

import json
import shutil
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import verify
from tests.compat.java_store import JavaStore
from tests.compat.streams import SMALL_FILES

COUNT = 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store of several log files, one queue of which has messages in the first one alone."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        for number in range(COUNT):
            store.put("old", str(number).encode(), queue_id=2, keys=f"k{number}")
        for _ in range(400):
            store.put("t", bytes(600), queue_id=0)
    assert len(list((path / "commitlog").iterdir())) > 4
    return path


def test_a_queue_whose_folder_is_gone_comes_back_and_goes_on(path: Path) -> None:
    shutil.rmtree(path / "consumequeue/old")
    with mqstore.open(path) as reader:
        assert reader.report().is_whole
        assert [message.body for message in reader.select("old")] == [str(number).encode() for number in range(COUNT)]
    assert not (path / "consumequeue/old").exists()
    assert verify(path, **SMALL_FILES)[0].counts == {"unit_missing": COUNT}
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        assert store.put("old", b"next", queue_id=2).logics_offset == COUNT
    assert verify(path, **SMALL_FILES)[0].counts == {}


def test_4_9_3_gives_its_offsets_again(java: JavaStore, path: Path) -> None:
    shutil.rmtree(path / "consumequeue/old")
    message = json.dumps({"topic": "old", "queueId": 2, "body": "YWdhaW4="})
    (result,) = (json.loads(line) for line in java.run("put", path, SMALL_FILES, [message]))
    assert result["logicsOffset"] == 0
    # It has written since: what was there when mqstore closed the store says nothing any more.
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        assert [message.body for message in store.select("old")] == [b"again"]
        assert store.put("old", b"next", queue_id=2).logics_offset == 1


def test_what_4_9_3_puts_behind_it_is_the_queue_s_next_message(java: JavaStore, path: Path) -> None:
    """The store that it opens is RocketMQ's, and what says how it was closed changes nothing of that."""
    message = json.dumps({"topic": "old", "queueId": 2, "body": "YWdhaW4="})
    (result,) = (json.loads(line) for line in java.run("put", path, SMALL_FILES, [message]))
    assert result["logicsOffset"] == COUNT
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        assert store.report().is_whole
        assert store.put("old", b"next", queue_id=2).logics_offset == COUNT + 1
