"""Handlers of signals that come while the engine is at work. Prints nothing where all is as it has to be.

``python -m tests.life.handling SCENARIO FOLDER``
"""

import asyncio
import contextlib
import functools
import gc
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest

import mqstore
from mqstore.consumer import Consumer
from mqstore.services import ReputMessageService
from tests.life.test_interrupt import BIG, MANY, big_store, open_and_close, stop
from tests.store.conftest import open_rw

_INTERVAL_S = 0.02
Handler = Callable[[int, FrameType | None], Any]


@contextlib.contextmanager
def handled(number: int, handler: Handler) -> Iterator[None]:
    """Sends this thread a signal again and again, one once the last is handled, until the block ends."""
    main, ended, has_run = threading.main_thread().ident, threading.Event(), threading.Event()
    assert main is not None

    def run(number: int, frame: FrameType | None) -> None:
        handler(number, frame)
        has_run.set()

    def send() -> None:
        while not ended.wait(_INTERVAL_S):
            has_run.clear()
            signal.pthread_kill(main, number)
            while not has_run.wait(_INTERVAL_S) and not ended.is_set():
                pass

    before = signal.signal(number, run)
    sender = threading.Thread(target=send)
    try:
        sender.start()
        yield
    finally:
        ended.set()
        sender.join()
        signal.signal(number, before)


