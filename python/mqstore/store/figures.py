"""What a store has done and how far behind it is, as values.

Source: ``StoreStatsService``, ``BrokerStats``, ``DefaultMessageStore.getRuntimeInfo``.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from mqstore.store.arguments import check_kind
from mqstore.store.retention import disk_used_ratio

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["PUT_TIME_CLASSES", "QueueFigures", "QueueRates", "StoreFigures", "StoreRates"]

PUT_TIME_CLASSES = (
    "<=0ms",
    "0~10ms",
    "10~50ms",
    "50~100ms",
    "100~200ms",
    "200~500ms",
    "500ms~1s",
    "1~2s",
    "2~3s",
    "3~4s",
    "4~5s",
    "5~10s",
    "10s~",
)
"""4.9.3's names of the classes that puts are divided into by how long they took."""
_NO_LOCK_TIME_MS = 10_000_000
"""From here on 4.9.3 takes the time that a put has the lock for none."""


@dataclass(frozen=True, kw_only=True)
class QueueFigures:
    """A queue."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    dispatched_size: int
    """Bytes of the records that were dispatched to it since the store was opened."""

    @property
    def depth(self) -> int:
        """How many messages it has."""
        return self.max_offset - self.min_offset


@dataclass(frozen=True, kw_only=True)
class QueueRates:
    """What came to a queue, a second."""

    messages: float
    bytes: float


@dataclass(frozen=True, kw_only=True)
class StoreRates:
    """What happened between two readings of a store's figures, a second."""

    put_tps: float
    """Messages put."""
    put_bytes: float
    """Bytes of their records."""
    get_found_tps: float
    """Gets that found messages."""
    get_miss_tps: float
    """Gets that found none."""
    get_transfered_tps: float
    """Messages that gets gave."""
    queues: dict[tuple[str, int], QueueRates]
    """By topic and queue, those that were there both times."""


@dataclass(frozen=True, kw_only=True)
class StoreFigures:
    """A store's figures at one moment. Counters begin when it is opened; they are this process's own."""

    taken_at: float
    """When they were read, by ``time.monotonic()``."""
    put_message_times_total: int
    """Messages put."""
    put_message_size_total: int
    """Bytes of their records."""
    put_message_failed_times: int
    """Puts that stored nothing."""
    put_message_distribute_time: dict[str, int]
    """Puts by how long they took until they were in the log: see :data:`PUT_TIME_CLASSES`."""
    put_message_entire_time_max_us: int
    """The longest, in microseconds."""
    get_message_times_total_found: int
    """Gets that found messages."""
    get_message_times_total_miss: int
    """Gets that found none."""
    get_message_transfered_msg_count: int
    """Messages that gets gave."""
    get_message_entire_time_max_us: int
    """The longest, in microseconds."""
    dispatch_behind_bytes: int
    """Bytes of the log that are not in queues and index yet."""
    dispatch_behind_ms: int
    """The same as store time."""
    remain_how_many_data_to_flush: int
    """Bytes of the log that are not on the disk yet."""
    remain_how_many_data_to_commit: int
    """Bytes of the log that are in memory only."""
    remain_transient_store_buffer_numbs: int
    """Free buffers of the transient store pool."""
    lock_time_mills: int
    """For how long the append that is under way has taken."""
    is_os_page_cache_busy: bool
    """Whether that is longer than ``osPageCacheBusyTimeOutMills``."""
    commit_log_min_offset: int
    commit_log_max_offset: int
    disk_ratio: float
    """How much of the log's disk is used, from 0 to 1; of several the least."""
    earliest_message_time_ms: int
    """When the first message was stored; -1 where there is none."""
    totals_at_midnight: dict[str, int]
    """Messages put and got up to the last midnight and the one before, by 4.9.3's names; none where nothing is put."""
    timed_waiting: int | None
    """Messages that wait for their ``deliver_at``; ``None`` where nobody delivers them."""
    queues: tuple[QueueFigures, ...]

    @classmethod
    def of(cls, store: "MessageStore") -> Self:
        """The figures of a store now; what was put counts in its queue."""
        store._catch_up()
        sizes = {(topic, queue_id): size for topic, queue_id, size in store._dispatched_sizes()}
        put_times, put_size, put_failed, distribution, put_max_us = store._put_figures()
        found, miss, transfered, get_max_us = store._get_figures()
        lock_time = store.lock_time_mills()
        timed, stats = store._timed_waiting(), store._stats_service()
        return cls(
            taken_at=time.monotonic(),
            put_message_times_total=put_times,
            put_message_size_total=put_size,
            put_message_failed_times=put_failed,
            put_message_distribute_time=dict(zip(PUT_TIME_CLASSES, distribution, strict=True)),
            put_message_entire_time_max_us=put_max_us,
            get_message_times_total_found=found,
            get_message_times_total_miss=miss,
            get_message_transfered_msg_count=transfered,
            get_message_entire_time_max_us=get_max_us,
            dispatch_behind_bytes=store.dispatch_behind_bytes(),
            dispatch_behind_ms=store.dispatch_behind_ms(),
            remain_how_many_data_to_flush=store.remain_how_many_data_to_flush(),
            remain_how_many_data_to_commit=store.remain_how_many_data_to_commit(),
            remain_transient_store_buffer_numbs=store.remain_transient_store_buffer_numbs(),
            lock_time_mills=lock_time,
            is_os_page_cache_busy=store.options.os_page_cache_busy_time_out_mills < lock_time < _NO_LOCK_TIME_MS,
            commit_log_min_offset=store.get_min_phy_offset(),
            commit_log_max_offset=store.get_max_phy_offset(),
            disk_ratio=min(disk_used_ratio(path) for path in store.options.commit_log_paths()),
            earliest_message_time_ms=store.get_earliest_message_time(),
            totals_at_midnight={} if stats is None else stats.totals(),
            timed_waiting=None if timed is None else timed[0],
            queues=tuple(
                QueueFigures(
                    topic=topic,
                    queue_id=queue_id,
                    min_offset=first,
                    max_offset=end,
                    dispatched_size=sizes.get((topic, queue_id), 0),
                )
                for topic, queue_id, first, end, _ in store._queues()
            ),
        )

    def rates_since(self, earlier: Self) -> StoreRates:
        """What happened since an earlier reading, a second.

        Raises:
            TypeError: the other is no reading.
            ValueError: it is not earlier.
        """
        check_kind("earlier", earlier, StoreFigures)
        seconds = self.taken_at - earlier.taken_at
        if seconds <= 0:
            raise ValueError("the other figures are not earlier")

        def rate(now: int, before: int) -> float:
            # A queue that was removed begins again at 0.
            return max(0, now - before) / seconds

        before = {(queue.topic, queue.queue_id): queue for queue in earlier.queues}
        now = {(queue.topic, queue.queue_id): queue for queue in self.queues}
        return StoreRates(
            put_tps=rate(self.put_message_times_total, earlier.put_message_times_total),
            put_bytes=rate(self.put_message_size_total, earlier.put_message_size_total),
            get_found_tps=rate(self.get_message_times_total_found, earlier.get_message_times_total_found),
            get_miss_tps=rate(self.get_message_times_total_miss, earlier.get_message_times_total_miss),
            get_transfered_tps=rate(self.get_message_transfered_msg_count, earlier.get_message_transfered_msg_count),
            queues={
                name: QueueRates(
                    messages=rate(queue.max_offset, before[name].max_offset),
                    bytes=rate(queue.dispatched_size, before[name].dispatched_size),
                )
                for name, queue in now.items()
                if name in before
            },
        )
