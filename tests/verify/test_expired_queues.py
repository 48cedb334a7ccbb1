"""Queues of which a damaged store has offsets alone go on at them once it is repaired."""

import sys
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.verify import LostMessage, repair, verify
from mqstore.verify.expired_queues import ExpiredQueue, put_back
from tests.compat.streams import SMALL_FILES
from tests.verify.damage import BODY_AT, LOG_FILE_SIZE, QUEUE_FILE_UNITS, interrupted, overwrite

QUEUE_FILE_SIZE = int(SMALL_FILES["mappedFileSizeConsumeQueue"])


@pytest.fixture
def expired(tmp_path: Path) -> Path:
    return make_expired(tmp_path, SMALL_FILES)


def make_expired(tmp_path: Path, options: dict[str, Any]) -> Path:
    """A damaged store that keeps no message of one queue, and of another all."""
    path = tmp_path / "expired"
    with mqstore.open(path, "rw", **options, fileReservedTime=0) as store:
        for number in range(7):
            store.put("quiet", b"%d" % number, queue_id=3)
        while store.get_max_phy_offset() < 2 * LOG_FILE_SIZE:
            store.put("busy", bytes(900), queue_id=0)
        store.flush()
        assert store.execute_delete_files_manually() > 0
        assert (store.get_min_offset_in_queue("quiet", 3), store.get_max_offset_in_queue("quiet", 3)) == (7, 7)
        last = store.put("busy", b"damaged", queue_id=0).wrote_offset
        assert last is not None
        store.put("busy", b"behind", queue_id=0)
    overwrite(path, last + BODY_AT, b"\0\1")
    return path


def check_goes_on(path: Path, options: dict[str, Any] = SMALL_FILES) -> None:
    with mqstore.open(path, "rw", **options) as store:
        assert (store.get_min_offset_in_queue("quiet", 3), store.get_max_offset_in_queue("quiet", 3)) == (7, 7)
        assert store.put("quiet", b"next", queue_id=3).logics_offset == 7
    assert [finding.kind for finding in verify(path, **options)[1]] == ["offset_gap"]


@pytest.mark.parametrize("with_extension", ["false", "true"])
def test_a_queue_without_messages_goes_on_at_its_offset(tmp_path: Path, with_extension: str) -> None:
    options = SMALL_FILES | {"enableConsumeQueueExt": with_extension}
    expired = make_expired(tmp_path, options)
    check_goes_on(repair(expired, tmp_path / "whole", **options).path, options)
    check_goes_on(repair(expired, **options).path, options)


def test_a_queue_without_messages_goes_on_when_a_repair_was_broken_off(
    expired: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(sys.modules["mqstore.verify.repair"], "derive", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                repair(expired, **SMALL_FILES)
    check_goes_on(repair(expired, **SMALL_FILES).path)


def test_a_queue_whose_messages_the_log_has_is_made_from_them(expired: Path, tmp_path: Path) -> None:
    """Its units say that they are gone: they are damaged."""
    newest = max((expired / "consumequeue/busy/0").iterdir())
    with newest.open("r+b") as units:
        for _ in range(QUEUE_FILE_UNITS):
            units.write(bytes(11) + b"\1" + bytes(8))
    done = repair(expired, tmp_path / "whole", **SMALL_FILES)
    assert done.message_count > 0
    assert [finding.kind for finding in verify(done.path, **SMALL_FILES)[1]] == ["offset_gap"]


def test_a_damaged_unit_of_an_expired_message_tells_no_loss(tmp_path: Path) -> None:
    """It leads behind the log's end, and those behind it do not."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES, fileReservedTime=0) as opened:
        while opened.get_max_phy_offset() < 3 * LOG_FILE_SIZE:
            opened.put("t", bytes(1500), queue_id=0)
        opened.flush()
        assert opened.execute_delete_files_manually()
        first, _ = next((begin, end) for _, _, begin, end, _ in opened._queues())
    assert first % QUEUE_FILE_UNITS > 0
    file, unit = divmod(first - 1, QUEUE_FILE_UNITS)
    with (path / "consumequeue/t/0" / f"{file * QUEUE_FILE_UNITS * 20:020}").open("r+b") as units:
        units.seek(unit * 20)
        units.write(b"\x01")
    assert repair(path, tmp_path / "whole", **SMALL_FILES).lost == ()


def test_a_queue_that_lost_its_last_messages_is_not_begun_anew(tmp_path: Path) -> None:
    """The ones before are gone with retention."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES, fileReservedTime=0) as opened:
        for _ in range(5):
            opened.put("t", b"expires", queue_id=1)
        while opened.get_max_phy_offset() < LOG_FILE_SIZE:
            opened.put("t", bytes(900), queue_id=0)
        last = opened.put("t", b"last", queue_id=1)
        opened.put("t", b"behind", queue_id=0)
        opened.flush()
        assert opened.execute_delete_files_manually() == 1
    assert last.wrote_offset is not None
    overwrite(path, last.wrote_offset, b"\1" * 8)
    done = repair(path, tmp_path / "whole", **SMALL_FILES)
    assert done.lost == (LostMessage(topic="t", queue_id=1, queue_offset=5),)
    assert {found.kind for found in verify(done.path, **SMALL_FILES)[1]} == set()
    with mqstore.open(done.path, "rw", **SMALL_FILES) as opened:
        assert opened.put("t", b"next", queue_id=1).logics_offset == 5
        assert [bytes(message.body) for message in opened.select("t", queue_id=1)] == [b"next"]


def sizes(store: Path) -> set[tuple[str, int]]:
    """How large the store's queue and index files are."""
    return {(name, path.stat().st_size) for name in ("consumequeue", "index") for path in (store / name).rglob("0*0")}


def test_files_are_as_large_as_the_store_s(expired: Path, tmp_path: Path) -> None:
    """Who repairs it need not know how large these are: a store with files of two sizes opens nowhere."""
    before = sizes(expired)
    done = repair(expired, tmp_path / "whole")
    assert sizes(done.path) == before
    check_goes_on(done.path)
    done = repair(expired)
    assert sizes(done.path) == before
    check_goes_on(done.path)


def test_files_are_as_large_as_the_store_s_where_it_was_broken_off(
    expired: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sizes(expired)
    with monkeypatch.context() as broken:
        broken.setattr(sys.modules["mqstore.verify.repair"], "derive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            repair(expired)
    assert sizes(repair(expired).path) == before
    check_goes_on(expired)


def test_a_file_that_is_cut_gets_its_size_again(expired: Path, tmp_path: Path) -> None:
    (quiet,) = (expired / "consumequeue" / "quiet" / "3").iterdir()
    with quiet.open("r+b") as file:
        file.truncate(8 * 20)
    check_goes_on(repair(expired, tmp_path / "whole", **SMALL_FILES).path)


def test_a_file_that_is_nowhere_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(mqstore.StoreLayoutError, match=r"quiet/3/0+: expected the newest file of a queue"):
        put_back([ExpiredQueue("quiet", 3, f"{0:020}", 7)], [tmp_path / "saved"], tmp_path, QUEUE_FILE_SIZE)
