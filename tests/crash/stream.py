"""What the writer that is killed puts: every message can be made again from its name."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["MOST_AT_ONCE", "QUEUES", "TOPICS", "Put", "body_of", "properties_of", "puts"]

TOPICS = ("orders", "payments", "audit")
QUEUES = 3
MOST_AT_ONCE = 12
"""Most messages of one call."""
_LARGEST_BODY = 1500


@dataclass(frozen=True)
class Put:
    """One call: messages of one topic and queue."""

    topic: str
    queue_id: int
    names: tuple[str, ...]
    is_many: bool


def body_of(name: str) -> bytes:
    """The body of a message, which says its name; some are mostly zeros, as what was never written is."""
    rnd = random.Random(name)
    size = int(_LARGEST_BODY * rnd.random() ** 3)
    filling = bytes(size) if rnd.random() < 0.3 else rnd.randbytes(size)
    return name.encode() + b"|" + filling


def properties_of(name: str) -> dict[str, str]:
    """The properties of a message; some are mostly zeros too."""
    rnd = random.Random(f"properties of {name}")
    return {"zeros": "\0" * rnd.randint(1, 700)} if rnd.random() < 0.2 else {}


def puts(life: int, thread: int) -> Iterator[Put]:
    """The calls of one thread in one life, without end."""
    rnd = random.Random(f"{life} {thread}")
    number = 0
    while True:
        count = rnd.randint(2, MOST_AT_ONCE) if rnd.random() < 0.2 else 1
        names = tuple(f"{life}.{thread}.{number + further}" for further in range(count))
        number += count
        yield Put(rnd.choice(TOPICS), rnd.randrange(QUEUES), names, count > 1)
