"""Several members of a group: in one process, in several, beside another process's store."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import mqstore
from mqstore.consumer import manager, rebalance
from mqstore.consumer.membership import Membership, QueueLock
from mqstore.errors import MQStoreError
from tests.store.conftest import Opener
from tests.waiting import wait_until

SOON = 0.05
MEMBER = """
import sys
import mqstore

store = mqstore.open(sys.argv[1])
consumer = store.consumer("g", "orders", from_where="first", consumer_id=sys.argv[2])
for message in consumer:
    print(bytes(message.body).decode(), flush=True)
    if sys.stdin.readline() == "stop\\n":
        consumer.ack(message)
        break
consumer.close()
store.close()
"""


def bodies(found: list[mqstore.Message]) -> list[int]:
    return sorted(int(bytes(message.body)) for message in found)


def test_members_share_the_queues(store: mqstore.MessageStore) -> None:
    for number in range(40):
        store.put("orders", b"%d" % number)
    first = store.consumer("g", "orders", consumer_id="a", timeout=SOON)
    assert first.poll(SOON) is not None
    assert len(first.queues) == 9
    second = store.consumer("g", "orders", consumer_id="b", timeout=SOON)

    def shared() -> bool:
        for consumer in (first, second):
            consumer._rebalance.rebalance_if_due(consumer._subscriptions)
        orders = [[queue for topic, queue in consumer.queues if topic == "orders"] for consumer in (first, second)]
        return orders[1] == [4, 5, 6, 7] and orders[0] == [0, 1, 2, 3]

    wait_until(shared)
    found = [message for consumer in (first, second) for message in consumer]
    # The first message is still in the first one's hand.
    assert bodies(found) == list(range(40))[1:]
    second.close()
    wait_until(lambda: first.poll(SOON) is None and len(first.queues) == 9)
    first.close()


def test_no_two_members_have_one_id(store: mqstore.MessageStore) -> None:
    consumer = store.consumer("g", "orders", consumer_id="a")
    with pytest.raises(mqstore.OptionError, match="another consumer of the group has it"):
        store.consumer("g", "orders", consumer_id="a")
    store.consumer("h", "orders", consumer_id="a").close()
    consumer.close()
    store.consumer("g", "orders", consumer_id="a").close()


def test_processes_of_one_number_have_consumers_of_several_ids(
    store: mqstore.MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in two containers, whose processes share a store and nothing else.
    monkeypatch.setattr(manager, "_numbers", itertools.repeat(0))
    one, other = store.consumer("g", "t"), store.consumer("g", "t")
    assert one.settings.consumer_id != other.settings.consumer_id


def test_where_no_member_can_be_written_it_is_said(store: mqstore.MessageStore) -> None:
    (store.path / "mqstore" / "consumers").write_text("a file")
    with pytest.raises(mqstore.StoreIOError, match=r"lock .*consumers") as raised:
        store.consumer("g", "orders")
    assert raised.value.filename is not None


def test_a_queue_in_hand_changes_hands_when_it_is_done(store: mqstore.MessageStore) -> None:
    for number in range(3):
        store.put("orders", b"%d" % number, queue_id=7)
    first = store.consumer("g", "orders", consumer_id="a", timeout=SOON)
    in_hand = first.poll(SOON)
    assert in_hand is not None
    second = store.consumer("g", "orders", consumer_id="b", timeout=SOON)

    def is_to_change() -> bool:
        first._rebalance.rebalance_if_due(first._subscriptions)
        return ("orders", 7) not in first.queues

    wait_until(is_to_change)
    assert second.poll(SOON) is None
    first.ack(in_hand)
    found: list[mqstore.Message] = []

    def both() -> bool:
        found.extend(second)
        return len(found) == 2

    wait_until(both)
    assert bodies(found) == [1, 2]
    first.close()
    second.close()


def test_every_broadcasting_consumer_gets_everything(open_store: Opener) -> None:
    store = open_store()
    for number in range(20):
        store.put("orders", b"%d" % number)

    def read(consumer_id: str) -> list[int]:
        given = {"message_model": "broadcasting", "from_where": "first", "timeout": SOON}
        return bodies(list(store.consumer("g", "orders", consumer_id=consumer_id, **given)))  # type: ignore[arg-type]

    assert read("a") == read("b") == list(range(20))
    store.put("orders", b"20")
    assert read("a") == [20]
    store.close()
    store = open_store()
    assert read("b") == [20]
    assert not (store.path / "config" / "consumerOffset.json").exists()


@pytest.mark.parametrize("compat", [False, True])
def test_a_consumer_that_broadcasts_gets_all_of_a_queue_that_comes(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch, *, compat: bool
) -> None:
    monkeypatch.setattr(rebalance, "_CHECK_INTERVAL", 0)
    store = open_store(compat=compat)
    store.put("orders", b"0", queue_id=0)
    assert store.topics() == ["orders"]
    with store.consumer("g", ["orders", "others"], message_model="broadcasting", timeout=SOON) as consumer:
        assert list(consumer) == []
        store.put_many("orders", [b"1", b"2"], queue_id=20)
        store.put("others", b"3", queue_id=0)
        store.put("orders", b"4", queue_id=0)
        # All of it is there when the consumer looks.
        assert store.topics() == ["orders", "others"]
        assert bodies(list(consumer)) == ([4] if compat else [1, 2, 3, 4])
    # Who was not there before it begins where it is told to.
    with store.consumer("g", "orders", message_model="broadcasting", consumer_id="new", timeout=SOON) as consumer:
        assert list(consumer) == []


@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize("mode", ["rw", "r"])
@pytest.mark.parametrize("model", ["broadcasting", "clustering"])
def test_what_comes_once_a_consumer_is_made_is_given_to_it(
    open_store: Opener, model: str, mode: str, *, compat: bool
) -> None:
    """It looks for the first time when it is first asked."""
    # A group that begins at the end is not taken for one that was there from the start.
    writer = open_store(compat=compat, accessMessageInMemoryMaxRatio=0)
    store = writer if mode == "rw" else open_store(mode="r", compat=compat, accessMessageInMemoryMaxRatio=0)
    for queue_id in (0, 1):
        writer.put("orders", b"0", queue_id=queue_id)
    with store.consumer("g", "orders", message_model=model, timeout=SOON) as consumer:
        writer.put("orders", b"1", queue_id=0)
        writer.put_many("orders", [b"2", b"3"], queue_id=20)
        writer.flush()
        writer.topics()
        is_whole = model == "broadcasting" and not compat
        assert bodies(list(consumer)) == ([1, 2, 3] if is_whole else [1])
        writer.put_many("orders", [b"4"], queue_id=1)
        assert bodies(list(consumer)) == [4]


def test_beside_a_writer_offsets_are_kept_apart(open_store: Opener) -> None:
    writer = open_store()
    for number in range(10):
        writer.put("orders", b"%d" % number, queue_id=0)
    assert bodies(list(writer.consumer("g", "orders", timeout=SOON))) == list(range(10))
    writer.consumers.offsets.persist()
    path = writer.path / "config" / "consumerOffset.json"
    before = path.read_bytes()
    reader = open_store(mode="r")
    for number in range(10, 15):
        writer.put("orders", b"%d" % number, queue_id=0)
    assert bodies(list(reader.consumer("g", "orders", timeout=SOON))) == list(range(10, 15))
    assert bodies(list(reader.consumer("new", "orders", timeout=SOON))) == list(range(15))
    assert path.read_bytes() == before
    # Whoever goes on, the further offset counts.
    assert bodies(list(writer.consumer("g", "orders", timeout=SOON))) == []
    reader.close()
    reader = open_store(mode="r")
    assert bodies(list(reader.consumer("new", "orders", timeout=SOON))) == []
    assert reader.consumers.group_names() == ["g", "new"]


def changes_of(store: mqstore.MessageStore) -> dict[str, Callable[[], object]]:
    """What changes a file of a store's configuration."""
    consumers = store.consumers
    return {
        "check": lambda: store.check_transactions(lambda _message: mqstore.LocalTransactionState.UNKNOW),
        "group": lambda: consumers.groups.get_or_add("new"),
        "filter": lambda: consumers.register_filter("orders", "g", "a = 1", 1),
        "own filter": consumers.filters.persist,
        "offsets": consumers.offsets.persist,
    }


