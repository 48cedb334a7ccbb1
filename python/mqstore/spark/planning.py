"""How what is to be read is divided into pieces.

Without topics and keys the log is gone through, in pieces that begin and end at boundaries which the
engine confirms: see its ``boundary_at``. With topics the queues' units say where the messages are, so
that nothing else of the log is read; units that are in memory only, since the store's files lack them,
are passed on as places. With keys the index says the places.
"""

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mqstore.option_error import bad_option
from mqstore.spark.narrowing import Narrowing
from mqstore.spark.opened import expand, followed, log_of
from mqstore.spark.piece import BadRange, Piece
from mqstore.spark.read_options import EARLIEST, LATEST, Bounds, ReadOptions
from mqstore.store.byte_ranges import is_remote, shown
from mqstore.store.selection import QueueRow, SelectionSpec
from mqstore.store.topics import named_topics

if TYPE_CHECKING:
    import mqstore
    from mqstore import _native

__all__ = ["LogRange", "check_start", "counted", "first_position", "plan"]

_UNIT_SIZE = 20
_BLANK_SIZE = 0x7FFFFFFF
"""What a unit says that stands for no message."""
_SAMPLE_COUNT = 16
_LEAST_PIECE = 4 << 20
"""A smaller piece is not worth a task, where nobody asks for it."""
_MOST_WITH_BODIES = 128 << 20
_MOST_WITHOUT = 1 << 30
_PLACES_IN_PIECE = 50_000
_UNITS_AT_ONCE = 65_536


@dataclass(frozen=True)
class LogRange:
    """A part of a store's log: what a stream's batch is about."""

    begin: int
    end: int
    end_at_start: int | None = None
    """Where the log ended when the stream began: numbers of queues that it begins at mean what there was then."""


@dataclass(frozen=True)
class _Span:
    """Units of a queue."""

    topic: str
    queue_id: int
    begin: int
    end: int
    size: float
    """About how many bytes of records a unit stands for."""


@dataclass(frozen=True)
class _Share:
    """What a store has of what is to be read."""

    path: str
    log_end: int
    spec: SelectionSpec
    openings: int = 0
    """How many openings of the store by writers were known."""
    log: "_native.Store | None" = None
    """The log, where a range of it is to be gone through."""
    spans: tuple[_Span, ...] = ()
    places: tuple[int, ...] = ()
    passed_over: tuple[BadRange, ...] = ()
    """Parts of the log that gave no units to queues which are made of it in memory."""

    @property
    def size(self) -> float:
        """About how many bytes of the log it is."""
        if self.log is not None:
            return (self.spec.to_phy_offset or 0) - (self.spec.from_phy_offset or 0)
        return sum((span.end - span.begin) * span.size for span in self.spans)

    def piece(self, **bounds: Any) -> Piece:
        """A piece of it, by the bounds that its selection has besides."""
        return Piece(self.path, self.log_end, replace(self.spec, **bounds), self.openings)


def plan(
    options: ReadOptions, narrowing: Narrowing, ranges: dict[str, LogRange] | None = None, *, has_bodies: bool
) -> list[Piece]:
    """The pieces of what is to be read.

    Args:
        options: What is to be read.
        narrowing: What filters leave of it.
        has_bodies: Whether bodies are read: a piece without them costs little beside its task.
        ranges: The part of each store's log, where not all of it is to be read.

    Raises:
        OptionError: the options do not fit the stores.
        DataLossError: something is gone that was asked for, and ``failOnDataLoss`` is on.
    """
    paths = list(ranges) if ranges is not None else expand(options.paths)
    shares = []
    for path in paths:
        if not narrowing.takes_store(shown(path)):
            continue
        of_log = None if ranges is None else ranges[path]
        shares.append(_share(path, options, narrowing, of_log))
    total = sum(share.size for share in shares)
    size = _piece_size(options, total, has_bodies=has_bodies)
    run = uuid.uuid4().hex
    pieces = [piece for share in shares for piece in _divide(share, size)]
    if ranges is None:
        pieces += [piece for share in shares for piece in _lost_end(share, options, narrowing)]
    return [replace(piece, run=run) if is_remote(piece.path) else piece for piece in pieces]


def first_position(path: str, options: ReadOptions) -> int:
    """Where the options say that a stream begins in a store's log."""
    log = log_of(path, pread=options.pread)
    if options.starting is None or options.starting.is_latest:
        return log.get_max_phy_offset()
    return log._log_range(SelectionSpec(begin_timestamp=options.starting.timestamp))[0]


