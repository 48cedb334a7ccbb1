"""Timed messages against a list that says of each whether it is delivered."""

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import mqstore
from tests.services.conftest import HandClock
from tests.store.conftest import SMALL
from tests.store_files import copy_store

MOST_IN_MEMORY = 3
STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.integers(-2, 12), min_size=1, max_size=6)),
    st.tuples(st.just("clock"), st.sampled_from([1, 1, 2, 5, -1, -4, -9])),
    st.tuples(st.just("deliver"), st.integers(1, 7)),
    st.tuples(st.sampled_from(["persist", "restart", "crash"]), st.none()),
)


@dataclass
class Model:
    """What is to be seen."""

    waiting: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Due time, place in the queue and body of each that waits."""
    put_count: int = 0
    delivered: list[bytes] = field(default_factory=list)
    written: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Those that count as waiting after a crash, of those that were there when it was written down."""
    written_count: int = 0

    def put(self, due_ms: int, now_ms: int, body: bytes) -> None:
        """A message is put."""
        if due_ms <= now_ms:
            self.delivered.append(body)
            return
        self.waiting.append((due_ms, self.put_count, body))
        self.put_count += 1

    def deliver(self, now_ms: int, max_count: int) -> int:
        """What is due is delivered, at most so many."""
        due = [one for one in sorted(self.waiting) if one[0] <= now_ms][:max_count]
        self.delivered += [body for _, _, body in due]
        self.waiting = [one for one in self.waiting if one not in due]
        return len(due)

    def persist(self) -> None:
        """What is delivered is written down."""
        self.written, self.written_count = list(self.waiting), self.put_count

    def crash(self, everything: list[tuple[int, int, bytes]]) -> None:
        """What was delivered since waits again."""
        self.waiting = self.written + [one for one in everything if one[1] >= self.written_count]


def open_at(folder: Path, clock: HandClock) -> mqstore.MessageStore:
    """Opens the store without the service: the test delivers."""
    return mqstore.open(folder, "rw", clock=clock, max_timed_in_memory=MOST_IN_MEMORY, **SMALL)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_each_message_is_delivered_as_the_model_says(steps: list[tuple[str, Any]]) -> None:
    clock, model, number = HandClock(), Model(), 0
    everything: list[tuple[int, int, bytes]] = []
    with tempfile.TemporaryDirectory() as root:
        store = open_at(Path(root) / "0", clock)
        for at, (step, value) in enumerate([*steps, ("clock", 100), ("deliver", 10_000)]):
            match step:
                case "put":
                    for ahead_ms in value:
                        body = b"%d" % number
                        number += 1
                        store.put("orders", body, queue_id=0, deliver_at=clock.now_ms + ahead_ms)
                        model.put(clock.now_ms + ahead_ms, clock.now_ms, body)
                    everything += [one for one in model.waiting if one[1] >= len(everything)]
                case "clock":
                    clock.now_ms += value
                case "deliver":
                    store._reput()
                    # A pass takes what is in memory.
                    delivered = 0
                    while (count := store._engine.deliver_timed(value - delivered)[0]) > 0:
                        delivered += count
                    assert delivered == model.deliver(clock.now_ms, value)
                    waiting = store._timed_waiting()
                    assert waiting is None or waiting[0] == len(model.waiting)
                case "persist":
                    assert store._engine.persist_timed() is None
                    model.persist()
                case "restart":
                    store._engine.persist_timed()
                    store._engine.forget_timed()
                    store.close()
                    store = open_at(store.path, clock)
                    model.persist()
                case "crash":
                    store.flush()
                    copied = copy_store(store.path, Path(root) / f"crashed {at}")
                    store.close()
                    store = open_at(copied, clock)
                    model.crash(everything)
        assert [bytes(message.body) for message in store.topic("orders")] == model.delivered
        assert store._first_waiting_timed() is None
        store.close()


def test_the_model_repeats_after_a_crash() -> None:
    model = Model()
    model.put(5, 0, b"a")
    everything = list(model.waiting)
    model.deliver(5, 1)
    assert replace(model).deliver(9, 9) == 0
    model.crash(everything)
    assert model.deliver(5, 1) == 1
