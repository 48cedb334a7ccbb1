"""How a store lives: its services, and its end, whether it is closed, dropped or left behind by a fork."""

import atexit
import contextlib
import logging
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from mqstore import _native
from mqstore.errors import MQStoreError, StoreClosedError, StoreForkedError
from mqstore.options import StoreOptions
from mqstore.store.byte_ranges import ByteRanges, local_folder
from mqstore.store.message_waiters import MessageWaiters
from mqstore.store.offset_waiters import OffsetWaiters
from mqstore.store.one_pass import OnePass

if TYPE_CHECKING:
    from mqstore.consumer.manager import ConsumerManager
    from mqstore.services import ServiceThread
    from mqstore.store.transactional_messages import TransactionalMessages

__all__ = ["LifeCycle"]

_log = logging.getLogger("mqstore")
_LOOK_AGAIN_S = 0.05
"""How often who waits where a close waits for him looks whether the store is being closed."""
_LAST_TRANSFER_MS = 3000
"""For how long a master that is closed waits for its slaves to have what its services put last."""


class _Lock(contextlib.AbstractContextManager[Any], Protocol):
    """One of :mod:`threading`'s, of either kind."""

    def acquire(self, *, timeout: float) -> bool:
        """Takes it, or gives up."""

    def release(self) -> None:
        """Lets go."""


