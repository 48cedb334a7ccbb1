"""What replication is doing: ``store.replication``."""

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqstore.store.arguments import check_timeout, checked_integer

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
    """How far slaves are, and the master. All of it is empty where replication does not run.

    Of a store that is closed all of it is a :class:`StoreClosedError`.
    """

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
        self._store._check_open()
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

    @property
    def failure(self) -> str | None:
        """Why the last connection to the master ended or was not made; ``None`` once its log goes on from this one."""
        client = self._store._ha_client()
        return client[3] if client else None

    def wait_for_slave(self, offset: int | None = None, *, timeout: float | None = 3.0) -> bool:
        """Waits until a slave has confirmed the log up to an offset; up to its end by default.

        What a slave had when it connected it confirms once it has compared the end of that; a Java slave, which
        compares nothing, with its next heartbeat (``haSendHeartbeatInterval``).

        Args:
            offset: The offset, ``get_max_phy_offset()`` by default.
            timeout: Waits at most so many seconds; ``None`` for as long as it takes.

        Returns:
            Whether one has, before the time is up.

        Raises:
            OptionError: the timeout is no number of seconds.
            ValueError: the offset is none.
            StoreClosedError: the store is closed, or being closed while a listener waits here.
        """
        check_timeout(timeout)
        if offset is None:
            self._store._engine.commit(0)  # with transientStorePoolEnable the log ends where puts are committed
            end = self._store.get_max_phy_offset()
        else:
            end = checked_integer("offset", offset)
        seconds = threading.TIMEOUT_MAX if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
        time_up = time.monotonic() + seconds
        while True:
            self._store._check_goes_on()
            left = max(time_up - time.monotonic(), 0)
            at_once = self._store._at_once(left)
            if self._store._wait_transferred(end, round(at_once * 1000)):
                return True
            if at_once >= left:
                return False
