"""Transactions, as 4.9.3's broker has them on its store.

A prepared message goes to a topic of its own, where nobody reads it: a half. A commit puts it to its
topic, and either end puts the half's queue offset to a second topic, which says that it is done with.
What is neither is in doubt, and asked back for.
Source: ``TransactionalMessageBridge``, ``TransactionalMessageServiceImpl``, ``EndTransactionProcessor``,
``DefaultTransactionalMessageCheckListener``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from mqstore._native import PutMessageResult
from mqstore.errors import FlushDiskTimeoutError, FlushSlaveTimeoutError, MQStoreError, SlaveNotAvailableError
from mqstore.store.arguments import INT_MAX, checked_integer, checked_text, expected_other
from mqstore.store.delayed import DELIVER_AT, SCHEDULE_TOPIC, TIMED_TOPIC
from mqstore.store.half_messages import (
    CHECK_TIMES,
    FIRST_OFFSET,
    HALF_TOPIC,
    OP_TOPIC,
    TRANSACTION_TYPE,
    DecidedOtherwiseError,
    illegal,
    stored_message,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from mqstore.store.message_store import MessageStore

__all__ = ["PreparedMessage", "Transaction"]

_END_OF_FILE_SIZE = 8
_NOT_FOR_MESSAGES = frozenset({HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC, TIMED_TOPIC})
"""Topics that a commit must not put to: what it put among the halves would be one more in doubt, and so on for ever."""

_ENDED_ALL_THE_SAME = (DecidedOtherwiseError, FlushDiskTimeoutError, FlushSlaveTimeoutError, SlaveNotAvailableError)
"""What is raised of a message that has ended: otherwise than it was asked, or without a confirmation in time."""


@dataclass(frozen=True)
class PreparedMessage:
    """A message of a transaction that has not ended."""

    transaction_id: str
    """Its unique key."""
    topic: str
    queue_id: int
    commit_log_offset: int
    """Where its half stands in the log."""
    queue_offset: int
    """The half's, in the half topic."""


