"""Asking back for prepared messages in doubt. Source: ``TransactionalMessageCheckService``."""

from typing import TYPE_CHECKING

from mqstore.services.service import ServiceThread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["TransactionalMessageCheckService"]


class TransactionalMessageCheckService(ServiceThread):
    """Lets the listener that the store was opened with decide on messages in doubt."""

    puts_messages = True

    def make_pass(self) -> None:
        """Checks at once, so that what a crash left is decided soon, and after each interval."""
        self._check(self.store())
        self.wait(self.options.transaction_check_interval)

    def _check(self, store: "MessageStore | None") -> None:
        """Holds the store while it checks, and no longer."""
        if store is not None and store._check_listener is not None and not self.options.is_slave:
            store.check_transactions(store._check_listener)
