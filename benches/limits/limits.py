"""What calls from Python, memory, processor, disk and asyncio allow at the best, and how near mqstore comes.

Each limit is the least that any store has to do for the same call: take its arguments, encode a record, wait for memory
as often as the data's layout asks for, flush. Nothing is checked or found by it. Puts have two limits: the call alone,
and with what goes on beside it: fresh pages, writing back, units and entries made of the records. Limit and mqstore are
timed in turns.
"""

import argparse
import asyncio
import contextlib
import functools
import importlib.machinery
import importlib.util
import itertools
import mmap
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table

import mqstore

CORES = os.cpu_count() or 1
QUEUES = 8
BATCH = 1000
BATCH_COUNT = 32
"""Messages that are got at once."""
RECORD_SIZE = 1024 + 128
"""Bytes of a record with a body of 1 KiB, about."""
KEY_STEPS = 4
"""Slot, entry, and a record's begin and end: each in a page of its own."""
_BESIDE_BODY = 256
"""At least as many bytes as a record of these benches has beside its body."""
TIME_STEPS = 6
"""Unit and record of the last three steps; the ones before stay in the cache."""


Load: TypeAlias = Callable[[Callable[..., object], int, int], float]
"""Puts bodies of a size so many times, and gives seconds for one."""


@dataclass(frozen=True)
class Limit:
    """A limit, and mqstore's way of the same: each gives seconds for one of what is counted."""

    name: str
    least: Callable[[], float]
    ours: Callable[[], float]


