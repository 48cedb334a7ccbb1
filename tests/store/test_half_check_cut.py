"""Checks of prepared messages once a log has lost its end, or a repair found halves lost: others have their offsets."""

from pathlib import Path

import pytest

import mqstore
from mqstore.store.half_messages import GROUP, HALF_TOPIC, OP_TOPIC
from mqstore.verify import repair
from tests.store.conftest import SMALL, Opener
from tests.store.test_transaction import COMMIT, UNKNOW, Clock, bodies, clock
from tests.store_files import copy_store

__all__ = ["clock"]

COUNT, END = 10, 6


def prepare(store: mqstore.MessageStore, *texts: bytes) -> mqstore.Transaction:
    """A transaction that has prepared these."""
    transaction = store.transaction()
    for text in texts:
        transaction.put("orders", text, queue_id=0)
    return transaction


def ended(store: mqstore.MessageStore, clock: Clock, *, one_by_one: bool) -> None:
    """Messages are committed, and a check has seen that."""
    if one_by_one:
        for number in range(COUNT):
            prepare(store, b"longer than what comes %d" % number).commit()
    else:
        prepare(store, *(b"longer than what comes %d" % number for number in range(COUNT))).commit()
    assert check(store, clock) == []
    assert positions(store) == (COUNT, COUNT)


def check(store: mqstore.MessageStore, clock: Clock) -> list[bytes]:
    """What a check asks for, and commits."""
    asked: list[bytes] = []

    def listener(half: mqstore.Message) -> mqstore.LocalTransactionState:
        asked.append(bytes(half.body))
        return COMMIT

    clock.now_ms += 10_000
    while store.check_transactions(listener):
        pass
    return asked


def positions(store: mqstore.MessageStore) -> tuple[int, int]:
    """Up to where halves and ops are done with."""
    offsets = store.consumers.offsets
    return offsets.query_offset(GROUP, HALF_TOPIC, 0), offsets.query_offset(GROUP, OP_TOPIC, 0)


def lose(store: mqstore.MessageStore, topic: str, *offsets: int) -> Path:
    """Closes a store and damages messages of it."""
    places = [store.topic(topic).queue(0)[offset].commit_log_offset for offset in offsets]
    store.close()
    with (store.path / "commitlog" / f"{0:020}").open("r+b") as log:
        for place in places:
            log.seek(place)
            log.write(b"\1" * 8)
    return store.path


@pytest.mark.parametrize("compat", [False, True])
def test_a_half_that_is_put_where_others_were_cut_off_is_asked_for(
    open_store: Opener, clock: Clock, tmp_path: Path, *, compat: bool
) -> None:
    store = open_store(clock=clock)
    ended(store, clock, one_by_one=True)
    lose(store, HALF_TOPIC, END)
    store = open_store(clock=clock, on_damage="truncate", compat=compat)
    # More than were cut off.
    new = [b"%d" % number for number in range(2 * COUNT)]
    prepare(store, *new)
    copy_store(store.path, tmp_path / "killed")
    store = open_store("killed", clock=clock, compat=compat)
    assert check(store, clock) == new
    assert bodies(store)[END:] == new


def test_an_end_that_is_put_where_others_were_cut_off_counts(open_store: Opener, clock: Clock) -> None:
    store = open_store(clock=clock)
    ended(store, clock, one_by_one=False)
    lose(store, OP_TOPIC, END)
    store = open_store(clock=clock, on_damage="truncate")
    assert positions(store) == (COUNT, END)
    before = bodies(store)
    new = [b"%d" % number for number in range(COUNT)]
    prepare(store, *new).commit()
    prepare(store, b"in doubt")
    store.close()
    store = open_store(clock=clock)
    assert check(store, clock) == [b"in doubt"]
    assert bodies(store) == [*before, *new, b"in doubt"]


def test_the_end_of_a_half_that_is_lost_is_not_that_of_the_next_one_with_its_offset(
    open_store: Opener, clock: Clock
) -> None:
    store = open_store(clock=clock)
    transaction = prepare(store, *(b"%d" % number for number in range(COUNT)))
    transaction.rollback()
    assert [int(text) for text in bodies(store, OP_TOPIC)] == list(range(COUNT))
    path = lose(store, HALF_TOPIC, COUNT - 2, COUNT - 1)
    assert len(repair(path, **SMALL).lost) == 2
    store = open_store(clock=clock)
    new = [b"new %d" % number for number in range(3)]
    prepare(store, *new)
    assert check(store, clock) == new
    assert bodies(store) == new


def test_a_half_whose_copy_was_cut_off_is_asked_for_again(open_store: Opener, clock: Clock) -> None:
    """Those before it that ended are not."""
    store = open_store(clock=clock)
    ended(store, clock, one_by_one=True)
    prepare(store, b"one in doubt", b"another in doubt")
    clock.now_ms += 10_000
    asked: list[bytes] = []

    def undecided(half: mqstore.Message) -> mqstore.LocalTransactionState:
        asked.append(bytes(half.body))
        return UNKNOW

    assert store.check_transactions(undecided) == 2
    before = bodies(store)
    assert positions(store)[0] == COUNT + 2
    lose(store, HALF_TOPIC, COUNT + 2, COUNT + 3)
    store = open_store(clock=clock, on_damage="truncate")
    assert check(store, clock) == asked == [b"one in doubt", b"another in doubt"]
    assert bodies(store) == [*before, *asked]
