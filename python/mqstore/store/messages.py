"""Messages to put, as 4.9.3's operations take them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from mqstore._native import Message
from mqstore.store.arguments import expected_other

__all__ = ["MessageExtBatch", "MessageExtBrokerInner", "checked_messages"]

_PARTS_COUNT = 3


@dataclass(kw_only=True)
class MessageExtBrokerInner:
    """A message for :meth:`~mqstore.MessageStore.put_message`, every field in the caller's hand.

    Times are in milliseconds. Hosts are written ``1.2.3.4:5`` or ``[1::2]:5``; ``None`` takes the
    store's. Properties are a mapping, written in the order in which Java's ``HashMap`` would give it,
    or the string as it is stored.
    """

    topic: str
    queue_id: int = 0
    body: bytes = b""
    properties: Mapping[str, str] | str | bytes = field(default_factory=dict)
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int | None = None
    born_host: str | None = None
    store_host: str | None = None
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0

    @classmethod
    def like(cls, stored: Message) -> Self:
        """A message with all that a stored one has but its place in a transaction."""
        return cls(
            topic=stored.topic,
            queue_id=stored.queue_id,
            body=bytes(stored.raw_body),
            properties=stored.properties,
            flag=stored.flag,
            sys_flag=stored.sys_flag,
            born_timestamp=stored.born_timestamp,
            born_host=stored.born_host,
            store_host=stored.store_host,
            reconsume_times=stored.reconsume_times,
        )


@dataclass(kw_only=True)
class MessageExtBatch:
    """A batch for :meth:`~mqstore.MessageStore.put_messages`: one topic, one queue.

    ``messages`` are body, flag and properties of each; ``properties`` are appended to those of each.
    """

    topic: str
    queue_id: int = 0
    messages: Sequence[tuple[bytes, int, Mapping[str, str]]] = ()
    properties: Mapping[str, str] | str | bytes = field(default_factory=dict)
    sys_flag: int = 0
    born_timestamp: int | None = None
    born_host: str | None = None
    store_host: str | None = None
    reconsume_times: int = 0


def checked_messages(messages: object) -> list[tuple[bytes, int, dict[str, str]]]:
    """The messages of a batch, as the engine takes them.

    Raises:
        TypeError: they are none; it names the place among them.
    """
    if not isinstance(messages, Iterable):
        raise expected_other("messages", messages, "messages, body, flag and properties each")
    return [_checked_message(at, message) for at, message in enumerate(messages)]


def _checked_message(at: int, message: object) -> tuple[bytes, int, dict[str, str]]:
    if not isinstance(message, Sequence) or len(message) != _PARTS_COUNT:
        raise expected_other(f"messages[{at}]", message, "body, flag and properties")
    body, flag, properties = message
    if not isinstance(properties, Mapping):
        raise expected_other(f"messages[{at}]: properties", properties, "a mapping of strings")
    return body, flag, dict(properties)
