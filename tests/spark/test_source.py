"""A store as a table: the same messages as the library gives, however they are asked for."""

import datetime as dt
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.functions import spark_partition_id
from pyspark.sql.types import StructType

import mqstore.spark
from mqstore.errors import OptionError, StoreNotFoundError
from mqstore.spark.columns import RAW
from mqstore.spark.source import MQStoreDataSource
from tests.compat.goldens import GOLDENS, Golden
from tests.spark.made import START_MS, fill, read_directly, rows

Reader = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A closed store of 900 messages in many files, and what is in it."""
    path = tmp_path_factory.mktemp("source") / "store"
    return path, fill(path, 900)


@pytest.fixture
def read(spark: SparkSession, made: tuple[Path, list[dict[str, Any]]]) -> Reader:
    """Reads that store."""

    def reader(*columns: str, **options: Any) -> DataFrame:
        given = spark.read.format("mqstore").options(**options)
        if columns:
            given = given.schema(mqstore.spark.schema(*columns))
        return given.load(str(made[0]))

    return reader


def nothing(_: dict[str, Any]) -> bool:
    """A condition that takes no message."""
    return False


def everything(_: dict[str, Any]) -> bool:
    """A condition that takes all."""
    return True


def as_made(row: Row) -> dict[str, Any]:
    """A row as the library's fields."""
    found = row.asDict()
    for name in ("born_timestamp", "store_timestamp"):
        found[name] = round(found[name].replace(tzinfo=dt.UTC).timestamp() * 1000)
    found["body"] = bytes(found["body"])
    return found


def offsets(frame: DataFrame) -> list[int]:
    """Where the messages of a frame stand, sorted."""
    return sorted(row[0] for row in frame.select("commit_log_offset").collect())


def expected(made: list[dict[str, Any]], takes: Callable[[dict[str, Any]], bool]) -> list[int]:
    """Where the messages stand that a condition takes."""
    return [row["commit_log_offset"] for row in made if takes(row)]


def test_every_field_of_every_message(read: Reader, made: tuple[Path, list[dict[str, Any]]]) -> None:
    frame = read()
    assert [field.name for field in frame.schema] == [
        field.name for field in mqstore.spark.schema() if field.name not in RAW
    ]
    found = sorted((as_made(row) for row in frame.collect()), key=lambda row: row["commit_log_offset"])
    assert {row.pop("store") for row in found} == {str(made[0])}
    assert {row.pop("bad_range") for row in found} == {None}
    assert found == made[1]


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_recorded_stores_of_the_java_store(golden: Golden, tmp_path: Path) -> None:
    path = golden.unpack(tmp_path)
    with mqstore.open(path) as store:
        known = [row["commit_log_offset"] for row in rows(store)]
    for columns in (("commit_log_offset", "body"), ("commit_log_offset",)):
        table, pieces = read_directly(path, *columns, minPartitions=5)
        assert len(pieces) > 1
        assert table["commit_log_offset"].to_pylist() == known


def test_one_file_is_divided(spark: SparkSession, tmp_path: Path) -> None:
    known = fill(tmp_path / "store", 500, mappedFileSizeCommitLog=1 << 20)
    assert len(list((tmp_path / "store" / "commitlog").iterdir())) == 1
    frame = spark.read.format("mqstore").option("minPartitions", 7).load(str(tmp_path / "store"))
    per_partition = [row["count"] for row in frame.groupBy(spark_partition_id()).count().collect()]
    assert len(per_partition) == 7
    assert sum(per_partition) == 500
    assert min(per_partition) > 500 / 7 * 0.8
    assert offsets(frame) == [row["commit_log_offset"] for row in known]


@pytest.mark.parametrize("setting", [True, False])
@pytest.mark.parametrize("option", ["true", "false"])
def test_filters_change_what_is_read_and_not_what_comes_out(
    spark: SparkSession, read: Reader, made: tuple[Path, list[dict[str, Any]]], *, setting: bool, option: str
) -> None:
    name = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(name, str(setting).lower())
    try:
        frame = read("commit_log_offset", "topic", "tags", filterPushdown=option)
        wanted = expected(made[1], lambda row: row["topic"] == "topic-1" and row["tags"] == "tag-3")
        assert offsets(frame.where("topic = 'topic-1' and tags = 'tag-3'")) == wanted
        if option == "false":
            # Without the option one DataFrame can be used any number of times.
            assert frame.where("topic = 'topic-1'").union(frame.where("topic = 'topic-2'")).count() == 600
            assert frame.count() == 900
    finally:
        spark.conf.unset(name)


