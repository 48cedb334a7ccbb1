"""Where mqstore answers otherwise than 4.9.3, and 4.9.3's answer with ``compat=True``.

What takes the real store to show stands in ``tests/compat/test_right_where_java_is_wrong.py``.
"""

from pathlib import Path

import pytest

import mqstore
from mqstore import MessageExtBatch, MessageExtBrokerInner, PutMessageStatus
from tests.store.conftest import Opener
from tests.store_files import forget_derived

MAGIC_CODE_AT = 4
UNIT_SIZE = 20
T0 = 1_700_000_000_000


def both(open_store: Opener, name: str = "store", **given: object) -> tuple[mqstore.MessageStore, mqstore.MessageStore]:
    """A store that is read by default, and in the compatible way."""
    return open_store(name, "r", **given), open_store(name, "r", compat=True, **given)


def test_separators_in_properties_are_stored_in_compat(open_store: Opener) -> None:
    message = MessageExtBrokerInner(topic="t", properties={"p": "v\x02q\x01w"})
    assert open_store("default").put_message(message).status is PutMessageStatus.MESSAGE_ILLEGAL
    compat = open_store("compat", compat=True)
    assert compat.put_message(message).is_ok
    (found,) = compat.select()
    assert found.properties == {"p": "v", "q": "w"}


def test_a_negative_queue_is_one_in_compat(open_store: Opener) -> None:
    message = MessageExtBrokerInner(topic="t", queue_id=-1, properties={"DELAY": "0"})
    batch = MessageExtBatch(topic="t", queue_id=-1, messages=[(b"", 0, {})])
    default = open_store("default")
    for result in (default.put_message(message), default.put_messages(batch)):
        assert result.status is PutMessageStatus.MESSAGE_ILLEGAL
        assert result.reason == "option queue_id=-1: expected a number of at least 0"
    assert default.get_max_phy_offset() == 0
    compat = open_store("compat", compat=True)
    assert compat.put_message(message).is_ok
    assert compat.put_messages(batch).is_ok
    assert compat.get_message("t", -1, 0).next_begin_offset == 2


def test_the_number_of_light_queues_is_bounded(open_store: Opener) -> None:
    given = {"enable_lmq": True, "enable_multi_dispatch": True, "max_lmq_consume_queue_num": 1}
    statuses = []
    for name, compat in (("default", False), ("compat", True)):
        store = open_store(name, compat=compat, **given)
        for number in range(3):
            properties = {"INNER_MULTI_DISPATCH": f"%LMQ%{number}"}
            statuses.append(store.put_message(MessageExtBrokerInner(topic="t", properties=properties)).status)
            store.refresh()
    ok = PutMessageStatus.PUT_OK
    assert statuses == [ok, ok, PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED, ok, ok, ok]


def test_the_checkpoint_has_a_time_once_the_units_are_flushed(open_store: Opener) -> None:
    store = open_store(flush_interval_consume_queue=3_600_000)
    before = store._checkpoint()[1]
    time = store.put("t", b"", queue_id=0).store_timestamp
    store.refresh()
    assert store._checkpoint()[1] == before
    store.flush()
    assert store._checkpoint()[1] == time


def test_a_queue_begins_with_a_message_that_is_there(open_store: Opener, tmp_path: Path) -> None:
    store = open_store()
    offsets = [store.put("t", bytes(3000), queue_id=0).wrote_offset for _ in range(120)]
    store.close()
    expired = sorted((tmp_path / "store/commitlog").iterdir())[:3]
    for path in expired:
        path.unlink()
    first = sum(1 for offset in offsets if offset is not None and offset < len(expired) * 65_536)
    assert first > 1000 // UNIT_SIZE
    default, compat = both(open_store)
    assert default.get_min_offset_in_queue("t", 0) == first
    assert compat.get_min_offset_in_queue("t", 0) == 0


