"""Retention that is at work while a task reads: what it removes is gone, and not damaged."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore.errors import RecordError, StoreIOError
from mqstore.spark import schema
from mqstore.spark.piece import DataLossError
from mqstore.spark.source import MQStoreDataSource
from tests.spark.made import SMALL, damage, fill
from tests.spark.test_removed_queues import forget_opened

FILE_SIZE = SMALL["mappedFileSizeCommitLog"]
FIRST_LEFT = 4 * FILE_SIZE
TOPICS = "topic-0,topic-1,topic-2"
CHOSEN: dict[str, dict[str, Any]] = {"log": {}, "topics": {"subscribe": TOPICS}, "keys": {"keys": "all"}}
TOLD = r"the log from (\d+) to (\d+): .*\(failOnDataLoss=false reads what is left\)"


def read(path: Path, meanwhile: Callable[[], None], **options: Any) -> list[dict[str, Any]]:
    """The rows of one task, beside which something happens behind its first batch."""
    given = {"path": str(path), "minPartitions": "1", "maxRecordsPerBatch": "20"}
    source = MQStoreDataSource(given | {name: str(value) for name, value in options.items()})
    reader: Any = source.reader(schema("commit_log_offset", "body", "bad_range"))
    (piece,) = reader.partitions()
    # As in a task of a worker.
    forget_opened()
    batches = reader.read(piece)
    rows: list[dict[str, Any]] = next(batches).to_pylist()
    meanwhile()
    return rows + [row for batch in batches for row in batch.to_pylist()]


def expire_files(path: Path) -> None:
    """Removes the log's first files, as retention does."""
    for file in sorted((path / "commitlog").iterdir())[: FIRST_LEFT // FILE_SIZE]:
        file.unlink()


@pytest.mark.parametrize("pread", ["true", "false"])
@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
def test_what_retention_removes_beside_a_task_is_gone(tmp_path: Path, chosen: str, mode: str, pread: str) -> None:
    path = tmp_path / "store"
    known = [row["commit_log_offset"] for row in fill(path, 900)]
    options = CHOSEN[chosen] | {"mode": mode, "pread": pread}
    rows = read(path, lambda: expire_files(path), failOnDataLoss=False, **options)
    assert not [row for row in rows if row["bad_range"]]
    found = [row["commit_log_offset"] for row in rows]
    assert len(found) == len(set(found))
    assert set(found) < set(known)
    assert {at for at in known if at >= FIRST_LEFT} <= set(found)


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
def test_what_retention_removes_beside_a_task_is_told(tmp_path: Path, chosen: str, mode: str) -> None:
    path = tmp_path / "store"
    fill(path, 900)
    with pytest.raises(DataLossError, match=TOLD) as caught:
        read(path, lambda: expire_files(path), mode=mode, **CHOSEN[chosen])
    told = re.search(TOLD, str(caught.value))
    assert told is not None
    assert int(told[1]) < int(told[2]) <= FIRST_LEFT


@pytest.mark.parametrize("chosen", CHOSEN)
def test_what_is_damaged_behind_it_is_damaged(tmp_path: Path, chosen: str) -> None:
    path = tmp_path / "store"
    known = [row["commit_log_offset"] for row in fill(path, 900)]
    bad = next(at for at in known if at >= FIRST_LEFT + 9000)

    def meanwhile() -> None:
        expire_files(path)
        damage(path, bad + 100)

    rows = read(path, meanwhile, failOnDataLoss=False, **CHOSEN[chosen])
    assert [row["bad_range"]["begin"] for row in rows if row["bad_range"]] == [bad]
    with pytest.raises(RecordError, match=f"the log from {bad} to "):
        read(path, lambda: None, mode="FAILFAST", failOnDataLoss=False, **CHOSEN[chosen])


@pytest.mark.parametrize("is_strict", [True, False], ids=["strict", "lenient"])
def test_a_file_that_is_missing_in_the_middle_is_no_retention(tmp_path: Path, *, is_strict: bool) -> None:
    path = tmp_path / "store"
    fill(path, 900)
    lost = path / "commitlog" / f"{2 * FILE_SIZE:020d}"
    with pytest.raises(StoreIOError, match="No such file"):
        read(path, lost.unlink, failOnDataLoss=is_strict)


def test_of_a_damaged_part_that_is_gone_up_to_its_middle_the_rest_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros from one file into the next ones are one part."""
    path = tmp_path / "store"
    known = [row["commit_log_offset"] for row in fill(path, 900)]
    behind = next(at for at in known if at >= FIRST_LEFT + 9000)
    for number, size in ((3, FILE_SIZE), (4, behind - FIRST_LEFT)):
        with (path / "commitlog" / f"{number * FILE_SIZE:020d}").open("r+b") as file:
            file.write(bytes(size))

    def bad() -> list[tuple[int, int]]:
        ranges = [row["bad_range"] for row in read(path, lambda: None, failOnDataLoss=False)]
        return [(each["begin"], each["end"]) for each in ranges if each]

    assert bad() == [(FIRST_LEFT - FILE_SIZE, behind)]
    monkeypatch.setattr("mqstore.spark.piece._first_now", lambda *_: FIRST_LEFT)
    assert bad() == [(FIRST_LEFT, behind)]
