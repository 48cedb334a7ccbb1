"""What the services share: a thread that makes passes until it is told to stop."""

import errno
import logging
import threading
import traceback
import weakref
from typing import TYPE_CHECKING

from mqstore.errors import StoreClosedError, StoreIOError

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["LEAST_WAIT_MS", "ServiceThread"]

_log = logging.getLogger("mqstore")
LEAST_WAIT_MS = 1
"""Between two passes: an interval of 0 would keep a core busy."""


class ServiceThread(threading.Thread):
    """A daemon thread that makes passes over a store.

    It holds the store's engine, and the store itself only weakly: one that is dropped without being
    closed does not live on for its services.
    """

    puts_messages = False
    """Whether it puts messages by itself, until it is stopped."""
    ends_last = False
    """Whether it goes on at a close until the others have written what they still have to write."""

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet."""
        super().__init__(name=type(self).__name__, daemon=True)
        self.engine, self.options, self.path = store._engine, store.options, store.path
        self.store = weakref.ref(store)
        """The store, or ``None`` where it is gone. Nobody holds it while a pass waits."""
        self._stopping = threading.Event()
        self.error: BaseException | None = None
        """What the last failed pass raised."""
        self.failed_count = 0
        """Passes that failed in a row."""

    def start(self) -> None:
        """Begins with its passes.

        Raises:
            StoreIOError: the system has no thread for it.
        """
        try:
            super().start()
        except RuntimeError as refused:
            raise StoreIOError.of(f"start {self.name} of {self.path}: {refused}", errno.EAGAIN) from refused

    @property
    def failure(self) -> object:
        """What it tries again and again, and why that failed last; ``None`` where it does its work."""
        return self.error if self.failed_count else None

    def make_pass(self) -> None:
        """One pass. Blocks for a moment at most, so that the service can end."""
        raise NotImplementedError

    def wait(self, milliseconds: int) -> None:
        """Sleeps, or until the service is to end."""
        self._stopping.wait(min(max(milliseconds, LEAST_WAIT_MS) / 1000, threading.TIMEOUT_MAX))

    def failed(self, error: BaseException) -> None:
        """A pass failed: says so once, and lets a second pass before it is tried again."""
        if self.failed_count == 1:
            _log.error("%s of %s failed: %s", self.name, self.path, error)
        self.wait(1000)

    def died(self, error: BaseException) -> None:
        """The thread ends though it was not told to: the store takes no messages from now on."""
        self.error = _without_locals(error)
        self.engine.halt(f"{self.name} died: {error!r}")
        if (store := self.store()) is not None:
            # No message comes any more to who waits for one.
            store._message_waiters.wake_all()
        _log.critical("%s of %s died, the store takes no messages from now on", self.name, self.path, exc_info=error)

    def closing(self) -> None:
        """The store is about to be closed, and the service has ended: writes what it still has to write."""

    def run(self) -> None:
        """Makes passes until the service is stopped."""
        try:
            while not self._stopping.is_set():
                try:
                    self.make_pass()
                except Exception as error:  # a service must go on: what failed is kept and said
                    if self._stopping.is_set() and isinstance(error, StoreClosedError):
                        break  # it waited for who closes the store
                    self.error = _without_locals(error)
                    self.failed_count += 1
                    self.failed(error)
                else:
                    self.failed_count = 0
        except BaseException as error:  # what nobody expects: said here, with its traceback
            self.died(error)

    def stop(self) -> None:
        """Lets the service end after the pass that is under way."""
        self._stopping.set()

    def join_stopped(self) -> None:
        """Waits for the service to end, unless it is the one that asks."""
        if self.is_alive() and threading.current_thread() is not self:
            self.join()


def _without_locals(error: BaseException) -> BaseException:
    """An error that keeps nothing of where it was raised alive: the store would not be closed when it is dropped."""
    chain: list[BaseException] = []
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is not None and not any(one is known for known in chain):
            chain.append(one)
            traceback.clear_frames(one.__traceback__)
            rest += [one.__cause__, one.__context__]
    return error