def check_start(path: str, options: ReadOptions) -> None:
    """Refuses numbers at which a stream is to begin that a store's queues do not have.

    Raises:
        OptionError: there are some, and ``failOnDataLoss`` is on.
    """
    numbers = {} if options.starting is None else options.starting.offsets
    if not options.fail_on_data_loss or all(number <= 0 for number in numbers.values()):
        return
    store = followed(path, pread=options.pread)
    rows = {row[:2]: row for row in store._queues()}
    for queue in numbers:
        row = rows.get(queue, (*queue, 0, 0, 0))
        _resolve(store, Bounds(offsets=numbers), row, "startingOffsets", is_strict=True)


def counted(options: ReadOptions, begin: int, end: int) -> SelectionSpec:
    """The messages of a part of the log that count against a limit: at least those that are read."""
    queues: list[QueueRow] | None = None
    if options.queues is not None:
        queues = [(topic, queue_id, None, None) for topic, queue_id in options.queues]
    elif options.topics is not None:
        queues = [(topic, None, None, None) for topic in options.topics]
    spec = SelectionSpec(queues=queues, own_only=True, tags=options.tags, sql=options.sql)
    return replace(spec, from_phy_offset=begin, to_phy_offset=end)


def _lost_end(share: _Share, options: ReadOptions, narrowing: Narrowing) -> Iterator[Piece]:
    """A piece of what was on the disk behind a log's end and is not there: it gives no message, and tells that."""
    if options.starting is not None and options.starting.is_latest:
        return
    store = share.log or followed(share.path, pread=options.pread)
    lost = store._lost_end()
    if lost is None or not _reaches_end(store, options):
        return
    spec = narrowing.apply(SelectionSpec(own_only=True))
    begin, end = max(lost[0], spec.from_phy_offset or 0), min(lost[1], spec.to_phy_offset or lost[1])
    if begin < end:
        of_log = SelectionSpec(own_only=True, from_phy_offset=begin, to_phy_offset=end)
        yield Piece(share.path, lost[1], of_log, store._openings_seen())


def _reaches_end(store: "_native.Store", options: ReadOptions) -> bool:
    """Whether what is to be read can lie behind the last message of a store's log: not where each queue ends before."""
    ending = options.ending
    if ending.timestamp is not None:
        times = [ending.timestamp]
    elif options.queues is None or any(
        queue not in ending.timestamps and ending.offsets.get(queue, LATEST) == LATEST for queue in options.queues
    ):
        return True
    else:
        times = list(ending.timestamps.values())
    if not times:
        return False
    before = SelectionSpec(end_timestamp=max(times) - 1)
    return store._log_range(before)[1] >= store.get_max_phy_offset()


def _piece_size(options: ReadOptions, total: float, *, has_bodies: bool) -> float:
    most = options.max_bytes_per_partition or (_MOST_WITH_BODIES if has_bodies else _MOST_WITHOUT)
    if options.min_partitions is not None:
        return max(1.0, min(most, total / options.min_partitions))
    cores = os.cpu_count() or 1
    return min(most, max(total / cores, _LEAST_PIECE))


def _share(path: str, options: ReadOptions, narrowing: Narrowing, of_log: LogRange | None) -> _Share:
    given = SelectionSpec(own_only=True, keys=_keys(path, options, narrowing), tags=options.tags, sql=options.sql)
    spec = narrowing.apply(replace(_at_times_of(options, given), times_in_any_order=True))
    if of_log is not None:
        begin = max(of_log.begin, spec.from_phy_offset or 0)
        spec = replace(spec, from_phy_offset=begin, to_phy_offset=min(of_log.end, spec.to_phy_offset or of_log.end))
    if of_log is None and not options.has_topics and options.starting is not None and options.starting.is_latest:
        # Whether the log, or queues, or the index says where the messages are: none is behind the end.
        return _Share(path, 0, spec)
    if spec.keys is None and not options.has_topics and narrowing.topics is None:
        return _share_of_log(path, options, spec, is_stream=of_log is not None)
    share = None
    while share is None:
        share = _share_of_units(path, options, narrowing, spec, of_log)
    return share


def _at_times_of(options: ReadOptions, spec: SelectionSpec) -> SelectionSpec:
    """A selection at the times of options alone."""
    return replace(
        spec,
        begin_timestamp=None if options.starting is None else options.starting.timestamp,
        end_timestamp=None if options.ending.timestamp is None else options.ending.timestamp - 1,
        times_in_any_order=False,
    )


def _keys(path: str, options: ReadOptions, narrowing: Narrowing) -> list[str] | None:
    """The keys to look up. What a filter leaves may be found by the index only where that has all there is."""
    keys = narrowing.keys_of(options.keys)
    if keys is None or options.keys is not None:
        return keys
    return None if followed(path, pread=options.pread)._unindexed() else keys