def test_what_follows_a_gap_keeps_its_offset(open_store: Opener, tmp_path: Path) -> None:
    store = open_store()
    offsets = [store.put("t", f"{number}".encode(), queue_id=0).wrote_offset for number in range(10)]
    store.close()
    (log,) = (path for path in (tmp_path / "store/commitlog").iterdir() if any(path.read_bytes()))
    content = bytearray(log.read_bytes())
    assert offsets[5] is not None
    content[offsets[5] + MAGIC_CODE_AT] ^= 1
    log.write_bytes(content)
    forget_derived(tmp_path / "store", clean=True)
    default, compat = both(open_store)
    assert [found.queue_offset for found in default.topic("t").queue(0)] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert default.get_max_offset_in_queue("t", 0) == 10
    behind = default.get_message("t", 0, 5, 2)
    assert ([bytes(found.body) for found in behind.messages], behind.next_begin_offset) == ([b"6", b"7"], 8)
    shifted = compat.get_message("t", 0, 5, 1).messages
    assert [bytes(found.body) for found in shifted] == [b"6"]


def test_a_unit_of_another_message_serves_nothing(open_store: Opener, tmp_path: Path) -> None:
    store = open_store()
    for number in range(10):
        store.put("t", f"{number}".encode(), queue_id=0)
    store.close()
    path = tmp_path / "store/consumequeue/t/0/00000000000000000000"
    units = bytearray(path.read_bytes())
    units[5 * UNIT_SIZE : 6 * UNIT_SIZE] = units[3 * UNIT_SIZE : 4 * UNIT_SIZE]
    path.write_bytes(units)
    default, compat = both(open_store)
    instead = default.get_message("t", 0, 5, 1).messages
    assert [bytes(found.body) for found in instead] == [b"6"]
    assert default.rejected_count == 1
    assert str(default.report()) == "t-0 at 5, log offset 402: the record there is another message's"
    (served,) = compat.get_message("t", 0, 5, 1).messages
    assert bytes(served.body) == b"3"


def test_tags_of_one_hash_are_told_apart(open_store: Opener) -> None:
    store = open_store()
    for tag in ("Aa", "BB"):  # of one hash in Java
        store.put("t", tag.encode(), tags=tag, queue_id=0)
    store.close()
    default, compat = both(open_store)
    for opened, expected in ((default, [b"Aa"]), (compat, [b"Aa", b"BB"])):
        found = opened.get_message("t", 0, 0, 32, subscription="Aa")
        assert [bytes(message.body) for message in found.messages] == expected


def test_a_small_store_has_an_earliest_message(open_store: Opener) -> None:
    store = open_store()
    time = store.put("t", b"").store_timestamp
    store.close()
    default, compat = both(open_store)
    assert (default.get_earliest_message_time(), compat.get_earliest_message_time()) == (time, -1)


@pytest.mark.parametrize("compat", [False, True])
def test_a_clock_that_is_set_back(open_store: Opener, compat: bool) -> None:  # noqa: FBT001 (a case)
    clock = [T0, T0 - 5000, T0 - 1, T0 + 1]
    now_ms = clock[0]
    store = open_store(clock=lambda: now_ms, compat=compat)

    def put_at(time_ms: int) -> int | None:
        nonlocal now_ms
        now_ms = time_ms
        return store.put("t", b"").store_timestamp

    times = [put_at(time_ms) for time_ms in clock]
    assert times == (clock if compat else [T0, T0, T0, T0 + 1])


def test_index_files_have_names_in_order_whatever_the_clock_does(open_store: Opener, tmp_path: Path) -> None:
    now_ms = T0
    store = open_store(clock=lambda: now_ms)
    for now_ms in [T0] * 900 + [T0 - 86_400_000] * 900:  # noqa: B007 (the clock reads it)
        store.put("t", b"", keys="k", queue_id=0)
    store.refresh()
    assert len(store.query_message("t", "k", 2000)) == 1800
    store.close()
    names = sorted(path.name for path in (tmp_path / "store/index").iterdir())
    # Two entries a message, its key and its unique key; 399 to a file.
    assert [int(name) - int(names[0]) for name in names] == list(range(-(-3600 // 399)))


def test_opening_starts_what_putting_needs_and_nothing_else(open_store: Opener) -> None:
    services = {type(service).__name__ for service in open_store()._services}
    assert services == {
        "AllocateMappedFileService",
        "FlushConsumeQueueService",
        "FlushRealTimeService",
        "ReputMessageService",
        "ReserveBlocksService",
        "StoreStatsService",
    }
