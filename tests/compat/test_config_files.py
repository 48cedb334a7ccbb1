"""The configuration files beside the broker's own managers."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore.store import config_json
from mqstore.store.config_consumer_filter import ConsumerFilterManager
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.config_delay_offset import DelayOffsetManager
from mqstore.store.config_subscription_group import SubscriptionGroupConfig, SubscriptionGroupManager
from mqstore.store.topics import TopicConfig, TopicConfigManager
from tests.compat.java_store import JavaStore

ODD = "".join(map(chr, (*range(1, 0x180), 0x2028, 0x2029, 0x503C, 0x1F600)))
"""Characters that are written in different ways."""
GROUPS = ["g", *(f"group-{number}" * number for number in range(2, 12)), "消费者"]
CHANGES: list[dict[str, Any]] = [
    {"topic": {"topicName": "orders", "readQueueNums": 4, "writeQueueNums": 3, "perm": 4, "order": True}},
    {"topic": {"topicName": ODD, "topicSysFlag": 2}},
    {"group": {"groupName": ODD, "retryMaxTimes": -1, "consumeBroadcastEnable": False}},
    {"group": {"groupName": "g", "retryQueueNums": 0, "brokerId": 5}},
    {"offset": {"group": "g", "topic": "orders", "queueId": 0, "offset": 5}},
    {"offset": {"group": "g", "topic": "orders", "queueId": 3, "offset": (1 << 63) - 1}},
    {"offset": {"group": ODD.replace("@", ""), "topic": "%RETRY%g", "queueId": 0, "offset": 0}},
    *(
        {"filter": {"topic": "orders", "group": name, "expression": "a > 5 AND b = 'x'", "version": 7}}
        for name in GROUPS
    ),
    {"delay": {"level": 1, "offset": 10}},
    {"delay": {"level": 18, "offset": 99}},
]


@pytest.fixture(scope="module")
def java_config(java: JavaStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder ``config`` that the broker's managers wrote."""
    store = tmp_path_factory.mktemp("config")
    java.run("config-write", store, {}, map(json.dumps, CHANGES))
    return store / "config"


class Written:
    """Takes what a manager writes."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.text = ""

    def __call__(self, _path: Path, content: bytes) -> None:
        """The file's new content."""
        self.text = content.decode()


def without_version(text: str) -> str:
    return re.sub(r'"(counter|timestamp)":\d+', r'"\1":0', text)


def now() -> int:
    return 0


def test_offsets_that_java_wrote_are_written_the_same(java_config: Path) -> None:
    written = Written()
    offsets = ConsumerOffsetManager(java_config / "consumerOffset.json", written)
    assert offsets.offsets("g", "orders") == {0: 5, 3: (1 << 63) - 1}
    offsets.persist()
    assert written.text == (java_config / "consumerOffset.json").read_text()


def test_delay_offsets_that_java_wrote_are_written_the_same(java_config: Path) -> None:
    written = Written()
    delays = DelayOffsetManager(java_config / "delayOffset.json", written)
    assert delays.all() == {1: 10, 18: 99}
    delays.persist()
    assert written.text == (java_config / "delayOffset.json").read_text()


def test_topics_that_java_wrote_are_written_the_same(java_config: Path) -> None:
    written = Written()
    topics = TopicConfigManager(java_config / "topics.json", written, now)
    orders = topics.get("orders")
    assert orders == TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=3, perm=4, order=True)
    assert ODD in topics.all()
    for config in topics.all().values():
        topics.update(config)
    assert without_version(written.text) == without_version((java_config / "topics.json").read_text())


def test_groups_that_java_wrote_are_written_the_same(java_config: Path) -> None:
    written = Written()
    groups = SubscriptionGroupManager(java_config / "subscriptionGroup.json", written, now)
    assert groups.get("g") == SubscriptionGroupConfig(group_name="g", retry_queue_nums=0, broker_id=5)
    assert ODD in groups.all()
    for config in groups.all().values():
        groups.update(config)
    assert without_version(written.text) == without_version((java_config / "subscriptionGroup.json").read_text())


def test_filters_that_java_wrote_are_written_the_same_down_to_the_groups_bits(java_config: Path) -> None:
    written = Written()
    path = java_config / "consumerFilter.json"
    born = [int(time) for time in re.findall(r'"bornTime":(\d+)', path.read_text())]
    filters = ConsumerFilterManager(path, written, lambda: min(born))
    for name in GROUPS:
        found = filters.get("orders", name)
        assert found is not None
        assert found.is_dead
        # A newer version is registered anew: its bits are computed here.
        assert filters.register("orders", name, found.expression, 8)
        again = filters.get("orders", name)
        assert again is not None
        assert again.bit_pos == found.bit_pos
    filters.persist()
    assert written.text.replace('"clientVersion":8', '"clientVersion":7') == path.read_text()


def ours(store: Path) -> dict[str, Callable[[], object]]:
    """Writes all files; gives for each of Java's managers what it has to find."""
    config = store / "config"
    config.mkdir(parents=True)

    def write(path: Path, content: bytes) -> None:
        path.write_bytes(content)

    topics = TopicConfigManager(config / "topics.json", write, now)
    topics.update(TopicConfig(topic_name=ODD, read_queue_nums=3))
    groups = SubscriptionGroupManager(config / "subscriptionGroup.json", write, now)
    groups.update(SubscriptionGroupConfig(group_name=ODD, retry_max_times=2))
    offsets = ConsumerOffsetManager(config / "consumerOffset.json", write)
    offsets.commit_offset("g", "orders", 7, 1 << 62, log_end=5)
    offsets.commit_offset("h", "orders", 0, 0)
    filters = ConsumerFilterManager(config / "consumerFilter.json", write, lambda: 1 << 60)
    filters.register("orders", "g", "a IS NOT NULL", 3)
    delays = DelayOffsetManager(config / "delayOffset.json", write)
    # Offsets behind the end of a level's queue are corrected by Java: this level has none.
    for manager in (offsets, filters, delays):
        manager.persist()
    return {
        "TopicConfigManager": lambda: {
            ODD: config_json.loads(config_json.dumps(topics.encode()))["topicConfigTable"][ODD]
        },
        "SubscriptionGroupManager": lambda: {ODD: groups.encode()["subscriptionGroupTable"][ODD]},
        "ConsumerOffsetManager": lambda: offsets.encode()["offsetTable"],
        "ConsumerFilterManager": lambda: {"orders"},
        "ScheduleMessageService": lambda: delays.encode()["offsetTable"],
    }


def test_java_reads_what_is_written_here(java: JavaStore, tmp_path: Path) -> None:
    expected = ours(tmp_path / "store")
    lines = [json.loads(line) for line in java.run("config-read", tmp_path / "store", {})]
    assert {line["manager"] for line in lines} == set(expected)
    for line in lines:
        assert line["loaded"] is True
        (table,) = (value for name, value in config_json.loads(line["holds"]).items() if name != "dataVersion")
        wanted = json.loads(json.dumps(expected[line["manager"]](), default=dict.fromkeys))
        assert {name: table[name] for name in wanted if wanted[name] is not None} == {
            name: value for name, value in wanted.items() if value is not None
        }
        assert set(wanted) <= set(table)