UTC_500 = dt.datetime.fromtimestamp(START_MS / 1000 + 500, dt.UTC)


@pytest.mark.parametrize(
    ("filters", "takes"),
    [
        ([EqualTo(("topic",), "topic-1")], lambda row: row["topic"] == "topic-1"),
        (
            [In(("topic",), ("topic-1", "topic-2", None)), EqualTo(("queue_id",), 3)],
            lambda row: row["topic"] != "topic-0" and row["queue_id"] == 3,
        ),
        (
            [
                EqualTo(("topic",), "topic-0"),
                GreaterThanOrEqual(("queue_offset",), 10),
                LessThan(("queue_offset",), 13),
            ],
            lambda row: row["topic"] == "topic-0" and 10 <= row["queue_offset"] < 13,
        ),
        ([GreaterThan(("store_timestamp",), UTC_500)], lambda row: row["store_timestamp"] >= START_MS + 500_000),
        ([LessThanOrEqual(("store_timestamp",), UTC_500)], lambda row: row["store_timestamp"] <= START_MS + 500_000),
        (
            [GreaterThanOrEqual(("commit_log_offset",), 1000), LessThanOrEqual(("commit_log_offset",), 90_000)],
            lambda row: 1000 <= row["commit_log_offset"] <= 90_000,
        ),
        ([EqualTo(("tags",), "tag-3")], lambda row: row["tags"] == "tag-3"),
        ([EqualTo(("topic",), "no such")], nothing),
        ([EqualTo(("store",), "no such")], nothing),
        ([Not(EqualTo(("topic",), "topic-1"))], everything),
        ([EqualTo(("topic",), None)], everything),
    ],
    ids=lambda given: str(given) if isinstance(given, list) else "rows",
)
def test_what_filters_leave_to_be_read(
    made: tuple[Path, list[dict[str, Any]]], filters: list[Filter], takes: Callable[[dict[str, Any]], bool]
) -> None:
    table, _ = read_directly(made[0], "commit_log_offset", filters=filters, minPartitions=4)
    assert sorted(table["commit_log_offset"].to_pylist()) == expected(made[1], takes)


def test_a_filter_on_keys_leaves_nothing_of_what_is_behind_the_end(made: tuple[Path, list[dict[str, Any]]]) -> None:
    filters: list[Filter] = [EqualTo(("unique_key",), made[1][0]["unique_key"])]
    for options, count in (({}, 1), ({"startingOffsets": "latest"}, 0)):
        assert read_directly(made[0], "topic", filters=filters, **options)[0].num_rows == count


@pytest.mark.parametrize(
    ("options", "takes"),
    [
        ({"subscribe": "topic-1"}, lambda row: row["topic"] == "topic-1"),
        ({"subscribe": "topic-1, topic-0"}, lambda row: row["topic"] in {"topic-1", "topic-0"}),
        ({"subscribePattern": "topic-[12]"}, lambda row: row["topic"] in {"topic-1", "topic-2"}),
        ({"assign": '{"topic-1": [0, 2]}'}, lambda row: row["topic"] == "topic-1" and row["queue_id"] in {0, 2}),
        ({"keys": "key-17,key-18,nothing"}, lambda row: row["keys"][0] in {"key-17", "key-18"}),
        (
            {"keys": "all", "subscribe": "topic-2"},
            lambda row: row["topic"] == "topic-2",
        ),
        ({"tags": "tag-1 || tag-2"}, lambda row: row["tags"] in {"tag-1", "tag-2"}),
        ({"subscribe": "topic-0", "tags": "tag-1"}, lambda row: row["topic"] == "topic-0" and row["tags"] == "tag-1"),
        ({"sql": "number BETWEEN 100 AND 105"}, lambda row: 100 <= int(row["properties"]["number"]) <= 105),
        (
            {"subscribe": "topic-1", "sql": "TAGS = 'tag-1' AND number NOT IN ('1', '16')"},
            lambda row: (
                row["topic"] == "topic-1" and row["tags"] == "tag-1" and row["properties"]["number"] not in {"1", "16"}
            ),
        ),
        ({"startingTimestamp": str(START_MS + 300_000)}, lambda row: row["store_timestamp"] >= START_MS + 300_000),
        ({"endingTimestamp": str(START_MS + 300_000)}, lambda row: row["store_timestamp"] < START_MS + 300_000),
        (
            {"subscribe": "topic-0", "startingTimestamp": str(START_MS + 300_000)},
            lambda row: row["topic"] == "topic-0" and row["store_timestamp"] >= START_MS + 300_000,
        ),
        (
            {
                "assign": '{"topic-0": [0, 1]}',
                "startingOffsets": '{"topic-0": {"0": 5, "1": -2}}',
                "endingOffsets": '{"topic-0": {"0": 9, "1": -1}}',
            },
            lambda row: (
                row["topic"] == "topic-0"
                and (row["queue_id"] == 1 or (row["queue_id"] == 0 and 5 <= row["queue_offset"] < 9))
            ),
        ),
        (
            {
                "subscribe": "topic-0",
                "startingOffsetsByTimestamp": json.dumps({"topic-0": {"0": START_MS + 600_000}}),
                "endingOffsetsByTimestamp": json.dumps({"topic-0": {"1": START_MS + 600_000}}),
            },
            lambda row: (
                row["topic"] == "topic-0"
                and (row["queue_id"] != 0 or row["store_timestamp"] >= START_MS + 600_000)
                and (row["queue_id"] != 1 or row["store_timestamp"] < START_MS + 600_000)
            ),
        ),
        ({"subscribe": "topic-0", "startingOffsets": "latest"}, nothing),
        ({"startingOffsets": "latest"}, nothing),
        ({"keys": "key-17", "startingOffsets": "latest"}, nothing),
        ({"keys": "key-17", "subscribe": "topic-2", "startingOffsets": "latest"}, nothing),
        ({"startingTimestamp": str(2**63 - 1)}, nothing),
        ({"endingTimestamp": "0"}, nothing),
    ],
    ids=lambda given: json.dumps(given) if isinstance(given, dict) else "",
)
@pytest.mark.parametrize("pieces", [1, 6])
def test_options(
    made: tuple[Path, list[dict[str, Any]]],
    options: dict[str, str],
    takes: Callable[[dict[str, Any]], bool],
    pieces: int,
) -> None:
    given: dict[str, Any] = {"minPartitions": pieces, **options}
    table, _ = read_directly(made[0], "commit_log_offset", **given)
    assert sorted(table["commit_log_offset"].to_pylist()) == expected(made[1], takes)


