"""Masters and slaves for tests: stores, and sockets that say what a test lets them say."""

import socket
import struct
from pathlib import Path
from typing import Any

import mqstore
from tests.store.conftest import SMALL
from tests.store_files import index_contents, log_contents, queue_contents
from tests.waiting import wait_until

__all__ = ["HEADER", "REPORT", "Pair", "RawMaster", "RawSlave", "put_some", "records", "wait_equal"]

FAST: dict[str, Any] = {
    "haListenPort": 0,
    "haSendHeartbeatInterval": 50,
    "replication": True,
    # However long a slave takes on a busy machine.
    "slaveTimeout": 60_000,
}
HEADER = struct.Struct(">qi")
REPORT = struct.Struct(">q")
_TIMEOUT_S = 60
"""A slave waits ever longer, for seconds at last, before it connects again."""


class Pair:
    """Stores of one test, as masters and slaves."""

    def __init__(self, folder: Path) -> None:
        """None yet."""
        self._folder = folder
        self._stores: list[mqstore.MessageStore] = []
        self._sockets: list[socket.socket] = []

    def raw_slave(self, master: mqstore.MessageStore) -> "RawSlave":
        """Connects to a master as a slave in the test's hand."""
        slave = RawSlave(master)
        self._sockets.append(slave.socket)
        return slave

    def path(self, name: str) -> Path:
        """A store's folder."""
        return self._folder / name

    def open(self, name: str, **given: Any) -> mqstore.MessageStore:
        """Opens a store with replication."""
        store = mqstore.open(self.path(name), "rw", **(SMALL | FAST | given))
        self._stores.append(store)
        return store

    def slave_of(self, master: mqstore.MessageStore | str, name: str = "slave", **given: Any) -> mqstore.MessageStore:
        """Opens a slave of what listens at an address, or of a master, whose log it has asked for then."""
        if isinstance(master, str):
            return self.open(name, **({"brokerRole": "SLAVE", "haMasterAddress": master} | given))
        slave = self.slave_of(str(master.replication.listen_address), name, **given)
        wait_until(lambda: any(it.request_offset is not None for it in master.replication.slaves))
        return slave

    def check_equal(self, *names: str) -> None:
        """Closes all, and compares their files."""
        self.close()
        first, *others = (self.path(name) for name in names)
        for other in others:
            assert log_contents(other) == log_contents(first)
            assert queue_contents(other) == queue_contents(first)
            assert index_contents(other) == index_contents(first)

    def close(self) -> None:
        """Closes what is open."""
        for store in self._stores:
            store.close()
        for connection in self._sockets:
            connection.close()


def put_some(store: mqstore.MessageStore, count: int, size: int = 300) -> None:
    """Puts messages to some queues, with keys and tags."""
    for number in range(count):
        store.put(f"topic-{number % 3}", b"%08d" % number + bytes(size), keys=f"key-{number}", tags=f"tag-{number % 2}")


def wait_equal(master: mqstore.MessageStore, slave: mqstore.MessageStore) -> None:
    """Waits until a slave has all of its master's log, and has dispatched it."""
    wait_until(lambda: slave.get_max_phy_offset() == master.get_max_phy_offset() and not slave.dispatch_behind_bytes())


def records(folder: Path) -> bytes:
    """The log of a store of a few messages."""
    with mqstore.open(folder, "rw", **SMALL) as store:
        put_some(store, 20)
        end = store.get_max_phy_offset()
        return bytes(store.get_commit_log_data(0))[:end]


class RawSlave:
    """A slave that says what a test lets it say."""

    def __init__(self, master: mqstore.MessageStore) -> None:
        """Connects."""
        host, _, port = str(master.replication.listen_address).rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)

    def report(self, offset: int) -> None:
        """Sends an offset."""
        self.socket.sendall(REPORT.pack(offset))

    def read(self, size: int) -> bytes:
        """Reads so many bytes."""
        found = b""
        while len(found) < size:
            more = self.socket.recv(size - len(found))
            assert more, "the master closed the connection"
            found += more
        return found

    def frame(self) -> tuple[int, bytes]:
        """Reads a frame that is no heartbeat."""
        while True:
            offset, size = HEADER.unpack(self.read(HEADER.size))
            if size:
                return offset, self.read(size)

    def is_closed(self) -> bool:
        """Waits for the master to close the connection."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        return True


class RawMaster:
    """A master that sends what a test lets it send."""

    def __init__(self) -> None:
        """Listens."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_TIMEOUT_S)
        self.address = "{}:{}".format(*self._listener.getsockname())
        self.socket: socket.socket | None = None

    def accept(self) -> int:
        """Takes a slave's connection, the last one closed; gives what it asks for."""
        if self.socket is not None:
            self.socket.close()
        self.socket, _ = self._listener.accept()
        self.socket.settimeout(_TIMEOUT_S)
        return self.reported()

    def reported(self) -> int:
        """A report."""
        assert self.socket is not None
        (offset,) = REPORT.unpack(self.socket.recv(REPORT.size, socket.MSG_WAITALL))
        return int(offset)

    def send(self, offset: int, size: int, body: bytes = b"") -> None:
        """Sends a frame, or what looks like one."""
        assert self.socket is not None
        self.socket.sendall(HEADER.pack(offset, size) + body)

    def close(self) -> None:
        """Ends the connection and listens no longer."""
        if self.socket is not None:
            self.socket.close()
        self._listener.close()
