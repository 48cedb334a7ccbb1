"""What stands behind a log's end: a repair cuts it, and says so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import repair
from tests.command import mqstore_command
from tests.compat.streams import SMALL_FILES
from tests.store_files import forget_derived
from tests.verify.damage import BODY_AT, LOG_FILE_SIZE, interrupted, lose, overwrite


def filled(path: Path, count: int) -> list[int]:
    """Makes a store of messages of one queue, and gives where they stand, and where the log ends."""
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        offsets = [store.put("t", b"x" * 600, queue_id=0).wrote_offset or 0 for _ in range(count)]
        return [*offsets, store.get_max_phy_offset()]


def damage_last(path: Path, *, with_queues: bool) -> tuple[int, int]:
    """Damages the body of the last of some messages, or its head where no queue tells of it; gives its place."""
    *_, last, end = filled(path, 20)
    if with_queues:
        overwrite(path, last + BODY_AT, b"\1")
    else:
        lose(path, last)
        forget_derived(path, clean=True)
    return last, end


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("with_queues", [False, True])
def test_what_is_cut_is_told(tmp_path: Path, *, in_place: bool, with_queues: bool) -> None:
    """Where neither a queue nor its head tells of it nothing else does."""
    path = tmp_path / "store"
    last, end = damage_last(path, with_queues=with_queues)
    to = ["--in-place"] if in_place else ["--out", str(tmp_path / "whole")]
    command = [*mqstore_command("repair", path, SMALL_FILES), "--json", *to]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"  from {last} to {end} the log's end was cut: it held no record\n" in done.stderr
    assert done.returncode == 1
    assert [json.loads(line)["lost offset"] for line in done.stdout.splitlines()] == ([19] if with_queues else [])
    again = repair(path if in_place else tmp_path / "whole", tmp_path / "again", **SMALL_FILES)
    assert (again.cut, again.lost) == ((), ())


def test_what_is_cut_is_told_by_the_one_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    cut = damage_last(path, with_queues=True)
    for _ in range(2):
        with monkeypatch.context() as broken:
            broken.setattr(sys.modules["mqstore.verify.repair"], "derive", interrupted)
            with pytest.raises(KeyboardInterrupt):
                repair(path, **SMALL_FILES)
    assert repair(path, **SMALL_FILES).cut == (cut,)


def test_a_note_from_before_that_was_noted_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    damage_last(path, with_queues=True)
    with monkeypatch.context() as broken:
        broken.setattr(sys.modules["mqstore.verify.repair"], "derive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            repair(path, **SMALL_FILES)
    note = path / "mqstore" / "repairing.json"
    known = json.loads(note.read_text())
    del known["cut"]
    known["told"] = [one[:4] for one in known["told"]]
    note.write_text(json.dumps(known))
    done = repair(path, **SMALL_FILES)
    assert done.cut == ()
    assert len(done.lost) == 1


def test_of_a_store_that_is_whole_nothing_is_cut(tmp_path: Path) -> None:
    """The log may end anywhere in its last file, right behind one that is full too."""
    path, count = tmp_path / "store", 0
    *offsets, end = filled(path, 1)
    while end < 2 * LOG_FILE_SIZE:
        count += 1
        done = repair(path, tmp_path / f"whole-{count}", **SMALL_FILES)
        assert (done.cut, done.lost) == ((), ())
        *offsets, end = filled(path, 10)
    assert count > 10
    assert offsets


def test_files_behind_the_one_where_the_log_ends_count(tmp_path: Path) -> None:
    path = tmp_path / "store"
    *_, last, end = filled(path, 20)
    behind = path / "commitlog" / f"{LOG_FILE_SIZE:020}"
    behind.write_bytes(b"\0" * 100 + b"garbage" + b"\0" * (LOG_FILE_SIZE - 107))
    assert repair(path, tmp_path / "whole", **SMALL_FILES).cut == ((end, LOG_FILE_SIZE + 107),)
    assert last < end


def test_a_log_that_lies_elsewhere(tmp_path: Path) -> None:
    path, options = tmp_path / "store", SMALL_FILES | {"storePathCommitLog": str(tmp_path / "log")}
    with mqstore.open(path, "rw", **options) as store:
        store.put("t", b"x", queue_id=0)
        end = store.get_max_phy_offset()
    with (tmp_path / "log" / f"{0:020}").open("r+b") as log:
        os.pwrite(log.fileno(), b"\1", end + 5000)
    assert repair(path, tmp_path / "whole", **options).cut == ((end, end + 5001),)


def test_the_blank_that_ends_a_file_is_not_cut(tmp_path: Path) -> None:
    """The next file is gone, and what was in it told as lost: what ends the one before it was no record."""
    path = tmp_path / "store"
    filled(path, 120)
    _, last = sorted((path / "commitlog").iterdir())
    last.unlink()
    done = repair(path, tmp_path / "whole", **SMALL_FILES)
    assert ([reason for _, _, reason in done.holes], done.cut) == ([None], ())
    assert done.lost
    again = repair(done.path, tmp_path / "again", **SMALL_FILES)
    assert (again.holes, again.cut, again.lost) == ((), (), ())
