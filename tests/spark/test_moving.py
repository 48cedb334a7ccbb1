"""Export, import, replay, diff."""

import datetime as dt
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import mqstore
from mqstore import MessageExtBrokerInner
from mqstore.cli.main import main
from mqstore.errors import MessageIllegalError, OptionError
from mqstore.spark.moving import Wanted, diff, export, import_messages, replay
from tests.expiring import expire
from tests.spark.made import fill
from tests.store_files import log_contents, queue_contents

SMALL: dict[str, Any] = {
    "mappedFileSizeCommitLog": 64 << 10,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 50,
    "maxIndexNum": 3000,
}
COUNT = 300
BEGIN_MS = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Messages of two and a half days."""
    path = tmp_path_factory.mktemp("moving") / "store"
    now = iter(range(BEGIN_MS, BEGIN_MS + 1000 * HOUR_MS, HOUR_MS // 5))
    with mqstore.open(path, "rw", clock=lambda: next(now), **SMALL) as opened:
        for number in range(COUNT):
            topic = ("007", "orders", "%weird topic")[number % 3]
            properties = {"color": f"c{number % 4}", "KEYS": f"k{number}", "TAGS": f"t{number % 2}"}
            message = MessageExtBrokerInner(
                topic=topic,
                queue_id=number % 2,
                body=bytes([number % 256]) * number,
                properties=properties,
                flag=number,
                born_timestamp=BEGIN_MS + number,
                born_host="[::1]:7" if number % 5 == 0 else "10.0.0.1:9876",
                store_host="10.0.0.2:10911",
                reconsume_times=number % 3,
            )
            assert opened.put_message(message).is_ok
    return path


def test_export_and_import_give_the_same_log_again(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "exported"
    export(str(store), str(out), spark=spark)
    day = dt.datetime.fromtimestamp(BEGIN_MS / 1000, dt.UTC).date()
    assert (out / "topic=007" / f"day={day}").is_dir()
    assert len({path.name for path in out.glob("topic=*/day=*")}) == 3
    copied = tmp_path / "copied"
    assert import_messages(str(out), copied, spark=spark, keep_offsets=True, **SMALL) == COUNT
    assert log_contents(copied) == log_contents(store)
    assert queue_contents(copied) == queue_contents(store)
    assert list((copied / "mqstore").glob("import-*")) == []
    with pytest.raises(MessageIllegalError, match="queue goes on at 50"):
        import_messages(str(out), copied, spark=spark, keep_offsets=True, **SMALL)
    assert import_messages(str(out), copied, spark=spark, where="topic = '007'", **SMALL) == COUNT // 3
    with mqstore.open(copied, **SMALL) as opened:
        assert len(opened.topic("007")) == 2 * COUNT // 3


def test_kept_offsets_leave_gaps_open(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    export(str(store), str(tmp_path / "part"), spark=spark, raw=True, wanted=Wanted(where="queue_offset % 10 = 7"))
    kept = tmp_path / "kept"
    import_messages(str(tmp_path / "part"), kept, spark=spark, keep_offsets=True, **SMALL)
    with mqstore.open(kept, **SMALL) as opened, mqstore.open(store, **SMALL) as source:
        for topic in source.topics():
            for queue_id in (0, 1):
                found = {message.queue_offset: bytes(message.body) for message in opened.topic(topic).queue(queue_id)}
                expected = list(source.topic(topic).queue(queue_id))
                assert found == {
                    each.queue_offset: bytes(each.body) for each in expected if each.queue_offset % 10 == 7
                }
    numbered = tmp_path / "numbered"
    import_messages(str(tmp_path / "part"), numbered, spark=spark, **SMALL)
    with mqstore.open(numbered, **SMALL) as opened:
        assert [message.queue_offset for message in opened.topic("orders").queue(1)] == [*range(5)]


def test_a_store_or_an_export_that_is_not_there_is_told_in_one_line(store: Path, tmp_path: Path) -> None:
    absent, out = str(tmp_path / "absent"), str(tmp_path / "out")
    for arguments, expected in (
        (["export", absent, "--out", out], "Error: no store at .*absent: the folder does not exist"),
        (
            ["export", str(store), "--out", out, "--where", "no_column > 1"],
            "Error: option where='no_column > 1': .*no_column",
        ),
        (["import", absent, "--to", out], "Error: option source='.*absent': .*does not exist"),
        (["replay", absent, "--to", out], "Error: no store at .*absent: the folder does not exist"),
        (["diff", str(store), absent], "Error: no store at .*absent: the folder does not exist"),
    ):
        result = CliRunner().invoke(main, ["spark", *arguments])
        assert result.exit_code == 1, arguments
        # Before it stands what Spark itself logs.
        assert re.match(expected, result.stderr.splitlines()[-1]), result.stderr
        assert not Path(out).exists()


def test_what_spark_refuses_is_told_in_one_line(store: Path) -> None:
    for arguments in (
        ["export", str(store), "--out", "nosuch://b/x"],
        ["dispatch", str(store), "--out", "nosuch://b/x"],
    ):
        result = CliRunner().invoke(main, ["spark", *arguments])
        assert result.exit_code == 1, arguments
        assert isinstance(result.exception, SystemExit), result.exception
        assert re.match('Error: .*No FileSystem for scheme "nosuch"$', result.stderr.splitlines()[-1]), result.stderr


def test_an_export_of_nothing_is_imported_as_nothing(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "exported")
    export(str(store), out, spark=spark, wanted=Wanted(topics=("no such topic",)))
    assert import_messages(out, tmp_path / "copied", spark=spark, **SMALL) == 0
    # What comes into the same folder later is all that is there.
    export(str(store), out, spark=spark, mode="append", wanted=Wanted(topics=("007",)))
    assert import_messages(out, tmp_path / "copied", spark=spark, **SMALL) == COUNT // 3
    export(str(store), out, spark=spark, mode="overwrite", wanted=Wanted(topics=("no such topic",)))
    assert import_messages(out, tmp_path / "copied", spark=spark, **SMALL) == 0


def test_what_is_no_export_is_told(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "other"))
    with pytest.raises(OptionError, match="no column topic"):
        import_messages(str(tmp_path / "other"), tmp_path / "store", spark=spark)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(topics=("orders",)), lambda message: message.topic == "orders"),
        (Wanted(topics=("orders",), keys=("k1", "k4", "k5")), lambda message: message.keys[0] in {"k1", "k4"}),
        (Wanted(tags="t1 || t7"), lambda message: message.tags == "t1"),
        (
            Wanted(begin=BEGIN_MS + 10 * HOUR_MS, end=BEGIN_MS + 20 * HOUR_MS),
            lambda message: 10 <= (message.store_timestamp - BEGIN_MS) / HOUR_MS < 20,
        ),
        (
            Wanted(where="properties['color'] = 'c3' and length(body) < 100"),
            lambda message: message.properties["color"] == "c3" and len(message.body) < 100,
        ),
    ],
    ids=["topic", "key", "tags", "time", "sql"],
)
def test_replay_of_a_selection(spark: SparkSession, store: Path, tmp_path: Path, wanted: Wanted, expected: Any) -> None:
    with mqstore.open(store, **SMALL) as source:
        bodies = [bytes(message.body) for message in source.select() if expected(message)]
    assert 0 < len(bodies) < COUNT
    to = tmp_path / "to"
    assert replay(str(store), to, spark=spark, wanted=wanted, **SMALL) == len(bodies)
    with mqstore.open(to, **SMALL) as target:
        assert [bytes(message.body) for message in target.select()] == bodies


def test_replay_into_another_topic_of_the_same_store(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    replay(str(store), own, spark=spark, **SMALL)
    with pytest.raises(OptionError, match="another topic"):
        replay(str(own), own, spark=spark, **SMALL)
    count = replay(str(own), own, spark=spark, topic="again", wanted=Wanted(topics=("orders", "007")), **SMALL)
    assert count == 2 * COUNT // 3
    with mqstore.open(own, **SMALL) as target:
        again = list(target.topic("again"))
        assert len(again) == count
        assert {message.properties["color"] for message in again} == {"c0", "c1", "c2", "c3"}
        found = target.select("again", key="k3").first()
        assert found is not None, "it is indexed under its new topic"


def test_diff(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    replay(str(store), other, spark=spark, **SMALL)
    assert diff(str(store), str(other), spark=spark).count() == 0
    log = other / "commitlog" / f"{0:020}"
    data = bytearray(log.read_bytes())
    with mqstore.open(other, **SMALL) as opened:
        message = opened.topic("orders").queue(0)[10]
        place = (message.topic, message.queue_id, message.queue_offset)
        where = message.commit_log_offset
    data[where + 16 : where + 20] = b"\0\0\1\1"  # the user's flag
    log.write_bytes(data)
    with mqstore.open(other, "rw", **SMALL) as opened:
        opened.put("orders", b"one more", queue_id=1)
    rows = {row.kind: row for row in diff(str(store), str(other), spark=spark).collect()}
    assert set(rows) == {"different", "only_right"}
    assert (rows["different"].topic, rows["different"].queue_id, rows["different"].queue_offset) == place
    assert rows["different"].columns == ["flag"]
    assert rows["different"].right_commit_log_offset == where
    assert (rows["only_right"].topic, rows["only_right"].queue_offset) == ("orders", 50)
    assert {row.kind for row in diff(str(other), str(store), spark=spark).collect()} == {"different", "only_left"}


def test_diff_holds_two_stores_against_each_other(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """A glob may say which, but messages of one place in several stores could not be told apart."""
    replay(str(store), tmp_path / "other-1", spark=spark, **SMALL)
    assert diff(str(store), f"{tmp_path}/other-*", spark=spark).count() == 0
    replay(str(store), tmp_path / "other-2", spark=spark, **SMALL)
    with pytest.raises(OptionError, match=r"option right='.*other-\*': it names 2 stores") as caught:
        diff(str(store), f"{tmp_path}/other-*", spark=spark)
    assert caught.value.option == "right"


def test_diff_leaves_out_what_is_each_stores_own(spark: SparkSession, tmp_path: Path) -> None:
    """The CRC of a whole record covers where and when it is stored."""
    one, other = tmp_path / "one", tmp_path / "other"
    fill(one, 20, enabledAppendPropCRC=True)
    replay(str(one), other, spark=spark, **SMALL)
    with mqstore.open(one) as left, mqstore.open(other) as right:
        crcs = [[message.properties["__CRC32#"] for message in store.select()] for store in (left, right)]
    assert crcs[0] != crcs[1]
    assert diff(str(one), str(other), spark=spark).count() == 0


def test_diff_tells_messages_without_a_place_by_their_unique_keys(spark: SparkSession, tmp_path: Path) -> None:
    """Prepared ones all say offset 0; what retention took of one store shifts none of those that are left."""
    one, other = tmp_path / "one", tmp_path / "other"
    with mqstore.open(one, "rw", **SMALL) as store:
        for number in range(200):
            store.put("t", b"%d" % number * 300, queue_id=0, sys_flag=4 if number % 2 else 0)
    shutil.copytree(one, other)
    with mqstore.open(other, "rw", **SMALL) as store:
        expire(store, 1)
        begin = store.get_min_phy_offset()
    with mqstore.open(one) as store:
        gone = {message.commit_log_offset for message in store.select() if message.commit_log_offset < begin}
    rows = diff(str(one), str(other), spark=spark).collect()
    assert {row.kind for row in rows} == {"only_left"}
    assert {row.left_commit_log_offset for row in rows} == gone
    assert len(rows) == len(gone)


def test_diff_tells_bytes_apart_that_are_no_utf_8(spark: SparkSession, tmp_path: Path) -> None:
    """As texts they are all one character; what stands in another order is the same."""
    one, other = tmp_path / "one", tmp_path / "other"
    stored = b"mark\x01HERE\x02seen\x01once"
    with mqstore.open(one, "rw", **SMALL) as store:
        for _ in range(3):
            store.put("t", b"x", queue_id=0, properties={"mark": "HERE", "seen": "once"})
        assert bytes(store.get_commit_log_data(0)).count(stored) == 3
    shutil.copytree(one, other)
    for path, first in ((one, b"\xff"), (other, b"\xfe")):
        log = path / "commitlog" / f"{0:020}"
        data = log.read_bytes().replace(stored, stored.replace(b"HERE", first * 4), 1)
        data = data.replace(stored, stored.replace(b"HERE", b"\xff" * 4), 1)
        turned = b"seen\x01once\x02mark\x01\xff\xff\xff\xff"
        log.write_bytes(data.replace(stored, turned if path == other else stored.replace(b"HERE", b"\xff" * 4), 1))
    with mqstore.open(one) as left, mqstore.open(other) as right:
        assert [message.properties for message in left.select()] == [message.properties for message in right.select()]
    found = [(row.queue_offset, row.kind, row.columns) for row in diff(str(one), str(other), spark=spark).collect()]
    assert found == [(0, "different", ["properties"])]


def test_export_and_import_keep_properties_as_they_are_stored(spark: SparkSession, tmp_path: Path) -> None:
    """As texts bytes that are no UTF-8 are all one character, a name without a value is none, and none is the first."""
    path, stored = tmp_path / "store", b"mark\x01HERE\x02seen\x01once"
    with mqstore.open(path, "rw", **SMALL) as store:
        for _ in range(4):
            store.put("t", b"x", queue_id=0, properties={"mark": "HERE", "seen": "once"})
    log = path / "commitlog" / f"{0:020}"
    data = log.read_bytes()
    for odd in (b"mark\x01\xff\xfe\xff\xfe", b"m\xffrk\x01HERE", b"mark\x01\x02a\x01b"):
        data = data.replace(stored, odd + b"\x02seen\x01once", 1)
    log.write_bytes(data.replace(stored, b"seen\x01once\x02mark\x01HERE"))
    export(str(path), str(tmp_path / "out"), spark=spark)
    import_messages(str(tmp_path / "out"), tmp_path / "copied", spark=spark, keep_offsets=True, **SMALL)
    assert log_contents(tmp_path / "copied") == log_contents(path)


def test_properties_that_were_changed_behind_an_export_are_imported(spark: SparkSession, tmp_path: Path) -> None:
    """And tables that have their texts alone."""
    fill(tmp_path / "store", 4)
    export(str(tmp_path / "store"), str(tmp_path / "out"), spark=spark)
    exported = spark.read.parquet(str(tmp_path / "out"))
    added = f.map_concat("properties", f.create_map(f.lit("added"), f.lit("one")))
    exported.withColumn("properties", added).write.parquet(str(tmp_path / "changed"))
    exported.drop("raw_properties").write.parquet(str(tmp_path / "texts"))
    imported = []
    for name in ("changed", "texts"):
        import_messages(str(tmp_path / name), tmp_path / f"of-{name}", spark=spark, **SMALL)
        with mqstore.open(tmp_path / f"of-{name}") as store:
            imported.append([message.properties for message in store.select()])
    with mqstore.open(tmp_path / "store") as store:
        known = [message.properties for message in store.select()]
    assert imported == [[{**properties, "added": "one"} for properties in known], known]


def test_messages_of_several_stores(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """A cluster's brokers are exported as one, and are one store where they are imported."""
    replay(str(store), tmp_path / "broker-b", spark=spark, wanted=Wanted(topics=("orders",)), **SMALL)
    export([str(store), str(tmp_path / "broker-*")], str(tmp_path / "out"), spark=spark)
    assert import_messages(str(tmp_path / "out"), tmp_path / "one", spark=spark, **SMALL) == COUNT + COUNT // 3
    with mqstore.open(tmp_path / "one", **SMALL) as one:
        assert {topic: len(one.topic(topic)) for topic in one.topics()} == {
            "007": COUNT // 3,
            "orders": 2 * COUNT // 3,
            "%weird topic": COUNT // 3,
        }


