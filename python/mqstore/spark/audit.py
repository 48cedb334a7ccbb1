"""Whether stores are whole, on Spark: every record, every queue unit, every index entry."""

import dataclasses
import datetime as dt
import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from mqstore.spark.opened import expand
from mqstore.spark.session import spark_session
from mqstore.spark.tasks import batched, run_tasks
from mqstore.verify.findings import Finding, StoreAudit
from mqstore.verify.log_ranges import log_view
from mqstore.verify.store_check import StoreCheck, Task, check_part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Audit", "Finding", "StoreAudit", "audit"]

_FINDING_SCHEMA = (
    "store string, kind string, path string, topic string, queue_id int, queue_offset long, phy_offset long, "
    "detail string"
)
_TOTAL_SCHEMA = "store string, dimension string, value string, message_count long, size long"


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

    def _repr_html_(self) -> str:
        """The stores and what is wrong with them as tables, for notebooks."""
        from mqstore.spark.audit_html import audit_tables  # noqa: PLC0415 - it needs this module's classes

        return audit_tables(self)

    def to_html(self) -> str:
        """All of it as one page that needs no other file."""
        from mqstore.spark.audit_html import audit_page  # noqa: PLC0415 - it needs this module's classes

        return audit_page(self)


def _json_value(value: object) -> str:
    return value.isoformat() if isinstance(value, dt.datetime) else str(value)


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
        stores: Their folders, URIs of another file system, or globs of both; every executor sees them.
        spark: The session; :func:`mqstore.spark.spark_session` by default.
        compat: The store closes gaps in a queue's offsets as 4.9.3 does.
        range_size: About how many bytes of log a task checks.
        **options: RocketMQ's options, as the stores' brokers have them.

    Raises:
        StoreNotFoundError: there is no store, or an executor does not see it.
        OptionError: an option does not exist or has a value that does not work, or a glob finds nothing.
        StoreIOError: the operating system refused something.
    """
    given = [stores] if isinstance(stores, str | os.PathLike) else list(stores)
    paths = expand([os.fspath(store) for store in given])
    session = spark or spark_session()
    audited = [StoreCheck(path, options, compat=compat) for path in paths]
    tasks: list[Task] = [task for number, store in enumerate(audited) for task in store.tasks(number, range_size)]
    while tasks:
        checker = _checker(audited)
        for some in batched(session, tasks):
            results = run_tasks(session, checker, some, name="audit: check log, queues and index")
            for task, result in zip(some, results, strict=True):
                audited[task[1]].take(task, result)
        tasks = [task for number, store in enumerate(audited) for task in store.again(number)]
    findings = [finding for store in audited for finding in store.findings()]
    return Audit(stores=tuple(store.result() for store in audited), findings=tuple(findings))


def _checker(audited: list[StoreCheck]) -> Any:
    """What runs in the executors: one call of the engine."""
    known = [(store.path, store.options, store.compat, store.end) for store in audited]
    run = uuid.uuid4().hex

    def check(task: Task) -> Any:
        path, options, compat, end = known[task[1]]
        return check_part(log_view(path, options, compat=compat, end=end, run=run), task)

    return check
