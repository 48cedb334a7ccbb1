"""One store with 1, 100, 10,000 and 100,000 queues: what a message costs, and what the store takes.

Each store gets the same messages, 32 a queue and more, of 100 bytes with one key each, put one by one into queues
that follow each other by chance, and read in gets of 32. Each step runs in a process of its own.

    python benches/scale/queues.py [--queues 1 100 10000 100000] [--messages 3200000] [--folder FOLDER]
"""

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

from parts import Figures, end_part, resources, run_part, spent, table

import mqstore

BODY = random.Random(7).randbytes(100)
QUEUES_OF_TOPIC = 100
GET_COUNT = 32


def place(number: int) -> tuple[str, int]:
    """The topic and queue of a number."""
    return f"topic{number // QUEUES_OF_TOPIC}", number % QUEUES_OF_TOPIC


def put(given: argparse.Namespace) -> None:
    """Makes a store, fills it, and leaves it as a crash does."""
    places = [place(number) for number in range(given.queues)]
    order = random.Random(11)
    with mqstore.open(given.store, "rw") as store:
        put_one, keys = store.put, iter(range(given.messages))
        with spent() as puts:
            for _ in range(given.messages // given.queues):
                # Every queue once a round, so that each gets the same; in another order each time.
                order.shuffle(places)
                for topic, queue_id in places:
                    put_one(topic, BODY, keys=f"key{next(keys)}", queue_id=queue_id, unique_key=False)
            while store.dispatch_behind_bytes():
                time.sleep(0.0005)
        count = given.messages // given.queues * given.queues
        figures = {"put_us": puts.wall_s / count * 1e6, "put_cpu_us": puts.cpu_s / count * 1e6}
        end_part(figures | resources("_writing"), crash=True)


def open_and_close(given: argparse.Namespace) -> None:
    """Opens a store for writing, which recovers it, and closes it."""
    with spent() as opening:
        store = mqstore.open(given.store, "rw")
    figures = {"open_s": opening.wall_s, "open_cpu_s": opening.cpu_s, **resources("_opened")}
    with spent() as closing:
        store.close()
    end_part(figures | {"close_s": closing.wall_s})


def get(given: argparse.Namespace) -> None:
    """Reads every queue, in gets of 32."""
    with mqstore.open(given.store, "r") as store:
        count = size = 0
        with spent() as gets:
            for number in range(given.queues):
                topic, queue_id = place(number)
                offset, end = 0, store.get_max_offset_in_queue(topic, queue_id)
                while offset < end:
                    found = store.get_message(topic, queue_id, offset, GET_COUNT)
                    count += len(found)
                    size += found.buffer_total_size
                    offset = found.next_begin_offset
        expected = given.messages // given.queues * given.queues
        assert count == expected, f"{count} of {expected} messages"
        assert size > count * len(BODY)
        figures = {"get_us": gets.wall_s / count * 1e6, "get_cpu_us": gets.cpu_s / count * 1e6}
        end_part(figures | resources("_reading"))


def measure(queues: int, messages: int, folder: Path) -> Figures:
    """All figures of one store."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        store = Path(scratch, "store")
        options = {"queues": queues, "messages": messages}
        figures = run_part(__file__, "put", store, **options)
        crashed = run_part(__file__, "open", store, **options)
        figures |= {f"crashed_{name}": value for name, value in crashed.items()}
        figures |= run_part(__file__, "open", store, **options)
        figures |= run_part(__file__, "get", store, **options)
        shutil.rmtree(store)
    return figures


ROWS = {
    "put and dispatch, µs a message": "put_us",
    "put and dispatch, µs of processor time a message": "put_cpu_us",
    "get of 32, µs a message": "get_us",
    "get of 32, µs of processor time a message": "get_cpu_us",
    "open after a crash, s": "crashed_open_s",
    "open after a close, s": "open_s",
    "close, s": "close_s",
    "memory that is no file's, writing, MiB": "anonymous_mib_writing",
    "memory that is no file's, opened, MiB": "anonymous_mib_opened",
    "memory that is no file's, reading, MiB": "anonymous_mib_reading",
    "maps, writing": "maps_writing",
    "maps, reading": "maps_reading",
    "open files, writing": "files_writing",
    "open files, reading": "files_reading",
}


def main() -> None:
    """Measures stores and prints a table, or runs one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, nargs="+", default=[1, 100, 10_000, 100_000])
    parser.add_argument("--messages", type=int, default=3_200_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--part", choices=["put", "open", "get"], help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        (given.queues,) = given.queues
        {"put": put, "open": open_and_close, "get": get}[given.part](given)
        return
    found = [measure(queues, given.messages, given.folder) for queues in given.queues]
    header = ["", *(f"{queues:,}" for queues in given.queues), "last / first"]
    rows = []
    for name, figure in ROWS.items():
        values = [figures[figure] for figures in found]
        ratio = f"{values[-1] / values[0]:.2f}" if values[0] else ""
        rows.append([name, *(f"{value:.2f}" if value < 100 else f"{value:,.0f}" for value in values), ratio])
    print(table(header, rows))


if __name__ == "__main__":
    main()
