"""The store as Python has it: the engine, its services and its life cycle."""

import contextlib
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from mqstore import _native
from mqstore._native import Arrival
from mqstore.consumer import AllocateMessageQueue, ConsumeFromWhere, Consumer, MessageModel, allocate_averagely
from mqstore.consumer.manager import ConsumerManager
from mqstore.consumer.settings import ConsumerSettings, one_of
from mqstore.errors import ReadOnlyError
from mqstore.options import FilterRow, StoreOptions
from mqstore.services import (
    AllocateMappedFileService,
    CommitRealTimeService,
    FlushConsumeQueueService,
    FlushRealTimeService,
    GroupCommitService,
    ReputMessageService,
    ReserveBlocksService,
    ScheduleMessageService,
    ServiceThread,
    StoreStatsService,
    TimedMessageService,
)
from mqstore.store.arguments import (
    LONG_MIN,
    check_function,
    checked_integer,
    checked_pair,
    checked_several,
    checked_texts,
)
from mqstore.store.byte_ranges import ByteRanges
from mqstore.store.config_consumer_filter import persisted_filters
from mqstore.store.config_delay_offset import DelayOffsetManager
from mqstore.store.config_manager import read_only
from mqstore.store.delayed import SCHEDULE_TOPIC, TIMED_TOPIC
from mqstore.store.figures import StoreFigures
from mqstore.store.group_offsets import set_back_to_ends
from mqstore.store.listeners import Listener, Listeners
from mqstore.store.operations import StoreOperations
from mqstore.store.queue import Topic
from mqstore.store.replication import Replication
from mqstore.store.report import Gap, Rejected, StoreReport, Stray, Unindexed
from mqstore.store.retention import FileCleaner, Retention
from mqstore.store.selection import QueueRange, Selection
from mqstore.store.times import Time
from mqstore.store.topics import TOPICS, TopicConfigManager
from mqstore.store.transaction import Transaction
from mqstore.store.transactional_messages import CheckListener, TransactionalMessages
from mqstore.store.waiting import AsyncStore, wait_in_thread

__all__ = ["MessageStore"]