class LifeCycle(_native.Store):
    """The engine's store with services, which ends in good order.

    Whatever belongs to a store holds its engine, or the store weakly: the last reference that its
    user drops ends it.
    """

    options: StoreOptions
    """What it was opened with."""
    mode: str
    """``"r"`` or ``"rw"``."""
    consumers: "ConsumerManager"
    """The consumers of this process, and how far groups are."""
    _ranges: ByteRanges | None
    """What reads its files, where they are not local."""

    def _begin(self, consumers: "ConsumerManager") -> None:
        """It is open, and has no services yet."""
        self.consumers = consumers
        self._services: list[ServiceThread] = []
        # A signal's handler may close the store in the middle of a close.
        self._closing = threading.RLock()
        self._are_services_to_end = False
        self._message_waiters = MessageWaiters(weakref.proxy(self))
        engine, options = self._engine, self.options
        self._flush_waiters = OffsetWaiters(options.sync_flush_timeout, engine.flushed_where, engine.wake_flusher)
        self._transfer_waiters = OffsetWaiters(
            options.slave_timeout, engine.transferred_where, is_there=engine.is_transferred
        )
        _open_stores.add(self)

    @property
    def path(self) -> Path:
        """The store's folder.

        Raises:
            MQStoreError: it is not on this machine's disks.
        """
        return local_folder(self.options.store_path_root_dir, self._ranges)

    def _start(self, services: Sequence["ServiceThread"]) -> None:
        self._services = list(services)
        for service in self._services:
            service.start()

    def _start_more(self, services: Sequence["ServiceThread"]) -> None:
        """Starts services besides those that it has; none where it is closed, or about to be."""
        with self._holding(self._closing):
            if self.is_closed or self._are_services_to_end:
                return
            self._services += services
            for service in services:
                service.start()

    def close(self) -> None:
        """Flushes everything, stops the services and closes the store; a second call does nothing.

        A master that delivers messages lets the slaves that are connected have the log's end first, for three seconds
        at most: what was delivered last, and of timed messages that it was, is there alone otherwise.

        Messages and buffers that were given out stay valid. Where Ctrl-C breaks it off while it waits for
        a service, the store takes no messages any more, and the next call, or the end of the
        interpreter, closes it.

        Raises:
            MQStoreError: something could not be flushed. The store is closed all the same; the next
                opening recovers as after a crash.
        """
        # Who closes it waits for this thread where it is a service: that goes back to its end.
        if not self._closing.acquire(blocking=not self._is_waited_for):
            return
        try:
            self._stop_services([service for service in self._services if not service.ends_last])
            self._close_stopped()
        finally:
            self._closing.release()

    def _close_stopped(self) -> None:
        services = [] if self.is_closed else self._services
        handled = sys.exception()
        try:
            with contextlib.ExitStack() as closing:
                closing.callback(self._close)
                closing.callback(self._end_configuration)
                closing.callback(self._stop_last)
                for service in services:
                    closing.callback(service.closing)
                closing.callback(self.consumers.close)
        except BaseException as failed:
            # The stack forgets why the store is closed, where that is an exception as well.
            failed.__context__ = failed.__context__ or handled
            raise
        finally:
            _open_stores.discard(self)
            self._services = []
            self._message_waiters.wake_all()
            # What the close itself brought to the disk is there, though no service has told of it.
            self._flush_waiters.reached(self._flush_waiters.now())
            self._flush_waiters.failed(StoreClosedError("the store is closed"))
            # Stored it is, as who waits in a thread is told.
            self._transfer_waiters.given_up()

    def _break_off_check(self) -> None:
        """Ends a check of prepared messages in another thread, which may be in its user's function for long."""
        transactions: TransactionalMessages | None = getattr(self, "_transactions", None)
        if transactions is not None:
            transactions.break_off()

    def _end_configuration(self) -> None:
        """Lets nothing of this store write its configuration any more, which may be another writer's soon."""
        self.consumers.end(getattr(self, "_topics", None))

    @contextlib.contextmanager
    def _holding(self, lock: "_Lock") -> Iterator[None]:
        """Holds a lock that is held while users' functions are called, or signals' handlers can be.

        These may close the store, which waits for its services: one that waits for the lock gives up.

        Raises:
            StoreClosedError: this is a service's thread, and the store is being closed.
        """
        if not self._is_waited_for:
            with lock:
                yield
            return
        # Ctrl-C does not come to a service's thread.
        while not lock.acquire(timeout=_LOOK_AGAIN_S):
            if self._are_services_to_end:
                raise StoreClosedError("the store is being closed")
        try:
            yield
        finally:
            lock.release()

    @property
    def _is_waited_for(self) -> bool:
        """Whether this is a service's thread, which who closes the store waits for."""
        return threading.current_thread() in self._services

    def _at_once(self, seconds: float) -> float:
        """How much of a wait is made at once: where a close waits for this thread, until it is to look again."""
        return min(seconds, _LOOK_AGAIN_S) if self._is_waited_for else seconds

    def _check_goes_on(self) -> None:
        """Asked by who waits for what comes: in a listener it would wait for who closes the store, and he for it.

        Raises:
            StoreClosedError: the store is closed, or this is a service's thread and it is being closed.
        """
        self._check_open()
        if self._are_services_to_end and self._is_waited_for:
            raise StoreClosedError("the store is being closed")

    @contextlib.contextmanager
    def _at_pass(self, one: OnePass) -> Iterator[None]:
        """Makes a pass, as soon as nobody else does.

        Raises:
            MQStoreError: this thread is at it already.
            StoreClosedError: as :meth:`_holding`.
        """
        own = threading.get_ident()
        if one.thread == own:
            raise MQStoreError(f"{self.path}: {one.what} is under way in this thread already")
        with self._holding(one.lock):
            one.thread = own
            try:
                yield
            finally:
                one.thread = None

    def _stop_services(self, services: Sequence["ServiceThread"]) -> None:
        """Ends services."""
        self._are_services_to_end = True
        for service in services:
            service.stop()
        self._engine.stop_passes()
        try:
            # A listener of arrivals may wait for a message.
            self._message_waiters.wake_all()
            # Before it is waited for: a service's check may be in its user's function too.
            self._break_off_check()
            for service in services:
                service.join_stopped()
        except BaseException:
            self._engine.halt("closing it was broken off; it can be closed again")
            raise

    def _stop_last(self) -> None:
        """Ends what sends the log to slaves, once they have what the other services put."""
        last = [service for service in self._services if service.ends_last]
        try:
            can_send = all(service.is_alive() and service is not threading.current_thread() for service in last)
            if last and can_send and not self.is_closed:
                self._let_slaves_have_all()
        finally:
            self._stop_services(last)

    def _let_slaves_have_all(self) -> None:
        if self.options.is_slave or not any(service.puts_messages for service in self._services):
            return
        with contextlib.suppress(MQStoreError):  # the close itself meets it again
            self._engine.commit(0)
        if not self._wait_all_slaves(self.get_max_phy_offset(), _LAST_TRANSFER_MS):
            _log.warning("%s: closed before a slave had the end of its log", self.options.store_path_root_dir)

    def destroy(self) -> None:
        """Removes log, queues and index from the disk and closes the store.

        Raises:
            ReadOnlyError: the store was opened to read.
        """
        if self.mode == "rw":
            self._stop_services(self._services)
        self._destroy()
        self.close()

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Closes the store."""
        self.close()

    def __del__(self) -> None:
        """A store that is dropped without being closed is closed here, with a warning."""
        if self.is_closed:
            return
        if "_services" not in self.__dict__:
            # Ctrl-C came before it was wholly made: nobody had it who could have closed it.
            self._close()
            return
        try:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
        finally:
            self.close()

    def __repr__(self) -> str:
        """Folder, mode and state."""
        state = "closed" if self.is_closed else self.mode
        return f"<MessageStore {self.options.store_path_root_dir} {state}>"

    def _replace_config(self, path: Path, content: bytes) -> None:
        """Replaces a file of the configuration as a whole, keeping what was there as ``.bak``.

        Raises:
            StoreClosedError: the store is closed.
        """
        self._check_open()
        self._engine.replace_config(path, content)


class _Forked(LifeCycle):
    """What a store is in a process that was forked while it was open: nothing, and harmless."""

    def __getattribute__(self, name: str) -> Any:
        """Refuses everything before a lock is asked for that nobody in this process can let go."""
        if name in {"close", "is_closed", "mode", "options", "path", "_ranges"} or name.startswith("__"):
            return super().__getattribute__(name)
        raise _forked(self.options.store_path_root_dir)

    def close(self) -> None:
        """Does nothing: the store is open in the other process."""

    def __enter__(self) -> Self:
        """It cannot be used."""
        raise _forked(self.options.store_path_root_dir)

    def __del__(self) -> None:
        """Closes nothing."""

    def __repr__(self) -> str:
        """Says what it is."""
        return f"<MessageStore {self.options.store_path_root_dir} of another process>"


def _forked(path: str) -> StoreForkedError:
    return StoreForkedError(f"{path} was open when process {os.getpid()} was forked from its own: open it here anew")


_open_stores: "weakref.WeakSet[LifeCycle]" = weakref.WeakSet()


def _close_all() -> None:
    for store in list(_open_stores):
        try:
            store.close()
        except Exception:
            _log.exception("%r could not be closed when the interpreter ended", store)


def _abandon_all() -> None:
    """In a forked process: no thread of the services is here, and the store is the other process's."""
    for store in list(_open_stores):
        store._engine.abandon()
        store.consumers.abandon()
        topics = getattr(store, "_topics", None)
        if topics is not None:
            topics.abandon()
        store._services = []
        store.__class__ = _Forked
    _open_stores.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_abandon_all)
