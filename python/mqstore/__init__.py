"""Apache RocketMQ 4.9.3's message store: read, search, write, recover.

The directory on disk is RocketMQ's, byte for byte: what Java 4.9.3 wrote is opened here, and what is
written here Java 4.9.3 opens.

    >>> import mqstore
    >>> with mqstore.open("/tmp/store", mode="rw") as store:        # doctest: +SKIP
    ...     store.put("orders", b"first", keys="order-1")
    ...     for message in store.topic("orders"):
    ...         print(message.keys, bytes(message.body))
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mqstore import _native
from mqstore._native import Arrival, GetMessageResult, Message, PutMessageResult, QueryMessagesResult, SqlFilter
from mqstore.broker_conf import parse_conf
from mqstore.errors import (
    DamagedStoreError,
    DiskFullError,
    FlushDiskTimeoutError,
    FlushFailedError,
    FlushSlaveTimeoutError,
    MessageIllegalError,
    MQStoreError,
    OffsetOutOfRangeError,
    OptionError,
    PutError,
    ReadOnlyError,
    RecordError,
    ServiceNotAvailableError,
    SlaveNotAvailableError,
    StoreChangedError,
    StoreClosedError,
    StoreForkedError,
    StoreIOError,
    StoreLayoutError,
    StoreLockedError,
    StoreNotFoundError,
    UnsupportedStoreError,
)
from mqstore.option_error import bad_argument
from mqstore.options import StoreOptions, is_host, snake_case
from mqstore.services import (
    CleanFilesService,
    HAClient,
    HAService,
    ScheduleMessageService,
    ServiceThread,
    TimedMessageService,
    TransactionalMessageCheckService,
)
from mqstore.status import GetMessageStatus, PutMessageStatus
from mqstore.store import byte_ranges
from mqstore.store.arguments import check_function, checked_path
from mqstore.store.byte_ranges import ByteRanges, is_remote
from mqstore.store.config_subscription_group import SubscriptionGroupConfig
from mqstore.store.file_kinds import layout_told
from mqstore.store.half_messages import LocalTransactionState
from mqstore.store.mappings import reads_without_mappings
from mqstore.store.message_store import MessageStore
from mqstore.store.messages import MessageExtBatch, MessageExtBrokerInner
from mqstore.store.queue import Queue, Topic
from mqstore.store.replication import Replication, SlaveConnection
from mqstore.store.report import Gap, Rejected, StoreReport, Stray, Unindexed
from mqstore.store.retention import Retention, TopicUsage
from mqstore.store.selection import QueueRange, Selection, SelectionSpec
from mqstore.store.transaction import PreparedMessage, Transaction
from mqstore.store.transactional_messages import CheckListener, check_listener

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = [
    "Arrival",
    "DamagedStoreError",
    "DiskFullError",
    "FlushDiskTimeoutError",
    "FlushFailedError",
    "FlushSlaveTimeoutError",
    "Gap",
    "GetMessageResult",
    "GetMessageStatus",
    "LocalTransactionState",
    "MQStoreError",
    "Message",
    "MessageExtBatch",
    "MessageExtBrokerInner",
    "MessageIllegalError",
    "MessageStore",
    "OffsetOutOfRangeError",
    "OptionError",
    "PreparedMessage",
    "PutError",
    "PutMessageResult",
    "PutMessageStatus",
    "QueryMessagesResult",
    "Queue",
    "QueueRange",
    "ReadOnlyError",
    "RecordError",
    "Rejected",
    "Replication",
    "Retention",
    "Selection",
    "ServiceNotAvailableError",
    "SlaveConnection",
    "SlaveNotAvailableError",
    "SqlFilter",
    "StoreChangedError",
    "StoreClosedError",
    "StoreForkedError",
    "StoreIOError",
    "StoreLayoutError",
    "StoreLockedError",
    "StoreNotFoundError",
    "StoreOptions",
    "StoreReport",
    "Stray",
    "SubscriptionGroupConfig",
    "Topic",
    "TopicUsage",
    "Transaction",
    "Unindexed",
    "UnsupportedStoreError",
    "open",
]


def open(
    path: str | os.PathLike[str],
    mode: str = "r",
    *,
    filesystem: "FileSystem | None" = None,
    compat: bool = False,
    on_damage: str = "raise",
    conf: str | os.PathLike[str] | None = None,
    pread: bool | None = None,
    clock: Callable[[], int] | None = None,
    born_host: str | None = None,
    store_host: str | None = None,
    schedule_messages: bool = False,
    replication: bool = False,
    retention: bool | Retention = False,
    check_transactions: CheckListener | None = None,
    **options: object,
) -> MessageStore:
    """Opens a store.

    With ``mode="r"`` nothing on the disk changes: what recovery and dispatch would do happens in
    memory, so that damaged, incomplete and live stores can be read as far as they go. With
    ``mode="rw"`` a missing or empty folder becomes a new store; putting, dispatch and flushing start,
    and nothing else does unless it is asked for.

    Args:
        path: The store's folder, or with ``mode="r"`` a URI of another file system that pyarrow opens, like
            ``s3://bucket/store?region=eu-west-1``: such a store is read by byte ranges, as it is when it
            is opened.
        mode: ``"r"`` or ``"rw"``.
        filesystem: A file system of ``pyarrow.fs`` on which ``path`` lies; this machine's, or the URI's, by
            default.
        compat: Give 4.9.3's answers (look-ups, bounds, statuses) where the two differ visibly.
        on_damage: What ``"rw"`` does where valid records follow a bad one, or the log's end is gone that was on
            the disk: ``"raise"``, or ``"truncate"`` to do without as 4.9.3 does.
        conf: A ``broker.conf`` to take options from; those given here come first.
        pread: Read without mappings, which survives a file that is cut off by somebody else. The
            default is to do so where another process has the store open, or it lies on a network
            disk or on tmpfs.
        clock: Gives the time in milliseconds; the machine's by default. What it raises at first is raised here; where
            it fails later the last time that it gave stands, and ``sys.unraisablehook`` is told.
        born_host: Where messages that are put come from; ``127.0.0.1:0`` by default.
        store_host: Where they are stored: ``brokerIP1`` and ``listenPort`` by default.
        schedule_messages: Deliver delayed and timed messages when they are due; for ``"rw"``. Otherwise they
            wait until the store is opened with it. A slave leaves it to its master; with ``compat`` timed
            messages wait, as in 4.9.3.
        replication: Let slaves follow this store, and where ``brokerRole`` is ``SLAVE`` follow the
            master at ``haMasterAddress``; for ``"rw"``. It listens at ``ha_listen_host``, which is
            this machine alone by default, and ``haListenPort``.
        retention: Delete what has expired (``fileReservedTime``, ``deleteWhen``, ``diskMaxUsedSpaceRatio``), and
            take no messages while the disk is full; for ``"rw"``. A :class:`Retention` says what is kept beyond.
        check_transactions: Decides on prepared messages that nobody ended, at once and each
            ``transactionCheckInterval``; for ``"rw"``. See :meth:`MessageStore.check_transactions`.
        **options: RocketMQ's options, in its spelling or in Python's.

    Raises:
        StoreNotFoundError: ``mode="r"`` and there is no store.
        StoreLockedError: ``mode="rw"`` and somebody has it open for writing.
        DamagedStoreError: ``mode="rw"`` and the log is damaged with valid records behind.
        StoreLayoutError: ``mode="rw"`` and a file or folder is not as it must be; or a folder is where a file belongs,
            or the other way round, so that the store can't be read.
        UnsupportedStoreError: the layout is another version's.
        OptionError: an option does not exist or has a value that does not work.
        TypeError: a path is none, ``check_transactions`` or ``clock`` is no function, or the clock gives no integer.
        StoreIOError: the operating system refused something.
    """
    if mode not in {"r", "rw"}:
        raise bad_argument("mode", mode, 'expected "r" or "rw"')
    _check_switches(
        compat=compat,
        schedule_messages=schedule_messages,
        replication=replication,
        pread=False if pread is None else pread,
        retention=bool(retention) if isinstance(retention, Retention) else retention,
    )
    if check_transactions is not None:
        check_listener("check_transactions", check_transactions)
    _check_mode_allows(
        mode,
        schedule_messages=schedule_messages,
        replication=replication,
        retention=bool(retention),
        check_transactions=check_transactions is not None,
    )
    if clock is not None:
        check_function("clock", clock, "a function that gives milliseconds")
    path = checked_path("path", path)
    if mode != "r" and (filesystem is not None or is_remote(path)):
        place = byte_ranges.shown(path)
        raise bad_argument("mode", mode, f'expected "r": {place} is not local, and such a store is only read')
    ranges = byte_ranges.ranges_of(path) if filesystem is None else ByteRanges.on(filesystem, path)
    path = byte_ranges.local_path(path) if ranges is None else ranges.name
    if on_damage not in {"raise", "truncate"}:
        raise bad_argument("on_damage", on_damage, 'expected "raise" or "truncate"')
    conf = None if conf is None else checked_path("conf", conf)
    from_conf = StoreOptions.of(path, parse_conf(conf), lenient=True) if conf is not None else None
    given = options if from_conf is None else _beside(from_conf, options) | options
    chosen = StoreOptions.of(path, given)
    _check_hosts(chosen, born_host, store_host)
    asked: dict[type[ServiceThread], bool] = {
        HAService: replication,
        HAClient: replication and chosen.is_slave,
        # What is delivered comes from the master, as everything does.
        ScheduleMessageService: schedule_messages and not chosen.is_slave,
        TimedMessageService: schedule_messages and not chosen.is_slave and not compat,
        CleanFilesService: bool(retention),
        TransactionalMessageCheckService: check_transactions is not None,
    }
    services = [service for service, wanted in asked.items() if wanted]
    if pread is None and mode == "rw":
        pread = False
    with layout_told(path):
        return MessageStore(
            chosen,
            mode=mode,
            compat=compat,
            truncate_on_damage=on_damage == "truncate",
            pread=reads_without_mappings(chosen, ranges, given=pread),
            ranges=ranges,
            clock=clock,
            born_host=born_host or "127.0.0.1:0",
            store_host=store_host or f"{chosen.broker_ip1}:{chosen.listen_port}",
            services=services,
            retention=retention if isinstance(retention, Retention) else None,
            check_listener=check_transactions,
        )


def _check_switches(**switches: object) -> None:
    """Refuses text above all: ``"false"`` would be taken as true, and a switch deletes files."""
    for name, value in switches.items():
        if not isinstance(value, bool):
            others = "True, False or a mqstore.Retention" if name == "retention" else "True or False"
            raise bad_argument(name, value, f"expected {others}")


def _check_hosts(options: StoreOptions, born_host: str | None, store_host: str | None) -> None:
    for name, host in (("born_host", born_host), ("store_host", store_host)):
        if host is not None and not is_host(host):
            raise bad_argument(name, host, "expected an address and a port, 1.2.3.4:5 or [1::2]:5")
    if store_host is None and not is_host(f"{options.broker_ip1}:{options.listen_port}"):
        reason = "expected an address, 1.2.3.4 or [1::2]; where it is a name, store_host= says the address"
        raise bad_argument("brokerIP1", options.broker_ip1, reason)


def _check_mode_allows(mode: str, **asked: bool) -> None:
    for argument, is_asked in asked.items():
        if is_asked and mode == "r":
            raise bad_argument("mode", mode, f'expected "rw", which {argument} is for')


def _beside(options: StoreOptions, given: Mapping[str, object]) -> dict[str, object]:
    """What goes for options that are not given, under any spelling."""
    others = {"store_path_root_dir", *map(snake_case, given)}
    return {name: value for name, value in vars(options).items() if name not in others}


# Here, where no thread can be making it that a process is forked without.
_native.make_once(
    StoreOptions.of(os.sep, {}).engine(compat=False, truncate_on_damage=False, pread=False), SelectionSpec()
)
