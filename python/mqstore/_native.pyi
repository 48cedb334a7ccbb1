"""The engine: what Rust does for the package. Times are in milliseconds, sizes in bytes."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, Self, TypeAlias, TypedDict, final

from _typeshed import ReadableBuffer, StrPath

from mqstore.options import EngineOptions
from mqstore.status import GetMessageStatus, PutMessageStatus
from mqstore.store.byte_ranges import ByteRanges
from mqstore.store.selection import SelectionSpec
from mqstore.store.times import Time

__all__ = [
    "Arrival",
    "BadRanges",
    "Bell",
    "Cursor",
    "DispatchRequest",
    "Engine",
    "GetMessageResult",
    "LockFile",
    "LogView",
    "Message",
    "PutMessageResult",
    "QueryMessagesResult",
    "RowCheck",
    "SqlFilter",
    "Store",
    "check_exists",
    "encode_messages",
    "encode_records",
    "is_mapping_risky",
    "java_hash_map_order",
    "locked_by",
    "make_once",
    "properties_to_bytes",
    "read_bytes",
    "rebuild_fill",
    "rebuild_fold",
    "rebuild_place",
    "write_whole",
]

class _Selection(Protocol):
    """Which messages; see :class:`mqstore.Selection`."""

    @property
    def queues(self) -> Sequence[tuple[str, int | None, int | None, int | None]] | None: ...
    @property
    def own_only(self) -> bool: ...
    @property
    def keys(self) -> Sequence[str] | None: ...
    @property
    def topics_of_keys(self) -> Sequence[str] | None: ...
    @property
    def tags(self) -> str | None: ...
    @property
    def sql(self) -> str | None: ...
    @property
    def begin_timestamp(self) -> int | None: ...
    @property
    def end_timestamp(self) -> int | None: ...
    @property
    def times_in_any_order(self) -> bool: ...
    @property
    def from_phy_offset(self) -> int | None: ...
    @property
    def to_phy_offset(self) -> int | None: ...
    @property
    def places(self) -> Sequence[int] | None: ...
    @property
    def limit(self) -> int | None: ...

class _ArrowStream(Protocol):
    """A table, a batch or a reader of any library that has Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Arrival:
    """A message that has become visible in its queue."""

    @property
    def topic(self) -> str:
        """The queue's topic."""
    @property
    def queue_id(self) -> int:
        """The queue."""
    @property
    def max_offset(self) -> int:
        """The queue's end behind the message."""
    @property
    def tags_code(self) -> int:
        """The hash of the message's tag."""
    @property
    def store_timestamp(self) -> int:
        """When it was stored."""

@final
class Message:
    """A stored message. Its body is a view into the store's file and keeps that mapped.

    To whoever reads bytes it is its body as it is stored.
    """

    @staticmethod
    def from_bytes(record: ReadableBuffer) -> Message:
        """A message from the bytes of its record, as the log holds it.

        Raises:
            RecordError: the bytes are no record: sizes, magic code or body CRC do not agree.
        """
    @property
    def topic(self) -> str:
        """The topic; of a delayed message ``SCHEDULE_TOPIC_XXXX`` until it is due."""
    @property
    def queue_id(self) -> int:
        """The queue."""
    @property
    def queue_offset(self) -> int:
        """The offset in the queue, as the record has it."""
    @property
    def logics_offset(self) -> int | None:
        """The offset in the queue by which it was found; ``None`` where it was found otherwise."""
    @property
    def commit_log_offset(self) -> int:
        """The offset in the log."""
    @property
    def store_size(self) -> int:
        """Bytes of the record."""
    @property
    def body_crc(self) -> int:
        """The CRC-32 of the body as it is stored, without its highest bit."""
    @property
    def flag(self) -> int:
        """The user's flag."""
    @property
    def sys_flag(self) -> int:
        """Whether it is compressed, its part in a transaction, whether its hosts have IPv6 addresses."""
    @property
    def born_timestamp(self) -> int:
        """When the client made it."""
    @property
    def store_timestamp(self) -> int:
        """When it was stored."""
    @property
    def born_host(self) -> str:
        """Where the client made it: ``1.2.3.4:5``, or an IPv6 address and a port."""
    @property
    def store_host(self) -> str:
        """Where it was stored."""
    @property
    def reconsume_times(self) -> int:
        """How often it was consumed in vain."""
    @property
    def prepared_transaction_offset(self) -> int:
        """The offset of its prepared half."""
    @property
    def msg_id(self) -> str:
        """Where it is stored, as RocketMQ's tools write it: host and offset in hexadecimal digits."""
    @property
    def is_v2(self) -> bool:
        """Whether the record is one of RocketMQ 5's, whose topic can be longer."""
    @property
    def is_compressed(self) -> bool:
        """Whether the body is stored compressed."""
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def raw_body(self) -> memoryview:
        """The body as it is stored, without a copy."""
    @property
    def body(self) -> memoryview:
        """The body, inflated where it is compressed.

        Raises:
            RecordError: it cannot be inflated, or would become too large.
        """
    @property
    def record_bytes(self) -> memoryview:
        """The whole record."""
    @property
    def properties(self) -> dict[str, str]:
        """The properties, in the order in which they are stored."""
    @property
    def raw_properties(self) -> bytes:
        """The properties as they are stored."""
    @property
    def tags(self) -> str | None:
        """The tag."""
    @property
    def unique_key(self) -> str | None:
        """The key that the client gives each message."""
    @property
    def keys(self) -> tuple[str, ...]:
        """The keys."""
    def __len__(self) -> int:
        """Bytes of the body as it is stored."""
    def __eq__(self, other: object, /) -> bool:
        """Whether the records have the same bytes."""
    def __hash__(self) -> int:
        """Of the record's bytes."""

@final
class PutMessageResult:
    """How a put ended, and where the message went."""

    @property
    def status(self) -> PutMessageStatus:
        """How it ended."""
    @property
    def append_status(self) -> str | None:
        """How the append ended, by 4.9.3's name; ``None`` where it did not come to that."""
    @property
    def is_ok(self) -> bool:
        """Whether the message is stored, and flushed and replicated as far as it had to be."""
    @property
    def reason(self) -> str | None:
        """Why it was not stored."""
    @property
    def msg_id(self) -> str:
        """The message's id; those of a batch separated by commas."""
    @property
    def wrote_offset(self) -> int | None:
        """The offset in the log, of the first message."""
    @property
    def wrote_offsets(self) -> list[int]:
        """The offset in the log of each message."""
    @property
    def wrote_bytes(self) -> int:
        """Bytes of all records."""
    @property
    def store_timestamp(self) -> int | None:
        """When it was stored."""
    @property
    def logics_offset(self) -> int | None:
        """The offset in the queue, of the first message."""
    @property
    def logics_offsets(self) -> list[int]:
        """The offset in the queue of each message."""
    @property
    def msg_num(self) -> int:
        """How many messages were stored."""
    def __reduce__(self) -> tuple[object, ...]: ...
    @staticmethod
    def _of(
        status: str,
        append: str | None,
        places: list[tuple[int, int, int, int]],
        store_host: str,
        reason: str | None,
    ) -> PutMessageResult:
        """One of the parts that ``__reduce__`` gives."""

