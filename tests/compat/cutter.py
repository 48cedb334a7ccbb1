"""A network that fails when a test wants it to."""

import contextlib
import socket
import threading

__all__ = ["Cutter"]


class Cutter:
    """Stands between a slave and its master, passes on what they send, and cuts their connections."""

    def __init__(self, to: str, *, cut_after: int | None = None) -> None:
        """Listens for slaves of the master at an address; cuts each connection after so many of the master's bytes."""
        self._to, self._cut_after = to, cut_after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        self.cut_count = 0
        """How many connections it has cut."""
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._start(self._accept)

    def lead_to(self, address: str) -> None:
        """Leads new connections to another master."""
        self._to = address

    def _start(self, run: "threading.Thread | object", *given: object) -> None:
        thread = threading.Thread(target=run, args=given, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                slave, _ = self._listener.accept()
                host, _, port = self._to.rpartition(":")
                try:
                    master = socket.create_connection((host, int(port)))
                except OSError:
                    slave.close()
                    continue
                with self._lock:
                    self._open += [slave, master]
                self._start(self._pass_on, slave, master, None)
                self._start(self._pass_on, master, slave, self._cut_after)

    def _pass_on(self, source: socket.socket, target: socket.socket, left: int | None) -> None:
        with contextlib.suppress(OSError):
            while left is None or left > 0:
                found = source.recv(65_536 if left is None else min(65_536, left))
                if not found:
                    break
                target.sendall(found)
                left = None if left is None else left - len(found)
        if left == 0:
            self.cut_count += 1
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Cuts every connection."""
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        """Cuts every connection and takes no other; a second call does nothing."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()
        self.cut()