def test_columns_by_the_schema(read: Reader, made: tuple[Path, list[dict[str, Any]]]) -> None:
    frame = read("body", "store", "queue_id")
    assert frame.columns == ["body", "store", "queue_id"]
    assert sorted(bytes(row.body) for row in frame.collect()) == sorted(row["body"] for row in made[1])
    assert read("store").count() == len(made[1])
    assert "properties" not in read(includeProperties="false").columns


def test_a_null_free_schema_is_taken_as_it_is(spark: SparkSession, made: tuple[Path, list[dict[str, Any]]]) -> None:
    frame = spark.read.format("mqstore").schema("queue_id int not null, topic string not null").load(str(made[0]))
    assert frame.count() == len(made[1])


def test_several_stores_are_one_table(spark: SparkSession, tmp_path: Path) -> None:
    known = {str(tmp_path / name): fill(tmp_path / name, count) for name, count in [("a", 30), ("b", 40)]}
    (tmp_path / "none").mkdir()
    stores = spark.read.format("mqstore").load(str(tmp_path / "*"))
    by_list = spark.read.format("mqstore").load(sorted(known))
    for frame in (stores, by_list):
        counts = {row.store: row["count"] for row in frame.groupBy("store").count().collect()}
        assert counts == {store: len(made) for store, made in known.items()}
    one = stores.where(f"store = '{tmp_path / 'a'}'")
    assert one.count() == 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a", "assign": '{"a": [0]}'}, 'option assign={"a": [0]}: it contradicts subscribe=a'),
        ({"startingOffsets": "earliest", "startingTimestamp": "5"}, "option startingOffsets=earliest: it contradicts"),
        ({"startingTimestamp": "9", "endingTimestamp": "5"}, "option endingTimestamp=5: it is before startingTime"),
        ({"startingOffsets": '{"a": {"0": 1}}'}, "go with subscribe, subscribePattern or assign"),
        ({"subscribe": "b", "startingOffsets": '{"a": {"0": 1}}'}, "the queue 0 of a is not among what is read"),
        ({"subscribe": "topic-0", "startingOffsets": '{"topic-0": {"0": 999}}'}, "the queue holds 0 to 75"),
        ({"subscribe": "topic-0", "startingOffsets": '{"topic-0": {"9": 1}}'}, "the store has no such queue"),
        ({"startingOffsets": "middle"}, "option startingOffsets=middle: expected earliest or latest"),
        ({"endingOffsets": "earliest"}, "option endingOffsets=earliest: expected latest"),
        ({"mode": "LENIENT"}, "option mode=LENIENT: expected one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"minPartitions": "0"}, "option minPartitions=0: expected a number of 1 or more"),
        ({"maxBytesPerPartition": "much"}, "option maxBytesPerPartition=much: expected a number of bytes"),
        ({"failOnDataLoss": "perhaps"}, "option failOnDataLoss=perhaps: expected true or false"),
        ({"subscribePattern": "("}, "option subscribePattern=("),
        ({"startingTimestamp": "1_000"}, "option startingTimestamp=1_000: expected milliseconds since 1970"),
        ({"startingTimestamp": "soon"}, "option startingTimestamp=soon: expected milliseconds since 1970"),
        ({"startingTimestamp": str(2**63)}, f"option startingTimestamp={2**63}: expected at most {2**63 - 1}"),
        ({"endingTimestamp": str(10**20)}, f"option endingTimestamp={10**20}: expected at most"),
        (
            {"subscribe": "topic-0", "startingOffsetsByTimestamp": json.dumps({"topic-0": {"0": 10**20}})},
            "for queue 0 of topic-0",
        ),
        ({"subscribe": "topic-0", "endingOffsets": json.dumps({"topic-0": {"0": 2**63}})}, "for queue 0 of topic-0"),
        ({"subscribe": "topic-0", "startingOffsets": '{"topic-0": {"x": 1}}'}, "expected numbers of queues of topic-0"),
        ({"maxRecordsPerBatch": str(10**25)}, f"option maxRecordsPerBatch={10**25}: expected at most {2**31 - 1}"),
        ({"minPartitions": str(10**400)}, "expected at most"),
        ({"maxBytesPerPartition": f"{10**20}t"}, f"option maxBytesPerPartition={10**20}t: expected"),
        ({"assign": '{"topic-0": [0.5]}'}, 'option assign={"topic-0": [0.5]}: expected numbers of queues'),
        ({"assign": '{"topic-0": [true]}'}, 'option assign={"topic-0": [true]}: expected numbers of queues'),
        ({"assign": '{"topic-0": ["0"]}'}, 'option assign={"topic-0": ["0"]}: expected numbers of queues'),
        ({"assign": '{"topic-0": [99999999999]}'}, "expected numbers of queues"),
        ({"includepropertys": "false"}, "option includepropertys=false: there is no such option"),
    ],
    ids=lambda given: json.dumps(given) if isinstance(given, dict) else "",
)
def test_contradictions_are_errors(
    made: tuple[Path, list[dict[str, Any]]], options: dict[str, str], message: str
) -> None:
    given: dict[str, Any] = dict(options)
    with pytest.raises(OptionError) as caught:
        read_directly(made[0], "topic", **given)
    assert message in str(caught.value)


