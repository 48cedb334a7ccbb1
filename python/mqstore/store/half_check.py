"""Looking for prepared messages in doubt. Source: ``TransactionalMessageServiceImpl.check``."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from mqstore._native import Message, PutMessageResult
from mqstore.errors import PutError
from mqstore.status import PutMessageStatus
from mqstore.store.arguments import LONG_MAX
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.follower import place_in_log
from mqstore.store.half_messages import (
    CHECK_MAX_TIME_TOPIC,
    CHECK_TIMES,
    FIRST_OFFSET,
    GROUP,
    HALF_TOPIC,
    OP_TOPIC,
    DecidedOtherwiseError,
    LocalTransactionState,
    NotPreparedError,
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


_REFUSED = frozenset({PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED})
"""What a put says that is refused for the message's sake, whoever is to take it."""

_Put = TypeVar("_Put")

_Origin = tuple[int, int, str, str | None]
"""What a half has in common with what it was put back as: its first queue offset, and what tells it from a half of
another store or queue that had that offset too."""


class HalfCheck:
    """A check of one queue of halves.

    A half that is asked for, or is too young to be, is put back behind the others. What stands before where the
    check has come is done with; that is written once the check has ended. One that was broken off by a crash comes
    to the same halves again: each that was put back tells where it stood first, and of all that tell the same only
    the last one counts.
    """

    def __init__(self, messages: "TransactionalMessages", offsets: ConsumerOffsetManager, queue_id: int) -> None:
        """Reads what is done with."""
        self._messages, self._store = messages, messages._store
        self._offsets, self._queue_id = offsets, queue_id
        self._options = self._store.options
        self._start_ms = self._store.now()
        self._half_offset = self._next_offset = self._offset_of(HALF_TOPIC)
        self._has_copies = offsets.read_offset(GROUP, HALF_TOPIC, queue_id).log_end >= 0
        """Whether halves were put back, ever: who loses the log's end may lose all that is left of them."""
        self._half_end = self._store.get_max_offset_in_queue(HALF_TOPIC, queue_id)
        self._op_offset = self._offset_of(OP_TOPIC)
        self._done_ops: set[int] = set()
        self._ops = self._read_ops()
        """Of halves that are done with, by their queue offset."""
        self._last_places: dict[_Origin, int] = {}
        """Of halves that were put back: where they were last."""
        self._origin_ops: dict[_Origin, set[int]] = {}
        """The ops of those, wherever they stood."""
        self._find_put_back()

    def _offset_of(self, topic: str) -> int:
        """Where the check goes on, or the queue begins behind that."""
        first = self._store.get_min_offset_in_queue(topic, self._queue_id)
        return max(self._offsets.query_offset(GROUP, topic, self._queue_id), first)

    def _read_ops(self) -> dict[int, int]:
        """Source: ``fillOpRemoveMap``."""
        ops: dict[int, int] = {}
        for op in self._messages_of(OP_TOPIC, self._op_offset):
            place = _half_of(op)
            if place is None:
                _log.error("%s: %r says of no prepared message that it is done", self._store.path, op)
                self._done_ops.add(op.queue_offset)
            elif place_in_log(self._store, HALF_TOPIC, self._queue_id, place) > op.commit_log_offset:
                # Of a half that was lost: the one that has its offset came later.
                self._done_ops.add(op.queue_offset)
            else:
                # A half that ended twice has two ops.
                self._done_ops.update(found for found in (ops.get(place),) if found is not None)
                ops[place] = op.queue_offset
        return ops

    def _find_put_back(self) -> None:
        """Goes through all halves from where the last check ended."""
        for half in self._messages_of(HALF_TOPIC, self._half_offset):
            if FIRST_OFFSET in half.properties:
                origin = _origin(half)
                self._last_places[origin] = half.queue_offset
                found = (self._ops.get(place) for place in (origin[0], half.queue_offset))
                self._origin_ops.setdefault(origin, set()).update(op for op in found if op is not None)
        meant = set().union(*self._origin_ops.values())
        # Of what was ended before, the others speak of no half that is still looked at.
        self._done_ops.update(op for place, op in self._ops.items() if place < self._half_offset and op not in meant)

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
        try:
            for half in self._messages_of(HALF_TOPIC, self._half_offset):
                # Whoever breaks the check off finds all of it done, or nothing.
                with self._store._holding(self._messages.ending):
                    self._messages.check_goes_on()
                    is_due = None if self._is_fresh(half) else not self._has_ended(half) and self._is_due(half)
                    if is_due is None:
                        break
                    renewed = self._renew(half) if is_due else None
                    # What was put back is behind: this one is never asked for again.
                    self._next_offset = half.queue_offset + 1
                if renewed is not None:
                    self._ask(renewed, listener)
                    asked += 1
        finally:
            self.note_offsets()
        return asked

    def note_offsets(self) -> None:
        """Sets the offsets from which the next check is to go on, in memory."""
        log_end = self._store.get_max_phy_offset() if self._has_copies else -1
        self._offsets.commit_offset(GROUP, HALF_TOPIC, self._queue_id, self._next_offset, log_end)
        op_offset = self._op_offset
        while op_offset in self._done_ops:
            op_offset += 1
        self._offsets.commit_offset(GROUP, OP_TOPIC, self._queue_id, op_offset)

    def _is_fresh(self, half: Message) -> bool:
        """Whether a half came while this check is under way, as those do that it puts back."""
        return not self._store.compat and half.queue_offset >= self._half_end

    def _has_ended(self, half: Message) -> bool:
        """Whether a half has an op, wherever it stood, or stands further on as well.

        4.9.3 forgets where it was first once it has passed that place, and asks for the message all the same.
        """
        origin = _origin(half)
        if self._last_places.get(origin, half.queue_offset) > half.queue_offset:
            # Its ops count until the last place is passed.
            return True
        own = self._ops.get(half.queue_offset)
        ops = self._origin_ops.get(origin, set()) | ({own} if own is not None else set())
        self._done_ops |= ops
        return bool(ops)

    def _is_due(self, half: Message) -> bool | None:
        """Whether a half is to be asked for; ``None`` where this check ends before it.

        One that was asked for too often, or is older than messages are kept, is given up. One with an immunity
        of its own is put back behind the others while that lasts.
        Source: ``needDiscard``, ``needSkip``, ``check``, ``checkPrepareQueueOffset``.
        """
        age_ms = self._store.now() - half.born_timestamp
        properties = half.properties
        times = number(properties.get(CHECK_TIMES), 0)
        if times >= self._options.transaction_check_max:
            self._discard(half, properties)
            return False
        if age_ms > self._options.file_reserved_time * _MS_OF_HOUR:
            self._discard(half, properties | {CHECK_TIMES: str(times + 1)})
            return False
        # Store times stand still while the clock, which was set back, has not caught up.
        stored_ms = half.store_timestamp if self._store.compat else min(half.store_timestamp, half.born_timestamp)
        if stored_ms >= self._start_ms:
            return None
        immunity = properties.get("CHECK_IMMUNITY_TIME_IN_SECONDS")
        if immunity is None:
            return None if 0 <= age_ms < self._options.transaction_time_out else True
        immunity_s = number(immunity, -1)
        immunity_ms = self._options.transaction_time_out if immunity_s == -1 else immunity_s * 1000
        if age_ms >= immunity_ms:
            return True
        return not self._waits_behind(half)

    def _waits_behind(self, half: Message) -> bool:
        """Puts a half behind the others; gives whether the store takes it there."""
        try:
            self._put_back(half, _with_first_offset(half))
        except _OfTheMessageError:
            return False
        return True

    def _put_back(self, half: Message, properties: Mapping[str, str]) -> PutMessageResult | None:
        """Source: ``renewHalfMessageInner``, which forgets flag and reconsume times."""
        again = replace(MessageExtBrokerInner.like(half), properties=properties)
        if self._store.compat:
            again = replace(again, flag=0, reconsume_times=0)
        result = self._with_room(self._messages.put_back, half, again)
        self._has_copies = True
        return result

    def _with_room(
        self, put: Callable[[Message, MessageExtBrokerInner], _Put], half: Message, again: MessageExtBrokerInner
    ) -> _Put:
        """Puts a half again; with the properties that it had where there is no room for what they note besides.

        It is asked for then until it is older than messages are kept, and an end that names an earlier place of it in
        another process does not end it. 4.9.3 tries without end, and comes to no other half.
        """
        try:
            with _told_apart():
                return put(half, again)
        except _OfTheMessageError as error:
            _log.error("%s: %r has no room for what a check notes in it: %s", self._store.path, half, error)
        with _told_apart():
            return put(half, replace(again, properties=half.properties))

    def _renew(self, half: Message) -> Message | None:
        """Puts a half back with one check more, and gives what was put; ``None`` where it has ended meanwhile.

        It is the half itself where the store would not take it by now, as with a smaller ``maxMessageSize``: it is
        asked for this once, and no other waits for it.
        """
        # 4.9.3 lets a half with an immunity alone keep its first offset.
        properties = half.properties if self._store.compat else _with_first_offset(half)
        times = number(properties.get(CHECK_TIMES), 0) + 1
        try:
            result = self._put_back(half, properties | {CHECK_TIMES: str(times)})
        except _OfTheMessageError as error:
            _log.error("%s: %r cannot be put back, and is asked for where it is: %s", self._store.path, half, error)
            return half
        return None if result is None else stored_message(self._store, result)

    def _ask(self, renewed: Message, listener: "CheckListener") -> None:
        """Lets the listener decide."""
        self._messages.asking = threading.get_ident()
        try:
            state = LocalTransactionState(listener(renewed))
        except Exception:
            _log.exception("%s: the check of %r failed; it stays in doubt", self._store.path, renewed)
            return
        finally:
            self._messages.asking = None
        try:
            with _told_apart():
                self._messages.decide(renewed, state)
        except _OfTheMessageError:
            _log.exception("%s: %r cannot end as it was decided", self._store.path, renewed)

    def _discard(self, half: Message, properties: Mapping[str, str]) -> None:
        """Puts a half that nobody could decide on where it can be found. Source: ``resolveDiscardMsg``."""
        _log.error("%s: %r goes to %s: nobody decided on it", self._store.path, half, CHECK_MAX_TIME_TOPIC)
        dead = replace(MessageExtBrokerInner.like(half), topic=CHECK_MAX_TIME_TOPIC, queue_id=0, properties=properties)
        try:
            self._with_room(self._messages.give_up, half, dead)
        except _OfTheMessageError:
            # That topic is longer than the halves'.
            _log.exception("%s: %r is passed over, and stays where it is", self._store.path, half)


