"""One call of the engine a task: what rebuild and audit run in the executors."""

import json
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import mqstore.errors
from mqstore.errors import MQStoreError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["batched", "run_tasks"]


_Item = TypeVar("_Item")
_TASKS_PER_CORE = 3
"""A task of Spark costs some 90 ms of processor time by itself; fewer would leave cores idle at the end."""
_CORES_OF_A_REMOTE_CLUSTER = 64
"""Spark Connect does not say how many there are."""
_ITEMS_PER_TASK = 8
"""Of items that come in batches: cores wait for the last ones of each."""


def batched(spark: "SparkSession", items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Items in parts that keep all cores busy, for who does not want to have the results of all of them at a time."""
    size = _task_count(spark) * _ITEMS_PER_TASK
    for first in range(0, len(items), size):
        yield items[first : first + size]


def run_tasks(spark: "SparkSession", task: Callable[[_Item], Any], items: Sequence[_Item], *, name: str) -> list[Any]:
    """Runs a function over items in Spark tasks, and gives the results in the items' order.

    There are some tasks a core, to which items are dealt in turn: items that take long and follow each other
    are not for one task alone.

    Args:
        spark: Where to run.
        task: Called in an executor; what it gives goes through JSON.
        items: What it is called with.
        name: What Spark's pages and progress call it.

    Raises:
        MQStoreError: what a task raised, with the executor's machine in its text.
    """
    if not items:
        return []
    tasks = list(items)
    _describe(spark, name)
    count = min(len(tasks), _task_count(spark))
    frame = spark.range(0, count, 1, numPartitions=count)

    def run(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa  # noqa: PLC0415 - needed in the executor alone

        for batch in batches:
            numbers = [number for first in batch.column(0).to_pylist() for number in range(first, len(tasks), count)]
            results = [_outcome(task, tasks[number]) for number in numbers]
            yield pa.RecordBatch.from_pydict({"number": numbers, "result": results})

    rows = frame.mapInArrow(run, "number long, result string").collect()
    outcomes: list[Any] = [None] * len(tasks)
    for row in rows:
        outcome = json.loads(row.result)
        if "error" in outcome:
            raise _error(**outcome)
        outcomes[row.number] = outcome["result"]
    return outcomes


def _outcome(task: Callable[[Any], Any], item: object) -> str:
    """A task's result or error as JSON: an error that Spark passes on would come as a page of text."""
    try:
        return json.dumps({"result": task(item)})
    except MQStoreError as error:
        attributes = {name: value for name, value in vars(error).items() if isinstance(value, str | int)}
        return json.dumps(
            {
                "error": type(error).__name__,
                "message": str(error),
                "host": socket.gethostname(),
                "attributes": attributes,
            }
        )


def _error(error: str, message: str, host: str, attributes: dict[str, Any]) -> MQStoreError:
    kind = getattr(mqstore.errors, error, MQStoreError)
    raised: MQStoreError = kind(f"{message} (in an executor on {host})")
    for name, value in attributes.items():
        setattr(raised, name, value)
    return raised


def _task_count(spark: "SparkSession") -> int:
    try:
        cores = spark.sparkContext.defaultParallelism
    except (AttributeError, RuntimeError, NotImplementedError):
        cores = _CORES_OF_A_REMOTE_CLUSTER
    return cores * _TASKS_PER_CORE


def _describe(spark: "SparkSession", name: str) -> None:
    """Names the jobs that follow; a session over Spark Connect has no context to tell it to."""
    try:
        context = spark.sparkContext
    except (AttributeError, RuntimeError, NotImplementedError):
        return
    context.setJobDescription(name)
