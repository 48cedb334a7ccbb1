"""A process that may have few files open. Prints nothing where all is as it has to be.

``python -m tests.life.few_files SCENARIO FOLDER``
"""

import resource
import sys
from pathlib import Path
from typing import Any

import mqstore
from mqstore.verify import repair, verify

OPTIONS: dict[str, Any] = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20 * 100}
_QUEUE_COUNT = 300
_LOG_FILE_COUNT = 300
_INDEX_FILE_COUNT = 200
_FEW = 100


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


def a_long_log(folder: Path) -> None:
    """A log of more files than the process may have open is written, read in all ways, checked and repaired."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FEW, _FEW))
    path, options = folder / "long", OPTIONS | {"mappedFileSizeCommitLog": 4096}
    numbers = range(3 * _LOG_FILE_COUNT)
    with mqstore.open(path, "rw", **options) as store:
        for number in numbers:
            store.put("t", b"%1100d" % number, queue_id=0, keys=f"k{number}")
        assert len(list((path / "commitlog").iterdir())) >= _LOG_FILE_COUNT
        assert [int(bytes(message.body)) for message in store.topic("t").queue(0)] == [*numbers]
    for pread in (False, True):
        with mqstore.open(path, pread=pread, **options) as reader:
            messages = reader.topic("t").queue(0)[:]
            assert [int(bytes(message.body)) for message in messages] == [*numbers]
            assert [int(bytes(message.body)) for message in reader.select()] == [*numbers]
            assert [reader.select("t", key=f"k{number}").count() for number in numbers] == [1] * len(numbers)
            # What was given out stays, and holds no file open.
            assert len(list(Path("/proc/self/fd").iterdir())) < _FEW
    audit, findings = verify(path, **options)
    assert (audit.record_count, findings) == (len(numbers), [])
    repaired = repair(path, folder / "whole", **options)
    assert (repaired.message_count, repaired.lost) == (len(numbers), ())


def a_long_index(folder: Path) -> None:
    """An index of more files than the process may have open is written, asked in all ways, checked and repaired."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FEW, _FEW))
    path, options = folder / "index", OPTIONS | {"maxHashSlotNum": 5, "maxIndexNum": 10}
    numbers = range(9 * _INDEX_FILE_COUNT)
    some = numbers[::20]
    with mqstore.open(path, "rw", **options) as store:
        for number in numbers:
            store.put("t", b"%d" % number, queue_id=0, keys=f"k{number}")
        assert [store.select("t", key=f"k{number}").count() for number in some] == [1] * len(some)
    assert len(list((path / "index").iterdir())) >= _INDEX_FILE_COUNT
    with mqstore.open(path, "rw", **options) as store:
        store.put("t", b"last", queue_id=0, keys="last")
    for pread in (False, True):
        with mqstore.open(path, pread=pread, **options) as reader:
            assert [reader.select("t", key=f"k{number}").count() for number in some] == [1] * len(some)
            assert reader.select("t", key="last").count() == 1
            assert len(list(Path("/proc/self/fd").iterdir())) < _FEW
    audit, findings = verify(path, **options)
    assert (audit.record_count, findings) == (len(numbers) + 1, [])
    repaired = repair(path, folder / "whole", **options)
    assert (repaired.message_count, repaired.lost) == (len(numbers) + 1, ())


_SCENARIOS = (several_stores, a_long_log, a_long_index)

if __name__ == "__main__":
    {scenario.__name__: scenario for scenario in _SCENARIOS}[sys.argv[1]](Path(sys.argv[2]))
