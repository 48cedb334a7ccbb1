"""What a stream's offset says: how far each store's log was read, and what that place does not tell.

A queue that is removed begins with number 0 again, while the log has its messages still. So an offset says too

* where the logs ended when a query began that begins at numbers of queues: these mean messages that there were then;
* which queues had been removed whose messages are further on in the log: what is removed later is lost to the query.

And another log may have that place too, so it says what the last record before it is: see `log_mark`. An offset of a
version that did not say this is taken as it is.
"""

from typing import TYPE_CHECKING

from mqstore.spark.log_mark import LogMark, is_still_there, mark_before
from mqstore.spark.piece import DataLossError
from mqstore.spark.read_options import ReadOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqstore import _native

__all__ = ["Offset", "begun", "check_not_removed", "end_at_start", "gone_on", "is_of_log", "is_same_place", "stores_of"]

Offset = dict[str, int]

# A store is called by an absolute path, or by a URI: neither begins like this.
_START = "startingOffsets of "
_REMOVED = "removed of "
_LAST = "last record of "


def stores_of(offset: Offset) -> Offset:
    """How far each store's log was read."""
    return {key: position for key, position in offset.items() if not key.startswith((_START, _REMOVED, _LAST))}


def is_same_place(offset: Offset, other: Offset, store: str) -> bool:
    """Whether two offsets say that a store's log was read equally far, and that it was the same log."""
    return offset.get(store) == other.get(store) and _mark_of(offset, store) == _mark_of(other, store)


def is_of_log(offset: Offset, store: str, log: "_native.Store") -> bool:
    """Whether the log of a store that an offset names is the one that was read, as far as can be told."""
    mark = _mark_of(offset, store)
    return mark is None or is_still_there(log, mark)


def end_at_start(start: Offset, store: str, begin: int) -> int | None:
    """Where a store's log ended when the query began, for a batch that begins at a place of it; or none.

    A log that came later, or took the place of the one that was there, has nothing that numbers could mean.
    """
    return start.get(_START + store) if begin == start.get(store) else 0


def begun(log: "_native.Store", store: str, options: ReadOptions, position: int) -> Offset:
    """The part of a query's first offset that says of a store that it begins at a place of its log."""
    return {
        store: position,
        **_marked(log, store, position),
        **_started(store, options, log.get_max_phy_offset()),
        **_removed_ahead(log, store, options, position),
    }


def gone_on(
    log_of: "Callable[[str], _native.Store]",
    store: str,
    options: ReadOptions,
    start: Offset,
    *,
    begin: int,
    position: int,
) -> Offset:
    """The part of a later offset that says of a store how far it is.

    Args:
        log_of: Opens a store's log.
        store: The store, which need not be there any more where it is as far as before.
        options: What is wanted.
        start: The offset before.
        begin: Where the batch begins.
        position: Where it ends.
    """
    if position == begin == start.get(store):
        # No batch is planned for it then: what was removed since is for the next one to tell.
        prefixes = (_removed_of(store), _last_of(store))
        return {key: at for key, at in start.items() if key in {store, _START + store} or key.startswith(prefixes)}
    noted = end_at_start(start, store, begin)
    started = {} if noted is None else _started(store, options, noted)
    log = log_of(store)
    marked, removed = _marked(log, store, position), _removed_ahead(log, store, options, position)
    return {store: position, **marked, **started, **removed}


def _started(store: str, options: ReadOptions, end: int) -> Offset:
    has_numbers = options.starting is not None and any(number > 0 for number in options.starting.offsets.values())
    return {_START + store: end} if has_numbers else {}


def _marked(log: "_native.Store", store: str, position: int) -> Offset:
    mark = mark_before(log, position)
    return {} if mark is None else {f"{_last_of(store)}{mark.store_timestamp} {mark.body_crc}": mark.begin}


def _mark_of(offset: Offset, store: str) -> LogMark | None:
    for key, begin in offset.items():
        if key.startswith(_last_of(store)):
            store_timestamp, body_crc = key.removeprefix(_last_of(store)).split(" ")
            return LogMark(begin, int(store_timestamp), int(body_crc))
    return None


def _last_of(store: str) -> str:
    return f"{_LAST}{store}: "


def _removed_of(store: str) -> str:
    return f"{_REMOVED}{store}: "


def _removed_ahead(log: "_native.Store", store: str, options: ReadOptions, position: int) -> Offset:
    """The wanted queues that were removed and have messages behind a place of the log, with where these end."""
    if not options.has_topics or options.keys is not None:
        # The log, or the index, says where the messages are, whatever became of their queues.
        return {}
    return {
        f"{_removed_of(store)}{topic} {queue_id}": up_to
        for topic, queue_id, up_to in sorted(log._removed_queues())
        if up_to > position and options.takes_queue(topic, queue_id)
    }


def check_not_removed(log: "_native.Store", store: str, options: ReadOptions, start: Offset, begin: int) -> None:
    """Refuses to go on in a store from which messages were removed with their queue that were yet to be read.

    Raises:
        DataLossError: there are some, and ``failOnDataLoss`` is on.
    """
    if not options.fail_on_data_loss or store not in start:
        return
    for key, up_to in _removed_ahead(log, store, options, begin).items():
        if start.get(key) != up_to:
            topic, _, queue_id = key.removeprefix(_removed_of(store)).rpartition(" ")
            raise DataLossError(
                f"{store}: queue {queue_id} of {topic} was removed, with messages from {begin} to {up_to} of the log "
                "that were to be read (failOnDataLoss=false reads what is left)"
            )
