"""A store as a stream: nothing lost, nothing twice, whatever is started again when."""

import base64
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery

import mqstore
import mqstore.spark
from mqstore.errors import OptionError
from mqstore.spark.piece import DataLossError
from mqstore.spark.source import MQStoreDataSource
from mqstore.spark.stream import MessageStreamReader
from mqstore.spark.stream_offset import stores_of
from tests.compat.java_store import JavaStore
from tests.spark.made import SMALL, START_MS, fill
from tests.waiting import wait_until

COLUMNS = ("topic", "queue_id", "queue_offset", "commit_log_offset", "body")


def stream_reader(path: str, *columns: str, **options: Any) -> MessageStreamReader:
    """What Spark runs on the driver, in this process."""
    source = MQStoreDataSource({"path": path, **{name: str(value) for name, value in options.items()}})
    reader = source.streamReader(mqstore.spark.schema(*columns or COLUMNS))
    assert isinstance(reader, MessageStreamReader)
    return reader


def offsets_between(reader: MessageStreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    """Where the messages of a batch stand."""
    pieces = reader.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end)))
    batches = [batch for piece in pieces for batch in reader.read(piece)]
    return [row["commit_log_offset"] for batch in batches for row in batch.to_pylist()]


def test_batches_follow_a_live_writer(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    rounds = random.Random(4)
    with mqstore.open(path, "rw", **SMALL) as store:
        store.put("t", b"before")
        latest = stream_reader(path)
        start = latest.initialOffset()
        assert stores_of(start) == {path: store.get_max_phy_offset()}
        ways: list[dict[str, Any]] = [{}, {"subscribe": "t, u"}, {"subscribePattern": ".*", "minPartitions": 4}]
        for options in ways:
            reader = stream_reader(path, startingOffsets="earliest", **options)
            position = reader.initialOffset()
            assert position == {path: 0}
            seen: list[int] = []
            for _ in range(6):
                store.put_many(rounds.choice(["t", "u"]), [b"x" * rounds.randrange(3000)] * rounds.randrange(1, 60))
                end = reader.latestOffset(position, ReadAllAvailable())
                assert stores_of(end) == {path: store.get_max_phy_offset()}
                seen.extend(offsets_between(reader, position, end))
                assert offsets_between(reader, end, end) == []
                position = end
            assert sorted(seen) == [message.commit_log_offset for message in store.select()]
        assert reader.reportLatestOffset() == {path: store.get_max_phy_offset()}


def test_a_body_that_does_not_inflate_ends_no_stream(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with mqstore.open(path, "rw", **SMALL) as store:
        for number in range(9):
            store.put("t", b"no stream of zlib" if number == 4 else b"x", sys_flag=int(number == 4), queue_id=0)
        known = [message.commit_log_offset for message in store.select()]
    reader = stream_reader(path, startingOffsets="earliest")
    begin, end = reader.initialOffset(), reader.reportLatestOffset()
    assert offsets_between(reader, begin, end) == known[:4] + known[5:]
    assert offsets_between(reader, begin, end) == known[:4] + known[5:], "the same again"


def test_limits(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    known = [row["commit_log_offset"] for row in fill(tmp_path / "store", 300)]
    cases: list[tuple[dict[str, Any], ReadLimit, int, int]] = [
        ({"maxOffsetsPerTrigger": 70}, ReadMaxRows(70), 70, 70),
        ({"maxBytesPerTrigger": "50k"}, ReadMaxBytes(50 << 10), 50, 120),
        ({"maxOffsetsPerTrigger": 70, "maxBytesPerTrigger": "10k"}, ReadMaxRows(70), 10, 25),
    ]
    for options, limit, least, most in cases:
        reader = stream_reader(path, startingOffsets="earliest", **options)
        assert reader.getDefaultReadLimit() == limit
        assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())[path] > known[-1]
        position, seen = reader.initialOffset(), []
        while (end := reader.latestOffset(position, limit)) != position:
            batch = offsets_between(reader, position, end)
            assert len(batch) <= most
            assert len(batch) >= least or stores_of(end) == reader.reportLatestOffset()
            seen.extend(batch)
            position = end
        assert seen == known
    # Of topics the chosen ones count.
    reader = stream_reader(path, startingOffsets="earliest", subscribe="topic-1")
    end = reader.latestOffset({path: 0}, ReadMaxRows(10))
    assert len(offsets_between(reader, {path: 0}, end)) == 10


def test_a_limit_is_shared_among_stores(tmp_path: Path) -> None:
    counts = {str(tmp_path / name): count for name, count in [("a", 5), ("b", 40), ("c", 20)]}
    for path, count in counts.items():
        fill(Path(path), count)
    reader = stream_reader(str(tmp_path / "?"), startingOffsets="earliest")
    position = reader.initialOffset()
    assert set(stores_of(position)) == set(counts)
    total = 0
    for _ in range(40):
        end = reader.latestOffset(position, ReadMaxRows(2))
        found = len(offsets_between(reader, position, end))
        assert found == min(2, sum(counts.values()) - total)
        total += found
        position = end
    assert total == sum(counts.values())
    # A store that comes later is read from its begin.
    fill(tmp_path / "d", 7)
    end = reader.latestOffset(position, ReadAllAvailable())
    assert len(offsets_between(reader, position, end)) == 7


def test_available_now_ends_where_the_store_was(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with mqstore.open(path, "rw", **SMALL) as store:
        store.put_many("t", [b"x"] * 30)
        reader = stream_reader(path, startingOffsets="earliest")
        reader.prepareForTriggerAvailableNow()
        end = store.get_max_phy_offset()
        store.put_many("t", [b"y"] * 30)
        position = reader.initialOffset()
        while (reached := reader.latestOffset(position, ReadMaxRows(7))) != position:
            position = reached
        assert stores_of(position) == {path: end}


def test_where_a_stream_begins(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    known = fill(tmp_path / "store", 300)

    def read(**options: Any) -> list[int]:
        reader = stream_reader(path, **options)
        start = reader.initialOffset()
        return offsets_between(reader, start, reader.latestOffset(start, ReadAllAvailable()))

    assert read() == []
    assert read(startingOffsets="latest", subscribe="topic-0") == []
    since = START_MS + 200_000
    assert read(startingTimestamp=since) == [
        row["commit_log_offset"] for row in known if row["store_timestamp"] >= since
    ]
    assert sorted(read(subscribe="topic-0", startingOffsets='{"topic-0": {"0": 20}}')) == [
        row["commit_log_offset"]
        for row in known
        if row["topic"] == "topic-0" and (row["queue_id"] != 0 or row["queue_offset"] >= 20)
    ]
    for options, message in [
        ({"endingOffsets": "latest"}, "option endingOffsets=latest: a stream has no end"),
        ({"subscribe": "t", "startingOffsets": '{"t": {"0": -1}}'}, "option startingOffsets=t 0 -1: in a stream"),
    ]:
        with pytest.raises(OptionError, match=message):
            stream_reader(path, **options)


@pytest.mark.parametrize("options", [{}, {"subscribe": "topic-0,topic-1,topic-2"}], ids=["log", "queues"])
def test_retention_overtakes(tmp_path: Path, options: dict[str, Any]) -> None:
    path = str(tmp_path / "store")
    known = fill(tmp_path / "store", 600)
    strict = stream_reader(path, startingOffsets="earliest", **options)
    start = strict.initialOffset()
    middle = strict.latestOffset(start, ReadMaxRows(20))
    assert len(offsets_between(strict, start, middle)) == 20
    for file in sorted((tmp_path / "store" / "commitlog").iterdir())[:2]:
        file.unlink()
    end = strict.latestOffset(middle, ReadAllAvailable())
    with pytest.raises(DataLossError, match="failOnDataLoss=false reads what is left"):
        strict.partitions(middle, end)
    lenient = stream_reader(path, failOnDataLoss="false", **options)
    first = 2 * SMALL["mappedFileSizeCommitLog"]
    assert sorted(offsets_between(lenient, middle, end)) == [
        row["commit_log_offset"] for row in known if row["commit_log_offset"] >= first
    ]


def test_a_log_that_is_shorter_than_it_was_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    fill(tmp_path / "store", 100)
    strict = stream_reader(path, startingOffsets="earliest")
    start = strict.latestOffset(strict.initialOffset(), ReadAllAvailable())
    shutil.rmtree(path)
    known = fill(tmp_path / "store", 50)
    with pytest.raises(DataLossError, match=rf"the last batch ended at {start[path]} and the log ends at"):
        strict.latestOffset(start, ReadAllAvailable())
    lenient = stream_reader(path, failOnDataLoss="false")
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert offsets_between(lenient, start, end) == [row["commit_log_offset"] for row in known]
    assert lenient.latestOffset(end, ReadAllAvailable()) == end


def test_a_store_that_a_glob_no_longer_finds_is_told_or_left_out(tmp_path: Path) -> None:
    """A query that was stopped in a batch comes back when a broker's folder has gone."""
    known = [row["commit_log_offset"] for row in fill(tmp_path / "broker-a", 40)]
    fill(tmp_path / "broker-b", 30)
    stopped = stream_reader(f"{tmp_path}/broker-*", startingOffsets="earliest")
    start = stopped.initialOffset()
    end = stopped.latestOffset(start, ReadAllAvailable())
    shutil.rmtree(tmp_path / "broker-b")
    strict, lenient = (stream_reader(f"{tmp_path}/broker-*", failOnDataLoss=given) for given in ("true", "false"))
    gone = (
        rf"broker-b: the log from 0 to {end[str(tmp_path / 'broker-b')]} was to be read and the store is gone \(failOn"
    )
    with pytest.raises(DataLossError, match=gone):
        strict.partitions(start, end)
    assert offsets_between(lenient, start, end) == known
    for reader in (strict, lenient):
        assert reader.latestOffset(end, ReadAllAvailable()) == end, "what was read of it is not asked for again"
        assert offsets_between(reader, end, end) == []


# ---- in Spark --------------------------------------------------------------------------------------


def start_query(
    spark: SparkSession, path: Path, out: Path, *, trigger: dict[str, Any] | None = None, **options: Any
) -> StreamingQuery:
    """A query that keeps what comes as files, with its checkpoint beside them."""
    frame: DataFrame = (
        spark.readStream.format("mqstore")
        .schema(mqstore.spark.schema("commit_log_offset"))
        .options(startingOffsets="earliest", **options)
        .load(str(path))
    )
    writer = frame.writeStream.format("json").option("checkpointLocation", str(out / "checkpoint"))
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start(str(out / "rows"))


def written(out: Path) -> list[int]:
    """What a query has kept: its sink's own log says which files count."""
    log = out / "rows" / "_spark_metadata"
    files: list[str] = []
    for entry in sorted(log.glob("[0-9]*"), key=lambda file: (int(file.name.split(".")[0]), file.suffix == "")):
        lines = [json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]]
        files = lines if entry.suffix == ".compact" else files + lines
    rows = [json.loads(line) for file in files for line in Path(file.removeprefix("file://")).read_text().splitlines()]
    return [row["commit_log_offset"] for row in rows]


def test_available_now_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    known = [row["commit_log_offset"] for row in fill(tmp_path / "store", 400)]
    for _ in range(2):
        trigger = {"availableNow": True}
        start_query(spark, tmp_path / "store", tmp_path, trigger=trigger, maxOffsetsPerTrigger=150).awaitTermination()
    assert sorted(written(tmp_path)) == known
    assert commits(tmp_path) == 3


def test_several_stores_are_one_stream(spark: SparkSession, tmp_path: Path) -> None:
    """By a list and by a glob; each row says its store, a store that comes later is read from its begin."""
    known = {name: len(fill(tmp_path / f"broker-{name}", count)) for name, count in [("a", 50), ("b", 80)]}
    ways = {"glob": {"path": str(tmp_path / "broker-*")}}
    ways["list"] = {"paths": json.dumps([str(tmp_path / f"broker-{name}") for name in "abc"])}

    def read(way: str) -> dict[str, int]:
        reader = spark.readStream.format("mqstore").schema(mqstore.spark.schema("store", "commit_log_offset"))
        frame = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=30, **ways[way]).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / way / "checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / way / "rows")).awaitTermination()
        rows = spark.read.parquet(str(tmp_path / way / "rows"))
        assert rows.distinct().count() == rows.count()
        return {Path(row.store).name[-1]: row["count"] for row in rows.groupBy("store").count().collect()}

    assert read("glob") == known
    known["c"] = len(fill(tmp_path / "broker-c", 20))
    assert read("glob") == read("list") == known


def test_a_live_java_writer(java: JavaStore, tmp_path: Path) -> None:
    path = tmp_path / "store"
    options = SMALL | {"flushIntervalCommitLog": 10}
    lines: list[str] = []
    for number in range(400):
        body = base64.b64encode(b"%08d" % number * 40).decode()
        lines.append(json.dumps({"topic": f"t{number % 3}", "queueId": number % 2, "body": body}) + "\n")
    run = java.start_live("put", path, options)
    written = 0

    def write_on() -> None:
        nonlocal written
        assert run.process.stdin is not None
        run.process.stdin.write("".join(lines[written : written + 20]).encode())
        run.process.stdin.flush()
        written += 20

    write_on()
    while not list((path / "commitlog").glob("0*")):
        assert run.process.poll() is None, run.errors()
        time.sleep(0.01)
    topics: list[dict[str, Any]] = [{}, {"subscribe": "t0,t1,t2"}]
    readers = [stream_reader(str(path), startingOffsets="earliest", **options) for options in topics]
    positions = [reader.initialOffset() for reader in readers]
    seen: list[list[int]] = [[], []]

    def read_on() -> bool:
        """Reads what is there; gives whether both have all that was written."""
        for number, reader in enumerate(readers):
            end = reader.latestOffset(positions[number], ReadAllAvailable())
            seen[number].extend(offsets_between(reader, positions[number], end))
            positions[number] = end
        return min(map(len, seen)) >= written

    # The writer goes on once both have read the last ones: they read what is written while its store is open.
    wait_until(read_on)
    while written < len(lines):
        write_on()
        wait_until(read_on)
    run.stop()
    assert read_on()
    known = [result["wroteOffset"] for result in run.results()]
    assert sorted(seen[0]) == sorted(seen[1]) == known
    assert len(known) == 400


@pytest.mark.parametrize("ends", ["stop", "kill"])
@pytest.mark.parametrize("pread", ["true", "false"])
def test_a_java_writer_that_is_started_again(java: JavaStore, tmp_path: Path, ends: str, pread: str) -> None:
    """4.9.3 makes the next log file ahead, and in its next life removes it and makes it anew by the same name."""
    path = tmp_path / "store"
    options = SMALL | {"mappedFileSizeCommitLog": 16_384, "maxMessageSize": 9000}
    ways: list[dict[str, Any]] = [{}, {"subscribe": "t"}]
    readers = [stream_reader(str(path), startingOffsets="earliest", pread=pread, **way) for way in ways]
    seen: list[list[int]] = [[], []]
    put: list[int] = []

    def put_on(body: bytes, count: int) -> None:
        message = json.dumps({"topic": "t", "queueId": 0, "body": base64.b64encode(body).decode()})
        put.extend(result["wroteOffset"] for result in run.put([message] * count))

    def read_on() -> None:
        for number, reader in enumerate(readers):
            end = reader.latestOffset(positions[number], ReadAllAvailable())
            seen[number].extend(offsets_between(reader, positions[number], end))
            positions[number] = end
            assert sorted(seen[number]) == put, ways[number]
        follower.refresh()
        assert [message.commit_log_offset for message in follower.topic("t").queue(0)[:]] == put

    run = java.start_live("master", path, options)
    put_on(bytes(100), 40)
    positions = [reader.initialOffset() for reader in readers]
    with mqstore.open(path, pread=pread == "true") as follower:
        for _ in range(2):
            read_on()
            run.stop() if ends == "stop" else run.kill()
            # It reads up to the log's end in the file that was made ahead.
            read_on()
            run = java.start_live("master", path, options)
            for _ in range(3):
                put_on(bytes(1000), 10)
                read_on()
    run.stop()


_JOB = """
import sys
from pathlib import Path
from mqstore.spark import spark_session
from tests.spark.made import QUICK
from tests.spark.test_stream import start_query
store, out = sys.argv[1], Path(sys.argv[2])
conf = QUICK | {"spark.local.dir": str(out), "spark.log.level": "OFF"}
session = spark_session(master="local[1]", conf=conf)
sys.stdin.readline()
start_query(session, store, out, maxOffsetsPerTrigger=60).awaitTermination()
"""


class Driver:
    """A process with a session that begins its query when it is told to, so that the next one can be made ready."""

    def __init__(self, store: Path, out: Path) -> None:
        """Starts it."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _JOB, str(store), str(out)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def begin(self) -> None:
        """Lets it begin its query."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def check(self) -> None:
        """Sees that it is alive."""
        assert self._process.poll() is None, self._process.stderr and self._process.stderr.read().decode()

    def kill(self) -> None:
        """Kills it with all its processes, if that has not been done."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@contextmanager
def live_writer(path: Path) -> Iterator[list[int]]:
    """Puts a few messages at a time until the block is left; gives where they stand."""
    put: list[int] = []
    stop = threading.Event()

    def write() -> None:
        with mqstore.open(path, "rw", **SMALL) as store:
            while not stop.is_set():
                result = store.put_many(f"t{len(put) % 7}", [b"%08d" % len(put) * 20] * 5)
                put.extend(result.wrote_offsets)
                ready.set()
                stop.wait(0.05)

    ready = threading.Event()
    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert ready.wait(60)
        yield put
    finally:
        stop.set()
        thread.join()


def commits(out: Path) -> int:
    """How many batches a query has finished."""
    return len([file for file in (out / "checkpoint" / "commits").glob("*") if file.name.isdigit()])


@pytest.mark.timeout(1800)
def test_killed_ten_times(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chances = random.Random(seed)
    store, out = tmp_path / "store", tmp_path / "out"
    out.mkdir()
    with live_writer(store) as put, ExitStack() as drivers:
        next_driver = Driver(store, out)
        drivers.callback(next_driver.kill)
        for number in range(10):
            driver = next_driver
            before, wanted = commits(out), chances.randrange(1, 3)
            driver.begin()
            if number < 9:
                next_driver = Driver(store, out)
                drivers.callback(next_driver.kill)
            while commits(out) < before + wanted:
                driver.check()
                time.sleep(0.01)
            # Anywhere in the batch that is under way.
            time.sleep(chances.random() * 0.3)
            driver.check()
            driver.kill()
    known = sorted(put)
    frame = start_query(spark, store, out, trigger={"availableNow": True})
    frame.awaitTermination()
    assert sorted(written(out)) == known
    assert commits(out) >= 10
