"""A store that somebody writes to while it is checked: what is still on its way is no damage."""

import threading
from pathlib import Path
from typing import Any

import mqstore
from mqstore.verify import verify
from tests.compat.streams import SMALL_FILES

OPTIONS: dict[str, Any] = SMALL_FILES | {"maxIndexNum": 400, "maxHashSlotNum": 100}


def put(store: mqstore.MessageStore, count: int) -> None:
    for number in range(count):
        store.put(f"t{number % 3}", bytes(200), keys=[f"k{number}", "all"], queue_id=number % 2)


def test_nothing_is_wrong_with_a_store_that_is_open(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as store:
        for _ in range(3):
            put(store, 300)
            _, findings = verify(path, **OPTIONS)
            assert not findings
        store.flush()
        put(store, 10)
        # What was flushed counts as ever.
        done, _ = verify(path, **OPTIONS)
        assert done.unit_count >= 900
        queue = min((path / "consumequeue" / "t0" / "0").iterdir())
        with queue.open("r+b") as file:
            file.write(bytes(20))
        done, _ = verify(path, **OPTIONS)
        assert done.counts["unit_missing"] == 1


def test_nothing_is_wrong_with_a_store_that_is_being_written_to(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as store:
        is_enough = threading.Event()

        def put_on() -> None:
            while not is_enough.is_set():
                put(store, 50)

        writer = threading.Thread(target=put_on)
        writer.start()
        try:
            for _ in range(8):
                _, findings = verify(path, range_size=100_000, **OPTIONS)
                assert not findings
        finally:
            is_enough.set()
            writer.join()
