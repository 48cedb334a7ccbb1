"""A piece of a store: what one of Spark's tasks reads."""

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import StructType

from mqstore.errors import MQStoreError, RecordError, StoreIOError
from mqstore.spark.columns import BAD_RANGE, BAD_RANGE_TYPE, STORE
from mqstore.spark.opened import forget_part, part_of
from mqstore.spark.read_options import ReadOptions
from mqstore.store.byte_ranges import is_remote, shown
from mqstore.store.selection import QueueRow, SelectionSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from mqstore import _native

__all__ = ["BadRange", "DataLossError", "Piece", "read_piece"]

_MAX_BATCH_BYTES = 16 << 20
_CHEAPEST = "queue_id"
"""What is read where no column of messages is wanted, only how many there are."""
_PLACE = "commit_log_offset"
"""By it a queue's message is known that came later than what was planned."""
_WITH_FILE = "it is gone with its log file"


class DataLossError(MQStoreError):
    """What was to be read is no longer there; with ``failOnDataLoss=false`` it is left out."""


BadRange = tuple[int, int, bool, str]
"""A part of the log that gives no messages: from, to, whether it is gone, why."""


@dataclass(frozen=True)
class Piece(InputPartition):
    """A piece of a store that one task reads."""

    path: str
    """The store: a folder, or a URI."""
    log_end: int
    """Where its log ended when the piece was planned."""
    spec: SelectionSpec
    """Which messages: a range of the log, units of queues, or places."""
    openings: int
    """How many openings of the store by writers were known then: later ones may make its units anew."""
    run: str = ""
    """What it was planned with: a store that is not local may be another one when it is planned again."""
    passed_over: tuple[BadRange, ...] = ()
    """What is bad besides, and known to be: where it is read nothing tells of it."""

    @property
    def store(self) -> str:
        """What the store is called: a URI may hold what is not to be shown."""
        return shown(self.path)

    @property
    def topics(self) -> list[str]:
        """The topics whose queue files are needed."""
        return sorted({topic for topic, *_ in self._queues})

    @property
    def _queues(self) -> list[QueueRow]:
        return [] if self.spec.places is not None else list(self.spec.queues or ())


def read_piece(piece: Piece, schema: StructType, options: ReadOptions) -> Iterator["pa.RecordBatch"]:
    """The messages of a piece as batches of a schema.

    Raises:
        DataLossError: something is gone, and ``failOnDataLoss`` is on.
        RecordError: something is damaged, and ``mode`` is FAILFAST.
        StoreChangedError: a writer opens the store just now and makes units anew that are to be read.
        StoreIOError: something can't be read.
    """
    store, spec = _open(piece, options)
    left: SelectionSpec | None = spec
    while left is not None:
        spec, left = left, None
        try:
            yield from _read(store, spec, piece, schema, options)
        except StoreIOError as error:
            left = _left_of_walk(store, spec, piece, options, error)
            store = _opened_again(piece, options)
    yield from _bad_rows(store, piece.passed_over, piece, to_arrow_schema(schema, timezone="UTC"), options)
    # A queue may have been removed since it was looked at, and with it what was still to be read. What is open does not
    # tell: it may have some of the old files and some of the new ones.
    if piece._queues and options.fail_on_data_loss and not is_remote(piece.path):
        store = _opened_again(piece, options)
        if _queues_left(store, piece) != piece._queues:
            _tell_lost(store, piece, options)


def _read(
    store: "_native.Store", spec: SelectionSpec, piece: Piece, schema: StructType, options: ReadOptions
) -> Iterator["pa.RecordBatch"]:
    """The messages of a selection of a piece's store."""
    import pyarrow as pa  # noqa: PLC0415 - the module is imported where no message is read

    names = [name for name in schema.fieldNames() if name not in {STORE, BAD_RANGE}]
    asked = [*names, _PLACE] if piece._queues and _PLACE not in names else names
    capsule, bad_ranges = store._spark_stream(
        spec, asked or [_CHEAPEST], options.max_records_per_batch, _MAX_BATCH_BYTES
    )
    batches = pa.RecordBatchReader._import_from_c_capsule(capsule)
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    # A function of the pieces' own rows: what a part of the log could not give comes behind what it could.
    while (batch := _next_batch(batches, bad_ranges)) is not None:
        yield _with_own_columns(_planned(batch, piece), piece.store, arrow_schema)
        yield from _bad_rows(store, bad_ranges.take(), piece, arrow_schema, options)
    yield from _bad_rows(store, bad_ranges.take(), piece, arrow_schema, options)


def _left_of_walk(
    store: "_native.Store", spec: SelectionSpec, piece: Piece, options: ReadOptions, error: StoreIOError
) -> SelectionSpec:
    """What is left of a walk over the log that came to a file which retention has removed meanwhile.

    A walk goes by the log's order, so it has given nothing behind that file yet.

    Raises:
        DataLossError: there is such a file, and ``failOnDataLoss`` is on.
        StoreIOError: it is another error, or there is no telling what was given already.
    """
    first = _first_now(store, piece)
    if error.errno != errno.ENOENT or first <= store.get_min_phy_offset():
        raise error
    begin = spec.from_phy_offset or 0
    if options.fail_on_data_loss:
        raise _gone(_told_gone(piece.store, begin, first, first, _WITH_FILE)) from error
    if piece._queues or spec.places is not None or first <= begin:
        raise error
    return replace(spec, from_phy_offset=first, to_phy_offset=max(first, spec.to_phy_offset or first))


def _gone(what: str) -> DataLossError:
    return DataLossError(f"{what} (failOnDataLoss=false reads what is left)")


