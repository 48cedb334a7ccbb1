"""Stores as a sink: tasks stage what they have, the driver's commit puts it.

A store has one writer, so tasks write Arrow files below the store's ``mqstore/spark/`` and the driver
has the engine put what is in them: the rows of a task in their order, the tasks by their numbers, so that
rows of one task keep their order in a queue.

For a stream a batch is in the store exactly once. Before its first message is put,
``mqstore/spark/SINK/batch.json`` says which batch it is, which files belong to it and where the log
stands; when all is put and on the disk, it says that the batch is done. Each message has the batch in
its property ``SPARK_BATCH``. A driver that is killed in between comes back with the same batch: the file
says which rows to put, in which order, and the log how many of them it holds already. Where it holds
none, what is staged anew is put in their place: a row that the store refuses does not stay in the way of a
query that was mended.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

import mqstore
from mqstore import _native
from mqstore.spark.put_rows import count_put, staged_rows
from mqstore.spark.staging import remove, remove_folder, rows_behind, stage, sync
from mqstore.spark.write_options import WriteOptions, check_columns
from mqstore.store.config_manager import checked_int, checked_object
from mqstore.verify.filler import is_filler

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BATCH_PROPERTY", "MessageStreamWriter", "MessageWriter"]

BATCH_PROPERTY = "SPARK_BATCH"


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
    """The names of the staged files, in the order in which they are put: the store may be moved meanwhile."""

    @classmethod
    def of(cls, content: bytes) -> Self:
        """What a file says.

        Raises:
            KeyError: it lacks something.
            ValueError: it is not what a sink writes.
        """
        known = checked_object("batch", json.loads(content))
        is_done, files = known["is_done"], known["files"]
        if not isinstance(is_done, bool):
            raise ValueError(f"is_done: expected true or false, found {is_done!r}")
        if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
            raise ValueError(f"files: expected a list of names, found {files!r}")
        batch, begin = (checked_int(name, known[name]) for name in ("batch", "from_phy_offset"))
        return cls(batch=batch, is_done=is_done, from_phy_offset=begin, files=tuple(files))


def _stage(
    folder: Path, batches: Iterator["pa.RecordBatch"], options: WriteOptions, extra: Mapping[str, str]
) -> Staged:
    """Writes a task's rows to a file of its own; a row that the store does not take is told before any is put."""
    check = _native.RowCheck(options.engine(), topic=options.topic, properties=extra)

    def checked() -> Iterator["pa.RecordBatch"]:
        for batch in batches:
            check.check(batch)
            yield batch

    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    return Staged(partition, stage(folder, checked(), prefix=f"task-{partition}-"))


def _files(messages: Iterable[WriterCommitMessage | None]) -> tuple[str, ...]:
    """The files of tasks, by the tasks' numbers."""
    staged = sorted((each for each in messages if isinstance(each, Staged)), key=lambda each: each.partition)
    return tuple(each.file for each in staged if each.file is not None)


def _open(options: WriteOptions) -> mqstore.MessageStore:
    try:
        return mqstore.open(options.path, "rw", **options.store_options)
    except mqstore.MQStoreError as error:
        error.add_note(f"option path={options.path}: the sink puts to it while a batch is committed")
        raise


def _put(
    store: mqstore.MessageStore, options: WriteOptions, files: Iterable[str], *, skipped: int, extra: Mapping[str, str]
) -> None:
    """Puts the rows of staged files but the first ones, in their order."""
    for file in files:
        before = skipped
        skipped, rows = rows_behind(file, before)
        if rows is None:
            continue
        try:
            store.put_arrow(rows, topic=options.topic, partitioner=options.partitioner, properties=extra)
        except mqstore.PutError as error:
            row = getattr(error, "row", None)
            if row is not None:
                # The error counts from the first row that was left to be put.
                error.add_note(f"it is row {before + row} of the staged file {file}")
            raise


class MessageWriter(DataSourceArrowWriter):
    """Puts the rows of a DataFrame into a store."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        """A writer of rows of a schema."""
        check_columns(schema, options)
        self._options = options
        self._staging = options.folder / f"job-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Staged:
        """Stages a task's rows."""
        return _stage(self._staging, iterator, self._options, {})

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Puts what was staged.

        Raises:
            MQStoreError: the store can't be opened for writing, or does not take a message; those before
                it are in it.
        """
        files = _files(messages)
        with _open(self._options) as store:
            _put(store, self._options, files, skipped=0, extra={})
        self.abort(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Removes what was staged."""
        remove(_files(messages))
        remove_folder(self._staging)


