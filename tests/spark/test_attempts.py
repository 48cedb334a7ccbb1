"""Tasks that run more than once: what an attempt does that Spark has not ended yet when another one is done."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

import mqstore
from mqstore.spark.moving import export, import_messages, replay
from mqstore.spark.source import MQStoreDataSource
from tests.spark.made import SMALL, fill
from tests.spark.test_sink import SCHEMA, parse, store_options


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders in which an attempt stages a file right before they are removed, when they are empty."""
    found: list[Path] = []
    rmdir = os.rmdir

    def stage_and_remove(path: Any, **given: Any) -> None:
        folder = Path(path)
        if folder.name.startswith(("job-", "import-", "replay-")) and not found:
            folder.joinpath("late.arrow").touch()
            found.append(folder)
        rmdir(path, **given)

    monkeypatch.setattr(os, "rmdir", stage_and_remove)
    return found


@pytest.mark.usefixtures("spark")  # which parses the schema
def test_a_late_attempt_makes_no_error_of_what_is_put(tmp_path: Path, late: list[Path]) -> None:
    """Who is told of an error would write the rows a second time."""
    path = tmp_path / "store"
    schema = parse(SCHEMA)
    writer: Any = MQStoreDataSource({"path": str(path), **store_options()}).writer(schema, overwrite=False)
    row = {"topic": "t", "body": b"x", "keys": "k", "properties": [("n", "1")]}
    batches = [pa.RecordBatch.from_pylist([row] * 3, to_arrow_schema(schema))]
    writer.commit([writer.write(iter(batches))])
    assert late
    with mqstore.open(path) as store:
        assert store.select().count() == 3


def test_a_late_attempt_makes_no_error_of_what_is_imported_or_replayed(
    spark: SparkSession, tmp_path: Path, late: list[Path]
) -> None:
    fill(tmp_path / "from", 20)
    export(str(tmp_path / "from"), str(tmp_path / "out"), spark=spark)
    assert import_messages(str(tmp_path / "out"), tmp_path / "imported", spark=spark, **SMALL) == 20
    assert late
    late.clear()
    assert replay(str(tmp_path / "from"), tmp_path / "replayed", spark=spark, **SMALL) == 20
    assert late