def put_many(store: mqstore.MessageStore, count: int = MANY) -> None:
    for _ in range(count // 20_000):
        store.put_many("t", [bytes(100)] * 20_000, queue_id=0, unique_key=False)


def uses_the_store_that_is_at_work(folder: Path) -> None:
    ends: list[int] = []
    with mqstore.open(folder, "rw", **BIG) as store, mqstore.open(folder, **BIG) as reader:

        def handler(*_: object) -> None:
            store.put("t", b"", queue_id=0)
            reader.refresh()
            ends.append(reader.get_max_offset_in_queue("t", 0))
            assert reader.get_message("t", 0, ends[-1] - 1).messages
            assert next(iter(reader.select("t"))).queue_offset == 0

        put_many(store)
        with handled(signal.SIGUSR1, handler):
            while not ends:
                reader.refresh()
        assert min(ends) > MANY
        with handled(signal.SIGUSR1, handler):
            assert not list(reader.select("t", tags="none"))
        reader.refresh()
        assert reader.get_max_offset_in_queue("t", 0) == MANY + len(ends)


def closes_the_store_that_is_at_work(folder: Path) -> None:
    store = mqstore.open(folder, "rw", **BIG)
    # What is left to dispatch the next look does.
    stop(store, ReputMessageService)
    put_many(store)
    with handled(signal.SIGUSR1, lambda *_: store.close()):
        while not store.is_closed:
            store.select("t").count()
    with mqstore.open(folder, **BIG) as reader:
        assert reader.report().closed_cleanly
        assert reader.get_max_offset_in_queue("t", 0) == MANY


def breaks_nothing_off(folder: Path) -> None:
    """Whoever takes Ctrl-C and raises nothing wants what is under way to go on."""
    taken: list[int] = []
    (big_store(folder) / "abort").touch()
    with handled(signal.SIGINT, lambda number, _: taken.append(number)):
        store = mqstore.open(folder, "rw", **BIG)
        assert store.get_max_offset_in_queue("t", 0) == MANY
        reader = mqstore.open(folder, **BIG)
        assert reader.select().count() == MANY
        assert not list(reader.select("t", tags="none"))
        assert reader.select("t", tags="none").to_arrow(["body"]).read_all().num_rows == 0
        assert reader.select("t").to_arrow(["body"]).read_all().num_rows == MANY
        put_many(store)
        reader.refresh()
        assert reader.get_max_offset_in_queue("t", 0) == 2 * MANY
        reader.close()
        store.close()
    assert taken


def open_again_and_again(folder: Path, is_begun: threading.Event) -> NoReturn:
    is_begun.set()
    while True:
        open_and_close(folder, "rw")


def ends_an_opening(folder: Path) -> None:
    """A process that is told to end does so before it has recovered a large store."""
    big_store(folder)
    is_begun = threading.Event()

    def handler(*_: object) -> None:
        # Sooner it would end the test: one that was stalled gets its first signal before it opens anything.
        if is_begun.is_set():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            raise SystemExit

    is_as_it_was = False
    while not is_as_it_was:
        (folder / "abort").touch()
        is_begun.clear()
        with handled(signal.SIGTERM, handler), pytest.raises(SystemExit):
            open_again_and_again(folder, is_begun)
        # It is gone where the handler came behind an opening, which was closed then.
        is_as_it_was = (folder / "abort").exists()


WAITED: dict[str, Callable[[mqstore.MessageStore, Consumer], object]] = {
    "wait_for_message": lambda store, _: store.wait_for_message("t", 0, 0, timeout=0.01),
    "aio": lambda store, _: asyncio.run(store.aio.wait_for_message("t", 0, 0, timeout=0.01)),
    "put": lambda store, _: asyncio.run(store.aio.put("other", b"", queue_id=0)),
    "poll": lambda _, consumer: consumer.poll(0.01),
    "listener": lambda store, _: taken_off.append(store.add_listener(print)),
}
taken_off: list[Callable[[], None]] = []
_OF_STORE = ("listeners", "message_store", "message_waiters", "waiting")
_MODULES = {
    sys.modules[f"mqstore.{name}"].__file__ for name in ("consumer.hold", *(f"store.{own}" for own in _OF_STORE))
}


def comes_at(place: int, run: Callable[[], object], *, ends: type[BaseException]) -> bool:
    """Runs something, with a signal at the nth place where its handler can run; gives whether there is one."""
    count = 0

    def look(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += frame.f_code.co_filename in _MODULES and event in {"call", "c_return"}
        if count == place:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(look)
    try:
        run()
    except ends:
        pass
    finally:
        sys.setprofile(None)
    return count == place


def closes_the_store_anywhere_in_a_wait(folder: Path) -> None:
    for what, wait in WAITED.items():
        for place in itertools.count(1):
            store = open_rw(folder / f"{what}{place}", flushDiskType="SYNC_FLUSH")
            consumer = store.consumer("g", "t", from_where="first")
            signal.signal(signal.SIGINT, lambda *_, store=store: store.close())
            has_come = comes_at(place, functools.partial(wait, store, consumer), ends=mqstore.MQStoreError)
            assert store.is_closed == has_come
            store.close()
            if not has_come:
                break


def leaves_nothing_of_a_wait(folder: Path) -> None:
    """Ctrl-C may come anywhere in it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    store = open_rw(folder)
    consumer = store.consumer("g", "t", from_where="first")
    for wait in WAITED.values():
        for place in itertools.count(1):
            has_come = comes_at(place, functools.partial(wait, store, consumer), ends=KeyboardInterrupt)
            gc.collect()  # a loop of asyncio is in a circle with its tasks
            while taken_off:
                taken_off.pop()()
            assert not any(store._message_waiters._of(queue) for queue in list(store._message_waiters._waiting))
            assert len(store._listeners) == 0
            if not has_come:
                break
    # Who waits is told as ever.
    told = threading.Event()
    with store._message_waiters.waiting("t", 0, lambda end: end > 0, told.set):
        store.put("t", b"", queue_id=0)
        assert told.wait(60)
    assert consumer.poll(60) is not None
    store.close()


if __name__ == "__main__":
    scenarios = (
        uses_the_store_that_is_at_work,
        closes_the_store_that_is_at_work,
        breaks_nothing_off,
        ends_an_opening,
        closes_the_store_anywhere_in_a_wait,
        leaves_nothing_of_a_wait,
    )
    {scenario.__name__: scenario for scenario in scenarios}[sys.argv[1]](Path(sys.argv[2]))
