"""Asking back for prepared messages in doubt. Source: ``TransactionalMessageCheckService``."""

import threading
from typing import TYPE_CHECKING

from mqstore.services.service import ServiceThread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["TransactionalMessageCheckService"]


_LOOK_AGAIN_S = 0.05
"""How often who waits for the service looks whether it is inside the listener."""


class TransactionalMessageCheckService(ServiceThread):
    """Lets the listener that the store was opened with decide on messages in doubt."""

    puts_messages = True

    def make_pass(self) -> None:
        """Checks at once, so that what a crash left is decided soon, and after each interval."""
        self._check(self.store())
        self.wait(self.options.transaction_check_interval)

    def join_stopped(self) -> None:
        """Waits for it to end, or to be inside the listener: that may be for long, or wait for who closes the store.

        The check was broken off: it does nothing any more once the listener comes back.
        """
        while self.is_alive() and threading.current_thread() is not self and not self._is_asking():
            self.join(_LOOK_AGAIN_S)

    def _is_asking(self) -> bool:
        store = self.store()
        return store is not None and store._transactions.asking == self.ident

    def _check(self, store: "MessageStore | None") -> None:
        """Holds the store while it checks, and no longer."""
        if store is not None and store._check_listener is not None and not self.options.is_slave:
            store.check_transactions(store._check_listener)
