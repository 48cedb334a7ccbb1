"""Groups that consume a store in its random life, and what each has been given."""

import random
from collections import defaultdict

import mqstore
from tests.lives.expected import TOPICS, Expected

__all__ = ["Groups"]

_GROUPS = ("g1", "g2")


class Groups:
    """Two groups a topic. One may miss nothing, and be given nothing else than what was put."""

    def __init__(self, rnd: random.Random, expected: Expected) -> None:
        """Groups that have been given nothing yet."""
        self._rnd, self._expected = rnd, expected
        self._given: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._consumers: dict[tuple[str, str], mqstore.consumer.Consumer] = {}

    def given(self, group: str, topic: str) -> set[str]:
        """What a group has been given of a topic, by name."""
        return self._given[group, topic]

    def consume(self, store: mqstore.MessageStore) -> None:
        """One of them is given some messages; whoever consumes goes on, or goes."""
        name = self._rnd.choice(_GROUPS), self._rnd.choice(TOPICS)
        consumer = self._consumers.get(name)
        if consumer is None:
            count = self._rnd.choice([1, 4, 32])
            consumer = store.consumer("".join(name), name[1], from_where="first", pull_batch_size=count)
            self._consumers[name] = consumer
        for _ in range(self._rnd.choice([1, 5, 40])):
            message = consumer.poll(0)
            if message is None:
                break
            self._is_given(name, message)
            if self._rnd.random() < 0.9:
                consumer.ack(message)
        if self._rnd.random() < 0.2:
            self._consumers.pop(name).close()

    def consume_all(self, store: mqstore.MessageStore) -> None:
        """Each is given what it has not had yet; nothing was passed over."""
        for group in _GROUPS:
            for topic in TOPICS:
                if (group, topic) in self._consumers:
                    self._consumers.pop((group, topic)).close()
                with store.consumer(group + topic, topic, from_where="first") as consumer:
                    while (message := consumer.poll(0)) is not None:
                        self._is_given((group, topic), message)
                        consumer.ack(message)
                seen = {put.name for put in self._expected.puts.values() if put.topic == topic and put.seen_count}
                assert seen - self._given[group, topic] - self._expected.gone == set(), (group, topic)

    def close(self) -> None:
        """Whoever consumes goes."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers = {}

    def forget_consumers(self) -> None:
        """The store they belonged to is not the one that is open."""
        self._consumers = {}

    def _is_given(self, name: tuple[str, str], message: mqstore.Message) -> None:
        put = self._expected.of(message)
        assert put.seen_count
        assert (*put.queue, put.body) == (message.topic, message.queue_id, bytes(message.body))
        self._given[name].add(put.name)