class MessageStore(StoreOperations):
    """An open store. Made by :func:`mqstore.open`.

    It has 4.9.3's operations under their names in Python's spelling, and shorter ways beside them.
    Any number of threads may use it. It is a context manager: leaving the block closes it.
    """

    store_host: str
    """Where messages that are put here are stored."""

    def __new__(
        cls,
        options: StoreOptions,
        *,
        mode: str,
        compat: bool,
        truncate_on_damage: bool,
        pread: bool,
        ranges: ByteRanges | None,
        clock: Callable[[], int] | None,
        born_host: str,
        store_host: str,
        services: Sequence[type[ServiceThread]] = (),  # noqa: ARG004 - __init__ starts them
        retention: Retention | None = None,  # noqa: ARG004 - __init__ takes it
        check_listener: CheckListener | None = None,  # noqa: ARG004 - __init__ takes it
        mended_to: int | None = None,
        under: _native.LogView | None = None,
    ) -> Self:
        """Opens the engine: recovery, and dispatch of what is missing.

        A log that was just repaired ends at ``mended_to``, and nothing before it is cut or looked for any more. Where
        ``under`` holds the store's lock it is opened with that, and still locked once it is closed.
        """
        store = super().__new__(
            cls,
            options.engine(
                compat=compat,
                truncate_on_damage=truncate_on_damage,
                pread=pread,
                filters=_filters_of(options) if mode == "rw" else (),
                mended_to=mended_to,
            ),
            writable=mode == "rw",
            clock=clock,
            born_host=born_host,
            store_host=store_host,
            sync_flush_timeout_ms=options.sync_flush_timeout,
            ranges=ranges,
            under=under,
        )
        store._ranges = ranges
        store.options, store.mode, store.compat, store.store_host = options, mode, compat, store_host
        return store

    def __init__(
        self,
        _options: StoreOptions,
        *,
        services: Sequence[type[ServiceThread]] = (),
        retention: Retention | None = None,
        check_listener: CheckListener | None = None,
        mended_to: int | None = None,
        **_given: object,
    ) -> None:
        """Starts the services: those without which nothing works, and those that are asked for."""
        self._begin(ConsumerManager(self))
        self._listeners = Listeners(weakref.proxy(self))
        self._topics: TopicConfigManager | None = None
        self._check_listener = check_listener
        self._transactions = TransactionalMessages(weakref.proxy(self))
        self._cleaner = FileCleaner(weakref.proxy(self), retention or Retention())
        try:
            # A repair sets offsets back itself, and keeps what was there.
            self._set_up(services, is_mended=mended_to is not None)
        except BaseException:
            self.close()
            raise

    def _set_up(self, services: Sequence[type[ServiceThread]], *, is_mended: bool) -> None:
        if self.compat:
            # 4.9.3 makes the queues of all delay levels when it loads their offsets.
            for level in range(self.max_delay_level):
                self._make_queue(SCHEDULE_TOPIC, level)
        if self.mode == "rw":
            engine = self._engine
            self._topics = TopicConfigManager(self.path / TOPICS, engine.replace_config, engine.now)
            # A slave's files are its master's, whose log may be longer.
            if not is_mended and not self.options.is_slave:
                set_back_to_ends(self)
            self._start_services(services)

    def _start_services(self, asked: Sequence[type[ServiceThread]]) -> None:
        kinds: list[type[ServiceThread]] = [
            ReputMessageService,
            FlushConsumeQueueService,
            AllocateMappedFileService,
            ReserveBlocksService,
            StoreStatsService,
        ]
        kinds.append(GroupCommitService if self.options.is_sync_flush else FlushRealTimeService)
        if self.options.uses_transient_store_pool:
            kinds.append(CommitRealTimeService)
        self._start([kind(self) for kind in (*kinds, *asked)])

    @property
    def max_delay_level(self) -> int:
        """The highest delay level."""
        return len(self.options.message_delay_level.split())

    @property
    def aio(self) -> AsyncStore:
        """The asyncio twins of what waits."""
        return AsyncStore(self)

    @property
    def replication(self) -> Replication:
        """What replication is doing."""
        return Replication(self)

    def _on_new_topic(self, topic: str) -> int:
        """The number of queues of a topic that is put to for the first time.

        Raises:
            StoreClosedError: the store is closed: its configuration, not the message, would be what is refused.
        """
        self._check_open()
        if self._topics is None:
            return 1
        if topic == TIMED_TOPIC:
            return self._topics.get_or_add(topic, 2).write_queue_nums
        return self._topics.get_or_add(topic, self.options.default_topic_queue_nums).write_queue_nums

    def transaction(self, group: str = "DEFAULT_PRODUCER") -> Transaction:
        """Messages that become visible together with something else that is done, or never.

        Leaving the block commits them; an exception rolls them back.

        Args:
            group: The group of producers, which whoever decides on messages in doubt finds in ``PGROUP``.

        Raises:
            StoreClosedError: the store is closed.
            TypeError: the group is no string.
        """
        self._check_open()
        return Transaction(self, group)

    def check_transactions(self, listener: CheckListener) -> int:
        """Lets the listener decide on prepared messages in doubt: those that nobody has ended.

        Messages younger than ``transactionTimeOut`` are left to who prepared them. One that is asked for more
        than ``transactionCheckMax`` times goes to ``TRANS_CHECK_MAX_TIME_TOPIC``.

        Args:
            listener: Gets a message as it stands in the half topic and gives its :class:`LocalTransactionState`.
                What it raises is logged, and the message stays in doubt.

        Returns:
            How many messages it was asked for.

        Raises:
            PutError: the store takes no messages.
            ReadOnlyError: the store was opened to read.
            StoreClosedError: the store was closed.
            TypeError: the listener is no function.
            MQStoreError: the listener, or a signal's handler, asks for it while this thread is at it.
        """
        self._check_open()
        self._check_writable()
        return self._transactions.check(listener)

    def _check_writable(self) -> None:
        if self.mode != "rw":
            root = self.options.store_path_root_dir
            raise ReadOnlyError(f'{root}: opened with mode="r", which changes nothing: open with mode="rw"')

    # ---- reading ----------------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        """A topic and its queues."""
        return Topic(self, name)

    def topics(self) -> list[str]:
        """The topics that have had a message."""
        self._catch_up()
        return sorted({topic for topic, _, _, end, _ in self._queues() if end > 0})

    def select(
        self,
        topic: str | Iterable[str] | None = None,
        *,
        queue_id: int | None = None,
        offsets: tuple[int | None, int | None] | None = None,
        queues: Iterable[QueueRange] | None = None,
        key: str | Iterable[str] | None = None,
        tags: str | None = None,
        sql: str | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        phy_offsets: tuple[int | None, int | None] | None = None,
        limit: int | None = None,
    ) -> Selection:
        """Selects messages; what is not given does not restrict them.

        Args:
            topic: A topic, or several.
            queue_id: One queue of each topic.
            offsets: The first queue offset, and the one behind the last.
            queues: Topics, queues and offsets one by one, instead of the three before.
            key: A key, or several: messages that have one of them, as key or unique key.
            tags: Tags separated by ``||``.
            sql: A SQL92 filter over the properties, as consumers have them: ``"price > 5 AND region = 'cn'"``.
            begin: The earliest store time. Halving finds where a queue has it, so that messages may be missing that
                a broker stored right before its clock was set back, or until it had come there again.
            end: The latest store time, which counts as well; the same goes for it.
            phy_offsets: The first offset of the log, and the one behind the last.
            limit: Most messages.

        Raises:
            OptionError: ``sql`` is no filter.
            TypeError: something has another type.
            ValueError: ``queues`` and what it replaces, a time without a time zone, or a number out of bounds.
        """
        ranges = None if queues is None else checked_several("queues", queues, "several ranges of queues")
        if topic is not None:
            if ranges is not None:
                raise ValueError("topic, queue_id and offsets, or queues; not both")
            first, behind = checked_pair("offsets", offsets)
            ranges = tuple(QueueRange(name, queue_id, first, behind) for name in checked_texts("topic", topic))
        elif queue_id is not None or offsets is not None:
            raise ValueError("queue_id and offsets belong to a topic")
        from_phy, to_phy = checked_pair("phy_offsets", phy_offsets)
        selection = Selection(self, ranges, from_phy_offset=from_phy, to_phy_offset=to_phy)
        return selection.where(key=key, tags=tags, sql=sql, begin=begin, end=end, limit=limit)

    def flush(self) -> int:
        """Brings log, queues, index and checkpoint to the disk; gives the flushed offset.

        Raises:
            StoreIOError: the disk did not take it; the store takes no messages from then on.
        """
        self._engine.flush_everything()
        return self.get_flushed_where()

    def refresh(self) -> int:
        """Sees what the writer of a store that is only read has added; gives how many messages.

        Raises:
            StoreClosedError: the store is closed.
        """
        self._check_open()
        return self._refresh() if self.mode == "r" else self._reput()

    def report(self) -> StoreReport:
        """What is wrong with the store, as far as it has been looked at.

        Nothing is read for it but the records at which index files begin and end, once.
        """
        return StoreReport(
            closed_cleanly=self._closed_cleanly,
            writer=self._writer,
            min_phy_offset=self.get_min_phy_offset(),
            max_phy_offset=self.get_max_phy_offset(),
            strays=[Stray(*row) for row in self._strays()],
            gaps=[Gap(*row) for row in self._gaps()],
            unindexed=[Unindexed(begin, end) for begin, end, is_certain in self._unindexed() if is_certain],
            rejected=[Rejected(*row) for row in self._rejected()],
            rejected_count=self.rejected_count,
            halted=self._engine.takes_no_messages,
            derived_failure=self._engine.derived_failure,
            failing=[f"{one.name}: {why}" for one in self._services if (why := one.failure) is not None],
        )

    def handle_schedule_message_service(self, broker_role: str) -> None:
        """Lets messages that wait be delivered, or on a slave no longer. Source: ``handleScheduleMessageService``.

        Raises:
            OptionError: there is no such role.
            ReadOnlyError: the store was opened to read.
            StoreClosedError: the store is closed.
        """
        self._check_open()
        root = self.options.store_path_root_dir
        StoreOptions.of(root, {"broker_role": broker_role})
        self._check_writable()
        with self._holding(self._closing):
            kinds = (ScheduleMessageService,) if self.compat else (ScheduleMessageService, TimedMessageService)
            running = [service for service in self._services if isinstance(service, kinds)]
            if broker_role == "SLAVE":
                # Where one cannot write what it has delivered, the others end all the same.
                with contextlib.ExitStack() as closing:
                    for service in running:
                        service.stop()
                        service.join_stopped()
                        self._services.remove(service)
                        closing.callback(service.closing)
            elif not running:
                self._start_more([kind(self) for kind in kinds])

    def _schedule_service(self) -> ScheduleMessageService | None:
        """The service that delivers delayed messages, where it runs."""
        return next((service for service in self._services if isinstance(service, ScheduleMessageService)), None)

    def _stats_service(self) -> StoreStatsService | None:
        """The service that notes the counters, where it runs."""
        return next((service for service in self._services if isinstance(service, StoreStatsService)), None)

    def _delay_offsets(self) -> dict[int, int] | None:
        """Where each delay level goes on; ``None`` where nobody says so.

        A slave's file was copied to it some time ago, if it has one.
        """
        service = self._schedule_service()
        if service is not None:
            return service.offset_table
        offsets = DelayOffsetManager(self.path / "config" / "delayOffset.json", read_only)
        return offsets.all() if offsets.is_there and not self.options.is_slave else None

    def figures(self) -> StoreFigures:
        """What the store has done since it was opened, and how far behind it is."""
        return StoreFigures.of(self)

    # ---- consumers --------------------------------------------------------------------------

    def consumer(
        self,
        group: str,
        topics: str | Sequence[str] | Mapping[str, str],
        *,
        tags: str | None = None,
        sql: str | None = None,
        message_model: str = "clustering",
        from_where: str = "last",
        from_time: Time | None = None,
        orderly: bool = False,
        max_reconsume_times: int | None = None,
        suspend_current_queue_time_ms: int = 1000,
        pull_batch_size: int = 32,
        allocate: AllocateMessageQueue = allocate_averagely,
        consumer_id: str | None = None,
        timeout: float | None = None,
    ) -> Consumer:
        """Opens a consumer: a member of a group, which shares the topics' queues with the others.

        Args:
            group: The group.
            topics: A topic, or several, or topics with the tags that are wanted of each.
            tags: The tags that are wanted, separated by ``||``.
            sql: Instead of tags a filter: ``"price > 5 AND region IN ('cn', 'us')"``.
            message_model: ``"clustering"``: a message goes to one member; ``"broadcasting"``: to every one.
            from_where: Where a group begins that has no offset yet: ``"last"``, ``"first"`` or
                ``"timestamp"``. As in 4.9.3, a queue that has its first message still in memory is read
                from its beginning.
            from_time: The time that goes with ``"timestamp"``.
            orderly: One message of a queue after the other, none while one before it is not consumed.
            max_reconsume_times: After how many attempts a message goes to the dead letters: the group's
                ``retryMaxTimes`` by default, which -1 stands for as in RocketMQ; never where it is consumed orderly.
            suspend_current_queue_time_ms: How long an orderly queue rests before a message is tried again.
            pull_batch_size: Most messages of a pull.
            allocate: Which queues a member gets.
            consumer_id: Its name in the group. By default a new one each time, and ``DEFAULT`` for
                broadcasting, whose offsets are kept under it.
            timeout: Ends a ``for`` loop when nothing came for so many seconds, once it has gone through what is there;
                waits forever by default.

        Raises:
            OptionError: something of it does not work.
        """
        self._check_open()
        is_clustering = message_model == MessageModel.CLUSTERING.value
        settings = ConsumerSettings.of(
            group,
            topics,
            tags=tags,
            sql=sql,
            compat=self.compat,
            message_model=one_of(MessageModel, "message_model", message_model),
            consume_from_where=one_of(ConsumeFromWhere, "from_where", from_where),
            consume_timestamp=from_time,
            orderly=orderly,
            max_reconsume_times=max_reconsume_times,
            suspend_current_queue_time_ms=suspend_current_queue_time_ms,
            pull_batch_size=pull_batch_size,
            allocate=allocate,
            consumer_id=consumer_id or (ConsumerManager.new_consumer_id() if is_clustering else "DEFAULT"),
            timeout=timeout,
        )
        return Consumer(self, settings)

    # ---- listening --------------------------------------------------------------------------

    def add_listener(self, listener: Callable[[list[Arrival]], None]) -> Callable[[], None]:
        """Calls a function with what has become visible in its queue, a batch a call.

        It is called from the dispatch thread; what it raises is logged, and changes nothing. A close waits for
        it, and ends its waits for messages. Gives a function that takes the listener off again.

        Raises:
            StoreClosedError: the store is closed: nothing comes any more.
            TypeError: it is no function.
        """
        check_function("listener", listener, "a function of arrivals")
        self._check_open()

        def found() -> Listener:
            return listener

        def remove() -> None:
            self._listeners.remove(found)

        try:
            self._listeners.add(found)
        except BaseException:  # Ctrl-C: nobody could take it off again
            remove()
            raise
        return remove

    # ---- waiting ----------------------------------------------------------------------------

    def wait_for_message(self, topic: str, queue_id: int, offset: int, *, timeout: float | None = None) -> bool:
        """Waits until a queue has a message at an offset.

        A store that is only read looks at what its writer has added meanwhile.

        Args:
            topic: The topic.
            queue_id: The queue.
            offset: The offset that is waited for.
            timeout: Waits at most so many seconds; forever by default.

        Returns:
            Whether there is one, before the time is up.

        Raises:
            StoreClosedError: the store is closed, or was while this waited.
            OptionError: ``timeout`` is no number of seconds.
        """
        checked_integer("offset", offset, LONG_MIN)
        return wait_in_thread(self, topic, queue_id, lambda end: end > offset, timeout)

    def _catch_up(self) -> None:
        """Dispatches what was put, so that bounds that are asked for count it."""
        if self.dispatch_behind_bytes():
            self._reput()


def _filters_of(options: StoreOptions) -> list[FilterRow]:
    """The filters that bit maps are made for, which dispatch at the opening needs already."""
    if not options.enable_calc_filter_bit_map:
        return []
    return persisted_filters(Path(options.store_path_root_dir) / "config" / "consumerFilter.json")
