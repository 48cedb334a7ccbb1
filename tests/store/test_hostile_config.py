"""Configuration files that hold anything."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mqstore
from mqstore.store import config_json
from mqstore.store.config_consumer_filter import ConsumerFilterManager
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.config_delay_offset import DelayOffsetManager
from mqstore.store.config_manager import ConfigManager
from mqstore.store.config_subscription_group import SubscriptionGroupManager
from mqstore.store.topics import TopicConfigManager

NOW_MS = 1_780_000_000_000


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


MANAGERS: dict[str, Callable[[Path], ConfigManager]] = {
    "topics": lambda path: TopicConfigManager(path, write, lambda: NOW_MS),
    "groups": lambda path: SubscriptionGroupManager(path, write, lambda: NOW_MS),
    "filters": lambda path: ConsumerFilterManager(path, write, lambda: NOW_MS),
    "offsets": lambda path: ConsumerOffsetManager(path, write),
    "delays": lambda path: DelayOffsetManager(path, write),
}
NAMES = [
    "topicConfigTable", "dataVersion", "counter", "subscriptionGroupTable", "filterDataByTopic", "groupFilterData",
    "bloomFilterData", "bitPos", "bitNum", "bornTime", "deadTime", "clientVersion", "expression", "expressionType",
    "SQL92", "offsetTable", "t@g", "t", "g", "0", "1", "readQueueNums", "writeQueueNums", "perm", "order", "groupName",
    "retryMaxTimes", "consumeEnable",
]  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(NAMES) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner),
    max_leaves=25,
)
contents = st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode())


def without_version(path: Path) -> dict[str, Any]:
    """What a file holds, but for the number of times that it was written."""
    content: dict[str, Any] = config_json.loads(path.read_text(encoding="utf-8"))
    content.pop("dataVersion", None)
    return content


@pytest.mark.parametrize("make", MANAGERS.values(), ids=MANAGERS)
@given(content=contents)
def test_a_file_is_taken_or_refused(make: Callable[[Path], ConfigManager], content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_bytes(content)
        try:
            manager = make(path)
        except mqstore.MQStoreError as refused:
            assert str(path) in str(refused)  # noqa: PT017 - most files are refused, some are not
            assert path.read_bytes() == content
            return
        manager.persist()
        written = without_version(path)
        make(path).persist()
        assert without_version(path) == written


@pytest.mark.parametrize("depth", [60, 300, 600, 100_000])
def test_depth_is_bounded(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "topics.json"
    path.write_text('{"other":' + '{"a":' * depth + "1" + "}" * (depth + 1))
    make = MANAGERS["topics"]
    if depth < 100:
        manager: Any = make(path)
        manager.persist()
        make(path)
        return
    with pytest.raises(mqstore.MQStoreError, match="nested too deeply"):
        make(path)
