"""Messages out of stores, into stores, and held against each other, on Spark."""

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import mqstore
from mqstore import _native
from mqstore.option_error import bad_argument
from mqstore.spark.columns import BAD_RANGE, COLUMNS, REPLACEMENT, schema
from mqstore.spark.opened import check_stores, expand
from mqstore.spark.read_options import names_option
from mqstore.spark.session import spark_session
from mqstore.spark.staging import remove_folder, rows_behind, stage
from mqstore.store.byte_ranges import refuse_remote, resolved
from mqstore.store.times import Time, to_ms

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

__all__ = ["Wanted", "diff", "export", "import_messages", "replay"]

_FRAME_SIZE = 8
_IDENTITY = ("topic", "queue_id", "queue_offset")
_COMPARED = ("flag", "sys_flag", "born_timestamp", "born_host", "reconsume_times", "properties", "body")
"""What two stores' messages of one place are compared by: where and when they are stored is each store's own."""
_RECORD = (
    *_IDENTITY,
    "flag",
    "sys_flag",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
    "properties",
)
"""What a record is made of, its body aside."""
_STORED = "raw_properties"
"""What their texts do not tell of properties; a table that somebody else made of messages may lack it."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which messages; all that is given has to hold."""

    topics: tuple[str, ...] = ()
    """Of these topics; of all where none is given."""
    keys: tuple[str, ...] = ()
    """With one of these keys or unique keys."""
    tags: str | None = None
    """With one of these tags: ``"A || B"``."""
    begin: Time | None = None
    """Stored at this time or later."""
    end: Time | None = None
    """Stored before this time."""
    where: str | None = None
    """A SQL expression over the source's columns that holds."""

    def of(self, spark: SparkSession, stores: str | Iterable[str], columns: Iterable[str]) -> DataFrame:
        """The messages of some stores.

        Args:
            spark: The session.
            stores: Folders, or globs of them.
            columns: What is needed of them; an expression may need all.

        Raises:
            StoreNotFoundError: there is no store in one of the folders.
            OptionError: a glob finds nothing, or ``where`` is no expression over the columns.
        """
        paths = [stores] if isinstance(stores, str) else list(stores)
        # Before anything is written: Spark plans behind that.
        check_stores(paths)
        names = list(dict.fromkeys(columns))
        readable = names if self.where is None else list(dict.fromkeys([*names, *_without("raw_body")]))
        reader = spark.read.format("mqstore").schema(schema(*readable)).option("mode", "FAILFAST")
        given: dict[str, str | None] = {
            "subscribe": names_option("topics", self.topics),
            "keys": names_option("keys", self.keys),
            "tags": self.tags,
            "startingTimestamp": None if self.begin is None else str(to_ms(self.begin)),
            "endingTimestamp": None if self.end is None else str(to_ms(self.end)),
        }
        for name, value in given.items():
            if value is not None:
                reader = reader.option(name, value)
        found = reader.load(paths)
        return found if self.where is None else _where(found, self.where).select(*names)


def _where(messages: DataFrame, expression: str) -> DataFrame:
    try:
        return messages.where(expression)
    except AnalysisException as error:
        raise bad_argument("where", expression, _first_line(error)) from error


def _first_line(error: AnalysisException) -> str:
    """What is wrong: behind it stands the query's plan."""
    return str(error).strip().splitlines()[0]


def _without(*names: str) -> list[str]:
    """What a message is made of, but for some of it."""
    return [name for name in COLUMNS if name not in {*names, BAD_RANGE}]


_ALL = Wanted()


def export(
    stores: str | Iterable[str],
    out: str,
    *,
    wanted: Wanted = _ALL,
    raw: bool = False,
    mode: str = "errorifexists",
    spark: SparkSession | None = None,
) -> None:
    """Writes messages to Parquet, in folders by topic and by the day (UTC) on which they were stored.

    Args:
        stores: Folders of stores, or globs of them.
        out: The folder to write to.
        wanted: Which messages.
        raw: Write bodies as they are stored; inflated by default.
        mode: As for Spark's writers: ``errorifexists``, ``append``, ``overwrite`` or ``ignore``.
        spark: The session; :func:`mqstore.spark.spark_session` by default.
    """
    session = spark or spark_session()
    columns = _without("body" if raw else "raw_body")
    messages = by_day(wanted.of(session, stores, columns))
    messages.write.mode(mode).partitionBy("topic", "day").parquet(out)
    if mode != "ignore" and not _has_schema(session, out):
        # Of no messages there are no folders, and nothing would say what they have: a file without rows does.
        session.createDataFrame([], messages.schema).coalesce(1).write.mode("append").parquet(out)


