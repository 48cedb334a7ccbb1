"""Timed messages, which the real store does not have: it opens a store with them and holds them."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import mqstore
from mqstore.store.delayed import DELIVER_AT, TIMED_TOPIC
from mqstore.verify import verify
from tests.compat.java_store import JavaStore
from tests.compat.naive_model import NaiveModel
from tests.compat.streams import SMALL_FILES
from tests.services.conftest import HandClock
from tests.waiting import wait_until

OPTIONS: dict[str, Any] = SMALL_FILES
AHEAD_MS = 2500
HOUR = 3_600_000


def bodies(store: mqstore.MessageStore) -> list[bytes]:
    """What is delivered."""
    return [bytes(message.body) for message in store.topic("orders")]


def test_the_real_store_holds_timed_messages_undelivered(java: JavaStore, tmp_path: Path) -> None:
    store = tmp_path / "store"
    # In the test's hand: what is soon due here may not be delivered before the real store has looked.
    clock = HandClock()
    clock.now_ms = now_ms = time.time_ns() // 1_000_000
    with mqstore.open(store, "rw", schedule_messages=True, clock=clock, **OPTIONS) as ours:
        ours.put("orders", b"delivered", queue_id=0, deliver_at=now_ms + 300)
        ours.put("orders", b"soon", queue_id=0, tags="T", deliver_at=now_ms + AHEAD_MS)
        ours.put("orders", b"later", queue_id=0, deliver_at=now_ms + HOUR)
        clock.now_ms += 300
        wait_until(lambda: bodies(ours) == [b"delivered"])
    # It looks at the store for longer than one of them waits, recovers it after a crash, and makes the queues anew.
    java.run("put", store, OPTIONS | {"crash": "true"}, [json.dumps({"topic": "others"}), '{"sleep": 3000}'])
    shutil.rmtree(store / "consumequeue")
    (store / "abort").touch()
    java.run("recover", store, OPTIONS)
    model = NaiveModel.of(java.run("dump", store, OPTIONS))
    assert len(model.messages_of(TIMED_TOPIC, 0)) == 3
    assert len(model.messages_of("orders", 0)) == 1
    _, findings = verify(store, **OPTIONS)
    assert not findings
    with mqstore.open(store, "rw", schedule_messages=True, **OPTIONS) as ours:
        assert ours._units(TIMED_TOPIC, 0, 1, 1)[0][2] == ord("T")
        assert ours.topic(TIMED_TOPIC).queue(0)[1].properties[DELIVER_AT] == str(now_ms + AHEAD_MS)
        wait_until(lambda: bodies(ours) == [b"delivered", b"soon"])
        assert ours._timed_waiting() == (1, now_ms + HOUR)