def _share_of_units(
    path: str, options: ReadOptions, narrowing: Narrowing, spec: SelectionSpec, of_log: LogRange | None
) -> _Share | None:
    """`None` where a writer opened the store meanwhile: what that makes anew was missing for a moment."""
    store = followed(path, pread=options.pread)
    changes, openings = store._settled_changes(), store._openings_seen()
    log_end = store.get_max_phy_offset() if of_log is None else of_log.end
    queues = _queue_bounds(store, options, narrowing, of_log)
    at_times = _at_times_of(options, spec)
    if at_times.begin_timestamp is not None or at_times.end_timestamp is not None:
        # Whole files are passed over, as where all of the log is read. In the others each message says of itself.
        begin, end = store._log_range(at_times)
        spec = replace(spec, from_phy_offset=begin, to_phy_offset=max(begin, end))
    if spec.keys is not None:
        ranges: list[QueueRow] = [(topic, queue_id, begin, end) for topic, queue_id, begin, end, _ in queues]
        spec = replace(spec, queues=ranges if options.has_topics or narrowing.topics is not None else None)
        # Which of them are meant, and which are damaged, is for the piece to tell.
        looked_up = spec if spec.queues is not None else replace(spec, topics_of_keys=named_topics(store))
        places = [place for place in store._places_of_keys(looked_up) if place < log_end]
        share = _Share(path, log_end, spec, openings, places=tuple(places))
    else:
        share = _share_of_queues(store, path, log_end, spec, queues)
    # In this order: another query of this process may let go of what was made anew between the two.
    is_as_it_was = store._made_anew_from() is None and store._settled_changes() == changes
    return share if is_as_it_was else None


def _share_of_log(path: str, options: ReadOptions, spec: SelectionSpec, *, is_stream: bool) -> _Share:
    log = log_of(path, pread=options.pread)
    begin, end = log._log_range(_at_times_of(options, spec))
    if is_stream:
        # What is gone in between is for the piece to tell.
        begin = min(begin, spec.from_phy_offset or 0)
    elif spec.from_phy_offset is not None:
        # A filter may say any offset: one inside a record is no damage, and one before the log's begin no loss.
        begin = log._boundary_at(begin)
    spec = replace(spec, from_phy_offset=begin, to_phy_offset=max(begin, end))
    return _Share(path, log.get_max_phy_offset(), spec, log._openings_seen(), log=log)


_QueueBounds = tuple[str, int, int, int, int]
"""Topic, queue, first offset, behind the last, bytes of units in memory."""


def _queue_bounds(
    store: "mqstore.MessageStore", options: ReadOptions, narrowing: Narrowing, of_log: LogRange | None
) -> list[_QueueBounds]:
    found = []
    known = set()
    is_stream = of_log is not None
    # The end is where a stream begins by its offsets: what a queue's end is now says nothing.
    starting = options.starting or Bounds()
    if is_stream and starting.is_latest:
        starting = Bounds()
    is_strict = options.fail_on_data_loss and not is_stream
    for row in sorted(store._queues()):
        topic, queue_id, *_, in_memory = row
        known.add((topic, queue_id))
        if not options.takes_queue(topic, queue_id) or not narrowing.takes_queue(topic, queue_id):
            continue
        begin = _resolve(store, starting, row, "startingOffsets", is_strict=is_strict)
        if of_log is not None and of_log.end_at_start is not None:
            # A queue that has begun anew since then has other messages under these numbers.
            begin = min(begin, max(row[2], store._first_unit_at(topic, queue_id, of_log.end_at_start)))
        behind = _resolve(store, options.ending, row, "endingOffsets", is_strict=is_strict)
        begin, behind = narrowing.offsets(begin, behind)
        if begin < behind:
            found.append((topic, queue_id, begin, behind, in_memory))
    for option, bounds in (("startingOffsets", starting), ("endingOffsets", options.ending)):
        for topic, queue_id in bounds.offsets:
            if (topic, queue_id) not in known and is_strict:
                raise bad_option(option, f"{topic} {queue_id}", "the store has no such queue; see failOnDataLoss")
    return found


def _resolve(
    store: "mqstore.MessageStore", bounds: Bounds, row: tuple[str, int, int, int, int], option: str, *, is_strict: bool
) -> int:
    """The offset of a queue that one of its bounds stands for."""
    queue, first, behind = row[:2], row[2], row[3]
    if queue in bounds.timestamps:
        return max(first, store.get_offset_in_queue_by_time(*queue, bounds.timestamps[queue], "lower"))
    offset = bounds.offsets.get(queue, LATEST if bounds.is_latest else EARLIEST)
    if offset in {EARLIEST, LATEST}:
        return first if offset == EARLIEST else behind
    if is_strict and not first <= offset <= behind:
        reason = f"the queue holds {first} to {behind}; see failOnDataLoss"
        raise bad_option(option, f"{queue[0]} {queue[1]} {offset}", reason)
    return min(max(offset, first), behind)


