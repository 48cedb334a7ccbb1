"""Entries of the configuration that nobody could read again: they are refused before the file has them."""

from typing import Any

import pytest

import mqstore
from mqstore import SubscriptionGroupConfig
from mqstore.store.topics import TopicConfig
from tests.store.conftest import Opener


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("group_name", 3, TypeError),
        ("retry_max_times", "many", TypeError),
        ("retry_max_times", 1 << 31, ValueError),
        ("broker_id", 1 << 63, ValueError),
        ("consume_enable", "no", TypeError),
        ("consume_enable", 1, TypeError),
    ],
)
def test_a_group_with_a_field_of_another_type_is_refused(
    open_store: Opener, field: str, value: Any, error: type[Exception]
) -> None:
    store = open_store()
    kept = SubscriptionGroupConfig(group_name="kept", broker_id=1 << 62)
    store.consumers.groups.update(kept)
    given: dict[str, Any] = {"group_name": "g"} | {field: value}
    with pytest.raises(error, match=f"^{field}={value!r}: expected"):
        store.consumers.groups.update(SubscriptionGroupConfig(**given))
    store.close()
    assert open_store().consumers.groups.all() == {"kept": kept}


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [("topic_name", 3, TypeError), ("read_queue_nums", "many", TypeError), ("order", 1, TypeError)],
)
def test_a_topic_with_a_field_of_another_type_is_refused(
    open_store: Opener, field: str, value: Any, error: type[Exception]
) -> None:
    store = open_store()
    given: dict[str, Any] = {"topic_name": "t"} | {field: value}
    with pytest.raises(error, match=f"^{field}={value!r}: expected"):
        store.consumers.topics.update(TopicConfig(**given))
    store.close()
    assert open_store().consumers.topics.all() == {}


@pytest.mark.parametrize(
    ("gives", "told"),
    [(None, r"allocate\(\)=None: expected queues"), (["0"], r"allocate\(\)='0': expected an integer from ")],
)
def test_what_gives_a_member_no_queues_is_told(store: mqstore.MessageStore, gives: Any, told: str) -> None:
    store.put("t", b"body", queue_id=0)
    with store.consumer("g", "t", allocate=lambda *_given: gives) as consumer, pytest.raises(TypeError, match=told):
        consumer.poll(0)
