"""Stores that the tests read."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import Filter
from pyspark.sql.pandas.types import to_arrow_schema

import mqstore
import mqstore.spark
from mqstore.spark.piece import Piece
from mqstore.spark.source import MessageReader, MQStoreDataSource, PushingReader

SMALL: dict[str, Any] = {"mappedFileSizeCommitLog": 65_536, "mappedFileSizeConsumeQueue": 1000, "maxIndexNum": 400}
QUICK: dict[str, str | int | bool] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "512m",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": False,
    "spark.ui.enabled": False,
}
"""For a process that does little before it ends: code is not worth being made fast."""
START_MS = 1_700_000_000_000


class Clock:
    """A clock that goes on two seconds whenever it is read: a put reads it once."""

    def __init__(self) -> None:
        """At the start."""
        self.now = START_MS

    def __call__(self) -> int:
        """The time in milliseconds."""
        self.now += 2000
        return self.now


def fill(path: Path, count: int, *, body_size: int = 300, topics: int = 3, **options: Any) -> list[dict[str, Any]]:
    """Puts messages into a store and closes it; gives what is in it, in the log's order."""
    with mqstore.open(path, "rw", clock=Clock(), **(SMALL | options)) as store:
        for number in range(count):
            store.put(
                f"topic-{number % topics}",
                f"{number:08d}".encode() * (body_size // 8),
                keys=[f"key-{number}", "all"],
                tags=f"tag-{number % 5}",
                queue_id=number // topics % 4,
                properties={"number": str(number)},
            )
        return rows(store)


def rows(store: mqstore.MessageStore) -> list[dict[str, Any]]:
    """What a store holds, as the library says it."""
    return [
        {
            "topic": message.topic,
            "queue_id": message.queue_id,
            "queue_offset": message.queue_offset,
            "commit_log_offset": message.commit_log_offset,
            "store_size": message.store_size,
            "body_crc": message.body_crc,
            "flag": message.flag,
            "sys_flag": message.sys_flag,
            "born_timestamp": message.born_timestamp,
            "born_host": message.born_host,
            "store_timestamp": message.store_timestamp,
            "store_host": message.store_host,
            "reconsume_times": message.reconsume_times,
            "prepared_transaction_offset": message.prepared_transaction_offset,
            "msg_id": message.msg_id,
            "unique_key": message.unique_key,
            "tags": message.tags,
            "keys": list(message.keys),
            "properties": message.properties,
            "body": bytes(message.body),
        }
        for message in store.select()
    ]


def read_directly(
    path: Path | str, *columns: str, filters: list[Filter] | None = None, **options: Any
) -> tuple[pa.Table, list[Piece]]:
    """Reads as Spark's workers do, in this process; gives the pieces too, each of which was pickled."""
    source = MQStoreDataSource({"path": str(path), **{name: str(value) for name, value in options.items()}})
    schema = mqstore.spark.schema(*columns) if columns else source.schema()
    reader = source.reader(schema)
    assert isinstance(reader, MessageReader)
    if filters is not None:
        reader = PushingReader(reader._schema, reader._options)
        assert reader.pushFilters(filters) == filters
    pieces = pickle.loads(pickle.dumps(reader.partitions()))  # noqa: S301 - what was pickled just here
    batches = [batch for piece in pieces for batch in pickle.loads(pickle.dumps(reader)).read(piece)]  # noqa: S301
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    assert all(batch.schema == arrow_schema for batch in batches)
    return pa.Table.from_batches(batches, schema=arrow_schema), pieces


def damage(path: Path, offset: int) -> None:
    """Flips a bit of the log."""
    file_size = SMALL["mappedFileSizeCommitLog"]
    with (path / "commitlog" / f"{offset // file_size * file_size:020d}").open("r+b") as file:
        file.seek(offset % file_size)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x10]))