def test_the_commands(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    del spark  # the commands' own session is this one
    options = [part for name, value in SMALL.items() for part in ("-o", f"{name}={value}")]

    def run(*arguments: object) -> Any:
        return CliRunner().invoke(main, ["spark", *map(str, arguments)])

    assert run("export", store, "--out", tmp_path / "out", "--topic", "orders").exit_code == 0
    assert run("import", tmp_path / "out", "--to", tmp_path / "to", "--keep-offsets", *options).output == "100\n"
    replayed = run("replay", store, "--to", tmp_path / "to", "--where", "queue_id = 1 and topic <> 'orders'", *options)
    assert replayed.output == "100\n", replayed.output
    same = run("diff", store, tmp_path / "to", "--topic", "orders")
    assert (same.exit_code, same.stdout) == (0, "")
    other = run("diff", store, tmp_path / "to", "--json")
    assert other.exit_code == 1
    assert other.stdout.count("only_left") == 100


def test_an_empty_name_does_not_stand_for_all(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    for wanted, message in [
        (Wanted(keys=("",)), "option keys="),
        (Wanted(topics=("orders", "")), "option topics="),
    ]:
        with pytest.raises(OptionError, match=message):
            export(str(store), str(tmp_path / "out"), wanted=wanted, spark=spark)
    assert not (tmp_path / "out").exists()