@pytest.mark.parametrize("name", ["check", "group", "filter", "own filter", "offsets"])
def test_who_reads_beside_a_writer_changes_none_of_its_files(open_store: Opener, name: str) -> None:
    writer = open_store()
    with writer.transaction() as transaction:
        transaction.put("orders", b"", queue_id=0)
    writer.consumers.groups.get_or_add("g")
    assert len(list(writer.consumer("g", "orders", timeout=SOON))) == 1
    reader = open_store(mode="r")
    assert reader.consumers.offsets.query_offset("g", "orders", 0) == 1
    writer.put_many("orders", [b"", b""], queue_id=0)
    assert len(list(writer.consumer("g", "orders", timeout=SOON))) == 2
    writer.consumers.offsets.persist()
    # One that is damaged, with its predecessor beside it, is the writer's as well.
    (writer.path / "config" / "consumerFilter.json").write_text("{")
    (writer.path / "config" / "consumerFilter.json.bak").write_text("{}")
    before = {path: path.read_bytes() for path in (writer.path / "config").iterdir()}
    with pytest.raises(mqstore.ReadOnlyError):
        changes_of(reader)[name]()
    assert {path: path.read_bytes() for path in (writer.path / "config").iterdir()} == before
    reader.close()
    with pytest.raises(mqstore.StoreClosedError):
        changes_of(reader)["check"]()


