"""How far somebody has read a queue, and whether the queue is still that one.

A queue that is removed begins at 0 again, and whoever kept an offset of it is told by nobody. So what is kept beside
an offset is where the log ended, at most, when it had been read so far: what comes to a queue of that name later
stands behind it.
"""

from typing import TYPE_CHECKING, NamedTuple

from mqstore.store.follower import place_in_log, where_to_go_on

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["NO_OFFSET", "ReadOffset", "log_end_behind", "offset_in_queue"]


class ReadOffset(NamedTuple):
    """Where somebody goes on in a queue."""

    offset: int
    """The next offset; -1 where there is none."""
    log_end: int = -1
    """Where the log ended at most when the message before it had been read; -1 where nobody knows."""

    @property
    def place_before(self) -> int:
        """The last place in the log where that message can stand; -1 where nobody knows."""
        return max(self.log_end - 1, -1)


NO_OFFSET = ReadOffset(-1)


def offset_in_queue(
    store: "MessageStore", topic: str, queue_id: int, read: ReadOffset, openings: int | None = None
) -> int:
    """The offset; the queue's end where that was cut off, its first one where another queue had the name then.

    -1 where there is none. Where it is known how many openings by writers had been seen, an end counts that was cut off
    since, though the queue has come as far again.
    """
    if read.offset <= 0 or read.log_end < 0:
        return read.offset
    if read.offset > store.get_max_offset_in_queue(topic, queue_id):
        # Somebody else may have read what was not seen here yet.
        store.refresh()
    return where_to_go_on(store, topic, queue_id, read.offset, read.place_before, openings=openings).offset


def log_end_behind(store: "MessageStore", topic: str, queue_id: int, offset: int) -> int:
    """Where the log ends at most where the messages before an offset of a queue are read; -1 where there are none."""
    # Asked first: what is put now is behind it.
    log_end = store.get_max_phy_offset()
    if not 0 < offset <= store.get_max_offset_in_queue(topic, queue_id):
        return -1
    place = place_in_log(store, topic, queue_id, offset - 1)
    return log_end if place < 0 else place + 1
