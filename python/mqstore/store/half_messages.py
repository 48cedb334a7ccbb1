"""What the messages of a transaction are to the store: halves, what says that they are done with, commits.

Source: ``TransactionalMessageBridge``, ``EndTransactionProcessor``.
"""

import re
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from mqstore._native import Message, PutMessageResult
from mqstore.errors import (
    FlushDiskTimeoutError,
    FlushSlaveTimeoutError,
    MessageIllegalError,
    MQStoreError,
    PutError,
    ServiceNotAvailableError,
    SlaveNotAvailableError,
)
from mqstore.status import PutMessageStatus
from mqstore.store.messages import MessageExtBrokerInner

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = [
    "CHECK_MAX_TIME_TOPIC",
    "CHECK_TIMES",
    "FIRST_OFFSET",
    "GROUP",
    "HALF_TOPIC",
    "OP_TOPIC",
    "TRANSACTION_TYPE",
    "DecidedOtherwiseError",
    "LocalTransactionState",
    "NotPreparedError",
    "check_confirmed",
    "final_message",
    "illegal",
    "number",
    "stored",
    "stored_message",
]

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
GROUP = "CID_RMQ_SYS_TRANS"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
"""How often a half was asked for."""
FIRST_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
"""Where a half that was put back stood first in its queue."""
TRANSACTION_TYPE = 0x3 << 2
_COMMIT_TYPE = 0x2 << 2
_MAX_QUEUE_ID = 2**31 - 1
_NUMBER = re.compile(r"[-+]?[0-9]{1,19}")
_STORED = {
    PutMessageStatus.PUT_OK,
    PutMessageStatus.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE,
}


class LocalTransactionState(StrEnum):
    """What became of the work that a prepared message stands for."""

    COMMIT_MESSAGE = "COMMIT_MESSAGE"
    """It was done: the message goes to its topic."""
    ROLLBACK_MESSAGE = "ROLLBACK_MESSAGE"
    """It was not: nobody ever sees the message."""
    UNKNOW = "UNKNOW"
    """That cannot be said yet: it is asked for again."""


class NotPreparedError(MQStoreError):
    """A message that stands among the halves does not say what it is a half of."""


class DecidedOtherwiseError(MQStoreError):
    """A message is to end as it has not: it is seen, or never will be."""


def final_message(store: "MessageStore", half: Message) -> MessageExtBrokerInner:
    """What a commit puts to the message's topic. Source: ``endMessageTransaction``.

    Its properties are encoded before ``REAL_TOPIC``, ``REAL_QID`` and ``TRAN_MSG`` are taken away, and
    again without them where the message goes to further queues.
    """
    properties = half.properties
    topic, queue_id = properties.get("REAL_TOPIC"), number(properties.get("REAL_QID"), -1)
    if topic is None or not 0 <= queue_id <= _MAX_QUEUE_ID:
        raise NotPreparedError(f"expected REAL_TOPIC and REAL_QID, found {properties!r} in {half!r}")
    if not store.compat:
        properties.pop(FIRST_OFFSET, None)
    if store.options.enable_multi_dispatch and "INNER_MULTI_DISPATCH" in properties:
        for name in ("REAL_TOPIC", "REAL_QID", "TRAN_MSG"):
            properties.pop(name, None)
    return replace(
        MessageExtBrokerInner.like(half),
        topic=topic,
        queue_id=queue_id,
        properties=properties,
        sys_flag=half.sys_flag | _COMMIT_TYPE,
        prepared_transaction_offset=half.commit_log_offset,
    )


def stored(result: PutMessageResult) -> PutMessageResult:
    """A put's result, where the message is in the log."""
    if result.status in _STORED:
        return result
    kind = {
        PutMessageStatus.SERVICE_NOT_AVAILABLE: ServiceNotAvailableError,
        PutMessageStatus.MESSAGE_ILLEGAL: MessageIllegalError,
    }.get(result.status, PutError)
    error = kind(result.reason or result.status)
    error.status = result.status
    raise error


def check_confirmed(store: "MessageStore", result: PutMessageResult) -> None:
    """Says of a message that is in the log whether it is also where it has to be, as ``put`` does.

    Raises:
        FlushDiskTimeoutError: the disk did not confirm it.
        FlushSlaveTimeoutError: no slave confirmed it.
        SlaveNotAvailableError: no slave is near enough to confirm it.
    """
    error: FlushDiskTimeoutError | FlushSlaveTimeoutError | SlaveNotAvailableError
    if result.status is PutMessageStatus.FLUSH_DISK_TIMEOUT:
        error = FlushDiskTimeoutError(
            f"the message is stored; the disk did not confirm it {store._flush_waiters.in_time}"
        )
    elif result.status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT:
        error = FlushSlaveTimeoutError(
            f"the message is stored; a slave did not confirm it {store._transfer_waiters.in_time}"
        )
    elif result.status is PutMessageStatus.SLAVE_NOT_AVAILABLE:
        error = SlaveNotAvailableError("the message is stored; no slave is near enough to confirm it")
    else:
        return
    error.result = result
    raise error


def stored_message(store: "MessageStore", result: PutMessageResult) -> Message:
    """The message that a put stored."""
    found = None
    if result.wrote_offset is not None:
        found = store.look_message_by_offset(result.wrote_offset)
        if found is None:
            # A transient store pool held it, where nothing is read: it, or somebody else by now, has committed that.
            store._engine.commit(0)
            found = store.look_message_by_offset(result.wrote_offset)
    if found is None:
        raise MQStoreError(f"expected the message that was put at {result.wrote_offset} in the log, found none")
    return found


def illegal(reason: str) -> MessageIllegalError:
    """The error for a message that cannot be one of a transaction."""
    error = MessageIllegalError(reason)
    error.status = PutMessageStatus.MESSAGE_ILLEGAL
    return error


def number(text: str | None, otherwise: int) -> int:
    """A property that is a number, as Java reads one; what is missing or none gives the other."""
    return int(text) if text is not None and _NUMBER.fullmatch(text) else otherwise