def test_what_a_reader_gives_back_comes_again_to_it(open_store: Opener) -> None:
    writer = open_store(messageDelayLevel="0s 0s 0s")
    writer.put("orders", b"0", queue_id=0)
    reader = open_store(mode="r", messageDelayLevel="0s 0s 0s")
    seen = 0
    with reader.consumer("g", "orders", timeout=SOON) as consumer:
        for message in consumer:
            seen += 1
            if seen < 3:
                consumer.reconsume_later(message)
    assert seen == 3
    assert writer.topics() == ["orders"]


class Member:
    """A consumer in a process of its own, which reads a message a step."""

    def __init__(self, store: Path, consumer_id: str) -> None:
        """Starts it."""
        arguments = [sys.executable, "-c", textwrap.dedent(MEMBER), str(store), consumer_id]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def read(self) -> int:
        """The number of the message in its hand."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def step(self, word: str = "on") -> None:
        """Lets it consume the message."""
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Leaves no process behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def test_what_a_killed_process_had_in_hand_goes_to_the_others(open_store: Opener) -> None:
    store = open_store()
    for number in range(20):
        store.put("orders", b"%d" % number, queue_id=0)
    store.flush()
    members = [Member(store.path, "a")]
    try:
        for number in range(3):
            assert members[0].read() == number
            members[0].step()
        assert members[0].read() == 3
        os.kill(members[0].process.pid, signal.SIGKILL)
        members[0].process.wait()
        members.append(Member(store.path, "b"))
        found = [members[1].read()]
        while found[-1] < 19:
            members[1].step()
            found.append(members[1].read())
        members[1].step("stop")
        assert members[1].process.wait(60) == 0
    finally:
        for member in members:
            member.end()
    # Offsets are written every five seconds: what came before they were may come again, nothing is left out.
    assert found[0] <= 3
    assert found == list(range(found[0], 20))
    assert bodies(list(store.consumer("g", "orders", timeout=SOON))) == []


def test_a_queue_whose_offset_could_not_be_written_changes_hands_later(
    store: mqstore.MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        store.put("orders", b"%d" % number, queue_id=number)
    first = store.consumer("g", "orders", consumer_id="a", timeout=SOON)
    rebalance = first._rebalance
    rebalance.rebalance_if_due(first._subscriptions)
    second = store.consumer("g", "orders", consumer_id="b", timeout=SOON)

    def refuse() -> None:
        raise mqstore.StoreIOError("no space left")

    with monkeypatch.context() as full:
        full.setattr(first._offsets, "persist", refuse)
        rebalance._next_check = 0
        with pytest.raises(mqstore.StoreIOError, match="no space"):
            rebalance.rebalance_if_due(first._subscriptions)

    def shared() -> bool:
        for consumer in (first, second):
            consumer._rebalance.rebalance_if_due(consumer._subscriptions)
        return [queue for topic, queue in second.queues if topic == "orders"] == [4, 5, 6, 7]

    wait_until(shared)
    second.close()
    first.close()


def test_the_figures_of_all_groups_are_read_once(store: mqstore.MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for topic in ("orders", "bills"):
        store.put_many(topic, [b""] * 5, queue_id=0)
    for number, group in enumerate(("a", "b", "c")):
        store.consumers.reset_offset(group, {("orders", 0): number, ("bills", 0): 2})
    expected = {group: store.consumers.consume_stats(group) for group in store.consumers.group_names()}
    assert [stats.diff for stats in expected["b"]] == [3, 4]
    files = Mock(wraps=store.consumers._offset_files)
    monkeypatch.setattr(store.consumers, "_offset_files", files)
    assert store.consumers.consume_stats_of_groups() == expected
    assert files.call_count == 1


def test_a_queue_that_changes_hands_is_not_consumed_again(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who had it until now has come further than the next member has seen of another process's store."""
    writer = open_store()
    for number in range(100):
        writer.put("orders", b"%d" % number, queue_id=0)
    reader, other = open_store(mode="r"), open_store(mode="r")
    assert len(list(other.consumer("g", "orders", from_where="first", timeout=SOON))) == 100
    take_queue = Membership.take_queue

    def take_late(membership: Membership, topic: str, queue_id: int) -> QueueLock | None:
        monkeypatch.setattr(Membership, "take_queue", take_queue)
        for number in range(100, 105):
            writer.put("orders", b"%d" % number, queue_id=0)
        other.refresh()
        assert bodies(list(other.consumer("g", "orders", consumer_id="a", timeout=SOON))) == list(range(100, 105))
        return take_queue(membership, topic, queue_id)

    with reader.consumer("g", "orders", consumer_id="b", timeout=SOON) as consumer:
        monkeypatch.setattr(Membership, "take_queue", take_late)
        assert list(consumer) == []
        writer.put("orders", b"105", queue_id=0)
        found = consumer.poll(10)
        assert found is not None
        assert bodies([found]) == [105]


