"""Looking for prepared messages in doubt. Source: ``TransactionalMessageServiceImpl.check``."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mqstore._native import Message, PutMessageResult
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.half_messages import (
    CHECK_MAX_TIME_TOPIC,
    GROUP,
    HALF_TOPIC,
    OP_TOPIC,
    LocalTransactionState,
    number,
    stored_message,
)
from mqstore.store.messages import MessageExtBrokerInner

if TYPE_CHECKING:
    from mqstore.store.transactional_messages import CheckListener, TransactionalMessages

__all__ = ["HalfCheck"]

_log = logging.getLogger("mqstore")
_MS_OF_HOUR = 3_600_000
_PULL_COUNT = 32
_MAX_DIGITS = 19
"""Of an offset, which is a Java long."""


class HalfCheck:
    """A check of one queue of halves."""

    def __init__(self, messages: "TransactionalMessages", offsets: ConsumerOffsetManager, queue_id: int) -> None:
        """Reads what is done with."""
        self._messages, self._store = messages, messages._store
        self._offsets, self._queue_id = offsets, queue_id
        self._options = self._store.options
        self._start_ms = self._store.now()
        self._half_offset = self._offset_of(HALF_TOPIC)
        self._op_offset = self._offset_of(OP_TOPIC)
        self._done_ops: set[int] = set()
        self._early: dict[int, int] = {}
        """Ops of halves before the first that is looked at: of those that were put back, where they were first."""
        self._removed = self._read_ops()
        self._early_ends = messages.early_ends(queue_id, self._early.values())

    def _offset_of(self, topic: str) -> int:
        """Where the check goes on; an offset that the queue does not have is moved into it."""
        first = self._store.get_min_offset_in_queue(topic, self._queue_id)
        end = self._store.get_max_offset_in_queue(topic, self._queue_id)
        return min(max(self._offsets.query_offset(GROUP, topic, self._queue_id), first), end)

    def _read_ops(self) -> dict[int, int]:
        """The halves that are done with, by their queue offset. Source: ``fillOpRemoveMap``."""
        removed: dict[int, int] = {}
        for op in self._messages_of(OP_TOPIC, self._op_offset):
            text = bytes(op.body)
            if op.tags != "d" or not text.isdigit() or len(text) > _MAX_DIGITS:
                _log.error("%s: %r says of no prepared message that it is done", self._store.path, op)
                self._done_ops.add(op.queue_offset)
            elif int(text) < self._half_offset:
                self._early[int(text)] = op.queue_offset
            else:
                removed[int(text)] = op.queue_offset
        return removed

    def _messages_of(self, topic: str, offset: int) -> Iterator[Message]:
        end = self._store.get_max_offset_in_queue(topic, self._queue_id)
        while offset < end:
            found = self._store.get_message(topic, self._queue_id, offset, _PULL_COUNT)
            yield from found.messages
            if found.next_begin_offset <= offset:
                return
            offset = found.next_begin_offset

    def run(self, listener: "CheckListener") -> int:
        """Goes through the halves from where the last check ended; gives how many were asked for."""
        asked = 0
        next_offset = self._half_offset
        try:
            for half in self._messages_of(HALF_TOPIC, self._half_offset):
                if not self._is_removed(half.queue_offset) and not self._was_removed_before(half):
                    is_due = self._is_due(half)
                    if is_due is None:
                        break
                    if is_due:
                        renewed = self._renew(half)
                        # What was put back is behind: this one is never asked for again.
                        next_offset = half.queue_offset + 1
                        if renewed is not None:
                            self._ask(renewed, listener)
                            asked += 1
                next_offset = half.queue_offset + 1
            else:
                # No half that was put back is left that could be meant.
                self._done_ops.update(self._early.values())
        finally:
            # What was put back of their halves stood before these offsets.
            self._done_ops.update(op for op, end in self._early_ends.items() if next_offset >= end)
            self._offsets.commit_offset(GROUP, HALF_TOPIC, self._queue_id, next_offset)
            op_offset = self._op_offset
            while op_offset in self._done_ops:
                op_offset += 1
            self._offsets.commit_offset(GROUP, OP_TOPIC, self._queue_id, op_offset)
        return asked

    def _is_removed(self, queue_offset: int) -> bool:
        op_offset = self._removed.pop(queue_offset, None)
        if op_offset is not None:
            self._done_ops.add(op_offset)
        return op_offset is not None

    def _is_due(self, half: Message) -> bool | None:
        """Whether a half is to be asked for; ``None`` where this check ends before it.

        One that was asked for too often, or is older than messages are kept, is given up. One with an immunity
        of its own is put back behind the others while that lasts, and then keeps its first offset, by which
        its end names it. Source: ``needDiscard``, ``needSkip``, ``check``, ``checkPrepareQueueOffset``.
        """
        age_ms = self._store.now() - half.born_timestamp
        properties = half.properties
        times = number(properties.get("TRANSACTION_CHECK_TIMES"), 0)
        if times >= self._options.transaction_check_max:
            self._discard(half, properties)
            return False
        if age_ms > self._options.file_reserved_time * _MS_OF_HOUR:
            self._discard(half, properties | {"TRANSACTION_CHECK_TIMES": str(times + 1)})
            return False
        if half.store_timestamp >= self._start_ms:
            return None
        immunity = properties.get("CHECK_IMMUNITY_TIME_IN_SECONDS")
        if immunity is None:
            return None if 0 <= age_ms < self._options.transaction_time_out else True
        immunity_s = number(immunity, -1)
        immunity_ms = self._options.transaction_time_out if immunity_s == -1 else immunity_s * 1000
        if age_ms >= immunity_ms:
            return True
        first_offset = properties.get("TRAN_PREPARED_QUEUE_OFFSET", str(half.queue_offset))
        if not self._is_removed(number(first_offset, -1)):
            self._put_back(half, properties | {"TRAN_PREPARED_QUEUE_OFFSET": first_offset})
        return False

    def _was_removed_before(self, half: Message) -> bool:
        """Whether a half that was put back was ended by where it was first.

        4.9.3 forgets that once it has passed that place, and asks for the message all the same.
        """
        first_offset = number(half.properties.get("TRAN_PREPARED_QUEUE_OFFSET"), -1)
        op_offset = self._early.get(first_offset)
        if op_offset is None:
            return self._is_removed(first_offset)
        self._done_ops.add(op_offset)
        return True

    def _put_back(self, half: Message, properties: Mapping[str, str]) -> PutMessageResult | None:
        """Source: ``renewHalfMessageInner``, which forgets flag and reconsume times."""
        again = replace(MessageExtBrokerInner.like(half), properties=properties)
        if self._store.compat:
            again = replace(again, flag=0, reconsume_times=0)
        return self._messages.put_back(half, again)

    def _renew(self, half: Message) -> Message | None:
        """Puts a half back with one check more, and gives what was put; ``None`` where it has ended meanwhile."""
        properties = half.properties
        times = number(properties.get("TRANSACTION_CHECK_TIMES"), 0) + 1
        result = self._put_back(half, properties | {"TRANSACTION_CHECK_TIMES": str(times)})
        return None if result is None else stored_message(self._store, result)

    def _ask(self, renewed: Message, listener: "CheckListener") -> None:
        """Lets the listener decide."""
        try:
            state = LocalTransactionState(listener(renewed))
        except Exception:
            _log.exception("%s: the check of %r failed; it stays in doubt", self._store.path, renewed)
            return
        self._messages.decide(renewed, state)

    def _discard(self, half: Message, properties: Mapping[str, str]) -> None:
        """Puts a half that nobody could decide on where it can be found. Source: ``resolveDiscardMsg``."""
        _log.error("%s: %r goes to %s: nobody decided on it", self._store.path, half, CHECK_MAX_TIME_TOPIC)
        dead = replace(MessageExtBrokerInner.like(half), topic=CHECK_MAX_TIME_TOPIC, queue_id=0, properties=properties)
        self._messages.give_up(half, dead)