def _first_now(store: "_native.Store", piece: Piece) -> int:
    """Where a store's log begins by now, which an open part does not tell: retention removes its first files."""
    if is_remote(piece.path):
        # It is as it was when it was opened.
        return max(0, store.get_min_phy_offset())
    return next((first for path, first in store._log_files() if Path(path).exists()), piece.log_end)


def _planned(batch: "pa.RecordBatch", piece: Piece) -> "pa.RecordBatch":
    """A batch without what came later than the piece was planned, of a queue that has begun anew while it was read."""
    if not piece._queues:
        return batch
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    is_planned = pc.less(batch.column(_PLACE), piece.log_end)
    return batch if pc.all(is_planned).as_py() is not False else batch.filter(is_planned)


def _tell_lost(store: "_native.Store", piece: Piece, options: ReadOptions) -> None:
    store._check_not_made_anew()
    if options.fail_on_data_loss:
        raise _gone(
            f"option path={piece.store}: its queue files are shorter than when the read was planned, or were removed"
        )


def _next_batch(batches: "pa.RecordBatchReader", bad_ranges: "_native.BadRanges") -> "pa.RecordBatch | None":
    import pyarrow as pa  # noqa: PLC0415 - as above

    try:
        return next(batches, None)
    except pa.ArrowInvalid:
        bad_ranges.raise_error()
        raise


def _open(piece: Piece, options: ReadOptions) -> tuple["_native.Store", SelectionSpec]:
    """The part of the store that a piece needs, and what is there of the piece."""
    store = _part(piece, options)
    if (left := _queues_left(store, piece)) != piece._queues:
        store = _opened_again(piece, options)
        left = _queues_left(store, piece)
    if left == piece._queues:
        return store, piece.spec
    _tell_lost(store, piece, options)
    return store, replace(piece.spec, queues=left)


def _part(piece: Piece, options: ReadOptions) -> "_native.Store":
    return part_of(piece.path, piece.topics, piece.log_end, piece.openings, pread=options.pread, run=piece.run)


def _opened_again(piece: Piece, options: ReadOptions) -> "_native.Store":
    """The part as it is now."""
    forget_part(piece.path, piece.topics, piece.openings, pread=options.pread, run=piece.run)
    return _part(piece, options)


def _queues_left(store: "_native.Store", piece: Piece) -> list[QueueRow]:
    """What a store has of a piece's queues: one may have been removed since, and have begun anew."""
    ends: dict[tuple[str, int | None], int] = {row[:2]: row[3] for row in store._queues()}
    left: list[QueueRow] = []
    for topic, queue_id, begin, end in piece._queues:
        behind = min(end or 0, ends.get((topic, queue_id), 0))
        if (begin or 0) < behind and not _has_begun_anew(store, piece, topic, queue_id or 0, {begin or 0, behind - 1}):
            left.append((topic, queue_id, begin, behind))
    return left


def _has_begun_anew(store: "_native.Store", piece: Piece, topic: str, queue_id: int, numbers: set[int]) -> bool:
    """Whether a queue has later messages than were planned where units were, or nothing yet.

    It is asked of two units, since one may be damaged; those that retention has removed say nothing.
    """
    units = [unit for number in numbers for unit in store._units(topic, queue_id, number, 1)]
    return bool(units) and all(size <= 0 or offset >= piece.log_end for offset, size, _ in units)


def _with_own_columns(batch: "pa.RecordBatch", store: str, schema: "pa.Schema") -> "pa.RecordBatch":
    """A batch of the engine's columns with those that are the same for all its messages."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns = []
    for field in schema:
        if field.name == STORE:
            columns.append(pa.repeat(pa.scalar(store), batch.num_rows))
        elif field.name == BAD_RANGE:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:
            columns.append(given[field.name])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _bad_rows(
    store: "_native.Store",
    given: Sequence[BadRange],
    piece: Piece,
    schema: "pa.Schema",
    options: ReadOptions,
) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa  # noqa: PLC0415 - as above

    damaged = []
    first = _first_now(store, piece) if given else 0
    for begin, end, is_gone, reason in given:
        if is_gone or begin < first:
            # What a task finds no record at may have been removed since it opened the store.
            if options.fail_on_data_loss:
                raise _gone(_told_gone(piece.store, begin, end, first, reason if is_gone else _WITH_FILE))
            if is_gone or end <= first:
                continue
            begin = first  # noqa: PLW2901 - the rest of it
        if options.mode == "FAILFAST":
            place = f"from {begin} to {end}" if begin < end else f"at {begin}"
            raise RecordError(
                f"{piece.store}: the log {place}: {reason} (mode=PERMISSIVE or DROPMALFORMED reads the rest)"
            )
        damaged.append({"begin": begin, "end": end, "reason": reason})
    if options.mode != "PERMISSIVE" or BAD_RANGE not in schema.names or not damaged:
        return
    columns = {
        STORE: pa.repeat(pa.scalar(piece.store), len(damaged)),
        BAD_RANGE: pa.array(damaged, to_arrow_type(BAD_RANGE_TYPE)),
    }
    rows = [columns.get(field.name, pa.nulls(len(damaged), field.type)) for field in schema]
    yield pa.RecordBatch.from_arrays(rows, schema=schema)


def _told_gone(store: str, begin: int, end: int, first: int, reason: str) -> str:
    """What is gone, by where: of a place that has no end of its own all is gone up to where the log begins by now."""
    end = max(begin, first) if begin == end else end
    if begin < end:
        return f"{store}: the log from {begin} to {end}: {reason}"
    return f"{store}: the log before {begin}: {reason}" if begin else f"{store}: {reason}"
