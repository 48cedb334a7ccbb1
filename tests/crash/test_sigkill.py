"""A writer that is killed in the middle of puts loses nothing that it had acknowledged."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import mqstore
from tests.compat.java_store import JavaStore
from tests.compat.naive_model import NaiveModel
from tests.compat.test_java import BothRead
from tests.crash.checks import Place, check_equals_rebuilt, check_messages, check_stays, everything_in
from tests.crash.killing import Acknowledged, kill_while_opening, kill_while_putting
from tests.store_files import copy_store

LIVES = int(os.environ.get("MQSTORE_KILLS", "8"))
"""Kills of each store."""
MOST_ACKS = 500
SMALL: dict[str, Any] = {
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 1000,
    "maxHashSlotNum": 97,
    "maxIndexNum": 400,
}
"""So small that each life rolls all of them."""
# So often that kills come between and within passes.
OFTEN = {"flushIntervalCommitLog": 5, "flushIntervalConsumeQueue": 7, "flushConsumeQueueThoroughInterval": 40}
EXTENSION = {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 4096}
STORES: dict[str, dict[str, Any]] = {
    "asynchronous": SMALL,
    "synchronous": SMALL | OFTEN | EXTENSION | {"flushDiskType": "SYNC_FLUSH"},
    "flushed often": SMALL | OFTEN | {"mappedFileSizeCommitLog": 4 << 20},
    "extension": SMALL | OFTEN | EXTENSION,
    "transient store pool": SMALL | OFTEN | {"transientStorePoolEnable": True, "commitIntervalCommitLog": 3},
}


class Killed:
    """A store whose writers are killed one after the other, and what is known of it."""

    def __init__(self, store: Path, options: dict[str, Any], rnd: random.Random) -> None:
        """A store that does not exist yet."""
        self.store, self._options, self._rnd = store, options, rnd
        self.known: dict[str, Place] = {}
        self._acks: list[Acknowledged] = []

    def live(self, life: int) -> None:
        """Lets a writer put and kills it."""
        self._acks += kill_while_putting(self.store, self._options, life, self._rnd, MOST_ACKS)

    def check(self) -> None:
        """Looks at what it left as a reader, and as a writer, which may be killed in between."""
        before = everything_in(self.store)
        with mqstore.open(self.store, "r", **self._options) as reader:
            self._look_at(reader)
        assert everything_in(self.store) == before
        for _ in range(self._rnd.choice([0, 0, 1, 2])):
            kill_while_opening(self.store, self._options, self._rnd)
        with mqstore.open(self.store, "rw", **self._options) as writer:
            self._look_at(writer)
        check_equals_rebuilt(self.store, self._options, self.store.with_name("rebuilt"))
        check_stays(self.store, self._options)

    def _look_at(self, store: mqstore.MessageStore) -> None:
        if self._options.get("transientStorePoolEnable"):
            # What was not committed goes with the process, from some message on.
            self._acks = [ack for ack in self._acks if ack.offset < store.get_max_phy_offset()]
        self.known = check_messages(store, self._acks, self.known)
        self._acks = []


@pytest.mark.parametrize("name", STORES)
def test_what_was_acknowledged_is_there(name: str, tmp_path: Path, seed: int) -> None:
    killed = Killed(tmp_path / "store", STORES[name], random.Random(seed))
    for life in range(LIVES):
        killed.live(life)
        killed.check()
        if life % 10 == 9:
            # Not ever larger: another store, as new as the first.
            shutil.rmtree(killed.store)
            killed.known = {}
    assert killed.known or LIVES % 10 == 0


@pytest.mark.parametrize("name", ["asynchronous", "extension"])
def test_the_real_store_reads_what_a_killed_writer_left(name: str, java: JavaStore, tmp_path: Path, seed: int) -> None:
    rnd = random.Random(seed)
    options = {option: str(value).lower() for option, value in (SMALL | STORES[name]).items()}
    killed = Killed(tmp_path / "store", STORES[name], rnd)
    for life in range(2):
        killed.live(life)
        as_left = copy_store(killed.store, tmp_path / f"as left {life}")
        folders = ("commitlog", "consumequeue", "consumequeue_ext")
        files = (path for folder in folders for path in (as_left / folder).rglob("*") if path.is_file())
        has_empty_file = any(path.stat().st_size == 0 for path in files)
        dumped = java.start("dump", as_left, options)
        killed.check()
        if has_empty_file and dumped.wait() != 0:
            # One that was just being made: 4.9.3 refuses it until mqstore has recovered the store.
            continue
        model = NaiveModel.of(dumped.lines())
        assert sorted(model.records) == sorted(place.offset for place in killed.known.values())
        for place in killed.known.values():
            assert model.messages_of(place.topic, place.queue_id)[place.queue_offset] == place.offset
    BothRead(java, killed.store, options, seed).check()
