"""A store that may only be read: another user's, or on a disk that is mounted so."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqstore
from tests.store.conftest import SMALL
from tests.waiting import wait_until


def tree(folder: Path) -> dict[Path, bytes | None]:
    """What a folder holds; folders hold nothing themselves."""
    return {path: None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can get to: pytest's own are their user's alone."""
    root = Path(tempfile.mkdtemp(prefix="mqstore-"))
    root.chmod(0o755)
    yield root / "store"
    shutil.rmtree(root)


@pytest.mark.parametrize("how", ["closed", "crashed", "half deleted"])
def test_a_read_only_disk(folder: Path, tmp_path: Path, how: str) -> None:
    with mqstore.open(tmp_path / "store", "rw", **SMALL) as store:
        for number in range(100):
            store.put("t", b"%d" % number, queue_id=0, keys=f"key-{number}")
        store.flush()
        wait_until(lambda: not store.dispatch_behind_bytes())
        if how != "closed":
            shutil.copytree(tmp_path / "store", folder)
    if how == "closed":
        shutil.copytree(tmp_path / "store", folder)
    if how == "half deleted":
        # What has to be made again is made in memory.
        shutil.rmtree(folder / "consumequeue")
        shutil.rmtree(folder / "index")
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = tree(folder)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.life.read_only_disk", str(folder)],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
    finally:
        for path in paths:
            path.chmod(0o755)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert tree(folder) == before
