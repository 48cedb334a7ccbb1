"""What the tests of services that deliver messages need."""

import struct
from pathlib import Path
from typing import TypeVar

import mqstore
from mqstore.services import ServiceThread
from mqstore.services.delivery import DeliveryService
from tests.waiting import wait_until

TWO_PASSES = 2
PHYSICAL_OFFSET_AT = 28
"""Where a record says its place in the log."""

Service = TypeVar("Service", bound=ServiceThread)


def service_of(store: mqstore.MessageStore, kind: type[Service]) -> Service:
    """The service of a kind that a store has."""
    (service,) = [service for service in store._services if isinstance(service, kind)]
    return service


def wait_for_passes(service: DeliveryService) -> None:
    """Waits until passes that began now have ended, so that what they would deliver is there."""
    passes = 0
    deliver = service.deliver

    def counted() -> int:
        nonlocal passes
        wait_ms = deliver()
        passes += 1
        return wait_ms

    service.deliver = counted  # type: ignore[method-assign]
    wait_until(lambda: passes >= TWO_PASSES)
    service.deliver = deliver  # type: ignore[method-assign]


def append_foreign(store: mqstore.MessageStore, queue_id: int, body: bytes, properties: dict[str, str]) -> None:
    """Appends a record to the topic of timed messages, where nobody can put one, as the store's own.

    ``XQSTORE`` stands for ``MQSTORE`` in the properties' names and values.
    """
    folder = Path(store.path).with_name("foreign")
    with mqstore.open(folder, "rw") as source:
        message = mqstore.MessageExtBrokerInner(
            topic="XQSTORE_TIMED_TOPIC", queue_id=queue_id, body=body, properties=properties
        )
        offset = source.put_message(message).wrote_offset
        assert offset is not None
        found = source.look_message_by_offset(offset)
        assert found is not None
        record = bytearray(found.record_bytes.tobytes().replace(b"XQSTORE", b"MQSTORE"))
    # Progress of a log that is not the store's own would be left out.
    struct.pack_into(">q", record, PHYSICAL_OFFSET_AT, store.get_max_phy_offset())
    assert store._append_encoded(bytes(record), keep_times=False, keep_offsets=False) == 1


def bodies(store: mqstore.MessageStore, topic: str = "orders") -> list[bytes]:
    """The bodies of a topic's messages."""
    return [bytes(message.body) for message in store.topic(topic)]
