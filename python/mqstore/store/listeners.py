"""Who is told what has become visible in its queue."""

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from mqstore._native import Arrival

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["Found", "Listener", "Listeners"]

_log = logging.getLogger("mqstore")

Listener = Callable[[list[Arrival]], None]
Found = Callable[[], Listener | None]
"""Gives a listener as long as there is one, as a weak reference does: Ctrl-C can come before who waits takes its own
off again."""


class Listeners:
    """A store's listeners."""

    def __init__(self, store: "MessageStore") -> None:
        """There are none."""
        self._store = store
        self._found: list[Found] = []
        self._changing = threading.RLock()
        """Held while the engine is told whether there are any: told late, it would tell nobody of what comes."""

    def __len__(self) -> int:
        """How many there are."""
        return sum(found() is not None for found in list(self._found))

    def add(self, found: Found) -> None:
        """Has one told from now on; one that is told already changes nothing."""
        with self._changing:
            if found not in self._found:
                self._found.append(found)
            self._store._set_listening(listening=True)

    def remove(self, found: Found) -> None:
        """Has one told no longer; one that is not changes nothing."""
        with self._changing:
            for other in [other for other in self._found if other == found or other() is None]:
                # A signal's handler may have done it meanwhile.
                with contextlib.suppress(ValueError):
                    self._found.remove(other)
            self._store._set_listening(listening=bool(self._found))

    def tell(self, arrivals: list[Arrival]) -> None:
        """Calls each one."""
        for found in list(self._found):
            listener = found()
            if listener is None:
                continue
            try:
                listener(arrivals)
            except BaseException:  # a SystemExit of somebody's own must not end dispatch
                _log.exception("a listener of %s failed", self._store.path)
