"""Ending prepared messages, and asking back for those in doubt.

Source: ``TransactionalMessageServiceImpl``, ``EndTransactionProcessor``.
"""

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mqstore._native import Message, PutMessageResult
from mqstore.errors import MQStoreError, StoreClosedError
from mqstore.store.arguments import check_function
from mqstore.store.half_check import HalfCheck
from mqstore.store.half_messages import (
    HALF_TOPIC,
    OP_TOPIC,
    DecidedOtherwiseError,
    LocalTransactionState,
    check_confirmed,
    final_message,
    stored,
    stored_message,
)
from mqstore.store.half_places import HalfPlaces, Place
from mqstore.store.messages import MessageExtBrokerInner
from mqstore.store.one_pass import OnePass

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore
    from mqstore.store.transaction import PreparedMessage

__all__ = ["CheckListener", "TransactionalMessages", "check_listener"]


CheckListener = Callable[[Message], LocalTransactionState]
"""Decides on a message in doubt, which it gets as it stands in the half topic: its properties
``REAL_TOPIC``, ``REAL_QID``, ``UNIQ_KEY``, ``PGROUP`` and ``TRANSACTION_CHECK_TIMES`` say what it is."""


def check_listener(argument: str, listener: object) -> None:
    """Refuses a listener that cannot be asked: each message would count as asked for all the same.

    Raises:
        TypeError: it is no function.
    """
    check_function(argument, listener, "a function of a message")