def _load_limits(library: Path) -> Any:
    loader = importlib.machinery.ExtensionFileLoader("limits", str(library))
    spec = importlib.util.spec_from_loader("limits", loader)
    if spec is None:
        raise SystemExit(f"{library} is no extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _each(count: int, call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) / count


def _body(size: int) -> bytes:
    return random.Random(7).randbytes(size)


def _one_by_one(put: Callable[..., object], size: int, count: int) -> float:
    body = _body(size)

    def load() -> None:
        for number in range(count):
            put("bench", body, keys=f"key{number:07}", tags="TagA", queue_id=number % QUEUES, unique_key=False)

    return _each(count, load)


def _in_calls(put_many: Callable[..., object], size: int, count: int) -> float:
    body = _body(size)

    def load() -> None:
        for start in range(0, count, BATCH):
            keys = [f"key{number:07}" for number in range(start, start + BATCH)]
            queue_id = start // BATCH % QUEUES
            put_many("bench", [body] * BATCH, keys=keys, tags="TagA", queue_id=queue_id, unique_key=False)

    return _each(count, load)


def _put_and_dispatched(store: mqstore.MessageStore, size: int, count: int, *, in_calls: bool = False) -> float:
    """Dispatch keeps up: it is done when the time ends."""

    def all_of_it() -> None:
        if in_calls:
            _in_calls(store.put_many, size, count)
        else:
            _one_by_one(store.put, size, count)
        while store.dispatch_behind_bytes():
            time.sleep(0.0005)

    return _each(count, all_of_it)


def _with_memory_in_hand(stores: "Stores", way: Callable[[], float]) -> Callable[[], float]:
    """Memory that a host hands out for the first time costs more than all else: it would be whose who comes first."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE

    def in_hand() -> float:
        mmap.mmap(-1, 2 * stores.count * RECORD_SIZE, flags=flags).close()
        return way()

    return in_hand


def _keys(count: int, seed: int) -> list[str]:
    rnd = random.Random(seed)
    return [f"key{rnd.randrange(count):07}" for _ in range(count // 5)]


class Stores:
    """Stores that were written before, one a size of bodies, and memory as large as the larger one's log."""

    def __init__(self, folder: Path, count: int, limits: Any) -> None:
        """One store that is there to be read; `limits` is the extension module."""
        self.count, self.folder, self.limits = count, folder, limits
        self.memory = limits.Memory(count * RECORD_SIZE)
        self._numbers = itertools.count()
        self._opened: list[mqstore.MessageStore] = []
        self._crashed: mqstore.MessageStore | None = None
        self.read = self.fresh()
        _one_by_one(self.read.put, 1024, count)

    def fresh(self, **options: Any) -> mqstore.MessageStore:
        """A store that has been put to, so that what comes first is over."""
        store = mqstore.open(self.folder / str(next(self._numbers)), "rw", **options)
        store.put_many("warm", [b"warm"] * 1000)
        self._opened.append(store)
        return store

    def open_after_crash(self) -> float:
        """Seconds to open a store of bodies of 1 KiB that was left as by a crash, its pages in memory."""
        if self._crashed is None:
            self._crashed = self.fresh()
            _one_by_one(self._crashed.put, 1024, self.count)
        self._opened.remove(self._crashed)
        self._crashed.close()
        (self._crashed.path / "abort").touch()
        begin = time.perf_counter()
        self._crashed = mqstore.open(self._crashed.path, "rw")
        taken = time.perf_counter() - begin
        self._opened.append(self._crashed)
        return taken

    def records(self) -> Any:
        """The records of the first log file of the store that is there to be read."""
        first, second = (self.read.get_message("bench", queue_id, 0, 1).messages[0] for queue_id in (0, 1))
        at = first.commit_log_offset
        return self.limits.Records(self.read.path / "commitlog" / f"{0:020}", at, second.commit_log_offset - at)

    def remove(self, store: mqstore.MessageStore) -> None:
        """Closes one, and removes it."""
        self._opened.remove(store)
        store.close()
        shutil.rmtree(store.path)

    def close(self) -> None:
        """Closes all, and removes them."""
        for store in self._opened:
            store.close()
        shutil.rmtree(self.folder)


def puts(stores: Stores) -> Iterator[Limit]:
    """Limits of puts: into a file whose pages are ready, as if nothing else were to do, and into a log that grows."""
    for size, name in ((100, "100 B"), (1024, "1 KiB")):
        for load, what in ((_one_by_one, "put"), (_in_calls, f"put_many of {BATCH}")):
            for into, how in ((_into_a_file, "the call alone"), (_into_a_log, "with what goes on beside it")):
                yield Limit(
                    f"{what}, {name}: {how}",
                    _with_memory_in_hand(stores, functools.partial(into, stores, size, load)),
                    _with_memory_in_hand(
                        stores, functools.partial(_put_to_fresh, stores, size, in_calls=load is _in_calls)
                    ),
                )


def _put_to_fresh(stores: Stores, size: int, *, in_calls: bool) -> float:
    store = stores.fresh()
    try:
        return _put_and_dispatched(store, size, stores.count, in_calls=in_calls)
    finally:
        stores.remove(store)


def _into_a_file(stores: Stores, size: int, load: Load) -> float:
    file = stores.folder / "limit"
    memory = stores.limits.Memory.of_new_file(file, stores.count * (size + _BESIDE_BODY))
    put = memory.put if load is _one_by_one else memory.put_many
    try:
        return load(put, size, stores.count)
    finally:
        del put, memory
        file.unlink()


def _into_a_log(stores: Stores, size: int, load: Load) -> float:
    folder = stores.folder / "limit"
    folder.mkdir()
    try:
        log = stores.limits.Memory.of_growing_file(folder, stores.count * (size + _BESIDE_BODY))
        begin = time.perf_counter()
        load(log.put if load is _one_by_one else log.put_many, size, stores.count)
        log.finish()
        return (time.perf_counter() - begin) / stores.count
    finally:
        shutil.rmtree(folder)


def look_ups(stores: Stores) -> Iterator[Limit]:
    """Limits of look-ups: they wait for memory."""
    memory, store, count = stores.memory, stores.read, stores.count
    keys = _keys(count, 11)
    first = store.get_message_store_time_stamp("bench", 0, 0)
    last = store.get_message_store_time_stamp("bench", 0, store.get_max_offset_in_queue("bench", 0) - 1)
    rnd = random.Random(11)
    times = [first + int(rnd.random() * max(1, last - first)) for _ in keys]
    yield Limit(
        "query by key",
        lambda: _each(len(keys), lambda: [memory.look_up("bench", key, KEY_STEPS) for key in keys]),
        lambda: _each(len(keys), lambda: [store.query_message("bench", key) for key in keys]),
    )
    yield Limit(
        "query by keys, in one call",
        lambda: _each(len(keys), lambda: memory.look_up_many(keys, KEY_STEPS, CORES)),
        lambda: _each(len(keys), lambda: store.query_messages("bench", keys)),
    )
    yield Limit(
        "offset by time",
        lambda: _each(len(keys), lambda: [memory.look_up("bench", key, TIME_STEPS) for key in keys]),
        lambda: _each(
            len(keys),
            lambda: [store.get_offset_in_queue_by_time("bench", n % QUEUES, at) for n, at in enumerate(times)],
        ),
    )


def reading(stores: Stores) -> Iterator[Limit]:
    """Limits of what touches each byte: copying the bodies, and putting all that records hold into columns."""
    store, records = stores.read, stores.records()

    def to_arrow(*, use_threads: bool = True) -> float:
        def all_rows() -> int:
            return sum(batch.num_rows for batch in store.select("bench").to_arrow(use_threads=use_threads))

        return _each(stores.count, all_rows)

    def columns(thread_count: int) -> float:
        return _all_of(records, lambda: records.read_columns(QUEUES, thread_count))

    yield Limit(
        "get to Arrow: copying the bodies", lambda: _all_of(records, lambda: records.copy_bodies(1024, CORES)), to_arrow
    )
    yield Limit("get to Arrow: all columns", lambda: columns(CORES), to_arrow)
    yield Limit(
        "get to Arrow: all columns, on one core", lambda: columns(1), functools.partial(to_arrow, use_threads=False)
    )
    yield Limit(
        "get decoded to Python objects",
        lambda: _all_of(records, lambda: _least_objects(records)),
        lambda: _each(stores.count, lambda: _read_objects(store)),
    )
    yield Limit(
        "open after a crash: CRCs, units and entries",
        lambda: _all_of(records, lambda: _recovered(stores.folder, records)),
        lambda: stores.open_after_crash() / stores.count,
    )


def _all_of(records: Any, read: Callable[[], int]) -> float:
    there: int = records.count
    begin = time.perf_counter()
    found = read()
    taken = time.perf_counter() - begin
    if found != there:
        raise SystemExit(f"{found} records were read, of {there}")
    return taken / there


def _least_objects(records: Any) -> int:
    read = 0
    for queue_id in range(QUEUES):
        first = queue_id
        while found := records.objects(first, QUEUES, BATCH_COUNT):
            read += sum(len(message.body) >= 0 for message in found)
            first += len(found) * QUEUES
    return read


def _recovered(folder: Path, records: Any) -> int:
    derived = folder / "derived"
    derived.mkdir()
    try:
        return int(records.recover(derived, CORES))
    finally:
        shutil.rmtree(derived)


def _read_objects(store: mqstore.MessageStore) -> None:
    for queue_id in range(QUEUES):
        offset = 0
        while found := store.get_message("bench", queue_id, offset, BATCH_COUNT):
            for message in found.messages:
                assert len(message.body) >= 0
            offset = found.next_begin_offset


@contextlib.contextmanager
def _allocated(folder: Path, count: int) -> Iterator[int]:
    """A file with room for so many records, removed in the end."""
    path = folder / "flushed"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.posix_fallocate(file, 0, count * RECORD_SIZE)
        yield file
    finally:
        os.close(file)
        path.unlink()


def _flushed(folder: Path, count: int, *, by_each: bool) -> float:
    """Records of four threads: each flush is for all four, without anybody to wait for it, or each flushes its own."""
    numbers = iter(range(count))

    def load(size: int) -> None:
        record = _body(size)
        for number in numbers:
            os.pwrite(file, record, number * size)
            os.fdatasync(file)

    def in_threads() -> None:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(load, [RECORD_SIZE] * 4))

    def by_one() -> None:
        nonlocal numbers
        numbers = iter(range(count // 4))
        load(4 * RECORD_SIZE)

    with _allocated(folder, count) as file:
        return _each(count, in_threads if by_each else by_one)


def _in_threads(put: Callable[..., object], count: int) -> float:
    def load() -> None:
        threads = [threading.Thread(target=_one_by_one, args=(put, 1024, count // 4)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return _each(count, load)


IN_FLIGHT = 256


async def _tasks(put: Callable[..., Any], count: int) -> None:
    body = _body(1024)

    async def one(first: int) -> None:
        for number in range(first, count, IN_FLIGHT):
            await put("bench", body, keys=f"key{number:07}", tags="TagA", queue_id=number % QUEUES, unique_key=False)

    await asyncio.gather(*(one(first) for first in range(IN_FLIGHT)))


class _Futures:
    """What tasks that put to memory wait for."""

    def __init__(self, memory: Any, woken: Callable[[], object]) -> None:
        """`woken` is called for the first that waits, of those that are done together."""
        self._memory, self._woken = memory, woken
        self._waiting: list[asyncio.Future[bool]] = []

    async def put(self, *given: object, **named: object) -> None:
        """Puts, and waits until it is done."""
        self._memory.put(*given, **named)
        self._waiting.append(future := asyncio.get_running_loop().create_future())
        if len(self._waiting) == 1:
            self._woken()
        await future

    def take(self) -> list[asyncio.Future[bool]]:
        """All that wait by now."""
        taken, self._waiting = self._waiting, []
        return taken


def _done(futures: list[asyncio.Future[bool]]) -> None:
    for future in futures:
        future.set_result(True)


def _least_tasks(memory: Any, count: int) -> float:
    """Each task waits for a future, and all are done at once."""
    futures = _Futures(memory, lambda: asyncio.get_running_loop().call_soon(lambda: _done(futures.take())))
    return _each(count, lambda: asyncio.run(_tasks(futures.put, count)))


def _least_flushed_tasks(memory: Any, folder: Path, count: int) -> float:
    """The same, where a thread writes and flushes what came in during its last flush, and tells the loop."""
    is_over = False
    waits = threading.Event()
    futures = _Futures(memory, waits.set)
    records = _body(IN_FLIGHT * RECORD_SIZE)

    def flush(loop: asyncio.AbstractEventLoop) -> None:
        end = 0
        while waits.wait() and not is_over:
            waits.clear()
            taken = futures.take()
            end += os.pwrite(file, records[: len(taken) * RECORD_SIZE], end)
            os.fdatasync(file)
            loop.call_soon_threadsafe(_done, taken)

    async def beside() -> None:
        nonlocal is_over
        flusher = threading.Thread(target=flush, args=(asyncio.get_running_loop(),))
        flusher.start()
        try:
            await _tasks(futures.put, count)
        finally:
            is_over = True
            waits.set()
            flusher.join()

    with _allocated(folder, count) as file:
        return _each(count, lambda: asyncio.run(beside()))


def flushes(stores: Stores) -> Iterator[Limit]:
    """Limits of what waits for the disk."""
    count = max(400, stores.count // 20)
    store = stores.fresh(flush_disk_type="SYNC_FLUSH")
    for how, by_each in (("one flushes for all", False), ("each flushes", True)):
        yield Limit(
            f"put, synchronous flush, 4 threads: {how}",
            functools.partial(_flushed, stores.folder, count, by_each=by_each),
            functools.partial(_in_threads, store.put, count),
        )
    many = 5 * count
    for how, least in (
        ("no disk", functools.partial(_least_tasks, stores.memory, many)),
        ("one flushes for all", functools.partial(_least_flushed_tasks, stores.memory, stores.folder, many)),
    ):
        yield Limit(
            f"put, synchronous flush, {IN_FLIGHT} in flight: {how}",
            least,
            lambda: _each(many, lambda: asyncio.run(_tasks(store.aio.put, many))),
        )


def main() -> None:
    """Times the limits and mqstore in turns and prints both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True, help="the extension module with the limits")
    parser.add_argument("--folder", type=Path, default=None, help="where the stores are made")
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages a store")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="limits with this in their names")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    stores = Stores(folder, given.messages, _load_limits(given.library))
    table = Table("", "limit, µs", "mqstore, µs", "of the limit", title=f"the median of {given.rounds} rounds")
    try:
        for limit in itertools.chain(puts(stores), look_ups(stores), reading(stores), flushes(stores)):
            if given.only not in limit.name:
                continue
            rounds = [[way() for way in (limit.least, limit.ours)] for _ in range(given.rounds)]
            least, ours = (statistics.median(of_all) * 1e6 for of_all in zip(*rounds, strict=True))
            table.add_row(limit.name, f"{least:.2f}", f"{ours:.2f}", f"{ours / least:.2f}")
    finally:
        stores.close()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