@final
class GetMessageResult:
    """What a get gives: a status, where to go on, and the messages as a sequence."""

    @property
    def status(self) -> GetMessageStatus:
        """How it ended."""
    @property
    def next_begin_offset(self) -> int:
        """Where the next get goes on."""
    @property
    def min_offset(self) -> int:
        """The queue's first offset."""
    @property
    def max_offset(self) -> int:
        """The queue's end."""
    @property
    def buffer_total_size(self) -> int:
        """Bytes of all records."""
    @property
    def suggest_pulling_from_slave(self) -> bool:
        """Whether the messages lie so far behind the log's end that they are no longer in memory."""
    @property
    def messages(self) -> list[Message]:
        """The messages."""
    def __len__(self) -> int:
        """How many messages there are."""
    def __getitem__(self, key: int, /) -> Message:
        """One of the messages.

        Raises:
            IndexError: there are fewer.
        """
    def _arrow_stream(self, columns: Sequence[str] | None = None, body: str = "binary") -> object:
        """The messages as a capsule of an Arrow stream of one batch."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The PyCapsule interface: any Arrow library takes the result as it is."""

@final
class QueryMessagesResult:
    """The messages of each of many keys, as a sequence. They become objects when they are asked for."""

    def __len__(self) -> int:
        """How many keys were looked up."""
    def __getitem__(self, key: int, /) -> list[Message]:
        """The messages of a key by its number, oldest first.

        Raises:
            IndexError: there are fewer keys.
        """
    def __iter__(self) -> Iterator[list[Message]]:
        """The messages of each key."""

@final
class DispatchRequest:
    """What stands at a place of the log. Source: ``DispatchRequest``."""

    @property
    def success(self) -> bool:
        """Whether it is a message, or the blank at a file's end."""
    @property
    def msg_size(self) -> int:
        """Bytes of the record; 0 for a blank, -1 for what is neither."""
    @property
    def topic(self) -> str:
        """The topic."""
    @property
    def queue_id(self) -> int:
        """The queue."""
    @property
    def commit_log_offset(self) -> int:
        """The offset in the log, as the record has it."""
    @property
    def consume_queue_offset(self) -> int:
        """The offset in the queue, as the record has it."""
    @property
    def tags_code(self) -> int:
        """What the queue's unit holds: the tag's hash, or the time of delivery."""
    @property
    def store_timestamp(self) -> int:
        """When it was stored."""
    @property
    def keys(self) -> str | None:
        """The keys, separated by spaces."""
    @property
    def uniq_key(self) -> str | None:
        """The key that the client gives each message."""
    @property
    def sys_flag(self) -> int:
        """See :attr:`Message.sys_flag`."""
    @property
    def prepared_transaction_offset(self) -> int:
        """The offset of its prepared half."""
    @property
    def properties(self) -> list[tuple[str, str]] | None:
        """The properties as they are stored; ``None`` where there are none."""
    @property
    def reason(self) -> str | None:
        """Why ``success`` is false."""

@final
class SqlFilter:
    """A compiled SQL92 filter over a message's properties, as RocketMQ's consumers have it."""

    def __new__(cls, expression: str, *, compat: bool = False) -> Self:
        """Compiles an expression.

        Args:
            expression: ``"price BETWEEN 5 AND 7.5 AND region IN ('cn', 'us') OR vip IS NOT NULL"``.
            compat: Pass over what follows a complete expression, as 4.9.3 does.

        Raises:
            OptionError: it is none; says where.
        """
    def matches(self, properties: Mapping[str, str] | str | bytes) -> bool:
        """Whether a message with these properties passes.

        A property that is missing is unknown; one that cannot be converted to the number that it is
        compared with makes the whole expression false.
        """
    @property
    def expression(self) -> str:
        """The expression as it was given."""

@final
class Cursor:
    """A place in a selection's messages."""

    def next_messages(self, max_count: int, max_bytes: int) -> list[Message]:
        """The next messages: at most so many, and about as many bytes; none at the end."""

@final
class BadRanges:
    """What a selection named and the log did not give, while its batches are read, and what ended them."""

    def take(self) -> list[tuple[int, int, bool, str]]:
        """What has come since the last call: from, to, whether it is gone, why."""
    def raise_error(self) -> None:
        """Raises the engine's error that ended the batches, if one did: Arrow passes on its text alone."""

@final
class Bell:
    """Tells an event loop, without the GIL, that something has happened."""

    def __new__(cls) -> Bell: ...
    def fileno(self) -> int:
        """A file descriptor that can be read while it rings."""
    def silence(self) -> None:
        """It rings no more."""

