"""The records that repair puts where a log had none: they are no messages, and a walk over a log gives them."""

from typing import TYPE_CHECKING

from mqstore.store.half_messages import TRANSACTION_TYPE

if TYPE_CHECKING:
    from mqstore._native import Message

__all__ = ["is_filler"]

_TOPIC = "-"


def is_filler(message: "Message") -> bool:
    """Whether a record fills a hole: as the engine's ``repair::filler`` says."""
    return message.topic == _TOPIC and message.sys_flag == TRANSACTION_TYPE
