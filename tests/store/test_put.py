"""put, put_many, put_message, put_messages."""

import asyncio
import datetime as dt
import json
import zlib
from array import array
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mqstore
from mqstore import MessageExtBatch, MessageExtBrokerInner, PutMessageStatus
from tests.store.conftest import Opener


def test_a_message_is_found_as_it_was_put(store: mqstore.MessageStore) -> None:
    result = store.put("orders", b"body", keys=["a", "b"], tags="T", queue_id=3, properties={"user": "x"}, flag=7)
    message = store.topic("orders").queue(3)[0]
    assert (bytes(message.body), message.keys, message.tags, message.flag) == (b"body", ("a", "b"), "T", 7)
    assert message.properties["user"] == "x"
    assert message.msg_id == result.msg_id
    assert message.commit_log_offset == result.wrote_offset == 0
    assert message.store_timestamp == result.store_timestamp
    assert message.store_host == "127.0.0.1:10911"


@pytest.mark.parametrize("way", ["put", "aio.put", "put_many", "aio.put_many", "put_arrow", "transaction"])
def test_when_a_message_was_made_is_a_time_as_others_are(store: mqstore.MessageStore, way: str) -> None:
    noon = dt.datetime(2026, 11, 25, 12, tzinfo=dt.timezone(dt.timedelta(hours=8)))
    for born in (noon, 1_795_579_200_000):
        match way:
            case "put":
                store.put("t", b"", queue_id=0, born_timestamp=born)
            case "aio.put":
                asyncio.run(store.aio.put("t", b"", queue_id=0, born_timestamp=born))
            case "put_many":
                store.put_many("t", [b""], queue_id=0, born_timestamp=born)
            case "aio.put_many":
                asyncio.run(store.aio.put_many("t", [b""], queue_id=0, born_timestamp=born))
            case "put_arrow":
                store.put_arrow(pa.table({"body": [b""]}), topic="t", queue_id=0, born_timestamp=born)
            case "transaction":
                with store.transaction() as transaction:
                    transaction.put("t", b"", queue_id=0, born_timestamp=born)
    assert [message.born_timestamp for message in store.topic("t").queue(0)] == [1_795_579_200_000] * 2
    with pytest.raises(ValueError, match="expected a datetime with a time zone"):
        store.put("t", b"", born_timestamp=noon.replace(tzinfo=None))


def test_a_unique_key_has_the_java_clients_form(store: mqstore.MessageStore) -> None:
    store.put("t", b"", queue_id=0)
    store.put("t", b"", queue_id=0)
    first, second = (message.unique_key for message in store.topic("t").queue(0))
    assert first is not None
    assert second is not None
    assert len(first) == 32
    assert first == first.upper()
    assert int(second[-4:], 16) == int(first[-4:], 16) + 1
    assert store.select("t", key=first).count() == 1


def test_a_unique_key_that_is_given_is_kept(store: mqstore.MessageStore) -> None:
    store.put("t", b"", properties={"UNIQ_KEY": "mine"})
    assert store.select("t", key="mine").count() == 1


def test_puts_without_a_queue_go_round_the_topics_queues(open_store: Opener) -> None:
    store = open_store(default_topic_queue_nums=4)
    for _ in range(8):
        store.put("t", b"")
    assert [len(queue) for queue in store.topic("t").queues] == [2, 2, 2, 2]