def _has_schema(spark: SparkSession, folder: str) -> bool:
    try:
        spark.read.parquet(folder)
    except AnalysisException as error:
        if error.getCondition() != "UNABLE_TO_INFER_SCHEMA":
            raise
        return False
    return True


def by_day(messages: DataFrame) -> DataFrame:
    """Messages with the day on which they were stored, in UTC whatever the session's time zone is."""
    seconds = f.unix_seconds("store_timestamp")
    day = f.date_add(f.lit("1970-01-01").cast("date"), f.floor(seconds / f.lit(86_400)).cast("int"))
    return messages.withColumn("day", day)


def import_messages(
    source: str,
    store: str | os.PathLike[str],
    *,
    keep_offsets: bool = False,
    keep_times: bool = True,
    where: str | None = None,
    spark: SparkSession | None = None,
    staging: str | None = None,
    **options: object,
) -> int:
    """Appends messages that :func:`export` wrote to a store, oldest first; gives how many.

    They are encoded in the executors and appended by this process, the store's one writer. The order
    within a queue stays. An import that ends with an error has appended what it had come to: import
    into a new store, or with ``keep_offsets``, which refuses to append a message twice. What says of messages of
    the other store, by where they stand there, that they are done with is left out and not counted.

    Args:
        source: The folder that was exported to.
        store: The folder of the store, which may be new.
        keep_offsets: Keep the messages' offsets in their queues; renumbered by default.
        keep_times: Keep their store times; those ahead of the clock too, as :meth:`MessageStore.append_records` says.
        where: A SQL expression over the columns that holds.
        spark: The session; :func:`mqstore.spark.spark_session` by default.
        staging: A folder that executors and this process share; by default a temporary one beside the
            store.
        **options: RocketMQ's options of the store.

    Raises:
        MessageIllegalError: a message fits no log file, or the queue has passed its offset.
        StoreLockedError: somebody has the store open for writing.
    """
    refuse_remote("to", store)
    session = spark or spark_session()
    messages = _exported(session, source)
    if where is not None:
        messages = _where(messages, where)
    with mqstore.open(store, "rw", **options) as target:  # type: ignore[arg-type]  # options are the store's
        folder = tempfile.mkdtemp(prefix="import-", dir=staging or _own_folder(target))
        try:
            return _append_staged(target, _encoded(messages, folder), keep_times=keep_times, keep_offsets=keep_offsets)
        finally:
            remove_folder(folder)


def _own_folder(store: mqstore.MessageStore) -> str:
    folder = Path(store.path, "mqstore")
    folder.mkdir(exist_ok=True)
    return str(folder)


def _exported(spark: SparkSession, source: str) -> DataFrame:
    """Exported messages; their schema is given, since Spark would take a topic "007" for a number."""
    try:
        names = spark.read.parquet(source).columns
    except AnalysisException as error:
        raise bad_argument("source", source, _first_line(error)) from error
    bodies = [name for name in ("raw_body", "body") if name in names]
    missing = [name for name in (*_RECORD, "commit_log_offset") if name not in names]
    if missing or not bodies:
        raise bad_argument("source", source, f"it has no column {(missing or ['body'])[0]}: not an export")
    return spark.read.schema(schema(*_without(*({"raw_body", "body"} - set(bodies))))).parquet(source)


