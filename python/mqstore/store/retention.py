"""What is deleted, and when. Source: ``CleanCommitLogService``, ``CleanConsumeQueueService``."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mqstore.consumer.settings import check_group, retry_topic
from mqstore.errors import DiskFullError, StoreIOError
from mqstore.option_error import bad_argument
from mqstore.options import parse_delete_when
from mqstore.store.arguments import INT_MAX, check_function
from mqstore.store.config_consumer_offset import ConsumerOffsetManager
from mqstore.store.config_manager import read_only
from mqstore.store.delayed import SCHEDULE_TOPIC
from mqstore.store.one_pass import OnePass
from mqstore.store.read_offset import offset_in_queue

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["FileCleaner", "Retention", "TopicUsage", "disk_used_ratio"]

_log = logging.getLogger("mqstore")
_DELETE_FILES_BATCH_MAX = 10
_MS_OF_HOUR = 3_600_000


@dataclass(frozen=True, kw_only=True)
class Retention:
    """What keeps messages beyond their time, and how the disk is looked at."""

    keep_unread_of: Sequence[str] = ()
    """Consumer groups: what one of them has not read of its topics is kept, however old, and however full
    the disk is. A group of which no topic is known yet keeps everything."""
    disk_usage: "Callable[[str], float] | None" = None
    """Gives how much of the disk on which a folder lies is used, from 0 to 1; the machine's by default."""

    def __post_init__(self) -> None:
        """Refuses what would be found out when something is to be deleted, or not at all.

        Raises:
            OptionError: ``keep_unread_of`` is one string or no sequence, or something in it is no group's name.
            TypeError: ``disk_usage`` is no function.
        """
        groups = self.keep_unread_of
        if isinstance(groups, str | bytes) or not isinstance(groups, Iterable):
            raise bad_argument("keep_unread_of", groups, "expected the names of groups, as a list")
        groups = tuple(groups)
        for group in groups:
            check_group(group)
        object.__setattr__(self, "keep_unread_of", groups)
        if self.disk_usage is not None:
            check_function("disk_usage", self.disk_usage, "a function of a folder")


@dataclass(frozen=True)
class TopicUsage:
    """What a topic takes. Sizes are in bytes."""

    topic: str
    queue_count: int
    message_count: int
    """Messages that are in the log."""
    log_size: int
    """Of their records."""
    queue_size: int
    """Of the queues' files."""


