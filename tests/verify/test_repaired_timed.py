"""Which timed messages are delivered is known once a store is repaired, as far as the log still tells."""

from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.store.delayed import TIMED_TOPIC
from mqstore.verify import RepairResult, repair
from tests.compat.streams import SMALL_FILES
from tests.services.conftest import HandClock
from tests.verify.damage import lose
from tests.waiting import wait_until


@pytest.fixture
def clock() -> HandClock:
    """A clock in the test's hand."""
    return HandClock()


class Timed:
    """A store of timed messages."""

    def __init__(self, path: Path, clock: HandClock) -> None:
        """It has none yet."""
        self.path, self.clock = path, clock

    def deliver(self, bodies: list[bytes]) -> list[int]:
        """Puts messages with a time and lets them be delivered; gives where they waited in the log."""
        with self.opened(schedule_messages=True) as store:
            before, places = found(store), self.put(store, bodies)
            self.clock.now_ms += 1000
            wait_until(lambda: found(store)[-len(bodies) :] == bodies)
            assert found(store) == before + bodies
        return places

    def opened(self, **given: Any) -> mqstore.MessageStore:
        """The store, open."""
        return mqstore.open(self.path, "rw", clock=self.clock, **SMALL_FILES, **given)

    def put(self, store: mqstore.MessageStore, bodies: list[bytes]) -> list[int]:
        """Puts messages that are due in a second."""
        deliver_at = self.clock.now_ms + 1000
        puts = [store.put("t", body, queue_id=0, deliver_at=deliver_at) for body in bodies]
        return [put.wrote_offset or 0 for put in puts]

    def progress(self) -> list[int]:
        """Where it stands in the log which messages are delivered."""
        with mqstore.open(self.path, **SMALL_FILES) as store:
            return [message.commit_log_offset for message in store.topic(TIMED_TOPIC).queue(1)]


def found(store: mqstore.MessageStore) -> list[bytes]:
    """What is delivered."""
    return [bytes(message.body) for message in store.topic("t")]


@pytest.fixture(params=[False, True], ids=["out", "in-place"])
def repaired(request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock) -> Any:
    """Repairs a store into another folder or in place."""

    def run(timed: Timed) -> tuple[RepairResult, Timed]:
        done = repair(timed.path, None if request.param else tmp_path / "whole", **SMALL_FILES)
        return done, Timed(done.path, clock)

    return run


def test_what_is_delivered_stays_so_where_the_last_messages_are_lost(
    tmp_path: Path, clock: HandClock, repaired: Any
) -> None:
    timed = Timed(tmp_path / "store", clock)
    places = timed.deliver([b"%d" % number for number in range(10)])
    for place in places[6:]:
        lose(timed.path, place)
    done, timed = repaired(timed)
    assert [lost.queue_offset for lost in done.lost if lost.queue_id == 0] == [6, 7, 8, 9]
    assert done.timed_again_count == 0
    # The first of them have the offsets that are lost.
    timed.deliver([b"new %d" % number for number in range(6)])
    timed.deliver([b"newer"])


def test_what_is_delivered_stays_so_where_the_last_of_them_is_lost_and_another_waits(
    tmp_path: Path, clock: HandClock, repaired: Any
) -> None:
    timed = Timed(tmp_path / "store", clock)
    places = timed.deliver([b"%d" % number for number in range(5)])
    with timed.opened() as store:
        timed.put(store, [b"waits"])
    lose(timed.path, places[-1])
    done, timed = repaired(timed)
    assert (len(done.lost), done.timed_again_count) == (1, 0)
    with timed.opened(schedule_messages=True) as store:
        clock.now_ms += 1000
        wait_until(lambda: found(store)[-1:] == [b"waits"])
        assert found(store) == [*(b"%d" % number for number in range(5)), b"waits"]


def test_what_may_come_again_is_told(tmp_path: Path, clock: HandClock, repaired: Any) -> None:
    """That the second five are delivered stood in the lost record alone."""
    timed = Timed(tmp_path / "store", clock)
    first, second = ([b"%d %d" % (life, number) for number in range(5)] for life in range(2))
    timed.deliver(first)
    known = len(timed.progress())
    timed.deliver(second)
    with timed.opened() as store:
        clock.now_ms += 1000
        store.put("others", b"behind", queue_id=0)
        timed.put(store, [b"waits"])
    for place in timed.progress()[known:]:
        lose(timed.path, place)
    done, timed = repaired(timed)
    assert done.timed_again_count == 5
    with timed.opened(schedule_messages=True) as store:
        clock.now_ms += 1000
        wait_until(lambda: found(store)[-1:] == [b"waits"])
        assert found(store) == [*first, *second, *second, b"waits"]


def test_a_whole_store_has_nothing_to_tell(tmp_path: Path, clock: HandClock, repaired: Any) -> None:
    timed = Timed(tmp_path / "store", clock)
    timed.deliver([b"0"])
    before = timed.progress()
    done, timed = repaired(timed)
    assert (done.lost, done.timed_again_count) == ((), 0)
    assert timed.progress() == before