def _encoded(messages: DataFrame, folder: str) -> list[str]:
    """Stages messages as finished records, in files whose order is that of the messages."""
    is_raw = "raw_body" in messages.columns
    body = f.col("raw_body" if is_raw else "body").alias("body")
    rows = messages.select(*_RECORD, _STORED, body, "commit_log_offset", "store")
    is_one_store = rows.select("store").distinct().limit(2).count() <= 1
    order = ["commit_log_offset"] if is_one_store else ["store_timestamp", "store", "commit_log_offset"]

    def stage_records(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        path = os.path.join(folder, uuid.uuid4().hex)
        with Path(path).open("wb") as file:
            for batch in batches:
                encoded = _native.encode_records(batch.select([*_RECORD, _STORED, "body"]), is_raw)
                file.write(len(encoded).to_bytes(_FRAME_SIZE))
                file.write(encoded)
        return _staged(path)

    return _in_order(rows.orderBy(*order).mapInArrow(stage_records, _STAGED))


def _append_staged(store: mqstore.MessageStore, paths: Iterable[str], *, keep_times: bool, keep_offsets: bool) -> int:
    count = 0
    for path in paths:
        with Path(path).open("rb") as file:
            while head := file.read(_FRAME_SIZE):
                encoded = file.read(int.from_bytes(head))
                count += store._append_encoded(encoded, keep_times, keep_offsets)
    return count


def replay(
    stores: str,
    to: str | os.PathLike[str],
    *,
    wanted: Wanted = _ALL,
    topic: str | None = None,
    keep_times: bool = False,
    spark: SparkSession | None = None,
    staging: str | None = None,
    **options: object,
) -> int:
    """Appends messages of a store to another one, or to another topic of the same; gives how many.

    Spark finds them; this process copies their records, in the log's order, with offsets of their own. What is left
    out of an import is left out here.

    Args:
        stores: The folder of the store that has them.
        to: The folder of the store that gets them, which may be new, or be the same.
        wanted: Which messages.
        topic: The topic that they get; their own by default.
        keep_times: Keep their store times; now by default.
        spark: The session; :func:`mqstore.spark.spark_session` by default.
        staging: A folder that executors and this process share; by default a temporary one beside the
            store that gets them.
        **options: RocketMQ's options of the store that gets them.

    Raises:
        OptionError: the store would get its own messages again under their own topics.
        StoreLockedError: somebody has the store open for writing.
    """
    refuse_remote("to", to)
    is_same = resolved(stores) == resolved(to)
    if is_same and topic is None:
        raise bad_argument("to", os.fspath(to), "the same store: name another topic")
    session = spark or spark_session()
    found = wanted.of(session, stores, ["commit_log_offset"])
    with contextlib.ExitStack() as closing:
        source = None if is_same else closing.enter_context(mqstore.open(stores))
        target = closing.enter_context(mqstore.open(to, "rw", **options))  # type: ignore[arg-type]  # the store's
        folder = tempfile.mkdtemp(prefix="replay-", dir=staging or _own_folder(target))
        closing.callback(remove_folder, folder)
        # Found before the first is appended: a store that is replayed into itself would never end.
        parts = [rows_behind(file, 0)[1] for file in _places(found, folder)]
        given = [part for part in parts if part is not None]
        return sum(target._append_from(source or target, part, topic, keep_times) for part in given)


def _places(found: DataFrame, folder: str) -> list[str]:
    """Stages where messages stand in the log, in files whose order is that of the log."""

    def stage_places(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        return _staged(stage(Path(folder), batches))

    return _in_order(found.orderBy("commit_log_offset").mapInArrow(stage_places, _STAGED))


_STAGED = "number long, path string"
"""What a task says of the file that it has staged."""


def _staged(path: str | None) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa  # noqa: PLC0415 - needed in the executor alone
    from pyspark import TaskContext  # noqa: PLC0415 - as above

    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    if path is not None:
        yield pa.RecordBatch.from_pydict({"number": [number], "path": [path]})


def _in_order(staged: DataFrame) -> list[str]:
    """Staged files by the numbers of their tasks: a sort deals its rows to tasks in their order."""
    return [row.path for row in sorted(staged.collect(), key=lambda row: row.number)]


def diff(left: str, right: str, *, wanted: Wanted = _ALL, spark: SparkSession | None = None) -> DataFrame:
    """The messages in which two stores differ: a master and its slave, before and after.

    Messages are told apart by topic, queue and offset; prepared and rolled back ones, which have no offset of their
    own, by their unique keys. Where and when a store keeps them is its own, and so is a record's CRC, which covers it.

    Args:
        left: The folder of a store.
        right: The folder of another.
        wanted: Which messages.
        spark: The session; :func:`mqstore.spark.spark_session` by default.

    Returns:
        A row for each message that is not the same in both: topic, ``queue_id``, ``queue_offset``; ``kind``
        is ``only_left``, ``only_right`` or ``different``; ``columns`` says what differs;
        ``left_commit_log_offset`` and ``right_commit_log_offset`` say where it is.

    Raises:
        OptionError: a glob names several stores: messages of one place in each could not be told apart.
    """
    session = spark or spark_session()
    sides = {"left": left, "right": right}
    for side, store in sides.items():
        if len(found := expand([store])) > 1:
            raise bad_argument(side, store, f"it names {len(found)} stores; two are held against each other")
    frames = {side: _comparable(wanted.of(session, store, _DIFF_COLUMNS), side) for side, store in sides.items()}
    joined = frames["left"].join(frames["right"], [*_IDENTITY, "known_by", "number"], "full_outer")
    in_left, in_right = (f.col(f"{side}_commit_log_offset").isNotNull() for side in sides)
    differing = [f.when(~f.col(f"left_{name}").eqNullSafe(f.col(f"right_{name}")), f.lit(name)) for name in _COMPARED]
    kind = f.when(~in_right, "only_left").when(~in_left, "only_right").otherwise("different")
    columns = f.when(in_left & in_right, f.filter(f.array(*differing), _is_given)).otherwise(
        f.array().cast("array<string>")
    )
    rows = joined.select(
        *_IDENTITY,
        kind.alias("kind"),
        columns.alias("columns"),
        *(f"{side}_commit_log_offset" for side in sides),
    )
    return rows.where((f.col("kind") != "different") | (f.size("columns") > 0))


_DIFF_COLUMNS = (*_IDENTITY, "commit_log_offset", "unique_key", *_COMPARED, _STORED)
_RECORD_CRC = "__CRC32#"
"""The property with a record's own CRC, which covers where and when it is stored."""
_NAME_ENDS, _VALUE_ENDS = "\x01", "\x02"
"""Behind a property's name, and behind its value, as they are stored."""
_IS_PLACELESS = 4
"""The system flag's bit that prepared and rolled back messages have: none of them counts in its queue."""


def _is_given(name: "Column") -> "Column":
    return name.isNotNull()


def _comparable(messages: DataFrame, side: str) -> DataFrame:
    """Messages with what is compared as plain values: bodies as hashes, maps in the order of their names."""
    from pyspark.sql import Window  # noqa: PLC0415 - beside its one use

    # Prepared and rolled back messages have no place of their own in a queue: their unique keys tell them apart, since
    # one side may lack the first of them. Others of one place come by turns.
    is_placeless = f.col("sys_flag").bitwiseAND(_IS_PLACELESS) != 0
    known_by = f.when(is_placeless, f.coalesce("unique_key", f.lit(""))).otherwise("").alias("known_by")
    known = messages.select("*", known_by)
    place = Window.partitionBy(*_IDENTITY, "known_by").orderBy("commit_log_offset")
    plain = {"body": f.sha2("body", 256), "properties": _plain_properties()}
    values = [plain.get(name, f.col(name)).alias(f"{side}_{name}") for name in _COMPARED]
    number = f.row_number().over(place).alias("number")
    where = f.col("commit_log_offset").alias(f"{side}_commit_log_offset")
    return known.select(*_IDENTITY, "known_by", number, where, *values)


def _plain_properties() -> "Column":
    """A message's properties but its record's CRC, as one text; with their bytes where a text may stand for others."""
    of_message = f.map_filter("properties", lambda name, _: name != _RECORD_CRC)
    shown = f.to_json(f.array_sort(f.map_entries(of_message)))
    # A character for each byte.
    pairs = f.split(f.decode(_STORED, "ISO-8859-1"), _VALUE_ENDS)
    stored = f.array_sort(f.filter(pairs, lambda pair: ~pair.startswith(_RECORD_CRC + _NAME_ENDS)))
    return f.concat(shown, f.when(f.contains(shown, f.lit(REPLACEMENT)), f.to_json(stored)).otherwise(""))