class MessageStreamWriter(DataSourceStreamArrowWriter):
    """Puts the rows of a stream's batches into a store, each batch exactly once."""

    def __init__(self, schema: StructType, options: WriteOptions) -> None:
        """A writer of rows of a schema."""
        check_columns(schema, options)
        self._options = options
        self._folder = options.folder / options.sink_id()
        self._staging = self._folder / "staged"
        self._file = self._folder / "batch.json"

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Staged:
        """Stages a task's rows."""
        # A task is not told its batch, whose name is no shorter.
        return _stage(self._staging, iterator, self._options, {BATCH_PROPERTY: self._name(0)})

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Puts what was staged, unless the batch is in the store; what is missing of it where a part is.

        Raises:
            MQStoreError: as for :meth:`MessageWriter.commit`; the batch goes on where it stopped, with what is
                staged then where nothing of it is in the store. Or retention may have removed some of a batch that
                is not done: nothing is put then.
        """
        given = _files(messages)
        with _open(self._options) as store:
            begun = self._begun()
            if begun is not None and begun.batch > batchId:
                # A driver that another one has replaced: what the other stages is not its business.
                remove(given)
                return
            if begun is None or begun.batch < batchId:
                self._put(store, self._begin(store, given, batchId), 0)
            elif not begun.is_done:
                self._go_on(store, begun, given)
        # What tasks of earlier attempts have left goes too.
        if self._staging.is_dir():
            remove(map(str, self._staging.iterdir()))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Removes what was staged, but for what a batch that has begun needs."""
        del batchId
        begun = self._begun()
        needed = set() if begun is None or begun.is_done else set(self._staged(begun))
        remove(set(_files(messages)) - needed)

    def _begin(self, store: mqstore.MessageStore, given: Iterable[str], number: int) -> _Batch:
        """Says that a batch begins, in place of what was said before."""
        # What the file below names is there where it is, also after a power cut.
        folders = [self._folder, *self._folder.parents[:2]]
        self._staging.mkdir(parents=True, exist_ok=True)
        sync([*given, self._staging, *folders])
        begin = store.get_max_phy_offset()
        names = tuple(Path(file).name for file in given)
        begun = _Batch(batch=number, is_done=False, from_phy_offset=begin, files=names)
        self._write(store, begun)
        return begun

    def _go_on(self, store: mqstore.MessageStore, begun: _Batch, given: tuple[str, ...]) -> None:
        """Puts what is missing of a batch that has begun: what is staged now where nothing of it was put.

        Then the log holds nothing that the first rows have to be the same as, and a row that the store refuses
        may have been left out meanwhile.
        """
        put_count = self._count_put(store, begun)
        if put_count == 0:
            anew = self._begin(store, given, begun.batch)
            remove(set(self._staged(begun)) - set(self._staged(anew)))
            self._put(store, anew, 0)
            return
        try:
            self._put(store, begun, put_count)
        except mqstore.PutError as error:
            error.add_note(
                f"{put_count} rows of the batch are in the store since an earlier attempt, so the rest comes from what "
                f"that one staged; with is_done true in {self._file} it is left out"
            )
            raise

    def _put(self, store: mqstore.MessageStore, begun: _Batch, skipped: int) -> None:
        """Puts what is missing of a batch, and says that it is done once that is on the disk."""
        extra = {BATCH_PROPERTY: self._name(begun.batch)}
        _put(store, self._options, self._staged(begun), skipped=skipped, extra=extra)
        store.flush()
        self._write(store, replace(begun, is_done=True, files=()))

    def _staged(self, begun: _Batch) -> list[str]:
        """A batch's files, where they are now."""
        return [str(self._staging / name) for name in begun.files]

    def _name(self, batch: int) -> str:
        return f"{self._folder.name}:{batch}"

    def _begun(self) -> _Batch | None:
        try:
            return _Batch.of(self._file.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, KeyError) as error:
            raise mqstore.MQStoreError(
                f"{self._file} is damaged ({type(error).__name__}: {error}), so that nobody can tell whether the batch "
                "was put. Nothing is put. Restore it, or remove it to put all of the query's next batch: rows of that "
                "which are there already are there a second time then"
            ) from error

    def _write(self, store: mqstore.MessageStore, batch: _Batch) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        store._replace_config(self._file, json.dumps(asdict(batch)).encode())

    def _count_put(self, store: mqstore.MessageStore, begun: _Batch) -> int:
        """How many of a batch's messages were put.

        Raises:
            MQStoreError: the log does not say so any more: it begins behind where the batch was begun, or has a hole.
        """
        since = store.select(phy_offsets=(begun.from_phy_offset, None))
        name, holes = self._name(begun.batch), []

        def of_batch() -> Iterator[mqstore.Message]:
            for message in since:
                if is_filler(message):
                    holes.append(message.commit_log_offset)
                elif message.properties.get(BATCH_PROPERTY) == name:
                    yield message

        count = count_put(of_batch(), staged_rows(self._staged(begun), self._options.topic))
        # Asked for when all was counted: retention may be at work meanwhile.
        first = store.get_min_phy_offset()
        if first > begun.from_phy_offset:
            raise self._untold(begun, f"which begins at {first} by now: retention may have removed rows of it")
        # What the walk passed over, and what a repair has put in place of such.
        holes += [begin for begin, end, _ in store._gaps() if end > begun.from_phy_offset]
        if holes:
            raise self._untold(begun, f"which has a hole at {min(holes)}, where rows of it may have been")
        return count

    def _untold(self, begun: _Batch, why: str) -> mqstore.MQStoreError:
        """The error where nobody can tell how many rows of a batch were put."""
        return mqstore.MQStoreError(
            f"the batch {self._name(begun.batch)} was begun at {begun.from_phy_offset} of the log, {why}, so that "
            f"nobody can tell how many were put. Nothing is put. Remove {self._file} to put all of the batch, those "
            "that are there a second time, or set is_done to true in it to leave out what is missing"
        )