@final
class Engine:
    """What services hold of a store: it does not keep the store from being dropped."""

    def stop_passes(self) -> None:
        """Lets the passes that wait come back soon."""
    def halt(self, reason: str) -> None:
        """Lets the store take no messages any more; the first reason counts."""
    @property
    def halted(self) -> str | None:
        """Which part of the store has died; ``None`` while none has."""
    @property
    def takes_no_messages(self) -> str | None:
        """Why the store takes no messages until it is reopened; ``None`` while it does."""
    @property
    def derived_failure(self) -> str | None:
        """Why queues and index count as they were on the disk before, until the store is reopened."""
    def abandon(self) -> None:
        """In a process that was forked while the store was open: lets go of it and touches nothing."""
    def now(self) -> int:
        """The time by the store's clock."""
    def replace_config(self, path: StrPath, content: bytes) -> None:
        """Replaces a configuration file as a whole, keeping what was there as ``.bak``."""
    def reput_for(self, max_ms: int) -> list[Arrival]:
        """Dispatches for a while; comes back early with arrivals to tell of."""
    def flush_commit_log(self, least_pages: int) -> tuple[int, bool]:
        """A flush pass over the log; gives the flushed offset and whether anything was flushed."""
    def wait_flush_requested(self, max_wait_ms: int) -> None:
        """Waits for a put that asks for a flush."""
    def wake_flusher(self) -> None:
        """Ends the pass of a flushing service that is under way, or the next one."""
    def group_commit(self, max_wait_ms: int, bells: list[Bell]) -> int:
        """Waits for a put that waits for the disk, and flushes; goes on so until idle, or until it is woken.

        Each flush rings the bells of those whose tasks wait. Without bells, threads that wait flush by themselves.
        Gives the flushed offset.
        """
    def end_group_commit(self) -> None:
        """No :meth:`group_commit` is made any more: threads that wait flush by themselves, also where tasks wait."""
    def flushed_where(self) -> int:
        """Up to where the log is on the disk."""
    def is_transferred(self, start: int, end: int) -> bool:
        """Whether slaves have confirmed all records from one offset to another."""
    def transferred_where(self) -> int:
        """The furthest that a slave has ever confirmed."""
    def commit(self, least_pages: int) -> bool:
        """A commit pass over the transient store pool; gives whether anything was committed."""
    def reserve_blocks(self, max_wait_ms: int) -> None:
        """Waits until space is needed ahead of the log's end, and reserves it."""
    def make_next_file(self, max_wait_ms: int) -> None:
        """Waits until the log's next file is wanted, and makes it."""
    def flush_consume_queues(self, least_pages: int) -> None:
        """A flush pass over the queues."""
    def flush_everything(self) -> None:
        """Brings log, queues, index and checkpoint to the disk."""
    def sync_log_seen(self) -> None:
        """Brings to the disk what a reader has seen of another process's log."""
    def make_logics_queue_error(self, reason: str) -> None:
        """Lets the store take no messages any more: queues cannot be written."""
    def serve_slaves(self, max_wait_ms: int) -> tuple[list[tuple[bool, str, str]], int]:
        """A master's pass; gives what happened (whether it failed, its kind, a sentence) and what is confirmed."""
    def receive_log(self, max_wait_ms: int) -> list[tuple[bool, str, str]]:
        """A slave's pass; gives what happened."""
    def deliver_delayed(
        self, levels: Sequence[tuple[int, int]], max_count: int
    ) -> list[tuple[int, int, int, int | None, list[tuple[int, int, str]], str | None]]:
        """Delivers what is due of delay levels, from an offset in each level's queue on.

        Gives for each level: the level, where to go on, how many were delivered, when the first that waits
        is due, those that can't be delivered (offset in the level's queue, offset in the log, why), and why
        the store took no more.
        """
    def deliver_timed(self, max_count: int) -> tuple[int, int | None, list[tuple[int, int, str]], str | None]:
        """Delivers timed messages that are due.

        Gives how many were delivered, when the first that waits is due, those that can't be delivered (offset
        in the queue, offset in the log, why), and why the store took no more.
        """
    def persist_timed(self) -> str | None:
        """Writes into the log which timed messages are delivered; gives why the store did not take it."""
    def mend_timed(self, holes: Sequence[tuple[int, int]]) -> tuple[int | None, int, bool, str | None]:
        """Has the log of a repaired store say which timed messages are delivered, by its holes: begin and end.

        Gives the record that counts, by its offset in queue 1; how many messages were due and are not known to be
        delivered; whether a record was put that fits the queue; why the store did not take it.
        """
    def forget_timed(self) -> None:
        """Forgets which timed messages are delivered: it is read from the log again."""

