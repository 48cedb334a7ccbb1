"""What the services share: a thread that makes passes until it is told to stop."""

import logging
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["ServiceThread"]

_log = logging.getLogger("mqstore")


class ServiceThread(threading.Thread):
    """A daemon thread that makes passes over a store.

    It holds the store weakly, so that a store that is dropped without being closed does not live on
    for its services.
    """

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet."""
        super().__init__(name=type(self).__name__, daemon=True)
        self._store = weakref.ref(store)
        self._stopping = threading.Event()
        self.error: BaseException | None = None
        """What the last failed pass raised."""
        self.failed_count = 0
        """Passes that failed in a row."""

    def make_pass(self, store: "MessageStore") -> None:
        """One pass. Blocks for a moment at most, so that the service can end."""
        raise NotImplementedError

    def wait(self, milliseconds: int) -> None:
        """Sleeps, or until the service is to end."""
        self._stopping.wait(milliseconds / 1000)

    def failed(self, store: "MessageStore", error: BaseException) -> None:
        """A pass failed: says so once, and lets a second pass before it is tried again."""
        if self.failed_count == 1:
            _log.error("%s of %s failed: %s", self.name, store.path, error)
        self.wait(1000)

    def closing(self, store: "MessageStore") -> None:
        """The store is about to be closed, and the service has ended: writes what it still has to write."""

    def run(self) -> None:
        """Makes passes until the service is stopped or its store gone."""
        while not self._stopping.is_set():
            store = self._store()
            if store is None or store.is_closed:
                return
            try:
                self.make_pass(store)
            except Exception as error:  # a service must go on: what failed is kept and said
                self.error = error
                self.failed_count += 1
                self.failed(store, error)
            else:
                self.failed_count = 0
            del store

    def stop(self) -> None:
        """Lets the service end after the pass that is under way."""
        self._stopping.set()

    def join_stopped(self) -> None:
        """Waits for the service to end, unless it is the one that asks."""
        if self.is_alive() and threading.current_thread() is not self:
            self.join()