def test_a_contradiction_is_one_error_on_the_driver(read: Reader) -> None:
    with pytest.raises(PySparkException, match="option subscribePattern=a: it contradicts subscribe=b") as caught:
        read("topic", subscribePattern="a", subscribe="b").count()
    assert "Task" not in type(caught.value).__name__


def test_bad_schemas_and_paths(spark: SparkSession, tmp_path: Path, made: tuple[Path, list[dict[str, Any]]]) -> None:
    source = spark.read.format("mqstore")
    for schema, message in {
        "nope string": "option schema=nope: the columns are",
        "queue_id string": "option schema=queue_id string: the column's type is int",
    }.items():
        with pytest.raises(PySparkException, match=message):
            source.schema(schema).load(str(made[0])).count()
    with pytest.raises(PySparkException, match="option schema=: it has no column"):
        source.schema(StructType([])).load(str(made[0])).count()
    with pytest.raises(PySparkException, match="includeProperties=false: it contradicts the schema"):
        source.schema("properties map<string, string>").option("includeProperties", "false").load(str(made[0])).count()
    for path, message in {
        tmp_path / "missing": "does not see it",
        tmp_path / "no*": "it names no folder with a commitlog in it",
    }.items():
        with pytest.raises(PySparkException, match=message):
            spark.read.format("mqstore").load(str(path)).count()
    with pytest.raises(ValueError, match="there is no column 'nope'"):
        mqstore.spark.schema("nope")


def test_a_store_that_an_executor_does_not_see_is_named(tmp_path: Path) -> None:
    fill(tmp_path / "store", 30)
    source = MQStoreDataSource({"path": str(tmp_path / "store")})
    reader = source.reader(mqstore.spark.schema("topic"))
    pieces = reader.partitions()
    # As a folder that the driver has and the executor has not.
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreNotFoundError, match="the folder does not exist") as caught:
        list(reader.read(pieces[0]))
    assert caught.value.__notes__ == [f"option path={tmp_path / 'store'}: {os.uname().nodename} does not see it"]
