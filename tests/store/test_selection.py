"""Selections: what they select, in which order, and as Arrow."""

import datetime as dt
import itertools
import random
import zlib
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mqstore
from mqstore import QueueRange
from tests.store.conftest import Opener

TOPICS = ["a", "b", "主题"]
TAGS = [None, "x", "y"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Six hundred messages over several files, with a clock that often stands still."""
    rnd = random.Random(7)
    now = itertools.accumulate(rnd.choice([0, 0, 1, 5]) for _ in itertools.count())
    clock = {"now": 1_700_000_000_000}

    def tick() -> int:
        return clock["now"]

    path = tmp_path_factory.mktemp("filled") / "store"
    options: dict[str, Any] = {
        "mappedFileSizeCommitLog": 16_384,
        "mappedFileSizeConsumeQueue": 200,
        "maxIndexNum": 300,
        "maxHashSlotNum": 53,
    }
    with mqstore.open(path, "rw", clock=tick, **options) as store:
        for number in range(600):
            clock["now"] = 1_700_000_000_000 + next(now)
            keys = [f"k{rnd.randrange(40)}" for _ in range(rnd.randrange(3))] or None
            body = rnd.randbytes(rnd.randrange(100))
            properties = {"number": str(number)} if number % 4 else None
            tags = rnd.choice(TAGS)
            store.put(rnd.choice(TOPICS), body, keys=keys, tags=tags, queue_id=number % 3, properties=properties)
    with mqstore.open(path, **options) as store:
        yield store


def naive(store: mqstore.MessageStore, **wanted: Any) -> list[int]:
    """Offsets of the messages that a walk over the whole log selects."""
    found = []
    for message in store.select():
        conditions = [
            wanted.get("topic") is None or message.topic in wanted["topic"],
            wanted.get("queue_id") is None or message.queue_id == wanted["queue_id"],
            wanted.get("key") is None or bool(set(wanted["key"]) & {*message.keys, message.unique_key}),
            wanted.get("tags") is None or message.tags in wanted["tags"],
            wanted.get("below") is None or int(message.properties.get("number", 600)) < wanted["below"],
            wanted.get("begin") is None or message.store_timestamp >= wanted["begin"],
            wanted.get("end") is None or message.store_timestamp <= wanted["end"],
            wanted.get("from_phy") is None or message.commit_log_offset >= wanted["from_phy"],
            wanted.get("to_phy") is None or message.commit_log_offset < wanted["to_phy"],
        ]
        if all(conditions):
            found.append(message.commit_log_offset)
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(data=st.data())
def test_a_selection_is_what_a_walk_over_the_log_selects(filled: mqstore.MessageStore, data: st.DataObject) -> None:
    first, last = 1_700_000_000_000, 1_700_000_001_000
    times = st.none() | st.integers(first - 5, last + 5)
    topic = data.draw(st.none() | st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3, unique=True))
    queue_id = data.draw(st.none() | st.integers(0, 3)) if topic else None
    key = data.draw(st.none() | st.lists(st.integers(0, 45).map(lambda n: f"k{n}"), min_size=1, max_size=3))
    tags = data.draw(st.none() | st.sampled_from([["x"], ["x", "y"], ["z"]]))
    below = data.draw(st.none() | st.integers(0, 600))
    begin, end = data.draw(times), data.draw(times)
    phy = st.none() | st.integers(0, filled.get_max_phy_offset() + 10)
    from_phy, to_phy = data.draw(phy), data.draw(phy)
    selection = filled.select(
        topic,
        queue_id=queue_id,
        key=key,
        tags=" || ".join(tags) if tags else None,
        sql=None if below is None else f"number < {below}",
        begin=begin,
        end=end,
        phy_offsets=(from_phy, to_phy),
    )
    expected = naive(
        filled,
        topic=topic,
        queue_id=queue_id,
        key=key,
        tags=tags,
        below=below,
        begin=begin,
        end=end,
        from_phy=from_phy,
        to_phy=to_phy,
    )
    found = [message.commit_log_offset for message in selection]
    assert sorted(found) == expected
    assert selection.count() == len(expected)
    assert pa.table(selection).num_rows == len(expected)
    limit = data.draw(st.integers(0, 10))
    limited = selection.where(limit=limit)
    assert [message.commit_log_offset for message in limited] == found[:limit]
    assert limited.count() == min(limit, len(found))


def test_topics_come_queue_after_queue_and_the_log_in_its_order(filled: mqstore.MessageStore) -> None:
    places = [(message.topic, message.queue_id, message.queue_offset) for message in filled.select(["b", "a"])]
    assert places == sorted(places, key=lambda place: (["b", "a"].index(place[0]), *place[1:]))
    offsets = [message.commit_log_offset for message in filled.select()]
    assert offsets == sorted(offsets)
    assert len(offsets) == 600


def test_offsets_of_single_queues(filled: mqstore.MessageStore) -> None:
    ranges = [QueueRange("a", 0, 2, 5), QueueRange("b", None, 60, None), QueueRange("a", 1, None, 1)]
    places = [(message.topic, message.queue_id, message.queue_offset) for message in filled.select(queues=ranges)]
    assert places[:3] == [("a", 0, 2), ("a", 0, 3), ("a", 0, 4)]
    assert places[-1] == ("a", 1, 0)
    assert all(place[2] >= 60 for place in places[3:-1])


def test_contradictions_are_told(filled: mqstore.MessageStore) -> None:
    with pytest.raises(ValueError, match="not both"):
        filled.select("a", queues=[QueueRange("b")])
    with pytest.raises(ValueError, match="belong to a topic"):
        filled.select(queue_id=1)
    with pytest.raises(ValueError, match="time zone"):
        filled.select(begin=dt.datetime(2026, 1, 1))  # noqa: DTZ001 (that is what is refused)
    with pytest.raises(ValueError, match='no column "nope"'):
        filled.select().to_arrow(["nope"])


def test_datetimes_and_milliseconds_say_the_same(filled: mqstore.MessageStore) -> None:
    time = 1_700_000_000_500
    moment = dt.datetime.fromtimestamp(time / 1000, dt.UTC)
    assert filled.select(begin=time).count() == filled.select(begin=moment).count() > 0


def test_many_keys_in_one_call(filled: mqstore.MessageStore) -> None:
    keys = [f"k{number}" for number in range(45)]
    found = filled.select("a").look_up_keys(keys, max_num=4)
    for key in keys:
        expected = naive(filled, topic=["a"], key=[key])[-4:]
        assert [message.commit_log_offset for message in found[key]] == expected


def test_what_many_keys_give_is_a_sequence(filled: mqstore.MessageStore) -> None:
    found = filled.query_messages("a", ["k1", "none", "k2"])
    assert len(found) == 3
    assert list(found) == [filled.query_message("a", "k1"), [], filled.query_message("a", "k2")]
    assert found[-3] == found[0] != []
    for number in (3, -4):
        with pytest.raises(IndexError, match=f"key {number} of 3"):
            found[number]


def test_many_times_in_one_call(filled: mqstore.MessageStore) -> None:
    times = [1_700_000_000_000 + step for step in range(-3, 1200, 7)]
    for (topic, queue_id), offsets in filled.select(["a", "b"]).look_up_times(times).items():
        stored = [message.store_timestamp for message in filled.topic(topic).queue(queue_id)]
        assert offsets == [sum(before < time for before in stored) for time in times]


def test_arrow_has_every_field(filled: mqstore.MessageStore) -> None:
    messages = list(filled.select("a"))
    rows = filled.select("a").to_arrow(max_messages=50).read_all().to_pylist()
    assert len(rows) == len(messages)
    for row, message in zip(rows, messages, strict=True):
        assert row["topic"] == message.topic
        assert row["queue_id"] == message.queue_id
        assert row["queue_offset"] == message.queue_offset
        assert row["commit_log_offset"] == message.commit_log_offset
        assert row["store_size"] == message.store_size
        assert row["body_crc"] == message.body_crc
        assert row["born_host"] == message.born_host
        assert row["store_timestamp"].timestamp() * 1000 == pytest.approx(message.store_timestamp)
        assert row["msg_id"] == message.msg_id
        assert row["unique_key"] == message.unique_key
        assert row["tags"] == message.tags
        assert tuple(row["keys"]) == message.keys
        assert dict(row["properties"]) == message.properties
        assert row["body"] == bytes(message.body)


@pytest.mark.parametrize("others", [0, 40])
def test_an_arrow_map_has_each_name_once_as_it_is_read(tmp_path: Path, others: int) -> None:
    """Names that are not UTF-8 are read alike, and of a name that stands twice the last value counts."""
    pairs = [(b"\xff", b"1"), (b"a", b"2"), (b"\xfe", b"3"), (b"a", b"4"), (b"\xc3\xa4", b"5")]
    pairs += [(b"name%d" % (number % 20), b"%d" % number) for number in range(others)]
    stored = b"\2".join(name + b"\1" + value for name, value in pairs)
    with mqstore.open(tmp_path / "store", "rw") as store:
        for properties in (stored, b"a\x011\2b\x012\2a\x013"):
            store.put_message(mqstore.MessageExtBrokerInner(topic="t", queue_id=0, body=b"x", properties=properties))
        first, second = store.select("t").to_arrow(["properties"]).read_all()["properties"].to_pylist()
        expected = {name.decode(errors="replace"): value.decode() for name, value in pairs}
        assert sorted(first) == sorted(expected.items())
        assert second == [("b", "2"), ("a", "3")]
        assert len(pairs) > len(expected)


def test_one_thread_and_several_make_the_same_batches(filled: mqstore.MessageStore) -> None:
    several, one = (filled.select("a").to_arrow(max_messages=7, use_threads=given) for given in (True, False))
    assert list(several) == list(one)


def test_body_views_outlive_the_store(open_store: Opener) -> None:
    store = open_store()
    bodies = [bytes([number % 256]) * (number * 7 % 300) for number in range(500)]
    store.put_many("t", bodies, queue_id=0)
    table = store.select("t").to_arrow(["queue_offset", "body"], body="view", max_messages=64).read_all()
    store.destroy()
    assert table["body"].to_pylist() == bodies


def test_polars_takes_a_selection_as_it_is(filled: mqstore.MessageStore) -> None:
    frame = pl.DataFrame(filled.select("a", tags="x"))
    assert frame.height == filled.select("a", tags="x").count()
    assert frame["topic"].unique().to_list() == ["a"]


def test_a_get_is_an_arrow_stream_too(filled: mqstore.MessageStore) -> None:
    found = filled.get_message("a", 0, 0, 10)
    table = pa.table(found)
    assert table["commit_log_offset"].to_pylist() == [message.commit_log_offset for message in found.messages]


def test_a_compressed_body_inflates_in_arrow(open_store: Opener) -> None:
    store = open_store()
    store.put("t", zlib.compress(b"x" * 100), sys_flag=1)
    for body in ("binary", "view"):
        row = store.select().to_arrow(["body", "raw_body"], body=body).read_all().to_pylist()[0]
        assert row["body"] == b"x" * 100
        assert zlib.decompress(row["raw_body"]) == row["body"]


def test_raw_properties_are_as_they_are_stored(tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "store", "rw") as store:
        store.put("t", b"x", properties={"UNIQ_KEY": "u", "name": "ä"})
        table = store.select().to_arrow(["raw_properties"]).read_all()
        pairs = table["raw_properties"][0].as_py().split(b"\x02")
        assert sorted(pairs) == [b"UNIQ_KEY\x01u", "name\x01ä".encode()]
        assert "raw_properties" not in store.select().to_arrow().schema.names, "only who names it gets it"


@pytest.mark.parametrize("body", ["binary", "view"])
@pytest.mark.parametrize("key", [None, "k"])
def test_inflated_bodies_end_a_batch(open_store: Opener, body: str, key: str | None) -> None:
    """What they take in the log, by which batches are bounded, is a thousandth of it."""
    store = open_store()
    for _ in range(300):
        store.put("t", zlib.compress(bytes(1 << 20)), sys_flag=1, keys="k")
    batches = list(store.select("t", key=key).to_arrow(["body", "commit_log_offset"], body=body))
    # 64 MiB, which columns are given 8 MiB at a time; messages that were read for one batch go on in the next.
    assert [batch.num_rows for batch in batches] == [64, 64, 64, 64, 44]
    offsets = [offset for batch in batches for offset in batch["commit_log_offset"].to_pylist()]
    assert offsets == [message.commit_log_offset for message in store.select("t", key=key)]


@pytest.mark.parametrize("body", ["binary", "view"])
def test_a_body_that_does_not_inflate_is_left_out_and_told(open_store: Opener, body: str) -> None:
    store = open_store()
    for number in range(3):
        store.put("t", b"no stream of zlib" if number == 1 else b"whole", sys_flag=int(number == 1), queue_id=0)
    bad = list(store.select())[1]
    for selection in (store.select(), store.select("t"), store.select("t", limit=2)):
        assert selection.to_arrow(["body"], body=body).read_all()["body"].to_pylist() == [b"whole"] * 2
    (gap,) = store.report().gaps
    assert (gap.begin_offset, gap.end_offset) == (bad.commit_log_offset, bad.commit_log_offset + bad.store_size)
    assert "expected a body that inflates" in str(store.report())
    # The record is whole: who goes through the messages has it, and so has who asks for what is stored.
    assert store.select("t").to_arrow(["raw_body"]).read_all().num_rows == len(list(store.select("t"))) == 3
    with pytest.raises(mqstore.errors.RecordError, match="compressed with zlib"):
        _ = bad.body
    with pytest.raises(mqstore.errors.RecordError, match=f"the body at {bad.commit_log_offset}"):
        pa.table(store.get_message("t", 0, 0, 10))


@pytest.mark.parametrize("pread", [False, True])
@pytest.mark.parametrize("columns", [["queue_offset"], ["queue_offset", "body"], ["queue_offset", "raw_body"]])
def test_a_damaged_body_is_left_out_whether_it_is_a_column_or_not(
    tmp_path: Path, columns: list[str], *, pread: bool
) -> None:
    with mqstore.open(tmp_path, "rw") as store:
        places = [
            store.put("t", bytes([number]) * size, queue_id=0).wrote_offset
            for number, size in enumerate((10, 5000, 10))
        ]
    with (tmp_path / "commitlog" / f"{0:020}").open("r+b") as log:
        assert places[1] is not None
        log.seek(places[1] + 4000)
        log.write(b"\xff")
    with mqstore.open(tmp_path, pread=pread) as store:
        for body, use_threads in itertools.product(("binary", "view"), (True, False)):
            table = store.select("t").to_arrow(columns, body=body, use_threads=use_threads).read_all()
            assert table["queue_offset"].to_pylist() == [0, 2]
        assert {unit.queue_offset for unit in store.report().rejected} == {1}


def test_to_who_reads_bytes_a_message_is_its_body_as_it_is_stored(open_store: Opener) -> None:
    store = open_store()
    stored = zlib.compress(b"x" * 100)
    store.put("t", stored, sys_flag=1, queue_id=0)
    message: Any = store.get_message("t", 0, 0)[0]  # types know of its bytes from Python 3.12 on
    assert bytes(message) == bytes(message.raw_body) == stored
    assert (len(message), bytes(message.body)) == (len(stored), b"x" * 100)
    kept = message.raw_body
    del message
    store.destroy()
    assert (bytes(kept), kept.readonly) == (stored, True)


def test_a_filter_that_is_none_is_refused(filled: mqstore.MessageStore) -> None:
    with pytest.raises(mqstore.OptionError, match="at character"):
        filled.select(sql="number <")
    with pytest.raises(ValueError, match="no keys, tags or sql"):
        filled.select("a", sql="number < 5").look_up_keys(["k1"])
    assert filled.select(sql="number < 5").where(sql="number < 3").count() == 2


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"limit": -1}, "limit=-1"),
        ({"limit": 2.5}, "limit=2.5"),
        ({"limit": True}, "limit=True"),
        ({"topic": "a", "offsets": (-5, None)}, "begin_offset=-5"),
        ({"topic": "a", "offsets": (0, "9")}, "end_offset='9'"),
        ({"topic": "a", "queue_id": 2**40}, "queue_id=1099511627776"),
        ({"topic": ["a", 5]}, "topic=5"),
        ({"begin": float("nan")}, "begin=nan"),
        ({"begin": 1795388297.87}, r"begin=1795388297.87: expected a datetime with a time zone, or milliseconds"),
        ({"end": 2**63}, "end=9223372036854775808"),
        ({"phy_offsets": (None, -1)}, "to_phy_offset=-1"),
        ({"tags": ["A"]}, r"tags=\['A'\]"),
        ({"key": ["k", 5]}, "key=5"),
    ],
)
def test_wrong_values_are_refused_at_once(filled: mqstore.MessageStore, wanted: Any, named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{named}"):
        filled.select(**wanted)


def test_a_topic_that_is_named_twice_is_one(filled: mqstore.MessageStore) -> None:
    assert filled.select(["a", "b", "a"]).count() == filled.select(["a", "b"]).count() > 0


@pytest.mark.parametrize("bound", [0, -1])
def test_bounds_below_one_are_refused(filled: mqstore.MessageStore, bound: int) -> None:
    for name in ("max_count", "max_bytes"):
        with pytest.raises(ValueError, match=f"{name}={bound}: expected an integer from 1"):
            filled.select("a").chunks(**{name: bound})
    for name in ("max_messages", "max_bytes"):
        arguments: Any = {name: bound}
        with pytest.raises(ValueError, match=f"{name}={bound}: expected an integer from 1"):
            filled.select("a").to_arrow(**arguments)


@pytest.mark.parametrize(
    ("wanted", "named"),
    [({"offsets": (1, None)}, "offsets"), ({"phy_offsets": (None, 9)}, "offsets"), ({"limit": 1}, "a limit")],
)
def test_look_ups_refuse_what_they_cannot_honour(filled: mqstore.MessageStore, wanted: Any, named: str) -> None:
    selection = filled.select("a", **wanted)
    with pytest.raises(ValueError, match=named):
        selection.look_up_keys(["k1"])
    with pytest.raises(ValueError, match=named):
        selection.look_up_times([0])


def test_times_are_looked_up_in_whole_queues(filled: mqstore.MessageStore) -> None:
    for wanted in ({"key": "k1"}, {"tags": "x"}, {"sql": "a = 1"}, {"begin": 5}, {"end": 5}):
        with pytest.raises(ValueError, match="whole queues"):
            filled.select("a", **wanted).look_up_times([0])


def test_one_string_is_no_sequence_of_keys(filled: mqstore.MessageStore) -> None:
    with pytest.raises(TypeError, match="keys='all': expected several keys"):
        filled.select("a").look_up_keys("all")
    with pytest.raises(TypeError, match="columns='topic': expected several names"):
        filled.select("a").to_arrow(columns="topic")


def test_keys_may_come_from_an_iterator(filled: mqstore.MessageStore) -> None:
    expected = filled.select("a").look_up_keys(["k3", "absent"])
    assert expected["k3"]
    assert filled.select("a").look_up_keys(key for key in ("k3", "absent")) == expected


def test_queues_that_were_just_put_to_have_times(store: mqstore.MessageStore) -> None:
    for number in range(30):
        store.put(f"t{number}", b"", queue_id=0)
        assert store.select(f"t{number}").look_up_times([0]) == {(f"t{number}", 0): [0]}


def test_of_none_none_is_the_first(filled: mqstore.MessageStore) -> None:
    assert filled.select("a", limit=0).first() is None
    assert filled.select("a", limit=2).first() == filled.select("a").first() is not None


def test_tags_of_messages_that_wait(open_store: Opener) -> None:
    store = open_store()
    store.put("t", b"later", tags="a", delay_time_level=3)
    store.put("t", b"at its time", tags="a", deliver_at=store.now() + 3_600_000)
    store.put("t", b"now", tags="a")
    for topic, expected in [("SCHEDULE_TOPIC_XXXX", b"later"), ("MQSTORE_TIMED_TOPIC", b"at its time"), ("t", b"now")]:
        assert [bytes(message.body) for message in store.select(topic, tags="a")] == [expected]
        assert store.select(topic, tags="b").count() == 0
    assert store.select(tags="a").count() == 3


def test_what_is_no_range_of_a_queue_is_told(store: mqstore.MessageStore) -> None:
    wrong: Any = ["orders"]
    with pytest.raises(TypeError, match=r"^queues='orders': expected a QueueRange, found str$"):
        store.select(queues=wrong)
