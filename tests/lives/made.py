"""The messages that a life puts: random ones, which are expected from then on."""

import random
from typing import Any

from tests.lives.expected import KEYS, QUEUE_COUNT, TAGS, TOPICS, Expected, Put

__all__ = ["Made", "arguments_of"]


class Made:
    """Makes messages."""

    def __init__(self, rnd: random.Random, expected: Expected, *, is_light: bool) -> None:
        """For a store that has light queues, or has none."""
        self._rnd, self._expected, self._is_light, self._count = rnd, expected, is_light, 0

    def one(self, most: int = 50) -> tuple[Put, dict[str, str]]:
        """One, with its own properties; ``most`` says whether it may be long."""
        rnd = self._rnd
        self._count += 1
        name = f"m{self._count}"
        properties = {"p": "x" * rnd.choice([0, 5, 200])} if rnd.random() < 0.3 else {}
        properties |= {"zero": "a\0b"} if rnd.random() < 0.1 else {}
        is_light = self._is_light and rnd.random() < 0.3
        light = tuple(rnd.sample(["x", "y", "z"], rnd.choice([1, 2]))) if is_light else ()
        if light:
            properties["INNER_MULTI_DISPATCH"] = ",".join(f"%LMQ%{name}" for name in light)
            # Of a store in which it was before.
            properties |= {"INNER_MULTI_QUEUE_OFFSET": ",".join("7" for _ in light)} if rnd.random() < 0.3 else {}
        put = Put(
            name=name,
            topic=rnd.choice(TOPICS),
            queue_id=rnd.randrange(QUEUE_COUNT),
            body=name.encode()
            + b"|"
            + rnd.randbytes(rnd.choice([0, 0, 10, 100, 100, 600, 3000][: 5 if most < 600 else 7])),
            keys=tuple(dict.fromkeys(rnd.choices(KEYS, k=rnd.choice([0, 1, 1, 2, 3])))),
            tags=rnd.choice(TAGS),
            light=light,
        )
        self._expected.puts[name] = put
        return put, properties

    def several(self, count: int) -> list[tuple[Put, dict[str, str]]]:
        """Several for one queue."""
        made = [self.one() for _ in range(count)]
        for put, _ in made:
            put.topic, put.queue_id = made[0][0].queue
        return made


def arguments_of(put: Put, properties: dict[str, str]) -> dict[str, Any]:
    """What a message is put with."""
    return {
        "queue_id": put.queue_id,
        "keys": list(put.keys) or None,
        "tags": put.tags,
        "properties": properties,
    }