class TransactionalMessages:
    """Ends prepared messages, and asks back for those in doubt."""

    def __init__(self, store: "MessageStore") -> None:
        """The transactions of a store."""
        self._store = store
        self._checking = OnePass("a check of prepared messages")
        self.ending = threading.RLock()
        """Held while a half ends or is put back."""
        self._live = HalfPlaces()
        """Of the halves of transactions of this process."""
        self._begun: dict[int, tuple[int, int]] = {}
        """Of halves whose commit has begun: where they stood then, and where the log ended. Ctrl-C can come while the
        put waits for the disk, and the store can refuse what says that the half is done with."""
        self._preparing: dict[int, HalfPlaces] = {}
        """Of the halves that were moved while one was being prepared, for each that is."""
        self._collected: deque[list[PreparedMessage]] = deque()
        """What was left of transactions that nobody has any more. Told by the garbage collector, which comes at any
        time: nobody may wait for a lock there."""
        self._check: HalfCheck | None = None
        """The one that is under way."""
        self.asking: int | None = None
        """Which thread is inside the listener."""
        self._is_broken_off = False
        self._ended: set[int] | None = None
        """The halves that have ended since the check that is under way began."""

    def watch(self, transaction: object, prepared: "list[PreparedMessage]") -> None:
        """Forgets what a transaction has prepared and not ended, once nobody has the transaction any more."""
        weakref.finalize(transaction, self._collect, prepared).atexit = False

    def _collect(self, prepared: "list[PreparedMessage]") -> None:
        if prepared:
            self._collected.append(prepared)

    def _forget_collected(self) -> None:
        while self._collected:
            for half in self._collected.popleft():
                self._live.forget(half.commit_log_offset)

    @contextlib.contextmanager
    def preparing(self) -> Iterator[Callable[[int], None]]:
        """While a transaction of this process prepares a message; gives what is told where it stands.

        A put that waits for the disk or for a slave is in the log already: a check can come to it before it returns.
        """
        moved = HalfPlaces()
        with self._store._holding(self.ending):
            self._forget_collected()
            self._preparing[id(moved)] = moved

        def prepared(commit_log_offset: int) -> None:
            with self._store._holding(self.ending):
                self._live.set(commit_log_offset, moved.now(commit_log_offset))

        try:
            yield prepared
        finally:
            with self._store._holding(self.ending):
                del self._preparing[id(moved)]

    def end_prepared(self, commit_log_offset: int, *, commit: bool) -> None:
        """Ends a message of a transaction of this process, wherever checks have put its half meanwhile.

        Called again for one that has ended it does nothing, until :meth:`forget`.

        Raises:
            DecidedOtherwiseError: a check has decided otherwise, or a commit that was broken off.
            PutError: the message or its end could not be put.
            FlushDiskTimeoutError: it has ended; the disk did not confirm the message.
            FlushSlaveTimeoutError: it has ended; no slave confirmed the message.
            SlaveNotAvailableError: it has ended; no slave is near enough to confirm the message.
        """
        with self._store._holding(self.ending):
            now_at, result, by = self._live.now(commit_log_offset), None, "a check"
            if not isinstance(now_at, LocalTransactionState):
                is_commit = commit or self._was_put(now_at)
                result, by = self.end(now_at, commit=is_commit), "a commit that was broken off"
                now_at = _state(commit=is_commit)
        if now_at is not _state(commit=commit):
            done = "rolled back" if commit else "committed"
            raise DecidedOtherwiseError(f"the message prepared at {commit_log_offset} was {done} by {by} already")
        if result is not None:
            check_confirmed(self._store, result)

    def forget(self, commit_log_offset: int) -> None:
        """Nobody asks any more for a message of a transaction of this process."""
        with self._store._holding(self.ending):
            self._live.forget(commit_log_offset)

    def _moved(self, before: int, after: Place) -> None:
        """A check has put a half back, or has ended it."""
        self._forget_collected()
        begun = self._begun.get(before)
        if begun is not None and not isinstance(after, LocalTransactionState):
            self._begun[after] = begun
            del self._begun[before]
        prepared_at = self._live.prepared_at(before)
        if prepared_at is not None:
            self._live.set(prepared_at, after)
            return
        for moved in self._preparing.values():
            prepared_at = moved.prepared_at(before)
            moved.set(before if prepared_at is None else prepared_at, after)

    def put_back(self, half: Message, message: MessageExtBrokerInner) -> PutMessageResult | None:
        """Puts a half behind the others; ``None`` where it has ended meanwhile."""
        with self._store._holding(self.ending):
            self.check_goes_on()
            if self._has_ended(half):
                return None
            result = stored(self._store.put_message(message))
            self._moved(half.commit_log_offset, stored_message(self._store, result).commit_log_offset)
            return result

    def give_up(self, half: Message, dead: MessageExtBrokerInner) -> None:
        """Puts a half that nobody could decide on where it can be found, unless it has ended meanwhile."""
        with self._store._holding(self.ending):
            self.check_goes_on()
            if not self._has_ended(half):
                stored(self._store.put_message(dead))
                if not self._store.compat:
                    # A check that comes to it again, since the offset of this one was lost, would put it there again.
                    self._delete_prepared(half)

    def decide(self, half: Message, state: LocalTransactionState) -> None:
        """Ends a half as a listener said, unless it has ended meanwhile."""
        with self._store._holding(self.ending):
            self.check_goes_on()
            if state is LocalTransactionState.UNKNOW:
                return
            if not self._has_ended(half):
                self.end(half.commit_log_offset, commit=state is LocalTransactionState.COMMIT_MESSAGE)

    def _has_ended(self, half: Message) -> bool:
        """Whether a half has ended since the check began; one whose commit was broken off behind its put does now."""
        if self._was_put(half.commit_log_offset):
            self.end(half.commit_log_offset, commit=True)
        return self._ended is not None and half.commit_log_offset in self._ended

    def _was_put(self, commit_log_offset: int) -> bool:
        """Whether the message of a half was put by a commit that did not come to its end."""
        begun = self._begun.get(commit_log_offset)
        if begun is None:
            return False
        stood_at, log_end = begun
        # What a transient store pool holds is not read.
        self._store._engine.commit(0)
        since = self._store.select(phy_offsets=(log_end, None))
        return any(found.prepared_transaction_offset == stood_at and found.topic != HALF_TOPIC for found in since)

    def end(self, commit_log_offset: int, *, commit: bool) -> PutMessageResult | None:
        """Commits a half or rolls it back; gives the put that has to be confirmed where it is committed.

        A commit that was broken off is taken up where it was: the message is not put twice.

        Raises:
            MQStoreError: there is no half.
            PutError: the message or its end could not be put.
        """
        half = self._store.look_message_by_offset(commit_log_offset)
        if half is None or half.topic != HALF_TOPIC:
            raise MQStoreError(f"expected a prepared message at {commit_log_offset} in the log, found {half!r}")
        with self._store._holding(self.ending):
            committed = self._put_final(half) if commit and not self._was_put(commit_log_offset) else None
            op = self._delete_prepared(half)
            if self._ended is not None:
                self._ended.add(commit_log_offset)
            self._moved(commit_log_offset, _state(commit=commit))
            self._begun.pop(commit_log_offset, None)
            # Behind the message, where that was put before: what has the one has the other.
            return committed or (op if commit else None)

    def _put_final(self, half: Message) -> PutMessageResult:
        """Puts a half's message to its topic."""
        place = half.commit_log_offset
        self._begun[place] = place, self._store.get_max_phy_offset()
        result = self._store.put_message(final_message(self._store, half))
        if result.wrote_offset is None:
            del self._begun[place]
        return stored(result)

    def _delete_prepared(self, half: Message) -> PutMessageResult:
        """Says that a half is done with. Source: ``addRemoveTagInTransactionOp``, ``makeOpMessageInner``."""
        host = self._store.store_host
        return stored(
            self._store.put_message(
                MessageExtBrokerInner(
                    topic=OP_TOPIC,
                    queue_id=half.queue_id,
                    body=str(half.queue_offset).encode(),
                    properties={"TAGS": "d", "WAIT": "true"},
                    born_host=host,
                    store_host=host,
                )
            )
        )

    # ---- checking -----------------------------------------------------------------------------

    def check(self, listener: CheckListener) -> int:
        """Asks the listener for every message in doubt that is due; gives how many it was asked for.

        Source: ``TransactionalMessageServiceImpl.check``.

        Raises:
            TypeError: the listener is no function.
            StoreClosedError: the store is being closed.
            MQStoreError: a listener, or a signal's handler, asks for it in the middle of a check.
        """
        check_listener("listener", listener)
        store = self._store
        with self._store._at_pass(self._checking):
            with self._store._holding(self.ending):
                self._forget_collected()
                self._ended = set()
                # What has ended by now is in the queues, also what a transient store pool holds of it.
                store._engine.commit(0)
                store._catch_up()
            offsets = store.consumers.offsets
            queues = [queue_id for topic, queue_id, *_ in store._queues() if topic == HALF_TOPIC]
            try:
                return sum(self._check_queue(HalfCheck(self, offsets, queue_id), listener) for queue_id in queues)
            finally:
                self._ended = None
                if queues:
                    offsets.persist()

    def _check_queue(self, check: HalfCheck, listener: CheckListener) -> int:
        self._check = check
        try:
            return check.run(listener)
        finally:
            self._check = None

    def check_goes_on(self) -> None:
        """Asked by a check that holds :attr:`ending`.

        Raises:
            StoreClosedError: the store is being closed.
        """
        if self._is_broken_off:
            raise StoreClosedError("the check of prepared messages was broken off: the store is closed")

    def break_off(self) -> None:
        """The store is about to be closed: a check does nothing any more, and what it has done is known to the offsets.

        Its listener is not waited for: it may wait for who closes the store.
        """
        with self.ending:
            self._is_broken_off = True
            if self._check is not None:
                self._check.note_offsets()


def _state(*, commit: bool) -> LocalTransactionState:
    return LocalTransactionState.COMMIT_MESSAGE if commit else LocalTransactionState.ROLLBACK_MESSAGE