def test_a_new_topic_gets_an_entry_in_topics_json(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(default_topic_queue_nums=3)
    store.put("first", b"")
    store.put("second", b"")
    path = tmp_path / "store" / "config" / "topics.json"
    table = json.loads(path.read_text())["topicConfigTable"]
    assert {name: entry["writeQueueNums"] for name, entry in table.items()} == {"first": 3, "second": 3}
    assert path.read_text().startswith('{\n\t"dataVersion":{\n\t\t"counter":2,')
    assert list(json.loads((path.parent / "topics.json.bak").read_text())["topicConfigTable"]) == ["first"]


@pytest.mark.parametrize("topic", ["../x", "", "t" * 100_000])
def test_a_topic_that_is_refused_gets_none(open_store: Opener, tmp_path: Path, topic: str) -> None:
    store = open_store()
    puts = (
        lambda: store.put(topic, b""),
        lambda: store.put_many(topic, [b""]),
        lambda: store.put_arrow(pa.table({"body": ["x"]}), topic=topic),
        lambda: asyncio.run(store.aio.put(topic, b"")),
    )
    for put in puts:
        with pytest.raises(mqstore.MessageIllegalError, match="topic"):
            put()
    assert not (tmp_path / "store" / "config" / "topics.json").exists()


def test_queue_numbers_come_from_topics_json(open_store: Opener, tmp_path: Path) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    (config / "topics.json").write_text('{"topicConfigTable":{"t":{"writeQueueNums":2}},1:"kept"}')
    store = open_store()
    for _ in range(4):
        store.put("t", b"")
    assert store.topic("t").queue_ids == [0, 1]
    store.put("u", b"")
    assert '"1":"kept"' in (config / "topics.json").read_text()


def test_many_messages_in_one_call(store: mqstore.MessageStore) -> None:
    bodies = [b"%d" % number for number in range(2000)]
    keys = [f"k{number}" if number % 2 else None for number in range(2000)]
    result = store.put_many("t", bodies, keys=keys, tags="T", queue_id=1)
    queue = store.topic("t").queue(1)
    assert [bytes(message.body) for message in queue] == bodies
    assert queue[1].keys == ("k1",)
    assert queue[0].keys == ()
    assert (result.msg_num, result.logics_offsets) == (2000, list(range(2000)))
    # Files of 64 KiB: the call went over several of them.
    assert store.get_max_phy_offset() > 3 * 65_536


def test_many_messages_are_checked_before_the_first_is_put(store: mqstore.MessageStore) -> None:
    status = mqstore.PutMessageStatus.MESSAGE_ILLEGAL
    # Whether a log file has room for it is found out where it is appended.
    for body, stored_count in ((bytes(65_536), 1), (bytes(5 << 20), 0)):
        before = len(store.topic("t"))
        with pytest.raises(mqstore.MessageIllegalError, match=r"^bodies\[1\]: option ") as refused:
            store.put_many("t", [b"good", body])
        assert refused.value.status is status
        result = refused.value.result
        assert (result.status, result.reason) == (status, str(refused.value).removeprefix("bodies[1]: "))
        assert result.msg_num == len(store.topic("t")) - before == stored_count
    with pytest.raises(ValueError, match="keys: expected 2, one for each body, found 1"):
        store.put_many("t", [b"a", b"b"], keys=["k"])
    assert len(store.topic("t")) <= 1


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"tags": 3}, TypeError, "tags=3: expected a string, or one for each body, found int"),
        ({"tags": b"x"}, TypeError, "tags=b'x': expected a string, or one for each body, found bytes"),
        ({"tags": ["a", 3]}, TypeError, "tags[1]=3: expected a string, found int"),
        ({"tags": ["a"]}, ValueError, "tags: expected 2, one for each body, found 1"),
        ({"keys": "ab"}, TypeError, "keys='ab': expected a list of the keys of each body, found str"),
        ({"keys": [None, 3]}, TypeError, "keys[1]=3: expected a string, or several, found int"),
        ({"keys": [["a b"], None]}, ValueError, 'keys[0][0]: a key has no space and is not empty, found "a b"'),
        ({"keys": [None, ["k", 3]]}, TypeError, "keys[1][1]=3: expected a string, found int"),
        ({"keys": [b"k", None]}, TypeError, "keys[0]=b'k': expected a string, or several, found bytes"),
        ({"properties": 3}, TypeError, "properties=3: expected a mapping of strings, or one for each body, found int"),
        ({"properties": [None, "p"]}, TypeError, "properties[1]='p': expected a mapping of strings, found str"),
        ({"properties": {"p": 3}}, TypeError, 'properties["p"]=3: expected a string, found int'),
        ({"properties": [{}, {3: "p"}]}, TypeError, "properties[1]: name=3: expected a string, found int"),
        ({"properties": [{}] * 3}, ValueError, "properties: expected 2, one for each body, found 3"),
        ({"deliver_at": "now"}, TypeError, "deliver_at='now': expected a datetime or milliseconds, or one for each"),
        ({"deliver_at": [None, "now"]}, TypeError, "deliver_at[1]='now': expected a datetime or milliseconds, found"),
        ({"deliver_at": [5, dt.datetime(2026, 1, 1)]}, ValueError, "deliver_at[1]: expected a datetime with a time"),  # noqa: DTZ001
        ({"deliver_at": 1 << 70}, ValueError, "deliver_at: expected milliseconds that a long has, found"),
        ({"born_timestamp": "now"}, TypeError, "born_timestamp='now': expected a datetime or milliseconds, found str"),
        ({"topic": 3}, TypeError, "topic=3: expected a string, found int"),
        ({"flag": 1 << 31}, ValueError, "flag=2147483648: expected an integer from -2147483648 to 2147483647"),
        ({"bodies": b"ab"}, TypeError, "bodies=b'ab': expected a list of bodies, found bytes"),
        ({"bodies": [b"a", "b"]}, TypeError, "bodies[1]='b': expected bytes or what has the buffer protocol, found"),
    ],
)
def test_an_argument_of_many_messages_is_told_by_its_place(
    store: mqstore.MessageStore, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        store.put_many(**{"topic": "t", "bodies": [b"a", b"b"]} | given)
    assert str(raised.value).startswith(message)
    assert store.get_max_phy_offset() == 0


@pytest.mark.parametrize("way", ["put", "aio.put"])
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"topic": 3}, TypeError, "topic=3: expected a string, found int"),
        ({"topic": ["t"]}, TypeError, "topic=['t']: expected a string, found list"),
        ({"body": "text"}, TypeError, "body='text': expected bytes or what has the buffer protocol, found str"),
        ({"keys": 3}, TypeError, "keys=3: expected a string, or several, found int"),
        ({"keys": b"k"}, TypeError, "keys=b'k': expected a string, or several, found bytes"),
        ({"keys": ["k", 3]}, TypeError, "keys[1]=3: expected a string, found int"),
        ({"keys": ["k", "a b"]}, ValueError, 'keys[1]: a key has no space and is not empty, found "a b"'),
        ({"tags": 3}, TypeError, "tags=3: expected a string, found int"),
        ({"queue_id": "x"}, TypeError, "queue_id='x': expected an integer from 0 to 2147483647"),
        ({"queue_id": 1 << 31}, ValueError, "queue_id=2147483648: expected an integer from 0 to 2147483647"),
        ({"properties": 3}, TypeError, "properties=3: expected a mapping of strings, found int"),
        ({"properties": {"p": 3}}, TypeError, 'properties["p"]=3: expected a string, found int'),
        ({"properties": {3: "p"}}, TypeError, "properties: name=3: expected a string, found int"),
        ({"flag": None}, TypeError, "flag=None: expected an integer from -2147483648 to 2147483647"),
        ({"sys_flag": 0.5}, TypeError, "sys_flag=0.5: expected an integer from -2147483648 to 2147483647"),
        ({"delay_time_level": "x"}, TypeError, "delay_time_level='x': expected an integer from "),
        ({"deliver_at": "x"}, TypeError, "deliver_at='x': expected a datetime or milliseconds, found str"),
        ({"deliver_at": dt.datetime(2026, 1, 1)}, ValueError, "deliver_at: expected a datetime with a time zone"),  # noqa: DTZ001
        ({"born_timestamp": 0.5}, TypeError, "born_timestamp=0.5: expected a datetime or milliseconds, found float"),
        ({"wait_store_msg_ok": 3}, TypeError, "wait_store_msg_ok=3: expected True or False, found int"),
        ({"unique_key": None}, TypeError, "unique_key=None: expected True or False, found NoneType"),
    ],
)
def test_an_argument_of_a_message_is_told_by_its_name(
    store: mqstore.MessageStore, way: str, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    all_given = {"topic": "t", "body": b""} | given
    put = store.put if way == "put" else lambda **all_given: asyncio.run(store.aio.put(**all_given))
    with pytest.raises(error) as raised:
        put(**all_given)
    assert str(raised.value).startswith(message)
    assert store.get_max_phy_offset() == 0


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"topic": 3}, TypeError, "topic=3: expected a string, found int"),
        ({"queue_id": None}, TypeError, "queue_id=None: expected an integer from -2147483648 to 2147483647"),
        ({"body": "text"}, TypeError, "body='text': expected bytes or what has the buffer protocol, found str"),
        ({"properties": 3}, TypeError, "properties=3: expected a mapping of strings, found int"),
        ({"flag": 1 << 31}, ValueError, "flag=2147483648: expected an integer from -2147483648 to 2147483647"),
        ({"sys_flag": "x"}, TypeError, "sys_flag='x': expected an integer from -2147483648 to 2147483647"),
        ({"born_timestamp": "x"}, TypeError, f"born_timestamp='x': expected an integer from {-(1 << 63)} to "),
        ({"born_host": 3}, TypeError, "born_host=3: expected a string, found int"),
        ({"store_host": b"x"}, TypeError, "store_host=b'x': expected a string, found bytes"),
        ({"reconsume_times": "x"}, TypeError, "reconsume_times='x': expected an integer from -2147483648 to "),
        ({"prepared_transaction_offset": 0.5}, TypeError, "prepared_transaction_offset=0.5: expected an integer from "),
    ],
)
def test_a_field_of_a_message_is_told_by_its_name(
    store: mqstore.MessageStore, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        store.put_message(MessageExtBrokerInner(**({"topic": "t"} | given)))
    assert str(raised.value).startswith(message)
    shared = {name: value for name, value in given.items() if name in MessageExtBatch.__dataclass_fields__}
    if shared:
        with pytest.raises(error) as raised:
            store.put_messages(MessageExtBatch(**({"topic": "t", "messages": [(b"", 0, {})]} | shared)))
        assert str(raised.value).startswith(message)
    assert store.get_max_phy_offset() == 0


def test_a_wrong_value_is_shown_no_longer_than_a_line(store: mqstore.MessageStore) -> None:
    tags: Any = [["long" * 10_000]]
    with pytest.raises(TypeError, match=r"^tags\[0\]=\['longlong.{150,200}…: expected a string, found list"):
        store.put_many("t", [b""], tags=tags)


def test_a_view_that_was_released_is_no_body(store: mqstore.MessageStore) -> None:
    view = memoryview(b"body")
    view.release()
    with pytest.raises(ValueError, match=r"^body: operation forbidden on released memoryview"):
        store.put("t", view)
    with pytest.raises(ValueError, match=r"^bodies\[1\]: operation forbidden on released memoryview"):
        store.put_many("t", [b"", view])
    with pytest.raises(ValueError, match="released memoryview"):
        store.put_message(MessageExtBrokerInner(topic="t", body=view))  # type: ignore[arg-type]
    assert (store.topics(), store.get_max_phy_offset()) == ([], 0)


def test_bodies_of_any_buffer(store: mqstore.MessageStore) -> None:
    changing = bytearray(b"first")
    store.put("t", changing, queue_id=0)
    changing[:] = b"later"
    store.put("t", memoryview(changing)[1:3], queue_id=0)
    message = store.topic("t").queue(0)[0]
    store.put("t", message.body, queue_id=0)
    assert [bytes(found.body) for found in store.topic("t").queue(0)] == [b"first", b"at", b"first"]
    with pytest.raises(TypeError, match=r"^body='text': expected bytes"):
        store.put("t", "text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topic", "body", "properties"),
    [
        ("主" * 60, b"", {}),
        ("", b"", {}),
        ("..", b"", {}),
        ("a/b", b"", {}),
        ("a\0b", b"", {}),
        ("t", bytes(65_536), {}),
        ("t", bytes(5 << 20), {}),
        ("t", b"", {"p": "v" * 32_768}),
        ("t", b"", {"p\x01": "v"}),
        ("t", b"", {"p": "v\x02"}),
        ("t", b"", {"DELAY": "soon"}),
    ],
)
def test_an_illegal_message_is_refused_and_nothing_stored(
    store: mqstore.MessageStore, topic: str, body: bytes, properties: dict[str, str]
) -> None:
    with pytest.raises(mqstore.MessageIllegalError) as raised:
        store.put(topic, body, properties=properties)
    assert raised.value.status == "MESSAGE_ILLEGAL"
    result = store.put_message(MessageExtBrokerInner(topic=topic, body=body, properties=properties))
    assert result.status is PutMessageStatus.MESSAGE_ILLEGAL
    assert result.reason
    assert store.get_max_phy_offset() == 0


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        (3, "messages=3: expected messages, body, flag and properties each, found int"),
        ([(b"", 0, {}), 3], r"messages\[1\]=3: expected body, flag and properties, found int"),
        ([(b"", 0)], r"messages\[0\]=\(b'', 0\): expected body, flag and properties, found tuple"),
        ([(b"", 0, 5)], r"messages\[0\]: properties=5: expected a mapping of strings, found int"),
    ],
)
def test_what_is_no_batch_is_told(store: mqstore.MessageStore, messages: Any, named: str) -> None:
    with pytest.raises(TypeError, match=f"^{named}$"):
        store.put_messages(MessageExtBatch(topic="t", messages=messages))
    given: Any = {"topic": "t"}
    with pytest.raises(TypeError, match=r"^batch=\{'topic': 't'\}: expected a MessageExtBatch, found dict$"):
        store.put_messages(given)
    with pytest.raises(TypeError, match=r"^message=\{'topic': 't'\}: expected a MessageExtBrokerInner, found dict$"):
        store.put_message(given)
    assert store.topics() == []


