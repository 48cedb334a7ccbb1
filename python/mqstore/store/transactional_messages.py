"""Ending prepared messages, and asking back for those in doubt.

Source: ``TransactionalMessageServiceImpl``, ``EndTransactionProcessor``.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from mqstore._native import Message, PutMessageResult
from mqstore.errors import MQStoreError
from mqstore.store.arguments import check_function
from mqstore.store.half_check import HalfCheck
from mqstore.store.half_messages import (
    HALF_TOPIC,
    OP_TOPIC,
    LocalTransactionState,
    final_message,
    stored,
    stored_message,
)
from mqstore.store.messages import MessageExtBrokerInner

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["CheckListener", "TransactionalMessages", "check_listener"]


_Places = dict[int, int | LocalTransactionState]
"""Where halves stand by now, or what a check has decided, by where they were prepared."""
CheckListener = Callable[[Message], LocalTransactionState]
"""Decides on a message in doubt, which it gets as it stands in the half topic: its properties
``REAL_TOPIC``, ``REAL_QID``, ``UNIQ_KEY``, ``PGROUP`` and ``TRANSACTION_CHECK_TIMES`` say what it is."""


def check_listener(listener: object) -> None:
    """Refuses a listener that cannot be asked: each message would count as asked for all the same.

    Raises:
        TypeError: it is no function.
    """
    check_function("check_transactions", listener, "a function of a message")


class TransactionalMessages:
    """Ends prepared messages, and asks back for those in doubt."""

    def __init__(self, store: "MessageStore") -> None:
        """The transactions of a store."""
        self._store = store
        self._checking = threading.Lock()
        self._ending = threading.RLock()
        self._live: _Places = {}
        """Of the halves of transactions of this process."""
        self._preparing: dict[int, _Places] = {}
        """Of the halves that were moved while one was being prepared, for each that is."""
        self._early_ends: dict[int, dict[int, int]] = {}
        """Of each queue's ops that came behind their halves: where the halves ended when a check saw them first."""
        self._ended: set[int] | None = None
        """The halves that have ended since the check that is under way began."""

    def early_ends(self, queue_id: int, ops: Iterable[int]) -> dict[int, int]:
        """Ops of halves that checks have gone past, by where all was that can have been put back of those halves."""
        end = self._store.get_max_offset_in_queue(HALF_TOPIC, queue_id)
        before = self._early_ends.get(queue_id, {})
        self._early_ends[queue_id] = found = {op: before.get(op, end) for op in ops}
        return found

    @contextlib.contextmanager
    def preparing(self) -> Iterator[Callable[[int], None]]:
        """While a transaction of this process prepares a message; gives what is told where it stands.

        A put that waits for the disk or for a slave is in the log already: a check can come to it before it returns.
        """
        moved: _Places = {}
        with self._store._holding(self._ending):
            self._preparing[id(moved)] = moved

        def prepared(commit_log_offset: int) -> None:
            with self._store._holding(self._ending):
                self._live[commit_log_offset] = moved.get(commit_log_offset, commit_log_offset)

        try:
            yield prepared
        finally:
            with self._store._holding(self._ending):
                del self._preparing[id(moved)]

    def end_prepared(self, commit_log_offset: int, *, commit: bool) -> None:
        """Ends a message of a transaction of this process, wherever checks have put its half meanwhile.

        Raises:
            MQStoreError: a check has decided otherwise.
            PutError: the message or its end could not be put.
        """
        with self._store._holding(self._ending):
            now_at = self._live.get(commit_log_offset, commit_log_offset)
            if isinstance(now_at, LocalTransactionState):
                del self._live[commit_log_offset]
                was_committed = now_at is LocalTransactionState.COMMIT_MESSAGE
                if was_committed != commit:
                    done = "committed" if was_committed else "rolled back"
                    raise MQStoreError(f"the message prepared at {commit_log_offset} was {done} by a check already")
                return
            self.end(now_at, commit=commit)
            self._live.pop(commit_log_offset, None)

    def _moved(self, before: int, after: int | LocalTransactionState) -> None:
        """A check has put a half back, or has ended it."""
        for prepared_at, now_at in self._live.items():
            if now_at == before:
                self._live[prepared_at] = after
                return
        for moved in self._preparing.values():
            prepared_at = next((first for first, now_at in moved.items() if now_at == before), before)
            moved[prepared_at] = after

    def put_back(self, half: Message, message: MessageExtBrokerInner) -> PutMessageResult | None:
        """Puts a half behind the others; ``None`` where it has ended meanwhile."""
        with self._store._holding(self._ending):
            if self._ended is not None and half.commit_log_offset in self._ended:
                return None
            result = stored(self._store.put_message(message))
            self._moved(half.commit_log_offset, stored_message(self._store, result).commit_log_offset)
            return result

    def give_up(self, half: Message, dead: MessageExtBrokerInner) -> None:
        """Puts a half that nobody could decide on where it can be found, unless it has ended meanwhile."""
        with self._store._holding(self._ending):
            if self._ended is None or half.commit_log_offset not in self._ended:
                stored(self._store.put_message(dead))

    def decide(self, half: Message, state: LocalTransactionState) -> None:
        """Ends a half as a listener said, unless it has ended meanwhile."""
        with self._store._holding(self._ending):
            if state is LocalTransactionState.UNKNOW:
                return
            if self._ended is None or half.commit_log_offset not in self._ended:
                self.end(half.commit_log_offset, commit=state is LocalTransactionState.COMMIT_MESSAGE)
                self._moved(half.commit_log_offset, state)

    def end(self, commit_log_offset: int, *, commit: bool) -> None:
        """Commits a half or rolls it back.

        Raises:
            MQStoreError: there is no half.
            PutError: the message or its end could not be put.
        """
        half = self._store.look_message_by_offset(commit_log_offset)
        if half is None or half.topic != HALF_TOPIC:
            raise MQStoreError(f"expected a prepared message at {commit_log_offset} in the log, found {half!r}")
        with self._store._holding(self._ending):
            if commit:
                stored(self._store.put_message(final_message(half, multi_dispatch=self._multi_dispatch)))
            self._delete_prepared(half)
            if self._ended is not None:
                self._ended.add(commit_log_offset)

    @property
    def _multi_dispatch(self) -> bool:
        return self._store.options.enable_multi_dispatch

    def _delete_prepared(self, half: Message) -> None:
        """Says that a half is done with. Source: ``addRemoveTagInTransactionOp``, ``makeOpMessageInner``."""
        host = self._store.store_host
        stored(
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
        """
        check_listener(listener)
        store = self._store
        with self._store._holding(self._checking):
            with self._store._holding(self._ending):
                self._ended = set()
                # What has ended by now is in the queues, also what a transient store pool holds of it.
                store._engine.commit(0)
                store._catch_up()
            offsets = store.consumers.offsets
            queues = [queue_id for topic, queue_id, *_ in store._queues() if topic == HALF_TOPIC]
            try:
                return sum(HalfCheck(self, offsets, queue_id).run(listener) for queue_id in queues)
            finally:
                self._ended = None
                if queues:
                    offsets.persist()
