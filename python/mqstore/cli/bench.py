"""``mqstore bench``: the work of the Java store's driver, with the same names for the same figures."""

import asyncio
import json
import random
import threading
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import click

import mqstore
from mqstore.cli.store_call import StoreCall, end_without_closing, print_lines, store_call

__all__ = ["bench"]

_ROUNDS = 3
_MAY_BE_NONE = frozenset({"body", "inflight", "lookups", "rate", "warm"})
"""How often reading is timed; the best counts, as in the driver."""


@dataclass(frozen=True, kw_only=True)
class _Work:
    messages: int = 200_000
    body: int = 1024
    queues: int = 8
    threads: int = 1
    batch: int = 1
    lookups: int = 100_000
    warm: int = 50_000
    inflight: int = 0
    """Puts under way at once with asyncio, instead of threads; 0 for none."""
    rate: int = 0
    """Puts a second, of which the time that they take is looked at; 0 for as many as can be."""

    @classmethod
    def of(cls, call: StoreCall) -> "_Work":
        known = {field.name for field in fields(cls)}
        unknown = set(call.bench) - known
        if unknown:
            raise click.BadParameter(
                f"bench.{unknown.pop()}: expected one of {', '.join(sorted(known))}", param_hint="-o"
            )
        return cls(**{name: _count(name, value) for name, value in call.bench.items()})


def _count(name: str, value: str) -> int:
    least = 0 if name in _MAY_BE_NONE else 1
    if not value.isdecimal() or int(value) < least:
        raise click.BadParameter(f"bench.{name}={value!r}: expected a number of at least {least}", param_hint="-o")
    return int(value)


def _load(store: mqstore.MessageStore, topic: str, count: int, work: _Work) -> None:
    body = random.Random(7).randbytes(work.body)

    def one_by_one(first: int) -> None:
        put = store.put
        for number in range(first, count, work.threads):
            put(topic, body, keys=f"key{number}", tags="TagA", queue_id=number % work.queues, unique_key=False)

    def in_batches(first: int) -> None:
        for start in range(first * work.batch, count, work.threads * work.batch):
            numbers = range(start, min(count, start + work.batch))
            keys = [f"key{number}" for number in numbers]
            queue_id = start // work.batch % work.queues
            store.put_many(topic, [body] * len(keys), keys=keys, tags="TagA", queue_id=queue_id, unique_key=False)

    if work.inflight:
        asyncio.run(_load_in_flight(store, topic, count, work, body))
        return
    load = one_by_one if work.batch == 1 else in_batches
    threads = [threading.Thread(target=load, args=(number,)) for number in range(1, work.threads)]
    for thread in threads:
        thread.start()
    load(0)
    for thread in threads:
        thread.join()


def _paced(store: mqstore.MessageStore, topic: str, work: _Work) -> float:
    """The 99.9th percentile of the time from when a put was due to its end, in microseconds."""
    body = random.Random(7).randbytes(work.body)
    latencies = array("q", bytes(8 * work.messages))
    put, now, interval = store.put, time.perf_counter_ns, 1_000_000_000 // work.rate
    due = now()
    for number in range(work.messages):
        while now() < due:
            pass
        put(topic, body, keys=f"key{number}", tags="TagA", queue_id=number % work.queues, unique_key=False)
        latencies[number] = now() - due
        due += interval
    return sorted(latencies)[int(work.messages * 0.999)] / 1000


