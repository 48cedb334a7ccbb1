"""Whether stores are whole, on Spark: every record, every queue unit, every index entry."""

import dataclasses
import datetime as dt
import json
import os
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import SparkSession

from mqstore.options import StoreOptions, snake_case
from mqstore.spark.plans import log_view, with_boundaries
from mqstore.spark.session import spark_session
from mqstore.spark.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Audit", "Finding", "StoreAudit", "audit"]

_RANGE_SIZE = 128 << 20
_MOST_RANGES = 1024
"""Ranges grow with the store, so that what the driver keeps of them does not."""
_UNITS_PER_TASK = 1 << 20
_HOUR_MS = 3_600_000

_FINDING_SCHEMA = (
    "store string, kind string, path string, topic string, queue_id int, queue_offset long, phy_offset long, "
    "detail string"
)
_TOTAL_SCHEMA = "store string, dimension string, value string, message_count long, size long"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong with a store."""

    store: str
    """The store's folder."""
    kind: str
    """What is wrong; the kinds are in the documentation."""
    path: str
    """The file."""
    topic: str | None
    """The queue's topic."""
    queue_id: int | None
    """The queue."""
    queue_offset: int | None
    """The place in the queue."""
    phy_offset: int | None
    """The place in the log."""
    detail: str
    """What was expected and what was found."""


