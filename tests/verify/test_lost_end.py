"""A log that ends before what was on the disk: a check tells it, also where no queue does, and so does a repair."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import repair, verify
from tests.compat.streams import SMALL_FILES
from tests.lost_ends import COUNT, FROM_FILES, change_last_body, make


@pytest.mark.parametrize("has_queues", [True, False], ids=["queues", "log-alone"])
@pytest.mark.parametrize("lose", [*FROM_FILES, change_last_body])
def test_a_check_tells_it(tmp_path: Path, lose: Callable[[Path], None], *, has_queues: bool) -> None:
    path = tmp_path / "store"
    end = make(path)
    lose(path)
    if not has_queues:
        shutil.rmtree(path / "consumequeue")
    audit, findings = verify(path, **SMALL_FILES)
    (told,) = [finding for finding in findings if finding.kind == "end_lost"]
    assert (audit.counts["end_lost"], told.phy_offset, told.path) == (1, audit.end, str(path / "commitlog"))
    assert f"up to {end}" in told.detail
    assert audit.end < end


def test_a_log_that_goes_on_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "store"
    make(path)
    FROM_FILES[-1](path)
    with mqstore.open(path, "rw", on_damage="truncate", **SMALL_FILES) as opened:
        opened.put("t", b"y", queue_id=0)
        assert "end_lost" not in verify(path, **SMALL_FILES)[0].counts
    assert "end_lost" not in verify(path, **SMALL_FILES)[0].counts


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("lose", FROM_FILES)
def test_of_a_store_that_no_mqstore_wrote_units_tell(
    tmp_path: Path, lose: Callable[[Path], None], *, is_closed: bool
) -> None:
    """After a crash they may have got to the disk before their records, but not where no log is at all."""
    path = tmp_path / "store"
    make(path)
    shutil.rmtree(path / "mqstore")
    lose(path)
    if not is_closed:
        (path / "abort").touch()
    audit, _ = verify(path, **SMALL_FILES)
    assert audit.counts["unit_dangling"] > 1
    assert ("end_lost" in audit.counts) == (is_closed or lose is FROM_FILES[0])


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("lose", FROM_FILES)
def test_a_repair_tells_it(tmp_path: Path, lose: Callable[[Path], None], *, in_place: bool) -> None:
    """Also where no queue tells of messages there."""
    path = tmp_path / "store"
    end = make(path)
    lose(path)
    shutil.rmtree(path / "consumequeue")
    left = verify(path, **SMALL_FILES)[0].end
    done = repair(path, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert [hole[:2] for hole in done.holes] == [(left, end)]
    assert done.message_count < COUNT
    again = repair(done.path, tmp_path / "again", **SMALL_FILES)
    assert (again.holes, again.message_count) == ((), done.message_count)
    assert verify(done.path, **SMALL_FILES)[0].is_whole


def test_what_a_repair_cuts_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    end = make(path)
    change_last_body(path)
    done = repair(path, tmp_path / "whole", **SMALL_FILES)
    assert done.holes == ()
    assert [behind for _, behind in done.cut] == [end]
    assert [lost.queue_offset for lost in done.lost] == [COUNT - 1]


def test_a_repair_that_goes_on_tells_it_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one has lowered what is known to be on the disk before it was broken off."""
    path = tmp_path / "store"
    end = make(path)
    FROM_FILES[1](path)

    def break_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(sys.modules["mqstore.verify.repair"], "derive", break_off)
        with pytest.raises(KeyboardInterrupt):
            repair(path, **SMALL_FILES)
    done = repair(path, **SMALL_FILES)
    assert [behind for _, behind, _ in done.holes] == [end]