def _resident_anonymous() -> int:
    """Memory of the process that is no file's, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(kilobytes) * 1024


async def _load_in_flight(store: mqstore.MessageStore, topic: str, count: int, work: _Work, body: bytes) -> None:
    async def puts(first: int) -> None:
        put = store.aio.put
        for number in range(first, count, work.inflight):
            await put(topic, body, keys=f"key{number}", tags="TagA", queue_id=number % work.queues, unique_key=False)

    await asyncio.gather(*(puts(first) for first in range(work.inflight)))


def _await_dispatched(store: mqstore.MessageStore) -> None:
    while store.dispatch_behind_bytes():
        time.sleep(0.0005)


def _read(store: mqstore.MessageStore, topic: str, queues: int) -> int:
    count = size = 0
    for queue_id in range(queues):
        offset = 0
        while True:
            found = store.get_message(topic, queue_id, offset, 32)
            if len(found) == 0:
                break
            count += len(found)
            size += found.buffer_total_size
            offset = found.next_begin_offset
    return count if size or not count else 0


def _read_decoded(store: mqstore.MessageStore, topic: str, queues: int) -> int:
    count = 0
    for queue_id in range(queues):
        offset = 0
        while True:
            found = store.get_message(topic, queue_id, offset, 32)
            if len(found) == 0:
                break
            for message in found.messages:
                count += len(message.body) >= 0
            offset = found.next_begin_offset
    return count


def _read_arrow(store: mqstore.MessageStore, topic: str, _queues: int) -> int:
    return sum(batch.num_rows for batch in store.select(topic).to_arrow())


def _read_arrow_views(store: mqstore.MessageStore, topic: str, _queues: int) -> int:
    return sum(batch.num_rows for batch in store.select(topic).to_arrow(body="view"))


def _look_up(store: mqstore.MessageStore, topic: str, work: _Work, lookups: int) -> dict[str, float]:
    rnd = random.Random(11)
    keys = [f"key{rnd.randrange(work.messages)}" for _ in range(lookups)]
    begin = time.perf_counter()
    found = sum(len(store.query_message(topic, key)) for key in keys)
    figures: dict[str, float] = {
        "query_by_key_per_s": lookups / (time.perf_counter() - begin),
        "query_by_key_found": found,
    }
    begin = time.perf_counter()
    store.query_messages(topic, keys)
    figures["query_by_keys_per_s"] = lookups / (time.perf_counter() - begin)
    first = store.get_message_store_time_stamp(topic, 0, 0)
    last = store.get_message_store_time_stamp(topic, 0, store.get_max_offset_in_queue(topic, 0) - 1)
    times = [first + int(rnd.random() * max(1, last - first)) for _ in range(lookups)]
    begin = time.perf_counter()
    offsets = [store.get_offset_in_queue_by_time(topic, n % work.queues, at) for n, at in enumerate(times)]
    figures["offset_by_time_per_s"] = lookups / (time.perf_counter() - begin)
    figures["offset_by_time_sum"] = sum(offsets)
    begin = time.perf_counter()
    store.get_offsets_in_queue_by_time(topic, 0, times)
    figures["offset_by_times_per_s"] = lookups / (time.perf_counter() - begin)
    return figures


def _best(store: mqstore.MessageStore, work: _Work, read: Callable[[mqstore.MessageStore, str, int], int]) -> float:
    best = 0.0
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        best = max(best, read(store, "bench", work.queues) / (time.perf_counter() - begin))
    return best


def _figures(store: mqstore.MessageStore, work: _Work) -> dict[str, float]:
    if work.warm:
        _load(store, "warm", work.warm, work)
        _await_dispatched(store)
        _read(store, "warm", work.queues)
    figures: dict[str, float] = {
        name: getattr(work, name) for name in ("messages", "body", "queues", "threads", "batch")
    }
    begin = time.perf_counter()
    if work.rate:
        figures["put_latency_p999_us"] = _paced(store, "bench", work)
    else:
        _load(store, "bench", work.messages, work)
    put_s = time.perf_counter() - begin
    _await_dispatched(store)
    figures["put_per_s"] = work.messages / put_s
    figures["put_and_dispatch_per_s"] = work.messages / (time.perf_counter() - begin)
    figures["get_per_s"] = _best(store, work, _read)
    figures["get_decoded_per_s"] = _best(store, work, _read_decoded)
    figures["get_arrow_per_s"] = _best(store, work, _read_arrow)
    figures["get_arrow_views_per_s"] = _best(store, work, _read_arrow_views)
    figures |= _look_up(store, "bench", work, work.lookups)
    return figures | {"resident_anonymous_bytes": _resident_anonymous()}


@click.command
@store_call
def bench(call: StoreCall) -> None:
    """Time puts, dispatch, gets and look-ups, and print the figures.

    The work is the Java store's driver's: -o bench.messages, bench.body, bench.queues, bench.threads,
    bench.batch, bench.lookups, bench.warm, bench.rate, puts a second whose latency is looked at; and
    bench.inflight, puts under way at once with asyncio.
    """
    work = _Work.of(call)
    with call.open("rw") as store:
        figures = _figures(store, work)
        if call.crash:
            print_lines([json.dumps(figures)])
            end_without_closing()
        begin = time.perf_counter()
        store.close()
        figures["shutdown_s"] = time.perf_counter() - begin
    print_lines([json.dumps(figures)])
