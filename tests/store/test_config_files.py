"""The configuration files: damage, backups, what they keep, what they refuse."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.store import config_json
from mqstore.store.config_consumer_filter import ConsumerFilterManager
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.config_delay_offset import DelayOffsetManager
from mqstore.store.config_manager import read_only
from mqstore.store.config_subscription_group import SubscriptionGroupConfig, SubscriptionGroupManager
from mqstore.store.file_kinds import read_file
from mqstore.store.read_offset import ReadOffset
from mqstore.store.topics import TopicConfig, TopicConfigManager
from tests.store.conftest import Opener


def refuse(_path: Path, _content: bytes) -> None:
    raise OSError("no space")


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def offsets(path: Path) -> ConsumerOffsetManager:
    return ConsumerOffsetManager(path, write)


def test_a_damaged_file_gives_way_to_its_backup(tmp_path: Path) -> None:
    path, backup = tmp_path / "c.json", tmp_path / "c.json.bak"
    assert offsets(path).pairs() == []
    backup.write_text('{"offsetTable":{"t@g":{0:1}}}')
    assert offsets(path).query_offset("g", "t", 0) == 1
    whole = '{"offsetTable":{"t@g":{0:2}}}'
    for cut in range(len(whole)):
        path.write_text(whole[:cut])
        assert offsets(path).query_offset("g", "t", 0) == 1, cut
    path.write_text(whole)
    assert offsets(path).query_offset("g", "t", 0) == 2
    backup.write_text("[")
    path.write_text("{")
    with pytest.raises(mqstore.MQStoreError, match=r"c\.json: .*c\.json\.bak: "):
        offsets(path)


def test_a_file_that_cannot_be_read_gives_way_or_is_named(tmp_path: Path) -> None:
    """As in 4.9.3, where whatever reading it raises leads to the ``.bak``."""
    path, backup = tmp_path / "c.json", tmp_path / "c.json.bak"
    path.mkdir()
    with pytest.raises(mqstore.StoreIOError, match=r"read .*c\.json: Is a directory") as raised:
        offsets(path)
    assert (raised.value.errno, raised.value.filename) == (errno.EISDIR, str(path))
    backup.write_text('{"offsetTable":{"t@g":{0:1}}}')
    manager = offsets(path)
    assert manager.query_offset("g", "t", 0) == 1
    manager.commit_offset("g", "t", 0, 2)
    manager.persist()
    assert offsets(path).query_offset("g", "t", 0) == 2
    assert backup.is_file()


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"offsetTable":[]}',
        '{"offsetTable":{"t@g":5}}',
        '{"offsetTable":{"t@g":{"x":5}}}',
        '{"offsetTable":{"t@g":{0:"many"}}}',
        '{"offsetTable":{"t@g":{0:9223372036854775808}}}',
        '{"offsetTable":{"t@g":{0:true}}}',
        '{"offsetTable":{"t@g":{0:1.5}}}',
        '{"offsetTable":{"t@g":{2147483648:5}}}',
        '{"offsetTable":{"t@g":{-2147483649:5}}}',
        "\udcff",
    ],
)
def test_what_is_no_table_of_offsets_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(content, errors="surrogateescape")
    with pytest.raises(mqstore.MQStoreError, match=r"c\.json: expected JSON as RocketMQ writes it"):
        offsets(path)


def test_a_queue_that_no_store_has_is_damage_as_any_other(open_store: Opener) -> None:
    with open_store() as store:
        store.put_many("t", [b""] * 5, queue_id=2**31 - 1)
        store.consumers.reset_offset("g", {("t", 2**31 - 1): 5})
        path = store.path / "config" / "consumerOffset.json"
    path.rename(path.with_name(f"{path.name}.bak"))
    path.write_text('{"offsetTable":{"t@g":{2147483648:5}}}')
    with open_store() as store:
        assert [at.consumer_offset for at in store.consumers.consume_stats("g")] == [5]


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 10**30])
def test_a_topic_has_no_more_queues_than_can_have_numbers(open_store: Opener, number: int) -> None:
    with open_store() as store:
        store.put("orders", b"body")
        path = store.path / "config" / "topics.json"
    path.write_text(
        config_json.dumps({"topicConfigTable": {"orders": {"readQueueNums": number, "writeQueueNums": number}}})
    )
    with open_store() as store:
        assert store.put("orders", b"body").logics_offset is not None
        found = store.consumers.topics.get("orders")
    nearest = max(-(2**31), min(number, 2**31 - 1))
    assert found == TopicConfig(topic_name="orders", read_queue_nums=nearest, write_queue_nums=nearest)


def test_what_a_file_holds_beyond_what_is_known_stays(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text('{"future":{"a":1},"subscriptionGroupTable":{"g":{"groupName":"g","later":7}}}')
    groups = SubscriptionGroupManager(path, write, lambda: 5)
    groups.update(SubscriptionGroupConfig(group_name="g", retry_max_times=2))
    again = SubscriptionGroupManager(path, write, lambda: 5)
    assert '"later":7' in path.read_text()
    assert '"future":{' in path.read_text()
    assert again.all() == {"g": SubscriptionGroupConfig(group_name="g", retry_max_times=2)}
    again.delete("g")
    assert SubscriptionGroupManager(path, write, lambda: 5).all() == {}


def test_what_cannot_be_written_is_not_known_either(tmp_path: Path) -> None:
    topics = TopicConfigManager(tmp_path / "t.json", refuse, lambda: 5)
    with pytest.raises(OSError, match="no space"):
        topics.get_or_add("orders", 4)
    assert topics.all() == {}
    groups = SubscriptionGroupManager(tmp_path / "g.json", refuse, lambda: 5)
    with pytest.raises(OSError, match="no space"):
        groups.get_or_add("g")
    assert groups.all() == {}
    table = ConsumerOffsetManager(tmp_path / "c.json", refuse)
    table.commit_offset("g", "orders", 0, 5)
    with pytest.raises(OSError, match="no space"):
        table.reset_offsets("g", {("orders", 0): ReadOffset(2), ("other", 1): ReadOffset(3)})
    assert (table.pairs(), table.offsets("g", "orders")) == ([("orders", "g")], {0: 5})


def test_a_file_is_written_only_where_it_would_change(tmp_path: Path) -> None:
    written: list[bytes] = []
    delays = DelayOffsetManager(tmp_path / "d.json", lambda _path, content: written.append(content))
    delays.update_offset(2, 7)
    delays.persist()
    delays.persist()
    assert len(written) == 1
    delays.update_offset(1, 8)
    delays.persist()
    assert written[1:] == [b'{\n\t"offsetTable":{1:8,2:7\n\t}\n}']


def test_offsets_of_groups_and_topics(tmp_path: Path) -> None:
    table = offsets(tmp_path / "c.json")
    table.commit_offset("g", "orders", 0, 5)
    table.commit_offset("g", "%RETRY%g", 0, 1)
    table.commit_offset("h", "orders", 1, 9)
    assert table.which_topic_by_consumer("g") == {"orders", "%RETRY%g"}
    assert table.which_group_by_topic("orders") == {"g", "h"}
    table.clone_offset("g", "new", "orders")
    assert table.offsets("new", "orders") == {0: 5}
    table.remove_offset("g")
    table.persist()
    assert sorted(offsets(tmp_path / "c.json").pairs()) == [("orders", "h"), ("orders", "new")]


def test_a_topic_with_the_separator_in_its_name_has_offsets_as_any_other(tmp_path: Path) -> None:
    table = offsets(tmp_path / "c.json")
    table.commit_offset("g", "a@b@c", 0, 5)
    assert table.pairs() == [("a@b@c", "g")]
    assert table.which_topic_by_consumer("g") == {"a@b@c"}
    assert table.which_group_by_topic("a@b@c") == {"g"}
    table.remove_offset("g")
    assert table.pairs() == []


@pytest.mark.parametrize("offset", ["3", None, True, 2.5, -1, 1 << 63])
def test_an_offset_that_cannot_be_written_is_not_taken(tmp_path: Path, offset: Any) -> None:
    table = offsets(tmp_path / "c.json")
    with pytest.raises((TypeError, ValueError), match=r"^offset=.*: expected an integer"):
        table.commit_offset("g", "orders", 0, offset)
    assert table.pairs() == []


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("group", (3, "orders", 0, 5)),
        ("topic", ("g", None, 0, 5)),
        ("queue_id", ("g", "orders", "0", 5)),
        ("queue_id", ("g", "orders", 1 << 31, 5)),
        ("log_end", ("g", "orders", 0, 5, "7")),
    ],
)
def test_what_else_cannot_be_written_is_not_taken(tmp_path: Path, argument: str, given: tuple[Any, ...]) -> None:
    """It would keep the offsets of all groups from being written, and the store from closing in good order."""
    table = offsets(tmp_path / "c.json")
    with pytest.raises((TypeError, ValueError), match=f"^{argument}=.*: expected"):
        table.commit_offset(*given)
    assert table.pairs() == []
    table.persist()


def filters(path: Path, now_ms: Callable[[], int]) -> ConsumerFilterManager:
    return ConsumerFilterManager(path, write, now_ms)


def test_of_two_filters_the_newer_counts(tmp_path: Path) -> None:
    table = filters(tmp_path / "f.json", lambda: 1000)
    assert table.register("orders", "g", "a > 1", 5)
    assert not table.register("orders", "g", "a > 2", 5)
    assert not table.register("orders", "g", "a > 2", 4)
    assert table.register("orders", "g", "a > 3", 6)
    found = table.get("orders", "g")
    assert found is not None
    assert (found.expression, found.is_dead) == ("a > 3", False)


def test_a_filter_that_nobody_has_used_for_a_day_goes(tmp_path: Path) -> None:
    now = 1_000_000_000
    table = filters(tmp_path / "f.json", lambda: now)
    table.register("orders", "g", "a > 1", 5)
    table.unregister("g")
    table.persist()
    again = filters(tmp_path / "f.json", lambda: now)
    assert again.get("orders", "g") == table.get("orders", "g")
    now += 24 * 3600 * 1000
    again.persist()
    assert filters(tmp_path / "f.json", lambda: now).get("orders", "g") is None


def test_topics_are_written_as_they_are_after_each_change(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    topics = TopicConfigManager(path, write, lambda: 5)
    for number in range(3):
        topics.get_or_add(f"topic {number}", number)
    topics.update(TopicConfig(topic_name="topic 1", write_queue_nums=9))
    topics.delete("topic 0")
    topics.get_or_add("topic 0", 7)
    written = config_json.loads(path.read_text())
    assert path.read_text() == config_json.dumps(written)
    assert TopicConfigManager(path, write, lambda: 5).all() == topics.all()
    numbers = {topic: entry["writeQueueNums"] for topic, entry in written["topicConfigTable"].items()}
    assert numbers == {"topic 1": 9, "topic 2": 2, "topic 0": 7}


@pytest.mark.parametrize("touched", [False, True])
def test_a_closed_store_writes_no_file_beside_the_next_writer(open_store: Opener, *, touched: bool) -> None:
    closed = open_store()
    consumers, topics = closed.consumers, closed.consumers.topics
    if touched:
        consumers.reset_offset("g", {("orders", 0): 1})
        consumers.groups.get_or_add("g")
        assert consumers.filters.get("orders", "g") is None
    closed.close()
    writer = open_store()
    writer.consumers.reset_offset("g", {("orders", 0): 2})
    writer.consumers.topics.get_or_add("orders", 4)
    files = {path: path.read_bytes() for path in (writer.path / "config").iterdir()}
    for write_one in (
        lambda: consumers.reset_offset("g", {("orders", 0): 7}),
        lambda: consumers.topics.get_or_add("other", 4),
        lambda: topics.get_or_add("other", 4),
        lambda: consumers.groups.get_or_add("new"),
        lambda: consumers.register_filter("orders", "g", "a = 1", 5),
        lambda: closed._replace_config(writer.path / "config" / "topics.json", b"{}"),
    ):
        with pytest.raises(mqstore.StoreClosedError):
            write_one()
    closed.close()
    assert {path: path.read_bytes() for path in (writer.path / "config").iterdir()} == files


def test_a_closed_reader_writes_no_offsets(open_store: Opener) -> None:
    open_store().close()
    reader = open_store(mode="r")
    reader.close()
    with pytest.raises(mqstore.StoreClosedError):
        reader.consumers.reset_offset("g", {("orders", 0): 1})


@pytest.mark.parametrize("damaged", [b"{", b" \n"])
def test_what_a_damaged_file_gave_way_to_stays_until_it_is_whole_again(open_store: Opener, damaged: bytes) -> None:
    store = open_store()
    path = store.path / "config" / "consumerOffset.json"
    store.put_many("orders", [b""] * 6, queue_id=0)
    store.consumers.offsets.commit_offset("g", "orders", 0, 5)
    store.close()
    good = path.read_bytes()
    path.with_name("consumerOffset.json.bak").write_bytes(good)
    path.write_bytes(damaged)
    store = open_store()
    store.consumers.offsets.commit_offset("g", "orders", 0, 6)
    store.close()
    # A power cut between two steps leaves one of both.
    assert path.with_name("consumerOffset.json.bak").read_bytes() == good
    assert path.with_name("consumerOffset.json.damaged").read_bytes() == damaged
    assert ConsumerOffsetManager(path, read_only).query_offset("g", "orders", 0) == 6


def test_a_topic_that_is_no_text_ends_no_look_at_the_others(
    open_store: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    store.put("t", b"x", queue_id=0)
    store.close()
    path = store.path / "config" / "consumerOffset.json"
    path.write_text('{"offsetTable":{"t@g\\ud800":{0:1},"t\\udfff@h":{0:0},"t@good":{0:1}}}')
    store = open_store(mode="r")
    for _ in range(2):
        found = store.consumers.consume_stats_of_groups()
    assert {group: [queue.diff for queue in queues] for group, queues in found.items()} == {"g\ud800": [0], "good": [0]}
    assert caplog.text.count("is no text") == 1


def test_what_stands_beside_offsets_goes_with_them(tmp_path: Path) -> None:
    path = tmp_path / "c.json"

    def write(_path: Path, content: bytes) -> None:
        path.write_bytes(content)

    def table() -> ConsumerOffsetManager:
        return ConsumerOffsetManager(path, write)

    offsets = table()
    offsets.commit_offset("g", "t", 0, 5, log_end=100)
    offsets.commit_offset("g", "t", 1, 6)
    offsets.persist()
    assert table().read_offsets("g", "t") == {0: ReadOffset(5, 100), 1: ReadOffset(6)}
    offsets = table()
    offsets.clone_offset("g", "new", "t")
    offsets.remove_offset("g")
    assert offsets.read_offset("new", "t", 0) == ReadOffset(5, 100)
    # An offset of which nothing is known has nothing of the one before.
    offsets.commit_offset("new", "t", 0, 7)
    offsets.persist()
    assert "logEndTable" not in path.read_text()


def test_a_file_that_nobody_allows_to_be_read_gives_way_to_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is whole, and its backup is of before."""
    path = tmp_path / "consumerOffset.json"
    manager = offsets(path)
    for offset in (1, 2):
        manager.commit_offset("g", "t", 0, offset)
        manager.persist()
    path.with_name("consumerOffset.json.bak").write_bytes(path.read_bytes().replace(b":2", b":1"))

    def refuse_the_file(candidate: Path) -> bytes:
        if candidate == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(candidate))
        return read_file(candidate)

    # The superuser may read everything.
    monkeypatch.setattr("mqstore.store.config_manager.read_file", refuse_the_file)
    with pytest.raises(mqstore.StoreIOError, match=f"^read {path}: Permission denied$") as refused:
        offsets(path)
    assert (refused.value.errno, refused.value.filename) == (errno.EACCES, str(path))
