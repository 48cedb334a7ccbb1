"""A store as a stream: what has come into its log since the last batch.

An offset is where each store's log stands, by the store's folder: the log is the one order of
everything that is put, so a batch is a range of it, and the same range gives the same messages again.
What else is in it `stream_offset` says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from mqstore.errors import StoreNotFoundError
from mqstore.spark.columns import has_bodies
from mqstore.spark.narrowing import Narrowing
from mqstore.spark.opened import expand, log_of
from mqstore.spark.piece import DataLossError, Piece, read_piece
from mqstore.spark.planning import LogRange, check_start, counted, first_position, plan
from mqstore.spark.read_options import ReadOptions
from mqstore.spark.stream_offset import (
    Offset,
    begun,
    check_not_removed,
    end_at_start,
    gone_on,
    is_of_log,
    is_same_place,
    stores_of,
)
from mqstore.store.byte_ranges import shown

if TYPE_CHECKING:
    import pyarrow as pa

    from mqstore import _native

__all__ = ["MessageStreamReader"]


@dataclass(frozen=True)
class _Share:
    """What a batch may have of a store; ``None`` for all."""

    max_rows: int | None
    max_bytes: int | None

    def end(self, log: "_native.Store", options: ReadOptions, begin: int, end: int) -> int:
        """How far it reaches: at least one message."""
        begin = max(begin, log.get_min_phy_offset())
        if self.max_rows is not None:
            end = min(end, log._position_behind(counted(options, begin, end), self.max_rows))
        if self.max_bytes is not None:
            end = min(end, log._boundary_at(begin + self.max_bytes))
        return end


def _shares(behind: dict[str, int], limit: ReadLimit, max_bytes: int | None) -> Iterator[tuple[str, _Share]]:
    """Each store's share of a limit; where there is not one for each, those furthest behind go first."""
    paths = sorted(behind, key=lambda path: -behind[path])
    rows = None
    if isinstance(limit, ReadMaxBytes):
        max_bytes = limit.max_bytes
    elif isinstance(limit, ReadMaxRows):
        rows = limit.max_rows
    elif isinstance(limit, ReadAllAvailable):
        max_bytes = None
    for number, path in enumerate(paths):
        share = None if rows is None else rows // len(paths) + (number < rows % len(paths))
        if share != 0:
            yield path, _Share(share, None if max_bytes is None else max(1, max_bytes // len(paths)))


def _reached(log: "_native.Store", start: int, end: int) -> int:
    """How far a store goes: an availableNow may end before where a query begins that begins with the latest."""
    return end if start <= end else log.get_max_phy_offset()


def _begin(log: "_native.Store", path: str, options: ReadOptions, start: Offset, end: int) -> int:
    """Where a batch begins in a store; one that came after the query began is read from its begin.

    Raises:
        DataLossError: it is not what the last batch was of, or goes less far, and ``failOnDataLoss`` is on.
    """
    known = start.get(path)
    if known is not None and known <= end and is_of_log(start, path, log):
        return known
    if known is not None and options.fail_on_data_loss:
        if known <= end:
            raise _other_log(path, known)
        raise DataLossError(
            f"{path}: the last batch ended at {known} and the log ends at {end}: it is another one, was cut, or is "
            "being copied (failOnDataLoss=false reads it from its begin)"
        )
    return max(0, log.get_min_phy_offset())


def _check_still_there(log: "_native.Store", path: str, options: ReadOptions, end: Offset) -> None:
    """Refuses to read a batch that was planned of another log.

    Raises:
        DataLossError: it was, and ``failOnDataLoss`` is on.
    """
    if options.fail_on_data_loss and end[path] <= log.get_max_phy_offset() and not is_of_log(end, path, log):
        raise _other_log(path, end[path])


def _other_log(path: str, known: int) -> DataLossError:
    return DataLossError(
        f"{path}: the log goes on behind {known}, but before it is another record than a batch found there: it is "
        "another one, or was cut and has grown since (failOnDataLoss=false reads it from its begin)"
    )


class MessageStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what comes into stores."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        """A reader of a schema's columns."""
        self._schema, self._options = schema, options
        self._paths: dict[str, str] = {}
        """Where the stores are that offsets name."""
        self._last: Offset | None = None
        """Where an availableNow ends."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where the options say that a new query begins."""
        found: Offset = {}
        for path in expand(self._options.paths):
            position = first_position(path, self._options)
            # Before it is noted how far the log goes: numbers up to there mean messages that were there.
            check_start(path, self._options)
            found |= begun(log_of(path, pread=self._options.pread), shown(path), self._options, position)
        return found

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """How far the next batch goes: what a limit leaves is shared among the stores that have something."""
        ends = self._last if self._last is not None else self._ends()
        logs = {path: self._log(path) for path in ends}
        begins = {
            path: _begin(log, path, self._options, start, _reached(log, start.get(path, 0), ends[path]))
            for path, log in logs.items()
        }
        behind = {path: ends[path] - begins[path] for path in ends if ends[path] > begins[path]}
        found = {**stores_of(start), **begins}
        for path, share in _shares(behind, limit, self._options.max_bytes_per_trigger):
            found[path] = share.end(logs[path], self._options, begins[path], ends[path])
        noted: Offset = {}
        for store, position in found.items():
            begin = begins.get(store, position)
            noted |= gone_on(logs.__getitem__, store, self._options, start, begin=begin, position=position)
        return noted

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What ``maxOffsetsPerTrigger``, else ``maxBytesPerTrigger`` says."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where the stores are now."""
        return self._ends()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Reads no further than to where the stores are now."""
        self._last = self._ends()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The pieces of a batch."""
        ranges = {}
        for path, behind in stores_of(end).items():
            if is_same_place(start, end, path) or not self._is_there(path, start.get(path, 0), behind):
                continue
            log = self._log(path)
            begin = _begin(log, path, self._options, start, behind)
            if begin < behind:
                _check_still_there(log, path, self._options, end)
                check_not_removed(log, path, self._options, start, begin)
                first = self._first_there(path, begin, behind)
                ranges[self._path(path)] = LogRange(first, behind, end_at_start(start, path, begin))
        return list(plan(self._options, Narrowing(), ranges, has_bodies=has_bodies(self._schema)))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The messages of a piece."""
        if isinstance(partition, Piece):
            yield from read_piece(partition, self._schema, self._options)

    def _ends(self) -> Offset:
        self._paths = {shown(path): path for path in expand(self._options.paths)}
        return {store: self._end(store) for store in self._paths}

    def _end(self, store: str) -> int:
        """Where a store's log ends.

        Raises:
            DataLossError: it went further, and ``failOnDataLoss`` is on.
        """
        log = self._log(store)
        lost = log._lost_end()
        if lost is not None and self._options.fail_on_data_loss:
            raise DataLossError(
                f"{store}: the log ends at {lost[0]} and was on the disk up to {lost[1]} "
                "(failOnDataLoss=false reads what is left)"
            )
        return log.get_max_phy_offset()

    def _path(self, store: str) -> str:
        """Where a store is that an offset names: of a URI an offset has the place alone."""
        if store not in self._paths:
            self._paths.update({shown(path): path for path in expand(self._options.paths)})
        return self._paths.get(store, store)

    def _log(self, store: str) -> "_native.Store":
        return log_of(self._path(store), pread=self._options.pread)

    def _is_there(self, path: str, begin: int, behind: int) -> bool:
        """Whether there is a store that a batch is of: a glob may no longer find one.

        Raises:
            DataLossError: there is none, and ``failOnDataLoss`` is on.
            StoreNotFoundError: there is none that is to be read by its name.
        """
        try:
            self._log(path)
        except StoreNotFoundError as error:
            if path in self._paths:
                raise
            if self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{path}: the log from {begin} to {behind} was to be read and the store is gone "
                    "(failOnDataLoss=false reads what is left)"
                ) from error
            return False
        return True

    def _first_there(self, path: str, begin: int, behind: int) -> int:
        """Where a store's part of a batch begins, where retention has overtaken it.

        Raises:
            DataLossError: it has, and ``failOnDataLoss`` is on.
        """
        log = self._log(path)
        first, end = max(0, log.get_min_phy_offset()), log.get_max_phy_offset()
        if first <= begin and behind <= end:
            return begin
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{path}: the log from {begin} to {behind} was to be read and it holds {first} to {end} "
                "(failOnDataLoss=false reads what is left)"
            )
        return max(begin, first)
