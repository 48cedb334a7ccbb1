"""Stores as a sink: tasks stage what they have, the driver's commit puts it.

A store has one writer, so tasks write Arrow files below the store's ``mqstore/spark/`` and the driver
puts what is in them, many messages a call: the rows of a task in their order, the tasks by their
numbers, so that rows of one task keep their order in a queue.

For a stream a batch is in the store exactly once. Before its first message is put,
``mqstore/spark/SINK/batch.json`` says which batch it is, which files belong to it and where the log
stands; when all is put and on the disk, it says that the batch is done. Each message has the batch in
its property ``SPARK_BATCH``. A driver that is killed in between comes back with the same batch: the file
says which rows to put, in which order, and the log how many of them it holds already.
"""

import json
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

import mqstore
from mqstore.spark.option_error import bad_option
from mqstore.spark.write_options import WriteOptions, check_columns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BATCH_PROPERTY", "MessageStreamWriter", "MessageWriter"]

BATCH_PROPERTY = "SPARK_BATCH"
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task has staged; no file where it had no rows."""

    partition: int
    file: str | None


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """What a sink's file says."""

    batch: int
    is_done: bool
    from_phy_offset: int
    """Where the log stood before the batch's first message."""
    files: tuple[str, ...]
    """The staged files, in the order in which they are put."""


def _stage(folder: Path, batches: Iterator["pa.RecordBatch"]) -> Staged:
    """Writes a task's rows to a file of its own."""
    import pyarrow as pa  # noqa: PLC0415 - the module is imported where nothing is written

    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    file = None
    writer = None
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if writer is None:
                folder.mkdir(parents=True, exist_ok=True)
                file = str(folder / f"{uuid.uuid4().hex}.arrow")
                writer = pa.ipc.new_file(file, batch.schema)
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()
    return Staged(partition, file)


def _files(messages: Iterable[WriterCommitMessage | None]) -> tuple[str, ...]:
    """The files of tasks, by the tasks' numbers."""
    staged = sorted((each for each in messages if isinstance(each, Staged)), key=lambda each: each.partition)
    return tuple(each.file for each in staged if each.file is not None)


def _remove(files: Iterable[str]) -> None:
    for file in files:
        Path(file).unlink(missing_ok=True)


def _open(options: WriteOptions) -> mqstore.MessageStore:
    try:
        return mqstore.open(options.path, "rw", **options.store_options)
    except mqstore.MQStoreError as error:
        error.add_note(f"option path={options.path}: the sink puts to it while a batch is committed")
        raise