class Transaction:
    """Messages that become visible together with something else that is done, or never.

    Made by :meth:`MessageStore.transaction`. Each message is prepared when it is put. They are committed
    one after another: a crash in between leaves the rest in doubt, for the check to decide.
    """

    def __init__(self, store: "MessageStore", group: str) -> None:
        """A transaction without messages.

        Raises:
            TypeError: the group is no string.
        """
        self._store, self._group = store, checked_text("group", group)
        self._prepared: list[PreparedMessage] = []
        self._has_ended = False
        store._transactions.watch(self, self._prepared)

    @property
    def prepared(self) -> list[PreparedMessage]:
        """The messages that were prepared and are neither committed nor rolled back."""
        return list(self._prepared)

    def put(
        self,
        topic: str,
        body: "ReadableBuffer",
        *,
        queue_id: int | None = None,
        properties: Mapping[str, str] | None = None,
        **given: Any,
    ) -> PreparedMessage:
        """Prepares a message; takes what :meth:`MessageStore.put` takes, a delay aside, as in 4.9.3.

        Raises:
            ValueError: the transaction has ended, or another thread ended it meanwhile: the message is rolled back.
            MessageIllegalError: the message cannot be stored, is delayed, or is for a topic of prepared or delayed
                messages.
            PutError: it was not prepared.
            TypeError: something has another type.
        """
        if self._has_ended:
            raise _has_ended()
        if not isinstance(topic, str):
            raise expected_other("topic", topic, "a string")
        own, sys_flag = _checked_properties(properties), _checked_int("sys_flag", given)
        is_delayed = _checked_int("delay_time_level", given) > 0 or given.get("deliver_at") is not None
        if topic in _NOT_FOR_MESSAGES:
            raise illegal(f"a message of a transaction cannot go to {topic}, which is the store's own")
        if not self._store.compat:
            # Of a message that was one of a transaction before, and was asked for there.
            for name in (CHECK_TIMES, FIRST_OFFSET):
                own.pop(name, None)
        if is_delayed or not {"DELAY", DELIVER_AT}.isdisjoint(own):
            raise illegal("a message of a transaction cannot be delayed")
        real_queue_id = self._store._queue_for(topic, queue_id)
        own |= {
            "TRAN_MSG": "true",
            "PGROUP": self._group,
            "REAL_TOPIC": topic,
            "REAL_QID": str(real_queue_id),
        }
        given["sys_flag"] = sys_flag & ~TRANSACTION_TYPE
        return self._put_half(topic, real_queue_id, body, own, given)

    def _put_half(
        self, topic: str, queue_id: int, body: "ReadableBuffer", properties: dict[str, str], given: dict[str, Any]
    ) -> PreparedMessage:
        store = self._store
        if store._topics is not None:
            store._topics.get_or_add(HALF_TOPIC, 1)
        unconfirmed: MQStoreError | None = None
        with store._transactions.preparing() as prepared:
            try:
                result = store.put(HALF_TOPIC, body, queue_id=0, properties=properties, **given)
            except MQStoreError as error:
                # One that is stored but not confirmed has to be ended as the others.
                given_back = getattr(error, "result", None)
                if not isinstance(given_back, PutMessageResult):
                    raise
                result, unconfirmed = given_back, error
            half = stored_message(store, result)
            prepared(half.commit_log_offset)
        found = PreparedMessage(half.unique_key or "", topic, queue_id, half.commit_log_offset, half.queue_offset)
        self._check_final_size(found, half.store_size)
        with store._holding(store._transactions.ending):
            if self._has_ended:
                # By another thread, which did not see this message: nobody would end it later.
                self._end_refused(found)
                raise _has_ended()
            self._prepared.append(found)
        if unconfirmed is not None:
            raise unconfirmed
        return found

    def _check_final_size(self, half: PreparedMessage, half_size: int) -> None:
        """Refuses a message now that could not be committed later, since its topic is longer than the halves'."""
        size = half_size + len(half.topic.encode()) - len(HALF_TOPIC)
        largest = min(self._store.options.max_message_size, self._store._log_file_size - _END_OF_FILE_SIZE)
        if size > largest:
            self._end_refused(half)
            raise illegal(f"the message has {size} bytes when it is committed, {largest} can be stored")

    def _end_refused(self, half: PreparedMessage) -> None:
        """Rolls one back that was prepared and is not taken; where that can't be written it is left to the check."""
        transactions = self._store._transactions
        try:
            transactions.end_prepared(half.commit_log_offset, commit=False)
        finally:
            transactions.forget(half.commit_log_offset)

    def commit(self) -> None:
        """Lets the messages be seen, in the order in which they were put.

        Broken off by Ctrl-C, it is taken up by the next call where it was.

        Raises:
            MQStoreError: a check has rolled one back, which is never seen; all others are committed.
            PutError: one could not be put to its topic. It and those behind it stay prepared: commit again, roll
                back, or leave them to the check.
            FlushDiskTimeoutError: all are committed; the disk did not confirm one in time.
            FlushSlaveTimeoutError: all are committed; no slave confirmed one in time.
            SlaveNotAvailableError: all are committed; no slave was near enough to confirm one.
        """
        self._end(commit=True)

    def rollback(self) -> None:
        """Lets the messages never be seen.

        Raises:
            MQStoreError: a check has committed one, or a commit that was broken off, and it is seen; all others are
                rolled back.
            PutError: that could not be written for one. It and those behind it stay prepared.
        """
        self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        with self._store._holding(self._store._transactions.ending):
            self._has_ended = True
        failed: list[MQStoreError] = []
        while self._end_next(failed, commit=commit):
            pass
        if failed:
            # The first; what was decided otherwise counts before what is not confirmed.
            raise min(failed, key=lambda error: not isinstance(error, DecidedOtherwiseError))

    def _end_next(self, failed: list[MQStoreError], *, commit: bool) -> bool:
        """Ends one message, and notes an error that keeps no other from ending; gives whether there was one."""
        transactions = self._store._transactions
        # Of threads that end it at once each takes another message: one that two took would be put twice, and the
        # next one would be taken away unended.
        with self._store._holding(transactions.ending):
            if not self._prepared:
                return False
            half = self._prepared[0]
            try:
                transactions.end_prepared(half.commit_log_offset, commit=commit)
            except _ENDED_ALL_THE_SAME as error:
                failed.append(error)
            # Until it is gone from here it is known that it has ended: Ctrl-C can come between any two steps.
            self._prepared.pop(0)
            transactions.forget(half.commit_log_offset)
            return True

    def __enter__(self) -> Self:
        """The transaction itself."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Commits what is left, or rolls it back where the block raised."""
        if error is None:
            self.commit()
            return
        try:
            self.rollback()
        except MQStoreError as failed:
            still = "stays in doubt" if self._prepared else "was not all rolled back"
            error.add_note(f"what was prepared {still}: {failed}")


def _has_ended() -> ValueError:
    return ValueError("the transaction has ended")


def _checked_properties(properties: object) -> dict[str, str]:
    """A message's own properties, to be added to; what a name or a value has to be is the engine's to say."""
    if properties is None:
        return {}
    items = getattr(properties, "items", None)
    if items is None:
        raise expected_other("properties", properties, "a mapping of strings")
    return dict(items())


def _checked_int(argument: str, given: Mapping[str, object]) -> int:
    """One of a put's arguments that is a Java int, which is 0 by default."""
    return checked_integer(argument, given.get(argument, 0), -INT_MAX - 1, INT_MAX)
