"""Calls of the library from Python, by pytest-benchmark: what the crossing and the engine cost together."""

import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import mqstore

MESSAGES = 50_000
QUEUES = 8


@pytest.fixture
def store(tmp_path: Path) -> Iterator[mqstore.MessageStore]:
    with mqstore.open(tmp_path / "store", "rw") as store:
        yield store


@pytest.fixture
def filled(store: mqstore.MessageStore) -> mqstore.MessageStore:
    body = random.Random(7).randbytes(1024)
    for first in range(0, MESSAGES, 1000):
        keys = [f"key{number}" for number in range(first, first + 1000)]
        store.put_many("bench", [body] * 1000, keys=keys, tags="TagA", queue_id=first // 1000 % QUEUES)
    store.refresh()
    return store


@pytest.mark.parametrize("body_size", [100, 1024, 16_384])
def test_put(benchmark: BenchmarkFixture, store: mqstore.MessageStore, body_size: int) -> None:
    numbers, body = count(), bytes(body_size)

    def put() -> None:
        number = next(numbers)
        store.put("bench", body, keys=f"key{number}", tags="TagA", queue_id=number % QUEUES)

    benchmark(put)


@pytest.mark.parametrize("body_size", [100, 1024])
def test_put_many(benchmark: BenchmarkFixture, store: mqstore.MessageStore, body_size: int) -> None:
    bodies, keys = [bytes(body_size)] * 1000, [f"key{number}" for number in range(1000)]
    benchmark(lambda: store.put_many("bench", bodies, keys=keys, tags="TagA", queue_id=0))


def test_get(benchmark: BenchmarkFixture, filled: mqstore.MessageStore) -> None:
    found = benchmark(lambda: filled.get_message("bench", 0, 1000, 32))
    assert len(found) == 32


def test_get_decoded(benchmark: BenchmarkFixture, filled: mqstore.MessageStore) -> None:
    assert benchmark(lambda: sum(len(found.body) for found in filled.topic("bench").queue(0)[1000:1032])) == 32 * 1024


@pytest.mark.parametrize("body", ["binary", "view"])
def test_to_arrow(benchmark: BenchmarkFixture, filled: mqstore.MessageStore, body: str) -> None:
    rows = benchmark(lambda: sum(batch.num_rows for batch in filled.select("bench").to_arrow(body=body)))
    assert rows == MESSAGES


def test_query_by_key(benchmark: BenchmarkFixture, filled: mqstore.MessageStore) -> None:
    rnd = random.Random(11)
    assert len(benchmark(lambda: filled.query_message("bench", f"key{rnd.randrange(MESSAGES)}"))) == 1


def test_offset_by_time(benchmark: BenchmarkFixture, filled: mqstore.MessageStore) -> None:
    queue = filled.topic("bench").queue(0)
    first, last = queue[0].store_timestamp, queue[-1].store_timestamp
    rnd = random.Random(11)
    benchmark(lambda: filled.get_offset_in_queue_by_time("bench", 0, rnd.randint(first, last)))


def test_open_after_a_clean_stop(benchmark: BenchmarkFixture, filled: mqstore.MessageStore) -> None:
    path = filled.path
    filled.close()
    benchmark(lambda: mqstore.open(path).close())
