"""A process that may have few files open. Prints nothing where all is as it has to be.

``python -m tests.life.few_files SCENARIO FOLDER``
"""

import resource
import sys
from pathlib import Path
from typing import Any

import mqstore

OPTIONS: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20 * 100}
_QUEUE_COUNT = 300


def several_stores(folder: Path) -> None:
    """Three stores, of which each has more queues than the process may have files open."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_QUEUE_COUNT - 44, _QUEUE_COUNT - 44))
    stores = [mqstore.open(folder / str(number), "rw", **OPTIONS) for number in range(3)]
    for store in stores:
        for queue_id in range(_QUEUE_COUNT):
            store.put("t", b"x", queue_id=queue_id)
        store.flush()
    for store in stores:
        assert sum(1 for _ in store.select("t")) == _QUEUE_COUNT
        assert sum(len(store.topic("t").queue(queue_id)) for queue_id in range(_QUEUE_COUNT)) == _QUEUE_COUNT
    for store in stores:
        store.close()
    readers = [mqstore.open(folder / str(number), **OPTIONS) for number in range(3)]
    assert [sum(1 for _ in reader.select("t")) for reader in readers] == [_QUEUE_COUNT] * 3
    assert len(list(Path("/proc/self/fd").iterdir())) < _QUEUE_COUNT - 44


if __name__ == "__main__":
    {scenario.__name__: scenario for scenario in (several_stores,)}[sys.argv[1]](Path(sys.argv[2]))