def disk_used_ratio(folder: str) -> float:
    """How much of a folder's disk is used, in whole percents rounded up, from 0 to 1.

    Source: ``getDiskPartitionSpaceUsedPercent``.

    Raises:
        OSError: the folder is not there, or cannot be looked at.
    """
    found = os.statvfs(folder)
    used = found.f_blocks - found.f_bfree
    entire = used + found.f_bavail
    return -(-used * 100 // entire) / 100 if entire else 0.0


class FileCleaner:
    """Deletes what has expired of a store, a pass a call."""

    def __init__(self, store: "MessageStore", retention: Retention) -> None:
        """A cleaner of a store."""
        self._store, self._retention = store, retention
        self._disk_usage = retention.disk_usage or disk_used_ratio
        self._passing = OnePass("deleting what has expired")
        self._failed_at: float | None = None
        self._cleaned_up_to = 0
        self._told: set[str] = set()

    # ---- the disk -----------------------------------------------------------------------------

    def check_disk(self) -> tuple[bool, bool]:
        """Reads how full the disks are, and lets the store take messages or no longer.

        Gives whether space is to be made, and whether files go whatever their age where some do.
        """
        options = self._store.options
        forcibly = options.disk_space_clean_forcibly_ratio / 100
        warning = options.disk_space_warning_level_ratio / 100
        paths = options.commit_log_paths() if self._store.compat else options.writable_commit_log_paths()
        log_ratios = {path: self._disk_usage(path) for path in paths}
        full = [path for path, ratio in log_ratios.items() if ratio > forcibly]
        self._store._set_full_store_paths(full)
        # The log goes on as long as one of its disks has space.
        ratios = [min(log_ratios.values()), self._disk_usage(str(self._store.path))]
        is_full = any(ratio > warning for ratio in ratios)
        was_full = self._store._set_disk_full(is_full)
        if is_full and not was_full:
            _log.error("the disk of %s is %.0f %% full: it takes no messages", self._store.path, 100 * max(ratios))
        elif was_full and not is_full:
            _log.info("the disk of %s has space again: it takes messages", self._store.path)
        # 4.9.3 makes no space in a store that is full already where the last ratio is larger than that.
        is_short = is_full or any(ratio > options.disk_max_used_space_ratio / 100 for ratio in ratios)
        return is_short, any(ratio > forcibly for ratio in ratios) and options.clean_file_forcibly_enable

    def _is_time_to_delete(self) -> bool:
        hour = time.localtime(self._store.now() / 1000).tm_hour
        return hour in parse_delete_when(self._store.options.delete_when)

    # ---- deleting -----------------------------------------------------------------------------

    def clean(self, wait: Callable[[int], None]) -> None:
        """One pass: looks at the disk, and deletes what has expired when its hour or a need has come.

        ``wait`` is called with the milliseconds between two files.

        Raises:
            MQStoreError: a file could not be read or removed; it is tried again after
                ``redeleteHangedFileInterval``.
            OSError: a disk could not be looked at.
        """
        is_short, at_once = self.check_disk()
        if is_short or self._is_time_to_delete():
            deleted = self._delete_log_files(at_once=at_once, wait=wait)
            if is_short and not deleted:
                _log.warning("the disk of %s fills, and nothing has expired", self._store.path)
        self._delete_behind_the_log(wait)

    def clean_now(self) -> int:
        """Deletes everything that has expired, whatever the hour; gives how many files of the log."""
        count = 0
        self._failed_at = None
        while deleted := self._delete_log_files(at_once=False, wait=lambda _ms: None):
            count += deleted
        self._delete_behind_the_log(lambda _ms: None)
        return count

    def _delete_log_files(self, *, at_once: bool, wait: Callable[[int], None]) -> int:
        """Deletes some files of the log, oldest first; gives how many."""
        options = self._store.options
        with self._store._at_pass(self._passing):
            retry_s = options.redelete_hanged_file_interval / 1000
            if self._failed_at is not None and time.monotonic() < self._failed_at + retry_s:
                return 0
            self._failed_at = None
            keep_from = self._keep_from()
            count = 0
            while count < _DELETE_FILES_BATCH_MAX and not self._store.is_closed:
                if count:
                    wait(options.delete_commit_log_files_interval)
                try:
                    path = self._store._delete_expired_log_file(
                        options.file_reserved_time * _MS_OF_HOUR, at_once, keep_from
                    )
                except StoreIOError:
                    self._failed_at = time.monotonic()
                    raise
                if path is None:
                    break
                _log.info("deleted %s", path)
                count += 1
            return count

    def _delete_behind_the_log(self, wait: Callable[[int], None]) -> None:
        """Deletes files of queues and index whose messages the log no longer has."""
        with self._store._at_pass(self._passing):
            store = self._store
            min_offset = store.get_min_phy_offset()
            if min_offset <= self._cleaned_up_to:
                return
            for topic, queue_id, *_ in store._queues():
                if store._delete_expired_queue_files(topic, queue_id):
                    wait(store.options.delete_consume_queue_files_interval)
            store._delete_expired_index_files()
            self._cleaned_up_to = min_offset

    # ---- what is kept -------------------------------------------------------------------------

    def _keep_from(self) -> int | None:
        """The offset of the log from which on messages are needed; ``None`` for no such."""
        # A queue that has just had its first message is there from now on. Where the disk has no room for it, what goes
        # makes some; what is not dispatched stays.
        with contextlib.suppress(DiskFullError):
            self._store._catch_up()
        needed = [] if self._store.compat else list(self._undelivered())
        for group in self._retention.keep_unread_of:
            unread = self._unread(group)
            if unread is None:
                if group not in self._told:
                    self._told.add(group)
                    _log.warning("%s: group %s has read nothing yet, everything is kept", self._store.path, group)
                return 0
            needed += unread
        first = self._store._first_needed(needed)
        waiting = None if self._store.compat else self._store._first_waiting_timed()
        return min((offset for offset in (first, waiting) if offset is not None), default=None)

    def _undelivered(self) -> Iterator[tuple[str, int, int]]:
        """Delayed messages that wait: those that are not delivered, or not due where nobody says what is."""
        offsets = self._store._delay_offsets()
        for topic, queue_id, *_ in self._store._queues():
            if topic == SCHEDULE_TOPIC and 0 <= queue_id < INT_MAX:
                level = queue_id + 1
                yield topic, queue_id, self._store._first_not_due(level) if offsets is None else offsets.get(level, 0)

    def _unread(self, group: str) -> list[tuple[str, int, int]] | None:
        """Where a group goes on in each queue of its topics; ``None`` where it has read nothing."""
        read: dict[tuple[str, int], int] = {}
        topics = set[str]()
        for offsets in _offsets_of(self._store.path, group):
            for topic in offsets.which_topic_by_consumer(group):
                topics.add(topic)
                for queue_id, found in offsets.read_offsets(group, topic).items():
                    offset = offset_in_queue(self._store, topic, queue_id, found)
                    read[topic, queue_id] = max(offset, read.get((topic, queue_id), 0))
        # Its retry topic is there before it has read anything.
        if topics <= {retry_topic(group)}:
            return None
        queues = [(topic, queue_id) for topic, queue_id, *_ in self._store._queues() if topic in topics]
        return [(topic, queue_id, read.get((topic, queue_id), 0)) for topic, queue_id in queues]


def _offsets_of(root: Path, group: str) -> Iterator[ConsumerOffsetManager]:
    """The offsets of the store's own file, and of a group's members in other processes.

    Raises:
        MQStoreError: a file is damaged. Nothing is deleted then: what is read is not known.
    """
    for folder in (root / "config", root / "mqstore" / "consumers" / group):
        yield ConsumerOffsetManager(folder / "consumerOffset.json", read_only)