class Store:
    """The engine's store. :class:`mqstore.MessageStore` is made from it."""

    def __new__(
        cls,
        options: EngineOptions,
        *,
        writable: bool,
        clock: Callable[[], int] | None,
        born_host: str,
        store_host: str,
        sync_flush_timeout_ms: int,
        part: tuple[int | None, Sequence[str] | None, int | None] | None = None,
        ranges: ByteRanges | None = None,
        under: LogView | None = None,
    ) -> Self:
        """Opens a store: recovery, and dispatch of what is missing.

        With ``part`` only to read, and nothing is dispatched: the log's end where that is known (then
        nothing is recovered either), the topics whose queues are opened, or all, and how many openings by
        writers its plan knew of, or all. With ``ranges`` its files are read from there.
        A view ``under`` whose lock it is opened keeps that when it is closed.
        """

    # ---- putting

    def put(
        self,
        topic: str,
        body: ReadableBuffer,
        *,
        keys: str | Iterable[str] | None = None,
        tags: str | None = None,
        queue_id: int | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        sys_flag: int = 0,
        delay_time_level: int = 0,
        deliver_at: Time | None = None,
        born_timestamp: Time | None = None,
        wait_store_msg_ok: bool = True,
        unique_key: bool = True,
    ) -> PutMessageResult:
        """Puts a message.

        Args:
            topic: The topic; one that is new gets an entry in ``config/topics.json``.
            body: The body.
            keys: The keys by which it can be looked up: several, or one string in which spaces separate them.
            tags: The tag.
            queue_id: The queue; the topic's queues take turns by default.
                A RocketMQ broker serves those below ``readQueueNums`` of ``config/topics.json`` alone.
            properties: Properties of its own; ``keys`` and ``tags`` come before what these have of them.
            flag: The user's flag.
            sys_flag: See :attr:`Message.sys_flag`.
            delay_time_level: The delay level after which it can be got; 0 for at once.
            deliver_at: When it can be got, instead of a level: any time up to ``max_deliver_distance_ms`` ahead;
                at once where that has passed. 4.9.3 does not have this: with ``compat`` it is illegal.
            born_timestamp: When it was made, a ``datetime`` with a time zone or milliseconds; now by default.
            wait_store_msg_ok: Whether, with synchronous flush, the put waits for the disk.
            unique_key: Whether it gets a unique key, in the Java client's form, where ``properties`` has none.

        Raises:
            TypeError: an argument has another type.
            ValueError: a number is out of bounds, or a time has no time zone.
            MessageIllegalError: it cannot be stored.
            FlushDiskTimeoutError: it is stored; the disk did not confirm it in time.
            FlushSlaveTimeoutError: it is stored; as ``SYNC_MASTER``, no slave confirmed it in time.
            SlaveNotAvailableError: it is stored; as ``SYNC_MASTER``, there is no slave near enough.
            ServiceNotAvailableError: the store takes no messages now.
            DiskFullError: there is no space; nothing is stored.
            FlushFailedError: a flush failed before; see there.
            ReadOnlyError: the store was opened to read.
            StoreClosedError: the store is closed.
        """
    def _put_begin(
        self,
        topic: str,
        body: ReadableBuffer,
        keys: str | Iterable[str] | None = None,
        tags: str | None = None,
        queue_id: int | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        sys_flag: int = 0,
        delay_time_level: int = 0,
        deliver_at: Time | None = None,
        born_timestamp: Time | None = None,
        wait_store_msg_ok: bool = True,
        unique_key: bool = True,
    ) -> tuple[PutMessageResult, int | None]:
        """As :meth:`put`, without waiting for the disk: gives the offset that has to get there too."""
    def put_many(
        self,
        topic: str,
        bodies: Sequence[ReadableBuffer],
        *,
        keys: Sequence[str | Iterable[str] | None] | None = None,
        tags: str | Sequence[str | None] | None = None,
        queue_id: int | None = None,
        properties: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        flag: int = 0,
        deliver_at: Time | Sequence[Time | None] | None = None,
        born_timestamp: Time | None = None,
        wait_store_msg_ok: bool = True,
        unique_key: bool = True,
    ) -> PutMessageResult:
        """Puts messages of one topic, one after another, in one call.

        Args:
            topic: The topic.
            bodies: The bodies.
            keys: The keys of each.
            tags: One tag for all, or the tag of each.
            queue_id: One queue for all; the topic's queues take turns by default.
            properties: Properties that all have, or those of each.
            flag: The user's flag, of all.
            deliver_at: When all can be got, or each: see :meth:`put`.
            born_timestamp: When they were made: see :meth:`put`.
            wait_store_msg_ok: Whether, with synchronous flush, the call waits for the disk.
            unique_key: Whether each gets a unique key, where ``properties`` has none.

        Raises:
            TypeError: something has another type; where it is in a list, its place there is named.
            ValueError: there are not as many keys, tags, properties or times as bodies.
            PutError: as for :meth:`put`; its ``result`` says which messages are stored.
        """
    def _put_many_begin(
        self,
        topic: str,
        bodies: Sequence[ReadableBuffer],
        keys: Sequence[str | Iterable[str] | None] | None = None,
        tags: str | Sequence[str | None] | None = None,
        queue_id: int | None = None,
        properties: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        flag: int = 0,
        deliver_at: Time | Sequence[Time | None] | None = None,
        born_timestamp: Time | None = None,
        wait_store_msg_ok: bool = True,
        unique_key: bool = True,
    ) -> tuple[PutMessageResult, int | None]:
        """As :meth:`put_many`, without waiting for the disk: gives the offset that has to get there too."""
    def put_arrow(
        self,
        data: _ArrowStream,
        *,
        topic: str | None = None,
        queue_id: int | None = None,
        partitioner: Literal["turns", "keys"] = "turns",
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        born_timestamp: Time | None = None,
        wait_store_msg_ok: bool = True,
        unique_key: bool = True,
    ) -> int:
        """Puts the rows of a table, one after another, and gives how many.

        A row gives the message that :meth:`put_many` makes of the same values; rows of a queue keep their
        order in it. No Python object is made for a row, and of a reader only one batch is in memory at a time.

        Args:
            data: A table, a batch or a reader of pyarrow, Polars or any other library that has Arrow's PyCapsule
                interface. Its columns are ``body`` (binary or string; needed), ``topic``, ``tags`` (strings),
                ``keys`` (strings or lists of strings), ``properties`` (maps of string to string), ``queue_id``,
                ``flag`` (integers) and ``born_timestamp`` (timestamps, or milliseconds).
            topic: The topic of rows that have none.
            queue_id: The queue of rows that have none; else the partitioner says it.
            partitioner: ``"turns"``: a topic's queues take turns; ``"keys"``: messages of the same keys share
                a queue, those without keys take turns.
            properties: Properties that all rows have; they go before a row's own.
            flag: The user's flag of rows that have none.
            born_timestamp: When rows that do not say it were made: see :meth:`put`.
            wait_store_msg_ok: Whether, with synchronous flush, the call waits for the disk, once at its end.
            unique_key: Whether each gets a unique key, where its properties have none.

        Raises:
            TypeError: ``data`` gives no Arrow.
            ValueError: a column is unknown, missing or of another type.
            MessageIllegalError: a row is no message, or can't be stored: ``row`` and ``column`` say which. Rows are
                checked some thousands at a time before the first of them is put.
            PutError: as for :meth:`put`. Whatever is raised has ``put_count``: so many rows, the first ones, are
                stored. The call waits for them too, if it is not broken off by Ctrl-C, which it is between some
                thousands of rows; a note says it where they were not confirmed.
        """
    def _put_message(
        self,
        topic: str,
        queue_id: int,
        body: ReadableBuffer,
        properties: Mapping[str, str] | str | bytes | None,
        *,
        flag: int,
        sys_flag: int,
        born_timestamp: int | None,
        born_host: str | None,
        store_host: str | None,
        reconsume_times: int,
        prepared_transaction_offset: int,
    ) -> PutMessageResult:
        """Puts a message given field by field: 4.9.3's ``putMessage``."""
    def _put_messages(
        self,
        topic: str,
        queue_id: int,
        body: ReadableBuffer,
        properties: Mapping[str, str] | str | bytes | None,
        *,
        sys_flag: int,
        born_timestamp: int | None,
        born_host: str | None,
        store_host: str | None,
        reconsume_times: int,
    ) -> PutMessageResult:
        """Puts a batch in a client's encoding: 4.9.3's ``putMessages``."""
    def append_records(
        self,
        records: Sequence[Message | ReadableBuffer],
        *,
        keep_times: bool = False,
        store_host: str | None = None,
    ) -> PutMessageResult:
        """Appends finished records, for replay and import: only their offsets are given anew.

        Args:
            records: Messages of a store, or the bytes of their records. The bytes of a blank, which ends
                a file, let the next record begin one: so the records of a log give that log again.
            keep_times: Whether they keep their store times. One that is more than a minute ahead of the clock is told
                as a warning of ``logging``: what is put behind it gets that time too, until the clock has come there.
            store_host: Where they are stored; they keep their own by default.

        Raises:
            MessageIllegalError: one is no record, or fits no file; or it says of messages of another log that they are
                done with, by where they stand there: in ``RMQ_SYS_TRANS_OP_HALF_TOPIC``, and in queue 1 of
                ``MQSTORE_TIMED_TOPIC``, unless it comes to stand where it stood. Those before it may be stored.
        """

    def _append_encoded(self, encoded: bytes, keep_times: bool, keep_offsets: bool) -> int:
        """Appends finished records that follow each other in one piece of bytes; gives how many."""
    def _append_from(self, source: Store, offsets: _ArrowStream, topic: str | None, keep_times: bool) -> int:
        """Appends the records that stand at offsets of another store's log: a column ``commit_log_offset``.

        Gives how many.
        """

    # ---- getting

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_msg_nums: int = 32,
        subscription: str | SqlFilter | None = None,
    ) -> GetMessageResult:
        """Messages of a queue from an offset on. Source: ``getMessage``.

        Args:
            topic: The topic.
            queue_id: The queue.
            offset: The first offset.
            max_msg_nums: Most messages.
            subscription: Tags separated by ``||``, or a filter; all messages by default.

        Raises:
            TypeError: ``subscription`` is neither, or a number no integer.
            ValueError: ``max_msg_nums`` is negative, or a number is out of bounds.
        """
    def query_message(
        self, topic: str, key: str, max_num: int = 32, begin: Time = ..., end: Time = ...
    ) -> list[Message]:
        """The newest messages by a key, oldest first. Source: ``queryMessage``.

        Args:
            topic: The topic.
            key: One of their keys, or their unique key.
            max_num: Most messages.
            begin: The earliest store time; there is none by default.
            end: The latest store time; there is none by default.

        Raises:
            TypeError: a number is no integer.
            ValueError: a number is out of bounds.
        """
    def query_messages(
        self, topic: str, keys: Sequence[str], max_num: int = 32, begin: Time = ..., end: Time = ...
    ) -> QueryMessagesResult:
        """For each of several keys what :meth:`query_message` gives: far cheaper than key by key."""
    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp: Time, boundary: str = "nearest") -> int:
        """The offset in a queue that a time stands for. Source: ``getOffsetInQueueByTime``.

        Args:
            topic: The topic.
            queue_id: The queue.
            timestamp: The time.
            boundary: ``"nearest"`` for the nearest message, of several of one time the first; ``"lower"``
                for the first that is not before the time, the queue's end where there is none;
                ``"upper"`` for the last that is not behind it, the first where there is none.
        """
    def get_offsets_in_queue_by_time(
        self, topic: str, queue_id: int, timestamps: Sequence[Time], boundary: str = "nearest"
    ) -> list[int]:
        """For each of several times what :meth:`get_offset_in_queue_by_time` gives."""
    def look_message_by_offset(self, commit_log_offset: int) -> Message | None:
        """The message that begins at an offset of the log. Source: ``lookMessageByOffset``."""
    def get_commit_log_data(self, offset: int) -> memoryview:
        """Bytes of the log from an offset on, to the end of its file. Source: ``getCommitLogData``.

        Raises:
            OffsetOutOfRangeError: the log holds nothing there.
        """
    def check_message_and_return_size(
        self, commit_log_offset: int, *, check_crc: bool = True, read_body: bool = True
    ) -> DispatchRequest | None:
        """Checks what stands at an offset of the log; ``None`` at its end.

        Source: ``checkMessageAndReturnSize``.
        """
    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """The offset that the queue's next dispatched message gets. Source: ``getMaxOffsetInQueue``."""
    def get_min_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """The offset of the queue's first message. Source: ``getMinOffsetInQueue``."""
    def get_message_total_in_queue(self, topic: str, queue_id: int) -> int:
        """How many messages a queue has. Source: ``getMessageTotalInQueue``."""
    def get_commit_log_offset_in_queue(self, topic: str, queue_id: int, offset: int) -> int:
        """Where the message of a queue's offset stands in the log; 0 where there is none.

        Source: ``getCommitLogOffsetInQueue``.
        """
    def get_message_store_time_stamp(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message of a queue's offset was stored; -1 where there is none.

        Source: ``getMessageStoreTimeStamp``.
        """
    def get_earliest_message_time(self, topic: str | None = None, queue_id: int | None = None) -> int:
        """When the first message of the log, or of a queue, was stored; -1 where there is none.

        Source: ``getEarliestMessageTime``.

        Raises:
            ValueError: topic without queue, or queue without topic.
        """
    def check_in_disk_by_consume_offset(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message lies so far behind the log's end that it is no longer in memory.

        Source: ``checkInDiskByConsumeOffset``.
        """
    def get_min_phy_offset(self) -> int:
        """The offset of the log's first byte; -1 while it has no file. Source: ``getMinPhyOffset``."""
    def get_max_phy_offset(self) -> int:
        """The offset behind the log's last byte. Source: ``getMaxPhyOffset``."""
    def get_flushed_where(self) -> int:
        """The offset behind the last byte of the log that is on the disk. Source: ``getFlushedWhere``."""
    def get_confirm_offset(self) -> int:
        """Up to where messages are dispatched with ``duplicationEnable``. Source: ``getConfirmOffset``."""
    def set_confirm_offset(self, offset: int) -> None:
        """Moves the confirm offset. Source: ``setConfirmOffset``."""

    # ---- state

    def dispatch_behind_bytes(self) -> int:
        """Bytes of the log that are not dispatched yet. Source: ``dispatchBehindBytes``."""
    def dispatch_behind_ms(self) -> int:
        """Store time between the log's last message and the last that is dispatched."""
    def remain_how_many_data_to_flush(self) -> int:
        """Bytes of the log that are not on the disk yet. Source: ``remainHowManyDataToFlush``."""
    def remain_how_many_data_to_commit(self) -> int:
        """Bytes of the log that are in memory only. Source: ``remainHowManyDataToCommit``."""
    def remain_transient_store_buffer_numbs(self) -> int:
        """Free buffers of the transient store pool. Source: ``remainTransientStoreBufferNumbs``."""
    def lock_time_mills(self) -> int:
        """For how long the append that is under way has taken. Source: ``lockTimeMills``."""
    def now(self) -> int:
        """The time by the store's clock."""
    @property
    def running_flag_bits(self) -> int:
        """What the store can do now. Source: ``getRunningFlags``."""
    @property
    def is_closed(self) -> bool:
        """Whether it is closed."""
    @property
    def rejected_count(self) -> int:
        """How many queue units were not served because the log does not agree with them."""

    # ---- passes, for the services

    @property
    def _engine(self) -> Engine:
        """What services hold of it."""
    def _close(self) -> None:
        """Flushes and closes the engine."""
    def _destroy(self) -> None:
        """Removes log, queues and index."""
    def _queue_for(self, topic: str, queue_id: int | None) -> int:
        """The queue that a put to a topic goes to; the topic's queues take turns.

        Raises:
            MessageIllegalError: it cannot be a topic.
            ValueError: the queue is negative.
        """
    def _set_write_queue_nums(self, topic: str, write_queue_nums: int) -> None:
        """Sets how many queues of a topic take turns."""
    def _reput(self) -> int:
        """Dispatches what can be dispatched; gives how many messages."""
    def _set_listening(self, listening: bool) -> None:
        """Keeps arrivals from now on, or no longer."""
    def _refresh(self) -> int:
        """Sees what a live writer has added; gives how many messages."""
    def _timed_waiting(self) -> tuple[int, int | None] | None:
        """How many timed messages wait, and when the first is due; ``None`` where nobody delivers them."""
    def _first_not_due(self, delay_level: int) -> int:
        """The queue offset of a delay level's first message that is not due yet, or the end of its queue."""
    def _first_waiting_timed(self) -> int | None:
        """Where the first timed message stands in the log that is not delivered."""

    # ---- replication

    def append_to_commit_log(self, start_offset: int, data: ReadableBuffer) -> None:
        """Appends bytes of the master's log as they are. Source: ``appendToCommitLog``.

        Args:
            start_offset: Where they stand in the master's log: the end of this one. An empty log begins
                wherever a file does.
            data: The bytes, of one file; records may be cut at their ends.

        Raises:
            OffsetOutOfRangeError: they do not follow this log's end.
            OptionError: the store is no slave, or the bytes do not end with a file of this store.
            DiskFullError: there is no space for them.
        """
    def slave_fall_behind_much(self) -> int:
        """How many bytes the nearest slave is behind. Source: ``slaveFallBehindMuch``."""
    def update_ha_master_address(self, address: str) -> None:
        """Lets a slave follow another master. Source: ``updateHaMasterAddress``.

        Raises:
            OptionError: the store is no slave, or replication does not run.
        """
    def _listen_for_slaves(
        self,
        host: str,
        port: int,
        *,
        transfer_batch_size: int,
        send_heartbeat_interval_ms: int,
        housekeeping_interval_ms: int,
        slave_fallbehind_max: int,
        is_sync: bool,
        slave_timeout_ms: int,
    ) -> None:
        """Begins to listen for slaves."""
    def _follow_master(
        self, master_address: str | None, *, send_heartbeat_interval_ms: int, housekeeping_interval_ms: int
    ) -> None:
        """Begins to follow a master."""
    def _wait_transferred(self, offset: int, timeout_ms: int) -> bool:
        """Waits until a slave has confirmed the log up to an offset; gives whether it is in time."""
    def _wait_all_slaves(self, offset: int, timeout_ms: int) -> bool:
        """Waits until each slave that is connected has the log up to an offset; gives whether it is in time."""
    def _is_slave_ok(self, offset: int) -> bool | None:
        """Whether a slave is near enough to wait for it; ``None`` where puts wait for none."""
    def _ha_listen_address(self) -> str | None:
        """Where slaves connect."""
    def _ha_connections(self) -> list[tuple[str, int | None, int, int]]:
        """Each slave's address, request, its log's end, what it was sent."""
    def _ha_client(self) -> tuple[str | None, bool, int, str | None] | None:
        """The master's address, whether there is a connection, what the master last heard, why it is not followed."""
    def _delete_expired_log_file(self, reserved_ms: int, at_once: bool, keep_from: int | None) -> str | None:
        """Deletes the log's first file where it may go; gives its path, ``None`` where it stays.

        It goes when its messages are older than ``reserved_ms``, or ``at_once``; never when it holds something
        from ``keep_from`` on.
        """
    def _delete_expired_queue_files(self, topic: str, queue_id: int) -> int:
        """Deletes a queue's files that hold no message of the log any more; gives how many."""
    def _delete_expired_index_files(self) -> int:
        """Deletes index files that hold no message of the log any more; gives how many."""
    def clean_expired_consume_queue(self) -> int:
        """Removes queues whose messages are all gone from the log; gives how many.

        A message that comes later is its queue's number 0. Source: ``cleanExpiredConsumerQueue``.
        """
    def clean_unused_topic(self, topics: Iterable[str]) -> int:
        """Removes the queues of all topics but these; gives how many. Their messages stay in the log.

        The schedule topic, that of transactions that are done, and light queues stay. Source:
        ``cleanUnusedTopic``.

        Raises:
            TypeError: they are one string, or no strings.
        """
    def _first_needed(self, queues: Sequence[tuple[str, int, int]]) -> int | None:
        """Where the first message stands that is at an offset of its queue or behind it, of several queues."""
    def _topic_usage(self) -> list[tuple[str, int, int, int, int]]:
        """Of each topic: queues, messages, bytes of their records, bytes of the queues' files."""
    def _set_disk_full(self, full: bool) -> bool:
        """Takes messages no longer, or again; gives whether the disk was full before."""
    def _set_full_store_paths(self, paths: Sequence[StrPath]) -> None:
        """Sets the folders of the log that are too full for a new file."""

    # ---- selections

    def _cursor(self, spec: _Selection) -> Cursor:
        """A cursor before a selection's first message."""
    def _count(self, spec: _Selection) -> int:
        """How many messages a selection has."""
    def _arrow_stream(
        self,
        spec: _Selection,
        columns: Sequence[str] | None,
        body: str,
        max_messages: int,
        max_bytes: int,
        use_threads: bool,
    ) -> object:
        """A selection's messages as a capsule of an Arrow stream, which reads them as it is read."""

    def _spark_stream(
        self, spec: _Selection, columns: Sequence[str], max_messages: int, max_bytes: int
    ) -> tuple[object, BadRanges]:
        """A selection's messages as a capsule of an Arrow stream as Spark takes it, and what gave none.

        Bodies are read, and held against their CRC, where one is a column.
        """
    def _log_range(self, spec: _Selection) -> tuple[int, int]:
        """The part of the log that a walk for a selection's messages goes over."""
    def _places_of_keys(self, spec: _Selection) -> list[int]:
        """Where the index says that messages with a selection's keys stand, unread."""
    def _position_behind(self, spec: _Selection, max_count: int) -> int:
        """Where the log stands behind the first so many selected messages of a selection's part of it."""
    def _boundary_at(self, offset: int) -> int:
        """The first place at or behind an offset of the log at which it can be divided."""
    def _made_anew_from(self) -> int | None:
        """From which offset of the log on units were made anew since the store was opened to read."""
    def _check_not_made_anew(self) -> None:
        """Raises `StoreChangedError` where there is such an offset."""
    def _openings_seen(self) -> int:
        """How many openings of the store by writers it has seen."""
    def _log_unchanged_since(self, openings: int) -> int:
        """Up to where the log is as it was when so many openings had been seen: behind there it may have been cut."""
    def _settled_changes(self) -> int:
        """How often what a reader has has changed otherwise than by growing, once no such change is under way.

        What was found out in several calls holds together if this is the same before and after.
        """
    def _first_unit_at(self, topic: str, queue_id: int, offset: int) -> int:
        """The number of a queue's first unit whose message stands at an offset of the log or behind it."""
    def _removed_up_to(self, topic: str, queue_id: int) -> int | None:
        """The offset of the log up to which a queue's messages are those of one that was removed, if there is any."""
    def _removed_queues(self) -> list[tuple[str, int, int]]:
        """The queues that were removed while the log has their messages, each with the offset up to which these are."""

    # ---- figures

    def _put_figures(self) -> tuple[int, int, int, list[int], int]:
        """Messages put, their bytes, failed puts, puts by class of time, the longest in microseconds."""
    def _get_figures(self) -> tuple[int, int, int, int]:
        """Gets that found some, gets that found none, messages given, the longest in microseconds."""
    def _dispatched_sizes(self) -> list[tuple[str, int, int]]:
        """Topic, queue, and bytes dispatched to it since the store was opened, of every queue."""

    # ---- what is there

    def _queues(self) -> list[tuple[str, int, int, int, int]]:
        """Topic, queue, first offset, end, bytes of units in memory, of every queue."""
    def _queue_ids(self, topic: str) -> list[int]:
        """The queues of a topic, by number."""
    def _units(self, topic: str, queue_id: int, first: int, count: int) -> list[tuple[int, int, int]]:
        """Units of a queue from a number on, to the end of their file: log offset, size, tags code as stored."""
    def _ext_units(self, topic: str, queue_id: int, first: int, count: int) -> list[tuple[int, int, bytes]]:
        """What a queue's extension has of its units from a number on: tags code, store time, bit map."""
    def _set_filters(self, filters: Sequence[tuple[str, Sequence[int], str]]) -> list[str]:
        """Replaces the filters that bit maps are made for; gives why some have no part."""
    def _make_queue(self, topic: str, queue_id: int) -> None:
        """Makes a queue where there is none."""
    def _destroy_queue(self, topic: str, queue_id: int) -> bool:
        """Removes a queue; gives whether there was one."""
    def _warm_up_queue(self, topic: str, queue_id: int) -> None:
        """Brings a queue's files into memory."""
    def _strays(self) -> list[tuple[str, str, str]]:
        """Files and folders that are not as they should be: path, what was expected, what was found."""
    def _gaps(self) -> list[tuple[int, int, str | None]]:
        """Parts of the log without a record: from, to, why; ``None`` where a file is missing."""
    def _lost_end(self) -> tuple[int, int, str | None] | None:
        """What was on the disk behind the log's end and is there no more: from, to, why, as in :meth:`_gaps`."""
    def _unindexed(self) -> list[tuple[int, int, bool]]:
        """Parts of the log of which no index file says that it has their keys: from, to, whether there are some."""
    def _rejected(self) -> list[tuple[str, int, int, int, str]]:
        """Units that did not agree with the log: topic, queue, number, log offset, why."""
    @property
    def _closed_cleanly(self) -> bool:
        """Whether the last writer had closed the store."""
    @property
    def _writer(self) -> str | None:
        """Who had the store open for writing when it was opened to read."""
    def _checkpoint(self) -> tuple[int, int, int]:
        """The checkpoint's times: log, queues, index."""
    def _index_files(self) -> list[tuple[str, int, int, int, int, int, int]]:
        """Path, begin and end time, begin and end offset, slots in use, entries plus one, of every index file."""
    def _log_files(self) -> list[tuple[str, int]]:
        """Path and first offset of every log file."""
    @property
    def _log_file_size(self) -> int:
        """Bytes of a log file."""
    @property
    def _queue_file_size(self) -> int:
        """Bytes of a queue file."""
    def _check_open(self) -> None:
        """Says that the store is closed.

        Raises:
            StoreClosedError: it is.
        """

def check_exists(options: EngineOptions) -> None:
    """Refuses a folder without a store with StoreNotFoundError."""

def locked_by(lock_file: StrPath, own_dir: StrPath) -> str | None:
    """Who has a store open for writing: ``None`` for nobody."""

def write_whole(path: StrPath, content: bytes) -> None:
    """Replaces a small file as a whole, and flushes it; its folder is there.

    Raises:
        StoreIOError: it can't be written; it has its old content then.
    """

def read_bytes() -> int:
    """Bytes that this process has read from stores' files; what is mapped is not counted."""

def make_once(_options: EngineOptions, _selection: SelectionSpec) -> None:
    """Makes what is made once in a process, before it can be forked while a thread makes some of it."""

def is_mapping_risky(path: StrPath) -> bool:
    """Whether a mapping of a file in a folder can end a process that only reads it."""

def encode_messages(
    items: Sequence[tuple[ReadableBuffer, int, Mapping[str, str] | str | bytes]], compat: bool
) -> bytes:
    """A client's encoding of a batch: body, flag and properties of each message.

    Raises:
        MessageIllegalError: a message's properties are longer than it allows. A separator stands in them, or a name is
            empty; not with ``compat``.
    """

def properties_to_bytes(properties: Mapping[str, str] | str | bytes) -> bytes:
    """Properties in the order in which Java's ``HashMap`` gives them."""

def java_hash_map_order(names: Sequence[str]) -> list[str]:
    """The names of a mapping in the order in which Java's ``HashMap`` gives them."""

_Findings: TypeAlias = tuple[
    list[tuple[str, int]], list[tuple[str, str, str | None, int | None, int | None, int | None, str]]
]
"""How many of each kind; of the first ones kind, file, topic, queue, place in queue and log, what is wrong."""

@final
class LockFile:
    """A file for a lock: in a process that is forked it is closed, wherever the thread is that opens it."""

    def __new__(cls, path: StrPath) -> LockFile:
        """Opens a file, which is made where there is none.

        Raises:
            StoreIOError: it can't be opened.
        """
    def fileno(self) -> int:
        """Its descriptor.

        Raises:
            ValueError: it is closed.
        """
    @property
    def closed(self) -> bool:
        """Whether it is closed."""
    def close(self) -> None:
        """Closes it; a second call does nothing."""

@final
class LogView:
    """A store's log, and its derived files as they lie there: nothing is recovered or dispatched."""

    def __new__(
        cls, options: EngineOptions, end: int | None = None, ranges: ByteRanges | None = None, *, locked: bool = False
    ) -> Self:
        """Looks at a log up to an end that is known, or finds its end; with ``ranges`` files are read from there.

        With ``locked`` it takes the store's lock before, and holds it until it is told to let go.
        """
    def unlock(self) -> None:
        """Lets go of the store's lock, where it is held."""
    @property
    def min_offset(self) -> int:
        """The offset of the log's first byte."""
    @property
    def named_begin(self) -> int:
        """Where the log's first file begins by its name, also where nothing is in it."""
    @property
    def end(self) -> int:
        """Where the log ends."""
    @property
    def lost_end(self) -> tuple[int, int, str | None] | None:
        """What was on the disk behind the end and is there no more: from, to, why; not where the end was given."""
    @property
    def begin_when_closed(self) -> int | None:
        """Where the log began when its last writer closed the store, where nobody has written to it since."""
    @property
    def is_live(self) -> bool:
        """Whether somebody has the store open for writing."""
    @property
    def log_file_size(self) -> int:
        """Bytes of a log file."""
    @property
    def queue_file_size(self) -> int:
        """Bytes of a queue file: what the store's have, else what the options say."""
    @property
    def ext_file_size(self) -> int:
        """Bytes of a file of queues' extensions, likewise; what the options say where there are to be none."""
    @property
    def index_shape(self) -> tuple[int, int]:
        """Slots and entries of an index file, likewise."""
    def boundary(self, offset: int) -> int:
        """The first record at or behind an offset, found by a walk from its file's begin."""
    def divide(self, begin: int, to: int, step: int) -> list[int]:
        """Where the log can be divided: about every so many bytes what looks like a record, and each file's begin."""
    def strays(self) -> list[tuple[str, str, str]]:
        """Files and folders that are not as they should be: path, what was expected, what was found."""
    def queue_folder(self, topic: str, queue_id: int) -> str:
        """Where a queue's files lie, or would."""
    def queue_files(self) -> list[tuple[str, int, int, int]]:
        """Topic, queue, first index, behind the last index, of every queue file."""
    def units(self, topic: str, queue_id: int, first: int, count: int) -> list[tuple[int, int, int]]:
        """Units as they lie in a queue's file: place in the log, size, tags code; none behind the file's end."""
    def index_file_names(self) -> list[str] | None:
        """The index files, oldest first; ``None`` where messages are not indexed."""
    def holes(self) -> list[tuple[int, int, str | None]]:
        """Parts of the log that hold no record, each in one file: begin, end, what is wrong."""
    def further_queue(self) -> tuple[str, int] | None:
        """Topic and number of a queue of messages that name it, and that these options would not make anew."""
    def lost_by_head(self) -> list[tuple[str, int, int, int]]:
        """Topic, queue, offset and place of the messages in holes and behind the end whose bodies alone are damaged."""
    def agrees_with_log(self, topic: str, queue_id: int, begin: int, to: int) -> bool | None:
        """Whether one of a queue's units between two indices agrees with its record; ``None`` where all are gone."""
    def copy_repaired(self, folder: StrPath) -> list[tuple[int, int, str | None]]:
        """Copies the log into a folder, its holes filled with records that no queue has; gives the holes."""
    def save_holes(self, folder: StrPath) -> None:
        """Saves in a folder what stands in the holes and behind the log's end; nothing is changed."""
    def fill_holes(self) -> None:
        """Fills the holes, and takes away what stands behind the log's end. ReadOnlyError without ``locked``."""
    def check_log(self, begin: int, to: int) -> _LogChecked:
        """Checks the records of a range."""
    def check_queue(self, topic: str, queue_id: int, begin: int, to: int) -> tuple[int, int, int, _Findings]:
        """Checks units of a queue: gives how many are messages, expired, blank; and what is wrong."""
    def check_index_file(self, name: str) -> tuple[int, int, _Findings]:
        """Checks an index file: gives how many entries are right and expired; and what is wrong.

        One that is not there any more gives nothing.
        """
    def stage(
        self, folder: StrPath, begin: int, to: int, *, topics: list[str] | None, with_index: bool
    ) -> tuple[int, int, int, int, int, list[tuple[int, int]]] | None:
        """Walks a range and keeps what dispatch makes of it in work files.

        Gives begin, where the walk came to, records, units, index entries, parts that were passed over; ``None``
        where the range's begin is gone with the log's first files, behind which the log begins now.
        """

class _LogChecked(TypedDict):
    """What a range of a log holds."""

    reached: int
    begins_anew: int | None
    record_count: int
    key_count: int
    unit_count: int
    times: tuple[int, int] | None
    findings: _Findings
    spans: list[tuple[str, int, tuple[int, int], int, bool]]
    by_topic: list[tuple[str, int, int]]
    by_hour: list[tuple[int, int, int]]
    by_host: list[tuple[str, int, int]]
    by_size: list[tuple[int, int, int]]

@final
class RowCheck:
    """Holds rows that come some at a time against what a store takes, before any of them is put.

    Args:
        options: The options that the store will be open with.
        topic: The topic of rows that have none.
        properties: Properties that all rows will have.

    Raises:
        StoreIOError: the folders of its log can't be read, whose files say how large they are.
    """

    def __new__(
        cls, options: EngineOptions, *, topic: str | None = None, properties: Mapping[str, str] | None = None
    ) -> Self: ...
    def check(self, data: _ArrowStream) -> int:
        """Whether the store takes the next rows, as far as each alone tells; gives how many they are.

        Raises:
            ValueError: as for :meth:`Store.put_arrow`.
            MessageIllegalError: as there. Its ``row`` counts from the first of all rows.
        """

def encode_records(data: _ArrowStream, is_raw: bool) -> bytes:
    """Finished records of messages that are given as Arrow, one after another."""

def rebuild_fold(
    options: EngineOptions, folder: StrPath, ranges: list[int], with_index: bool
) -> tuple[list[tuple[int, int]], int, int, int, int, list[str], list[tuple[int, int]]]:
    """Decides where the units of staged ranges go.

    Gives ranges that do not follow the one before and where that came to, queues, units, records, index
    entries, names of index files, parts of the log that were passed over.
    """

def rebuild_place(options: EngineOptions, folder: StrPath, begin: int) -> int:
    """Writes a staged range's units to the queue files; gives how many."""

def rebuild_fill(options: EngineOptions, folder: StrPath, number: int, name: str) -> int:
    """Makes an index file; gives how many entries it has."""
