"""Writing consumers' offsets, whether anybody polls or not. Source: ``MQClientInstance.persistAllConsumerOffset``."""

from mqstore.services.service import ServiceThread

__all__ = ["PersistConsumerOffsetService"]

_PERSIST_INTERVAL_MS = 5_000
_AGAIN_MS = 50
"""After how long it tries again where somebody else was at the offsets."""


class PersistConsumerOffsetService(ServiceThread):
    """Writes the offsets of this process's consumers, from the first consumer on."""

    def make_pass(self) -> None:
        """Waits, and writes what was consumed meanwhile."""
        self.wait(_PERSIST_INTERVAL_MS)
        while not self._stopping.is_set() and not self._persist():
            self.wait(_AGAIN_MS)

    def _persist(self) -> bool:
        """Gives whether all are written; no store is held while this waits."""
        store = self.store()
        return store is None or store.consumers.persist_if_free()