def test_properties_too_long_have_another_status_in_compat(open_store: Opener) -> None:
    store = open_store(compat=True)
    in_bytes = MessageExtBrokerInner(topic="t", properties={"p": "值" * 11_000})
    assert store.put_message(in_bytes).status is PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
    in_chars = MessageExtBrokerInner(topic="t", properties={"p": "v" * 32_768})
    assert store.put_message(in_chars).status is PutMessageStatus.MESSAGE_ILLEGAL


def test_the_last_record_that_fits_a_file_leaves_eight_bytes(store: mqstore.MessageStore) -> None:
    size = store.put("t", b"", queue_id=0).wrote_bytes
    store.put("t", bytes(65_536 - 8 - 2 * size), queue_id=0)
    assert store.get_max_phy_offset() == 65_536 - 8
    store.put("t", b"", queue_id=0)
    assert store.topic("t").queue(0)[-1].commit_log_offset == 65_536


def test_a_raw_property_string_is_written_unchanged(store: mqstore.MessageStore) -> None:
    raw = "b\x012\x02a\x011\x02b\x013\x02"
    store.put_message(MessageExtBrokerInner(topic="t", properties=raw))
    message = store.topic("t").queue(0)[0]
    assert message.raw_properties == raw.encode()
    assert message.properties == {"b": "3", "a": "1"}


