"""What must hold of a store whose writer was killed."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import mqstore
from tests.crash.killing import Acknowledged
from tests.crash.stream import MOST_AT_ONCE, body_of, properties_of
from tests.store_files import (
    copy_store,
    forget_derived,
    index_contents,
    index_entries,
    log_contents,
    queue_contents,
    queue_units,
)

__all__ = ["Place", "check_equals_rebuilt", "check_messages", "check_stays", "everything_in"]


class Place(NamedTuple):
    """Where a message is."""

    topic: str
    queue_id: int
    offset: int
    queue_offset: int


def everything_in(store: Path) -> dict[str, bytes]:
    """Every file of a store."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def check_messages(
    store: mqstore.MessageStore, acks: Iterable[Acknowledged], known: Mapping[str, Place]
) -> dict[str, Place]:
    """A store has what was acknowledged and what was found in it before, and nothing that was not put.

    Gives where all messages are.
    """
    found = _messages_by_queue(store)
    in_log = {body.split(b"|", 1)[0].decode(): offset for body, offset in _log_of(store)}
    assert in_log == {name: place.offset for name, place in found.items()}
    assert {name: place for name, place in found.items() if name in known} == known
    acks = list(acks)
    for ack in acks:
        assert found.get(ack.name) == Place(ack.topic, ack.queue_id, ack.offset, ack.queue_offset), ack
    _check_under_way(found, known, acks)
    _check_keys(store, found)
    assert store.report().rejected_count == 0
    assert store.report().gaps == []
    return found


def _messages_by_queue(store: mqstore.MessageStore) -> dict[str, Place]:
    found: dict[str, Place] = {}
    for topic in store.topics():
        for queue in store.topic(topic).queues:
            for number, message in enumerate(queue, queue.min_offset):
                name = bytes(message.body).split(b"|", 1)[0].decode()
                assert bytes(message.body) == body_of(name)
                zeros = properties_of(name).get("zeros")
                assert message.properties.get("zeros", zeros) == zeros
                assert message.queue_offset == number
                assert name not in found, f"{name} is there twice"
                found[name] = Place(topic, message.queue_id, message.commit_log_offset, number)
    return found


def _log_of(store: mqstore.MessageStore) -> list[tuple[bytes, int]]:
    return [(bytes(message.body), message.commit_log_offset) for message in store.select()]


def _check_under_way(found: Mapping[str, Place], known: Mapping[str, Place], acks: Iterable[Acknowledged]) -> None:
    """What is there without having been acknowledged belongs to the one call of a thread that was under way."""
    acknowledged = {ack.name for ack in acks}
    last: dict[str, int] = {}
    for name in acknowledged:
        thread, number = name.rsplit(".", 1)
        last[thread] = max(last.get(thread, -1), int(number))
    for name in found.keys() - known.keys() - acknowledged:
        thread, number = name.rsplit(".", 1)
        assert 0 < int(number) - last.get(thread, -1) <= MOST_AT_ONCE, f"{name} was never put"


def _check_keys(store: mqstore.MessageStore, found: Mapping[str, Place]) -> None:
    for topic in {place.topic for place in found.values()}:
        names = [name for name, place in found.items() if place.topic == topic]
        for name, messages in zip(names, store.query_messages(topic, names), strict=True):
            assert [message.commit_log_offset for message in messages] == [found[name].offset], name


def _derived(store: Path, options: Mapping[str, Any]) -> tuple[object, object]:
    return queue_units(store), index_entries(store, options["maxHashSlotNum"])


def check_equals_rebuilt(store: Path, options: Mapping[str, Any], scratch: Path) -> None:
    """Queues and index of a closed store hold what they hold when they are made anew from the log."""
    rebuilt = copy_store(store, scratch)
    forget_derived(rebuilt, clean=False)
    with mqstore.open(rebuilt, "rw", **options):
        pass
    units, entries = _derived(store, options)
    again_units, again_entries = _derived(rebuilt, options)
    assert units == again_units
    assert entries == again_entries
    assert extension_contents(store) == extension_contents(rebuilt)
    shutil.rmtree(rebuilt)


def extension_contents(store: Path) -> dict[str, bytes]:
    """The files of the queues' extensions."""
    return {name: content for name, content in queue_contents(store).items() if name.startswith("consumequeue_ext")}


def check_stays(store: Path, options: Mapping[str, Any]) -> None:
    """Opening a closed store once more changes nothing."""
    before = log_contents(store), queue_contents(store), index_contents(store)
    with mqstore.open(store, "rw", **options):
        pass
    assert (log_contents(store), queue_contents(store), index_contents(store)) == before
