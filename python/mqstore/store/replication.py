"""What replication is doing: ``store.replication``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["Replication", "SlaveConnection"]


@dataclass(frozen=True, kw_only=True)
class SlaveConnection:
    """A slave that is connected to this store."""

    address: str
    """Its address."""
    request_offset: int | None
    """The end of its log when it connected; ``None`` until it has said so."""
    ack_offset: int
    """The end of its log as it last said."""
    transferred_offset: int
    """Up to where it was sent the log."""


class Replication:
    """How far slaves are, and the master. All of it is empty where replication does not run."""

    def __init__(self, store: "MessageStore") -> None:
        """That of a store."""
        self._store = store

    @property
    def listen_address(self) -> str | None:
        """Where slaves connect, as ``host:port``; ``None`` where replication does not run."""
        return self._store._ha_listen_address()

    @property
    def slaves(self) -> list[SlaveConnection]:
        """The slaves that are connected."""
        return [
            SlaveConnection(address=address, request_offset=request, ack_offset=ack, transferred_offset=transferred)
            for address, request, ack, transferred in self._store._ha_connections()
        ]

    @property
    def push2_slave_max_offset(self) -> int:
        """The furthest that a slave has ever confirmed."""
        return self._store._engine.transferred_where()

    @property
    def master_address(self) -> str | None:
        """The master that this slave follows; ``None`` where it follows none."""
        client = self._store._ha_client()
        return client[0] if client else None

    @property
    def is_connected(self) -> bool:
        """Whether this slave has a connection to its master."""
        client = self._store._ha_client()
        return client is not None and client[1]

    @property
    def reported_offset(self) -> int:
        """The end of this slave's log as its master last heard it."""
        client = self._store._ha_client()
        return client[2] if client else 0

    def wait_for_slave(self, offset: int | None = None, *, timeout: float = 3.0) -> bool:
        """Waits until a slave has confirmed the log up to an offset; up to its end by default.

        Args:
            offset: The offset, ``get_max_phy_offset()`` by default.
            timeout: Waits at most so many seconds.

        Returns:
            Whether one has, before the time is up.
        """
        wanted = self._store.get_max_phy_offset() if offset is None else offset
        return self._store._wait_transferred(wanted, round(timeout * 1000))