def _share_of_queues(
    store: "mqstore.MessageStore", path: str, log_end: int, spec: SelectionSpec, queues: list[_QueueBounds]
) -> _Share:
    spans: list[_Span] = []
    places: list[int] = []
    for topic, queue_id, first, behind, in_memory in queues:
        begin, end = first, behind
        if spec.from_phy_offset is not None:
            begin = max(begin, store._first_unit_at(topic, queue_id, spec.from_phy_offset))
        if spec.to_phy_offset is not None:
            end = min(end, store._first_unit_at(topic, queue_id, spec.to_phy_offset))
        in_files = store.get_max_offset_in_queue(topic, queue_id) - in_memory // _UNIT_SIZE
        if begin < min(end, in_files):
            size = _record_size(store, topic, queue_id, begin, min(end, in_files))
            spans.append(_Span(topic, queue_id, begin, min(end, in_files), size))
        places.extend(_places(store, topic, queue_id, max(begin, in_files), end))
    passed_over = tuple(_passed_over(store, spec, log_end)) if places else ()
    # Begin and end of the log are in the spans and places already.
    rest = replace(spec, queues=None, keys=None, from_phy_offset=None, to_phy_offset=None)
    openings = store._openings_seen()
    return _Share(path, log_end, rest, openings, spans=tuple(spans), places=tuple(places), passed_over=passed_over)


def _passed_over(store: "mqstore.MessageStore", spec: SelectionSpec, log_end: int) -> Iterator[BadRange]:
    """Parts of the log without a record, whose units nobody misses in a queue that is made without them."""
    first, behind = spec.from_phy_offset or 0, log_end if spec.to_phy_offset is None else spec.to_phy_offset
    for gap_begin, gap_end, reason in store._gaps():
        begin, end = max(gap_begin, first), min(gap_end, behind)
        if begin < end:
            yield begin, end, reason is None, reason or "a log file is missing"


def _places(store: "mqstore.MessageStore", topic: str, queue_id: int, begin: int, end: int) -> Iterator[int]:
    """Where the messages of units stand."""
    while begin < end:
        units = store._units(topic, queue_id, begin, min(end - begin, _UNITS_AT_ONCE))
        if not units:
            break
        yield from (offset for offset, size, _ in units if 0 < size < _BLANK_SIZE and offset >= 0)
        begin += len(units)


def _record_size(store: "mqstore.MessageStore", topic: str, queue_id: int, begin: int, end: int) -> float:
    """About how many bytes the records of units have, from some of them."""
    step = max(1, (end - begin) // _SAMPLE_COUNT)
    units = (unit for at in range(begin, end, step) for unit in store._units(topic, queue_id, at, 1))
    sizes = [size for _, size, _ in units if size < _BLANK_SIZE]
    return max(1.0, sum(sizes) / max(1, len(sizes)))


def _divide(share: _Share, size: float) -> Iterator[Piece]:
    if share.log is not None:
        yield from _divide_log(share, share.log, size)
    yield from _divide_spans(share, size)
    for at in range(0, len(share.places), _PLACES_IN_PIECE):
        places = list(share.places[at : at + _PLACES_IN_PIECE])
        yield share.piece(places=places)
    if share.passed_over:
        yield replace(share.piece(places=[]), passed_over=share.passed_over)


def _divide_log(share: _Share, log: "_native.Store", size: float) -> Iterator[Piece]:
    begin, end = share.spec.from_phy_offset or 0, share.spec.to_phy_offset or 0
    count = max(1, round((end - begin) / size))
    at = begin
    for number in range(1, count + 1):
        to = end if number == count else min(end, log._boundary_at(begin + (end - begin) * number // count))
        if at < to:
            yield share.piece(from_phy_offset=at, to_phy_offset=to)
            at = to


def _divide_spans(share: _Share, size: float) -> Iterator[Piece]:
    """Spans put together, and taken apart, to pieces of about one size."""
    queues: list[QueueRow] = []
    room = size
    for span in share.spans:
        begin = span.begin
        while begin < span.end:
            end = min(span.end, begin + max(1, int(room / span.size)))
            queues.append((span.topic, span.queue_id, begin, end))
            room -= (end - begin) * span.size
            begin = end
            if room < span.size:
                yield share.piece(queues=queues)
                queues, room = [], size
    if queues:
        yield share.piece(queues=queues)
