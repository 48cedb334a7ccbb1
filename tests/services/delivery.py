"""What the tests of services that deliver messages need."""

from typing import TypeVar

import mqstore
from mqstore.services import ServiceThread
from mqstore.services.delivery import DeliveryService
from tests.waiting import wait_until

TWO_PASSES = 2

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


def bodies(store: mqstore.MessageStore, topic: str = "orders") -> list[bytes]:
    """The bodies of a topic's messages."""
    return [bytes(message.body) for message in store.topic(topic)]