def test_offsets_are_not_reset_while_another_process_consumes(open_store: Opener) -> None:
    writer = open_store()
    for number in range(10):
        writer.put("orders", b"%d" % number, queue_id=0)
    member = Member(writer.path, "elsewhere")
    try:
        assert member.read() == 0
        with pytest.raises(MQStoreError, match="while no consumer of it is open"):
            writer.consumers.reset_offset("g", {("orders", 0): 5})
    finally:
        member.end()
    writer.consumers.reset_offset("g", {("orders", 0): 5})
    assert bodies(list(writer.consumer("g", "orders", timeout=SOON))) == list(range(5, 10))


def test_a_consumer_on_a_slave_goes_on_behind_what_retention_deleted(open_store: Opener) -> None:
    sizes: dict[str, Any] = {"mappedFileSizeCommitLog": 64 << 10}
    with open_store(**sizes) as store:
        for number in range(600):
            store.put("orders", b"%d" % number + bytes(300), queue_id=0)
        assert len(list(store.consumer("g", "orders", from_where="first", timeout=SOON))) == 600
        store.consumers.reset_offset("g", {("orders", 0): 10})
    next(iter(sorted((store.path / "commitlog").iterdir()))).unlink()
    with open_store(brokerRole="SLAVE", **sizes) as slave:
        first = slave.get_min_offset_in_queue("orders", 0)
        assert first > 10
        with slave.consumer("g", "orders", timeout=SOON) as consumer:
            assert [message.queue_offset for message in consumer] == list(range(first, 600))