class _Rows:
    """Staged rows on their way into a store."""

    def __init__(self, store: mqstore.MessageStore, options: WriteOptions, extra: Mapping[str, str]) -> None:
        self._store, self._options, self._extra = store, options, dict(extra)

    def put(self, files: Iterable[str], skipped: int) -> None:
        """Puts all rows of files but the first ones."""
        for batch in self._batches(files):
            for (topic, queue_id), rows in self._groups(batch).items():
                left = rows[skipped:]
                skipped -= len(rows) - len(left)
                if left:
                    self._put_group(topic, queue_id, left)

    @staticmethod
    def _batches(files: Iterable[str]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa  # noqa: PLC0415 - as above

        for file in files:
            with pa.memory_map(file) as source:
                reader = pa.ipc.open_file(source)
                for number in range(reader.num_record_batches):
                    batch = reader.get_batch(number)
                    for at in range(0, batch.num_rows, _ROWS_AT_ONCE):
                        yield batch.slice(at, _ROWS_AT_ONCE)

    def _groups(self, batch: "pa.RecordBatch") -> dict[tuple[str, int | None], list[dict[str, Any]]]:
        """Rows by topic and queue, each in its order, in the order of their first rows."""
        groups: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
        for row in batch.to_pylist():
            topic = self._options.topic or row.get("topic")
            if topic is None:
                raise bad_option("topic", "null", "a row has no topic, and the option topic is not given")
            queue_id = row.get("queue_id")
            if queue_id is None and self._options.partitioner == "keys":
                queue_id = self._queue_by_keys(topic, row.get("keys"))
            groups.setdefault((topic, queue_id), []).append(row)
        return groups

    def _queue_by_keys(self, topic: str, keys: str | list[str] | None) -> int | None:
        """The queue that messages of one key share; the queues take turns for those without."""
        if not keys:
            return None
        text = keys if isinstance(keys, str) else " ".join(keys)
        return zlib.crc32(text.encode()) % self._store._on_new_topic(topic)

    def _put_group(self, topic: str, queue_id: int | None, rows: list[dict[str, Any]]) -> None:
        bodies = [row["body"].encode() if isinstance(row["body"], str) else row["body"] or b"" for row in rows]
        given = [dict(row.get("properties") or ()) | self._extra for row in rows] if "properties" in rows[0] else None
        self._store.put_many(
            topic,
            bodies,
            keys=[row.get("keys") or None for row in rows] if "keys" in rows[0] else None,
            tags=[row.get("tags") for row in rows] if "tags" in rows[0] else None,
            queue_id=queue_id,
            properties=self._extra if given is None else given,
        )


class MessageWriter(DataSourceArrowWriter):
    """Puts the rows of a DataFrame into a store."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        """A writer of rows of a schema."""
        check_columns(schema, options)
        self._options = options
        self._staging = options.folder / f"job-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Staged:
        """Stages a task's rows."""
        return _stage(self._staging, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Puts what was staged.

        Raises:
            MQStoreError: the store can't be opened for writing, or does not take a message; those before
                it are in it.
        """
        files = _files(messages)
        with _open(self._options) as store:
            _Rows(store, self._options, {}).put(files, 0)
        self.abort(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Removes what was staged."""
        _remove(_files(messages))
        if self._staging.is_dir():
            _remove(map(str, self._staging.iterdir()))
            self._staging.rmdir()


class MessageStreamWriter(DataSourceStreamArrowWriter):
    """Puts the rows of a stream's batches into a store, each batch exactly once."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        """A writer of rows of a schema."""
        check_columns(schema, options)
        self._options = options
        self._folder = options.folder / options.sink_id()
        self._staging = self._folder / "staged"

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Staged:
        """Stages a task's rows."""
        return _stage(self._staging, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Puts what was staged, unless the batch is in the store; what is missing of it where a part is.

        Raises:
            MQStoreError: as for :meth:`MessageWriter.commit`; the batch goes on where it stopped.
        """
        given = _files(messages)
        with _open(self._options) as store:
            begun = self._begun()
            if begun is not None and begun.batch > batchId:
                # A driver that another one has replaced: what the other stages is not its business.
                _remove(given)
                return
            if begun is None or begun.batch < batchId:
                begin = store.get_max_phy_offset()
                begun = _Batch(batch=batchId, is_done=False, from_phy_offset=begin, files=given)
                self._write(store, begun)
                self._put(store, begun, 0)
            elif not begun.is_done:
                self._put(store, begun, self._count_put(store, begun))
        # What tasks of earlier attempts have left goes too.
        if self._staging.is_dir():
            _remove(map(str, self._staging.iterdir()))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Removes what was staged, but for what a batch that has begun needs."""
        del batchId
        begun = self._begun()
        needed = set() if begun is None or begun.is_done else set(begun.files)
        _remove(set(_files(messages)) - needed)

    def _put(self, store: mqstore.MessageStore, begun: _Batch, skipped: int) -> None:
        """Puts what is missing of a batch, and says that it is done once that is on the disk."""
        _Rows(store, self._options, {BATCH_PROPERTY: self._name(begun.batch)}).put(begun.files, skipped)
        store.flush()
        self._write(store, replace(begun, is_done=True, files=()))

    def _name(self, batch: int) -> str:
        return f"{self._folder.name}:{batch}"

    def _begun(self) -> _Batch | None:
        try:
            known = json.loads((self._folder / "batch.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return _Batch(**(known | {"files": tuple(known["files"])}))

    def _write(self, store: mqstore.MessageStore, batch: _Batch) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        store._replace_config(self._folder / "batch.json", json.dumps(asdict(batch)).encode())

    def _count_put(self, store: mqstore.MessageStore, begun: _Batch) -> int:
        """How many of a batch's messages the log holds."""
        name = self._name(begun.batch)
        since = store.select(phy_offsets=(begun.from_phy_offset, None))
        return sum(message.properties.get(BATCH_PROPERTY) == name for message in since)
