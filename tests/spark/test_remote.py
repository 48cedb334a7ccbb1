"""Stores on S3 as tables: read where they lie, by executors that open the file system themselves."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import mqstore
import mqstore.spark
from mqstore.errors import MQStoreError, OptionError
from mqstore.spark import moving
from mqstore.spark.audit import audit
from mqstore.spark.opened import expand
from mqstore.spark.read_options import ReadOptions
from mqstore.spark.rebuild import rebuild
from mqstore.spark.write_options import WriteOptions
from mqstore.store.byte_ranges import shown, with_parameters
from tests.elsewhere import KEY, SECRET, S3Server, s3_server
from tests.spark.made import START_MS, fill, read_directly
from tests.store_files import index_contents, queue_contents

NAME = "s3://bucket/stores/one"
KEYS = {"fs.access_key": KEY, "fs.secret_key": SECRET}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """A server."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> tuple[Path, list[dict[str, Any]]]:
    """A store that is on the server too, as ``one``, and what is in it; ``two`` there is a smaller one."""
    root = tmp_path_factory.mktemp("remote")
    held = fill(root / "one", 600, maxHashSlotNum=100)
    fill(root / "two", 30, maxHashSlotNum=100)
    s3.upload(root, "bucket/stores")
    return root / "one", held


def load(spark: SparkSession, uri: str | list[str], *columns: str, **options: Any) -> DataFrame:
    """The messages of stores on the server."""
    reader = spark.read.format("mqstore").options(**KEYS, **options)
    return (reader.schema(mqstore.spark.schema(*columns)) if columns else reader).load(uri)


def places(frame: DataFrame) -> list[int]:
    """Where the messages of a frame stand."""
    return sorted(row.commit_log_offset for row in frame.select("commit_log_offset").collect())


def test_a_store_is_the_same_table_wherever_it_lies(
    spark: SparkSession, s3: S3Server, made: tuple[Path, list[dict[str, Any]]]
) -> None:
    _, held = made
    found = load(spark, s3.uri("bucket/stores/one"), maxBytesPerPartition="32k").withColumn(
        "piece", f.spark_partition_id()
    )
    rows = sorted(found.collect(), key=lambda row: row.commit_log_offset)
    assert len({row.piece for row in rows}) > 6, "pieces begin inside a file"
    assert {row.store for row in rows} == {NAME}
    names = [name for name in held[0] if not name.endswith("timestamp")]
    assert [{name: row[name] for name in names} for row in rows] == [
        {name: row[name] for name in names} for row in held
    ]


@pytest.mark.parametrize(
    ("options", "takes"),
    [
        ({"subscribe": "topic-1"}, lambda row: row["topic"] == "topic-1"),
        ({"subscribe": "topic-2", "startingOffsets": '{"topic-2": {"1": 40}}', "assign": None}, None),
        ({"keys": "key-5,key-505"}, lambda row: {"key-5", "key-505"} & {*row["keys"]}),
        ({"startingTimestamp": START_MS + 400_000}, lambda row: row["store_timestamp"] >= START_MS + 400_000),
        ({"tags": "tag-3", "subscribe": "topic-0"}, lambda row: (row["topic"], row["tags"]) == ("topic-0", "tag-3")),
    ],
)
def test_options_narrow_what_is_read(
    s3: S3Server, made: tuple[Path, list[dict[str, Any]]], options: dict[str, Any], takes: Any
) -> None:
    path, held = made
    given = {name: value for name, value in options.items() if value is not None}
    found, _ = read_directly(s3.uri("bucket/stores/one"), "commit_log_offset", **(given | KEYS))
    local, _ = read_directly(path, "commit_log_offset", **given)
    offsets = sorted(found["commit_log_offset"].to_pylist())
    assert offsets == sorted(local["commit_log_offset"].to_pylist()) != []
    if takes is not None:
        assert offsets == [row["commit_log_offset"] for row in held if takes(row)]