@dataclass(frozen=True, kw_only=True)
class StoreAudit:
    """What a store holds, and what is wrong with it."""

    store: str
    """Its folder."""
    begin: int
    """The offset of the log's first byte."""
    end: int
    """Where the log ends."""
    record_count: int = 0
    """Records."""
    unit_count: int = 0
    """Units of queues that are messages of the log."""
    expired_unit_count: int = 0
    """Units whose messages are gone with expired files."""
    blank_unit_count: int = 0
    """Units that only fill a file."""
    key_count: int = 0
    """Keys under which messages are to be found."""
    entry_count: int = 0
    """Index entries that are right."""
    queue_count: int = 0
    """Queues that have files."""
    first_store_time: dt.datetime | None = None
    """When the first message was stored."""
    last_store_time: dt.datetime | None = None
    """When the last one was."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many findings there are of each kind."""
    totals: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    """Messages and bytes of records by ``topic``, ``hour``, ``host`` and ``size``."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.counts


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What is in some stores, and what is wrong with them."""

    stores: tuple[StoreAudit, ...]
    """Each of them."""
    findings: tuple[Finding, ...]
    """What is wrong: all of it is counted, and the first of each kind in each part of a store are here."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong with any of them."""
        return all(store.is_whole for store in self.stores)

    def findings_frame(self, spark: SparkSession) -> "DataFrame":
        """The findings as a DataFrame."""
        return spark.createDataFrame([tuple(vars(finding).values()) for finding in self.findings], _FINDING_SCHEMA)

    def totals_frame(self, spark: SparkSession) -> "DataFrame":
        """Messages and bytes by topic, hour, host and size as a DataFrame."""
        rows = [
            (store.store, dimension, value, count, size)
            for store in self.stores
            for dimension, totals in store.totals.items()
            for value, (count, size) in totals.items()
        ]
        return spark.createDataFrame(rows, _TOTAL_SCHEMA)

    def to_json(self) -> str:
        """All of it as JSON."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, indent=1, default=_json_value)

    def to_html(self) -> str:
        """All of it as one page that needs no other file."""
        from mqstore.spark.audit_html import audit_page  # noqa: PLC0415 - it needs this module's classes

        return audit_page(self)


def _json_value(value: object) -> str:
    return value.isoformat() if isinstance(value, dt.datetime) else str(value)


_Task: TypeAlias = tuple[str, int, list[Any]]
"""A kind, which store, and what of it."""


def audit(
    stores: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    spark: SparkSession | None = None,
    compat: bool = False,
    range_size: int | None = None,
    **options: object,
) -> Audit:
    """Checks stores, and changes nothing in them.

    Every record is checked by itself and in the order of its queue, every unit of a queue against its
    record, every index entry against the keys of its message, and each of these the other way round.
    A store that is being written to is checked up to where it is when the audit begins.

    Args:
        stores: Their folders; every executor sees them.
        spark: The session; :func:`mqstore.spark.spark_session` by default.
        compat: The store closes gaps in a queue's offsets as 4.9.3 does.
        range_size: About how many bytes of log a task checks.
        **options: RocketMQ's options, as the stores' brokers have them.

    Raises:
        StoreNotFoundError: there is no store, or an executor does not see it.
        OptionError: an option does not exist or has a value that does not work.
        StoreIOError: the operating system refused something.
    """
    given = [stores] if isinstance(stores, str | os.PathLike) else list(stores)
    session = spark or spark_session()
    audited = [_StoreUnderAudit(os.path.realpath(store), options, compat=compat) for store in given]
    tasks: list[_Task] = [task for number, store in enumerate(audited) for task in store.tasks(number, range_size)]
    while tasks:
        results = run_tasks(session, _checker(audited), tasks, name="audit: check log, queues and index")
        for task, result in zip(tasks, results, strict=True):
            audited[task[1]].take(task, result)
        tasks = [task for number, store in enumerate(audited) for task in store.again(number)]
    findings = [finding for store in audited for finding in store.findings()]
    return Audit(stores=tuple(store.result() for store in audited), findings=tuple(findings))


def _checker(audited: list["_StoreUnderAudit"]) -> Any:
    """What runs in the executors: one call of the engine."""
    known = [(store.options, store.compat, store.end) for store in audited]
    run = uuid.uuid4().hex

    def check(task: _Task) -> Any:
        kind, number, of = task
        options, compat, end = known[number]
        view = log_view(options, compat=compat, end=end, run=run)
        if kind == "log":
            return view.check_log(*of)
        if kind == "queues":
            return [[*part, *view.check_queue(*part)] for part in of]
        return view.check_index_file(*of)

    return check


class _StoreUnderAudit:
    """One store: what is to be checked, and what came of it."""

    def __init__(self, path: str, given: Mapping[str, object], *, compat: bool) -> None:
        options = StoreOptions.of(path, {snake_case(name): value for name, value in given.items()})
        view = log_view(options, compat=compat)
        self.options, self.compat = options, compat
        self.begin, self.end = view.min_offset, view.end
        self._view = view
        self._index_file_count = view.index_file_count() if options.message_index_enable else None
        self._strays = view.strays()
        self._queues: set[tuple[str, int]] = set()
        self._begins: list[int] = []
        self._logs: dict[int, dict[str, Any]] = {}
        self._counts: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()
        self._findings: list[Finding] = []

    def __getstate__(self) -> None:
        raise TypeError("it stays on the driver")

    def tasks(self, number: int, range_size: int | None) -> list[_Task]:
        """All checks, of about the same size each."""
        step = range_size or max(_RANGE_SIZE, (self.end - self.begin) // _MOST_RANGES)
        self._begins = self._view.divide(self.begin, self.end, step) if self.begin < self.end else []
        tasks: list[_Task] = [("index", number, [each]) for each in range(self._index_file_count or 0)]
        tasks += self._log_tasks(number)
        part: list[tuple[str, int, int, int]] = []
        size = 0
        for topic, queue_id, begin, to in self._view.queue_files():
            self._queues.add((topic, queue_id))
            for first in range(begin, to, _UNITS_PER_TASK):
                part.append((topic, queue_id, first, min(to, first + _UNITS_PER_TASK)))
                size += part[-1][3] - first
                if size >= _UNITS_PER_TASK:
                    tasks.append(("queues", number, part))
                    part, size = [], 0
        if part:
            tasks.append(("queues", number, part))
        return tasks

    def _log_tasks(self, number: int) -> list[_Task]:
        ends = zip(self._begins, [*self._begins[1:], self.end], strict=True) if self._begins else ()
        done = {begin: log["reached"] for begin, log in self._logs.items()}
        return [("log", number, [begin, to]) for begin, to in ends if done.get(begin, -1) < to]

    def again(self, number: int) -> list[_Task]:
        """Ranges that did not begin at a record: a body held bytes that look like one."""
        pairs = zip(self._begins, self._begins[1:], strict=False)
        broken = [
            (after, self._logs[begin]["reached"]) for begin, after in pairs if self._logs[begin]["reached"] != after
        ]
        if not broken:
            return []
        self._begins = with_boundaries(self._begins, broken, self.end)
        self._logs = {begin: log for begin, log in self._logs.items() if begin in set(self._begins)}
        return self._log_tasks(number)

    def take(self, task: _Task, result: Any) -> None:
        """What a task found."""
        kind, _, of = task
        if kind == "log":
            self._logs[of[0]] = result
        elif kind == "queues":
            for *_, unit_count, expired_count, blank_count, found in result:
                self._sums.update(unit_count=unit_count, expired_unit_count=expired_count, blank_unit_count=blank_count)
                self._add(found)
        else:
            entry_count, _, found = result
            self._sums.update(entry_count=entry_count)
            self._add(found)

    def _add(self, found: tuple[list[tuple[str, int]], list[tuple[Any, ...]]]) -> None:
        counts, first = found
        self._counts.update(dict(counts))
        names = [each.name for each in dataclasses.fields(Finding)][1:]
        store = self.options.store_path_root_dir
        self._findings += [Finding(store=store, **dict(zip(names, row, strict=True))) for row in first]

    def findings(self) -> list[Finding]:
        """All that was found; what lies between two ranges comes out here."""
        last: dict[tuple[str, int], tuple[int, int]] = {}
        previous_time: int | None = None
        for begin in self._begins:
            log = self._logs[begin]
            self._add(log["findings"])
            self._sums.update(record_count=log["record_count"], key_count=log["key_count"])
            if log["times"] is not None:
                if previous_time is not None and log["times"][0] < previous_time:
                    self._between("time_backwards", begin, f"expected a store time of at least {previous_time}")
                previous_time = log["times"][1]
            for topic, queue_id, first_place, last_place in log["spans"]:
                before = last.get((topic, queue_id))
                if before is not None:
                    self._join(topic, queue_id, before[0], first_place)
                    last_place = max(before, tuple(last_place))  # noqa: PLW2901 - the queue's, not the range's
                last[topic, queue_id] = tuple(last_place)
        for path, expected, found in self._strays:
            self._tell("stray", path, f"expected {expected}, found {found}")
        if self._index_file_count == 0 and self._sums["key_count"]:
            count = self._sums["key_count"]
            self._counts["key_missing"] += count - 1
            self._tell("key_missing", os.path.join(self.options.store_path_root_dir, "index"), f"none of {count} keys")
        return self._findings

    def _join(self, topic: str, queue_id: int, last: int, place: tuple[int, int]) -> None:
        first, phy_offset = place
        if first == last + 1:
            return
        kind = "offset_gap" if first > last else "offset_repeated"
        detail = f"{first - last - 1} offsets before it are in no record" if first > last else f"expected {last + 1}"
        self._tell(kind, "", detail, topic=topic, queue_id=queue_id, queue_offset=first, phy_offset=phy_offset)

    def _between(self, kind: str, phy_offset: int, detail: str) -> None:
        self._tell(kind, "", detail, phy_offset=phy_offset)

    def _tell(self, kind: str, path: str, detail: str, **place: Any) -> None:
        self._counts[kind] += 1
        known = {"topic": None, "queue_id": None, "queue_offset": None, "phy_offset": None} | place
        store = self.options.store_path_root_dir
        self._findings.append(Finding(store=store, kind=kind, path=path, detail=detail, **known))

    def result(self) -> StoreAudit:
        """The store as it is; to be asked after the findings."""
        logs = [self._logs[begin] for begin in self._begins]
        times = [log["times"] for log in logs if log["times"] is not None]
        totals = {
            "topic": _summed(logs, "by_topic", str),
            "hour": _summed(logs, "by_hour", lambda hour: _time(hour * _HOUR_MS).isoformat()),
            "host": _summed(logs, "by_host", str),
            "size": _summed(logs, "by_size", lambda power: str(1 << power)),
        }
        return StoreAudit(
            store=self.options.store_path_root_dir,
            begin=self.begin,
            end=self.end,
            queue_count=len(self._queues),
            first_store_time=_time(times[0][0]) if times else None,
            last_store_time=_time(times[-1][1]) if times else None,
            counts={kind: count for kind, count in sorted(self._counts.items()) if count},
            totals=totals,
            **self._sums,
        )


def _time(milliseconds: int) -> dt.datetime:
    """A store time; one that no calendar has is cut to what it has."""
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    try:
        return epoch + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return dt.datetime.max.replace(tzinfo=dt.UTC) if milliseconds > 0 else dt.datetime.min.replace(tzinfo=dt.UTC)


def _summed(logs: list[dict[str, Any]], name: str, text: Any) -> dict[str, tuple[int, int]]:
    counts: Counter[Any] = Counter()
    sizes: Counter[Any] = Counter()
    for log in logs:
        for value, count, size in log[name]:
            counts[value] += count
            sizes[value] += size
    return {text(value): (counts[value], sizes[value]) for value in sorted(counts)}