def test_a_compressed_body_inflates(store: mqstore.MessageStore) -> None:
    body = b"again and " * 1000
    store.put("t", zlib.compress(body), sys_flag=1, queue_id=0)
    store.put("t", b"not zlib", sys_flag=1, queue_id=0)
    good, bad = store.topic("t").queue(0)
    assert bytes(good.body) == body
    assert zlib.decompress(good.raw_body) == body
    assert bytes(bad.raw_body) == b"not zlib"
    with pytest.raises(mqstore.RecordError, match="zlib"):
        _ = bad.body


def test_a_delayed_message_waits_in_the_schedule_topic(store: mqstore.MessageStore) -> None:
    store.put("t", b"later", delay_time_level=3, queue_id=2)
    assert len(store.topic("t")) == 0
    message = store.topic("SCHEDULE_TOPIC_XXXX").queue(2)[0]
    assert message.properties["REAL_TOPIC"] == "t"
    assert message.properties["REAL_QID"] == "2"
    assert store._units("SCHEDULE_TOPIC_XXXX", 2, 0, 1)[0][2] == message.store_timestamp + 10_000


def test_a_batch_is_one_topics_and_one_queues(store: mqstore.MessageStore) -> None:
    batch = MessageExtBatch(
        topic="t", queue_id=2, messages=[(b"a", 1, {"x": "1"}), (b"b", 2, {})], properties={"y": "2"}
    )
    result = store.put_messages(batch)
    assert (result.status, result.msg_num, result.logics_offset) == (PutMessageStatus.PUT_OK, 2, 0)
    first, second = store.topic("t").queue(2)
    assert (first.properties, second.properties) == ({"x": "1", "y": "2"}, {"y": "2"})
    assert result.msg_id == f"{first.msg_id},{second.msg_id}"
    delayed = MessageExtBatch(topic="t", messages=[(b"a", 0, {})], properties={"DELAY": "1"})
    assert store.put_messages(delayed).status is PutMessageStatus.MESSAGE_ILLEGAL
    with pytest.raises(TypeError, match="not int"):
        store.put_messages(MessageExtBatch(topic="t", messages=[(5, 0, {})]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    "body", [bytearray(b"abcdefgh"), memoryview(b"aXbXcXdXeXfXgXhX")[::2], array("q", [0x6867666564636261])]
)
def test_a_body_is_whatever_has_bytes(store: mqstore.MessageStore, body: Any) -> None:
    store.put("t", body, queue_id=0)
    store.put_many("t", [body], queue_id=0)
    assert [bytes(message.body) for message in store.topic("t").queue(0)] == [b"abcdefgh"] * 2
    first = store.topic("t").queue(0)[0]
    assert mqstore.Message.from_bytes(first.record_bytes).body == first.body


def test_a_store_that_is_only_read_takes_nothing(open_store: Opener) -> None:
    open_store().close()
    reader = open_store(mode="r")
    with pytest.raises(mqstore.ReadOnlyError):
        reader.put("t", b"")
    result = reader.put_message(MessageExtBrokerInner(topic="t"))
    assert result.status is PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_a_message_without_a_unique_key(store: mqstore.MessageStore) -> None:
    store.put("t", b"", keys="k", tags="T", unique_key=False)
    store.put_many("t", [b"", b""], tags="T", unique_key=False)
    assert [found.properties for found in store.select()] == [{"KEYS": "k", "TAGS": "T"}, {"TAGS": "T"}, {"TAGS": "T"}]


@pytest.mark.parametrize("shape", ["table", "bodies"])
def test_no_two_unique_keys_are_the_same(open_store: Opener, shape: str) -> None:
    store = open_store(mappedFileSizeCommitLog=64 << 20)
    count = 140_000
    if shape == "table":
        store.put_arrow(
            pa.table({"topic": ["t"] * count, "body": [b""] * count, "queue_id": pa.array([0] * count, pa.int32())})
        )
    else:
        store.put_many("t", [b""] * count, queue_id=0)
    keys = store.select("t").to_arrow(["unique_key"]).read_all()["unique_key"]
    assert len(keys) == count == len(set(keys.to_pylist()))


def test_separators_in_a_batch_are_refused(store: mqstore.MessageStore) -> None:
    for own in ({"k": "v\x02KEYS\x01stolen"}, {"k\x01": "v"}, {"": "v"}):
        with pytest.raises(mqstore.MessageIllegalError, match="U\\+0001"):
            store.put_messages(MessageExtBatch(topic="t", messages=[(b"", 0, own)]))
        batch = MessageExtBatch(topic="t", messages=[(b"", 0, {})], properties=own)
        assert store.put_messages(batch).status is PutMessageStatus.MESSAGE_ILLEGAL
    assert store.topics() == []


def test_one_buffer_that_is_in_use_holds_puts_up_no_longer_than_that(open_store: Opener) -> None:
    store = open_store(
        transientStorePoolEnable=True,
        transientStorePoolSize=1,
        fastFailIfNoBufferInStorePool=True,
        commitIntervalCommitLog=600_000,
    )
    message = MessageExtBrokerInner(topic="t", body=bytes(500), queue_id=0)
    for _ in range(3):
        while (result := store.put_message(message)).status is PutMessageStatus.PUT_OK:
            pass
        assert "no buffer is left" in str(result.reason)
        store._engine.commit(0)
        assert store.put_message(message).status is PutMessageStatus.PUT_OK


def test_a_store_that_could_not_be_removed_is_not_locked(open_store: Opener, tmp_path: Path) -> None:
    store = open_store()
    store.put("t", b"body", queue_id=0)
    checkpoint = tmp_path / "store" / "checkpoint"
    checkpoint.unlink()
    checkpoint.mkdir()
    with pytest.raises(mqstore.StoreIOError, match="checkpoint"):
        store.destroy()
    checkpoint.rmdir()
    assert open_store().topics() == []