class _OfTheMessageError(Exception):
    """An error that is one message's own: the others do not have it."""


@contextlib.contextmanager
def _told_apart() -> Iterator[None]:
    """Has an error that is one message's own be known as that.

    Raises:
        _OfTheMessageError: it is, and is its cause.
    """
    try:
        yield
    except (PutError, DecidedOtherwiseError, NotPreparedError) as error:
        if isinstance(error, PutError) and getattr(error, "status", None) not in _REFUSED:
            raise
        raise _OfTheMessageError(str(error)) from error


def _half_of(op: Message) -> int | None:
    """The queue offset of the half that an op speaks of; ``None`` where it speaks of none."""
    text = bytes(op.body)
    if op.tags != "d" or not text.isdigit() or len(text) > _MAX_DIGITS or int(text) > LONG_MAX:
        return None
    return int(text)


def _origin(half: Message) -> _Origin:
    first_offset = number(half.properties.get(FIRST_OFFSET), half.queue_offset)
    return first_offset, half.born_timestamp, half.born_host, half.unique_key


def _with_first_offset(half: Message) -> dict[str, str]:
    """The properties of a half that is put back: it keeps its first offset, by which its end may name it."""
    properties = half.properties
    properties.setdefault(FIRST_OFFSET, str(half.queue_offset))
    return properties
