"""Tasks: results in the items' order, whoever ran what; an executor's error as one of this process."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mqstore.errors import StoreNotFoundError
from mqstore.spark import rebuild as rebuild_module
from mqstore.spark.rebuild import rebuild
from mqstore.spark.tasks import run_tasks
from tests.spark.test_rebuild import make_store


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_are_in_the_order_of_the_items(spark: SparkSession, count: int) -> None:
    results = run_tasks(spark, lambda item: [item, os.getpid()], [*range(100, 100 + count)], name="test")
    assert [item for item, _ in results] == [*range(100, 100 + count)]
    assert os.getpid() not in {process for _, process in results}, "they ran here"


def test_items_are_dealt_in_turn(spark: SparkSession) -> None:
    def task(_: int) -> int:
        from pyspark import TaskContext  # noqa: PLC0415 - needed in the executor alone

        context = TaskContext.get()
        assert context is not None
        return context.partitionId()

    partitions = run_tasks(spark, task, [*range(60)], name="test")
    count = max(partitions) + 1
    assert 1 < count < 60
    assert partitions == [number % count for number in range(60)]


def test_an_executors_error_is_raised_here(spark: SparkSession) -> None:
    def task(path: str) -> int:
        error = StoreNotFoundError(f"no store at {path}")
        error.path = path
        raise error

    with pytest.raises(StoreNotFoundError, match=r"no store at /nowhere \(in an executor on .*\)") as caught:
        run_tasks(spark, task, ["/nowhere"], name="test")
    assert caught.value.path == "/nowhere"


def test_a_store_that_executors_do_not_see_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is moved away once the driver has looked at it: as a folder that the driver has and executors have not."""
    store = make_store(tmp_path / "store", count=10)
    begin = rebuild_module._begin

    def moved(*given: Any) -> Any:
        plan = begin(*given)
        store.rename(tmp_path / "elsewhere")
        return plan

    monkeypatch.setattr(rebuild_module, "_begin", moved)
    with pytest.raises(StoreNotFoundError, match=r"store: .* \(in an executor on"):
        rebuild(store, tmp_path / "out", spark=spark)