def test_lists_and_globs(spark: SparkSession, s3: S3Server, made: tuple[Path, list[dict[str, Any]]]) -> None:
    _, held = made
    found = load(spark, s3.uri("bucket/stores/*"), "store", "topic").groupBy("store").count().collect()
    expected = {NAME: len(held), "s3://bucket/stores/two": 30}
    assert {row.store: row["count"] for row in found} == expected
    uris = [s3.uri(f"bucket/stores/{name}") for name in ("one", "two")]
    found = load(spark, uris, "store").groupBy("store").count().collect()
    assert {row.store: row["count"] for row in found} == expected
    with pytest.raises(PySparkException, match=r"option path=s3://bucket/stores/none\*: it names no folder"):
        load(spark, s3.uri("bucket/stores/none*")).count()


def test_keys_are_not_shown(spark: SparkSession, s3: S3Server, made: tuple[Path, list[dict[str, Any]]]) -> None:
    for uri in (s3.uri("bucket/stores/missing"), s3.uri("missing/store")):
        with pytest.raises(PySparkException, match=r"s3://[a-z/]*missing") as missing:
            load(spark, uri).count()
        assert SECRET not in str(missing.value)
    with pytest.raises(PySparkException, match=r"option fs\.\w+_key=\*\*\*: it goes with a path that is a URI") as bad:
        load(spark, str(made[0])).count()
    assert SECRET not in str(bad.value)


def test_a_stream(spark: SparkSession, s3: S3Server, made: tuple[Path, list[dict[str, Any]]], tmp_path: Path) -> None:
    shutil.copytree(made[0].parent / "two", tmp_path / "growing")
    s3.upload(tmp_path / "growing", "bucket/growing")

    def go_on() -> int:
        given = spark.readStream.format("mqstore").options(**KEYS, startingOffsets="earliest", maxBytesPerTrigger="8k")
        stream = given.load(s3.uri("bucket/growing"))
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        return spark.read.parquet(str(tmp_path / "out")).count()

    assert go_on() == 30
    with mqstore.open(tmp_path / "growing", "rw", maxHashSlotNum=100, maxIndexNum=400) as store:
        for _ in range(50):
            store.put("topic-0", b"later")
    s3.upload(tmp_path / "growing", "bucket/growing")
    assert go_on() == 80
    kept = "".join(file.read_text(errors="replace") for file in (tmp_path / "checkpoint").rglob("*") if file.is_file())
    assert "s3://bucket/growing" in kept
    assert SECRET not in kept
    assert KEY not in kept


