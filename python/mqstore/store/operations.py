"""4.9.3's operations on a running store, as far as they are not the engine's own. Source: ``MessageStore``.

``docs/operations.md`` has all operations, one by one.
"""

import logging
from typing import TYPE_CHECKING

from mqstore import _native
from mqstore._native import Message, PutMessageResult
from mqstore.options import check_address
from mqstore.store.arguments import LONG_MIN, check_kind, checked_integer, checked_text
from mqstore.store.delayed import SCHEDULE_TOPIC
from mqstore.store.figures import PUT_TIME_CLASSES
from mqstore.store.life_cycle import LifeCycle
from mqstore.store.messages import MessageExtBatch, MessageExtBrokerInner, checked_messages
from mqstore.store.retention import FileCleaner, TopicUsage, disk_used_ratio

if TYPE_CHECKING:
    from mqstore.services import ScheduleMessageService, StoreStatsService

__all__ = ["StoreOperations"]

_log = logging.getLogger("mqstore")
_OS_PAGE_CACHE_BUSY_LIMIT_MS = 10_000_000
"""An append that seems to take longer was not timed at all."""


class StoreOperations(LifeCycle):
    """What is asked of a running store, and what is told to it."""

    compat: bool
    """Whether it gives 4.9.3's answers where the two differ visibly."""
    _cleaner: FileCleaner
    _has_told_time_ahead = False

    def _stats_service(self) -> "StoreStatsService | None":
        """The service that notes the counters, where it runs."""
        raise NotImplementedError

    def _schedule_service(self) -> "ScheduleMessageService | None":
        """The service that delivers delayed messages, where it runs."""
        raise NotImplementedError

    def _on_time_ahead(self, commit_log_offset: int, store_timestamp: int) -> None:
        """Tells of the first message that was appended with a store time that the clock is far from."""
        if self.compat or self._has_told_time_ahead:
            return
        self._has_told_time_ahead = True
        ahead_s = (store_timestamp - self.now()) // 1000
        _log.warning(
            "%s: the message at %d of the log keeps a store time, %d, that is %d s ahead of the clock. What is put "
            "behind it gets that time too until the clock has come there, and is kept and found by it.",
            self.path,
            commit_log_offset,
            store_timestamp,
            ahead_s,
        )

    def put_message(self, message: MessageExtBrokerInner) -> PutMessageResult:
        """Puts one message, every field in the caller's hand. Source: ``putMessage``.

        Never raises for what a message is or what the store can do now: the result's status says it.

        Raises:
            TypeError: it is no message, or a field has another type.
        """
        check_kind("message", message, MessageExtBrokerInner)
        return self._put_message(
            message.topic,
            message.queue_id,
            message.body,
            message.properties,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_host=message.store_host,
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
        )

    def put_messages(self, batch: MessageExtBatch) -> PutMessageResult:
        """Puts a batch: in one file, visible at once or not at all. Source: ``putMessages``.

        Raises:
            MessageIllegalError: a message's properties are longer than a batch's encoding allows. A separator stands in
                them, or a name is empty; not with ``compat``.
            TypeError: it is no batch, or one of its messages is none.
        """
        check_kind("batch", batch, MessageExtBatch)
        body = _native.encode_messages(checked_messages(batch.messages), self.compat)
        return self._put_messages(
            batch.topic,
            batch.queue_id,
            body,
            batch.properties,
            sys_flag=batch.sys_flag,
            born_timestamp=batch.born_timestamp,
            born_host=batch.born_host,
            store_host=batch.store_host,
            reconsume_times=batch.reconsume_times,
        )

    def select_one_message_by_offset(self, commit_log_offset: int) -> Message | None:
        """The message that begins at an offset of the log. Source: ``selectOneMessageByOffset``."""
        return self.look_message_by_offset(commit_log_offset)

    def update_ha_master_address(self, address: str) -> None:
        """Lets a slave follow another master. Source: ``updateHaMasterAddress``.

        Raises:
            OptionError: it is no ``host:port``, or the store is no slave that follows a master.
        """
        check_address("haMasterAddress", checked_text("address", address))
        super().update_ha_master_address(address)

    def topic_usage(self) -> list[TopicUsage]:
        """What each topic takes, found from its queues without reading the log.

        A message that was dispatched to further queues counts for each; one that is in no queue for none.

        Raises:
            StoreIOError: a queue could not be read.
        """
        return [TopicUsage(*row) for row in self._topic_usage()]

    def is_os_page_cache_busy(self) -> bool:
        """Whether an append takes so long that puts are refused meanwhile. Source: ``isOSPageCacheBusy``."""
        return self.options.os_page_cache_busy_time_out_mills < self.lock_time_mills() < _OS_PAGE_CACHE_BUSY_LIMIT_MS

    def is_transient_store_pool_deficient(self) -> bool:
        """Whether no buffer of the pool is free. Source: ``isTransientStorePoolDeficient``."""
        return self.remain_transient_store_buffer_numbs() == 0

    def reset_write_offset(self, phy_offset: int) -> bool:
        """Whether the log could end at an offset: at most two files before its end.

        As in 4.9.3, whose loop over the files begins at their front and looks backwards, nothing is moved.
        Source: ``resetWriteOffset``.

        Raises:
            TypeError: it is no integer.
            ValueError: it is out of bounds.
        """
        offset = checked_integer("phy_offset", phy_offset, LONG_MIN)
        return self.get_max_phy_offset() - offset <= 2 * self._log_file_size

    def execute_delete_files_manually(self) -> int:
        """Deletes what has expired now, whatever the hour; gives how many files of the log.

        Works without the retention service too. What is not on the disk yet or not dispatched stays, however old it is:
        after :meth:`flush` it goes as well. Source: ``executeDeleteFilesManually``, which lets the service do so in its
        next passes.

        Raises:
            ReadOnlyError: the store was opened to read.
            StoreClosedError: the store was closed.
            StoreIOError: a file could not be removed.
            MQStoreError: a signal's handler asks for it while this thread is at it.
        """
        self._check_open()
        return self._cleaner.clean_now()

    def clean_unused_lmq_topic(self, topic: str) -> bool:
        """Removes a light queue; gives whether there was one. Source: ``cleanUnusedLmqTopic``.

        Raises:
            ReadOnlyError: the store was opened to read.
            StoreClosedError: the store is closed.
            TypeError: the topic is no string.
        """
        return self._destroy_queue(checked_text("topic", topic), 0)

    def get_runtime_info(self) -> dict[str, str]:
        """How the store is, as text by 4.9.3's names. Source: ``getRuntimeInfo``.

        Times are in milliseconds; rates are those of the last 10, 60 and 600 seconds. What is counted begins when
        the store is opened, the classes of put times too, which in 4.9.3 are those of the last minute.

        Raises:
            OSError: a disk cannot be looked at.
            StoreClosedError: the store is closed.
        """
        self._check_open()
        info = self._counted()
        ratios = {path: disk_used_ratio(path) for path in self.options.commit_log_paths()}
        info |= {f"commitLogDiskRatio_{path}": str(ratio) for path, ratio in ratios.items()}
        info["commitLogDiskRatio"] = str(min(ratios.values()))
        info["consumeQueueDiskRatio"] = str(disk_used_ratio(self.options.store_path_root_dir))
        service = self._schedule_service()
        if service is not None:
            for level, offset in service.offset_table.items():
                end = self.get_max_offset_in_queue(SCHEDULE_TOPIC, level - 1)
                info[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        timed = self._timed_waiting()
        if timed is not None:
            info["timedMessageWaiting"] = str(timed[0])
        info["commitLogMinOffset"] = str(self.get_min_phy_offset())
        info["commitLogMaxOffset"] = str(self.get_max_phy_offset())
        return info

    def _counted(self) -> dict[str, str]:
        """What ``StoreStatsService`` says, where it runs."""
        service = self._stats_service()
        if service is None:
            return {}
        times, size, failed, distribution, put_max_us = self._put_figures()
        _, _, transfered, get_max_us = self._get_figures()
        classes = zip(PUT_TIME_CLASSES, distribution, strict=True)
        seconds = max(0, self.now() - service.boot_timestamp) // 1000
        minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86_400
        return {
            "bootTimestamp": str(service.boot_timestamp),
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]",
            "putMessageEntireTimeMax": str(put_max_us // 1000),
            "putMessageTimesTotal": str(times),
            "putMessageFailedTimes": str(failed),
            "putMessageSizeTotal": str(size),
            "putMessageDistributeTime": "".join(f"[{name}]:{count} " for name, count in classes),
            "putMessageAverageSize": str(size / max(1, times)),
            "dispatchMaxBuffer": "0",
            "getMessageEntireTimeMax": str(get_max_us // 1000),
            **service.rates(),
            **{name: str(total) for name, total in service.totals().items()},
            "msgPutTotalTodayNow": str(times),
            "msgGetTotalTodayNow": str(transfered),
        }

    def get_running_data_info(self) -> str:
        """How the store is, a value a line. Source: ``getRunningDataInfo``.

        Raises:
            OSError: a disk cannot be looked at.
        """
        return "".join(f"{name}: {value}\n" for name, value in self.get_runtime_info().items())
