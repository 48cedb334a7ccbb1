"""A store with many bad records that is read without mappings, as beside its writer and on network disks."""

import struct
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore import _native
from mqstore.verify import repair, verify

OPTIONS: dict[str, Any] = {"mappedFileSizeCommitLog": 8 << 20, "maxHashSlotNum": 97, "maxIndexNum": 4000}
BODY_SIZE = 2000
DAMAGED = 100


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store of a log file of some megabytes, in which every other record of the first ones is bad."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as opened:
        for _ in range(3000):
            opened.put("t", bytes(BODY_SIZE), queue_id=0)
        offsets = [message.commit_log_offset for message in opened.select()]
    with (path / "commitlog" / f"{0:020}").open("r+b") as log:
        for number, at in enumerate(offsets[1 : 2 * DAMAGED : 2]):
            # Its magic code, its size, the length of its body, a byte of that.
            log.seek(at + (4, 0, 84, 900)[number % 4])
            log.write(struct.pack(">I", 123))
    return path


@pytest.mark.parametrize("pread", [False, True])
def test_what_is_read_for_each_is_not_megabytes(store: Path, *, pread: bool) -> None:
    size = sum(file.stat().st_size for file in store.glob("**/*") if file.is_file())
    before = _native.read_bytes()
    done, _ = verify(store, pread=pread, **OPTIONS)
    assert (done.counts["bad_record"], done.counts["bad_body"]) == (DAMAGED * 3 // 4, DAMAGED // 4)
    # Three walks come by: for the log's end, over its records, beside the index.
    assert _native.read_bytes() - before < 3 * (size + DAMAGED * (256 << 10))


def test_all_that_is_whole_is_kept(store: Path, tmp_path: Path) -> None:
    done = repair(store, tmp_path / "repaired", **OPTIONS)
    assert done.message_count == 3000 - DAMAGED