def test_audit_rebuild_export_replay_diff(
    spark: SparkSession, s3: S3Server, made: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    path, held = made
    uri = with_parameters(s3.uri("bucket/stores/one"), {"access_key": KEY, "secret_key": SECRET})
    audited = audit(uri, spark=spark, maxHashSlotNum=100, maxIndexNum=400)
    assert audited.is_whole, audited.findings
    assert [(each.store, each.record_count) for each in audited.stores] == [(NAME, len(held))]
    assert SECRET not in audited.to_json() + audited.to_html()

    rebuilt = rebuild(uri, tmp_path / "rebuilt", spark=spark, maxHashSlotNum=100, maxIndexNum=400)
    assert rebuilt.record_count == len(held)
    assert queue_contents(tmp_path / "rebuilt") == queue_contents(path)
    assert index_contents(tmp_path / "rebuilt") == index_contents(path)

    moving.export(uri, str(tmp_path / "exported"), spark=spark)
    exported = spark.read.schema(mqstore.spark.schema("store", "commit_log_offset")).parquet(str(tmp_path / "exported"))
    assert exported.select("store").distinct().first() == (NAME,)
    assert places(exported) == [row["commit_log_offset"] for row in held]

    assert moving.replay(uri, tmp_path / "replayed", wanted=moving.Wanted(topics=("topic-1",)), spark=spark) == 200
    with mqstore.open(tmp_path / "replayed") as replayed:
        assert replayed.select("topic-1").count() == 200

    assert moving.diff(uri, str(path), spark=spark).count() == 0


def test_what_is_not_local_is_not_written_to(spark: SparkSession, s3: S3Server, tmp_path: Path) -> None:
    uri = with_parameters(s3.uri("bucket/new"), {"access_key": KEY, "secret_key": SECRET})
    rows = spark.createDataFrame([("t", b"1")], "topic string, body binary")
    with pytest.raises(PySparkException, match=r"option path=s3://bucket/new: .* only read") as refused:
        rows.write.format("mqstore").mode("append").save(uri)
    assert SECRET not in str(refused.value)
    with pytest.raises(OptionError, match="option out=s3://bucket/new: "):
        rebuild(tmp_path, uri, spark=spark)
    with pytest.raises(OptionError, match="option to=s3://bucket/new: "):
        moving.replay(str(tmp_path), uri, spark=spark)
    with pytest.raises(OptionError, match="option to=s3://bucket/new: "):
        moving.import_messages(str(tmp_path), uri, spark=spark)


def test_a_server_that_goes_away_is_one_error(made: tuple[Path, list[dict[str, Any]]]) -> None:
    with s3_server() as server:
        server.upload(made[0], "bucket/stores/one")
        uri = server.uri("bucket/stores/one")
        store = mqstore.open(with_parameters(uri, {"access_key": KEY, "secret_key": SECRET}))
    with pytest.raises(MQStoreError, match=r"s3://bucket/stores/one/commitlog/\d+: bytes \d+ to \d+: ") as gone:
        list(store.select())
    assert json.dumps(SECRET) not in str(gone.value)
    store.close()


def test_a_store_that_was_replaced_is_not_the_one_before(s3: S3Server, tmp_path: Path) -> None:
    """A worker lives longer than a read, and has open what lay there then."""
    uri = with_parameters(s3.uri("bucket/replaced/one"), {"access_key": KEY, "secret_key": SECRET})
    for number, count in enumerate((40, 40, 20)):
        root = tmp_path / str(number)
        known = fill(root / "one", count, body_size=80 - 8 * number)
        s3.upload(root, "bucket/replaced")
        table, _ = read_directly(uri, "body")
        assert table["body"].to_pylist() == [row["body"] for row in known]


def test_no_error_has_what_is_secret(tmp_path: Path) -> None:
    uri = f"s3://{KEY}:TOP/SECRET@bucket/one"
    other = f"s3://bucket/two?access_key={KEY}&secret_key=TOPSECRET"
    for given in (
        {"path": uri, "secret_key": "TOPSECRET"},
        {"path": uri, "paths": json.dumps([other])},
        {"paths": f"[{uri}, {other}"},
    ):
        with pytest.raises(OptionError) as caught:
            ReadOptions.of(given)
        for text in (str(caught.value), caught.value.value):
            assert "SECRET" not in text.replace("secret_key", ""), text
    for written in (
        {"path": other, "fs.secret_key": "TOPSECRET"},
        {"path": str(tmp_path), "fs.secret_key": "TOPSECRET"},
    ):
        with pytest.raises(OptionError) as caught:
            WriteOptions.of(written, overwrite=False)
        assert "TOPSECRET" not in str(caught.value) + caught.value.value
    with pytest.raises(OptionError, match="option paths=s3://bucket/one: what is not shown") as caught:
        expand([f"s3://{KEY}:TOPSECRET@bucket/one", f"s3://{KEY}:OTHERSECRET@bucket/one"])
    assert "SECRET" not in str(caught.value) + caught.value.value
    assert expand([uri, uri]) == [uri]
    assert shown(uri) == "s3://bucket/one"
    assert shown("s3://host:9000/bucket/a@b") == "s3://host:9000/bucket/a@b"
    assert shown("s3://bucket/a@b") == "s3://bucket/a@b"
