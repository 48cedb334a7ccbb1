"""A disk that is really full, and files that somebody else cuts off."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mqstore
from tests.crash.stream import body_of
from tests.crash.test_sigkill import SMALL

ROOT = Path(__file__).parents[2]
MOUNT_AND_RUN = 'mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@"'


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    own_namespace = ["unshare", "--map-root-user", "--mount", "sh", "-ec", MOUNT_AND_RUN, "sh", str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run([*own_namespace, "true"], check=False).returncode:
        pytest.skip("no file system can be mounted here, not even in a namespace of its own")
    command = [*own_namespace, sys.executable, "-m", "tests.crash.full_disk", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert done.returncode == 0, done.stderr


READ_A_CUT_FILE = """
import os, sys, mqstore
store = mqstore.open(sys.argv[1], "r", pread=sys.argv[2] == "True")
queue = store.topic("orders").queue(0)
bytes(queue[0].body)
os.truncate(sys.argv[3], 0)
print(sum(len(bytes(message.body)) for message in queue))
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of two log files."""
    with mqstore.open(tmp_path / "store", "rw", **SMALL) as store:
        for number in range(150):
            store.put("orders", body_of(f"0.0.{number}") + bytes(400), queue_id=0)
    assert len(list((tmp_path / "store" / "commitlog").iterdir())) > 1
    return tmp_path / "store"


def read_cut_off(store: Path, *, pread: bool) -> "subprocess.CompletedProcess[str]":
    """Reads a store of which the first log file is cut off meanwhile."""
    log_file = store / "commitlog" / f"{0:020}"
    command = [sys.executable, "-c", READ_A_CUT_FILE, str(store), str(pread), str(log_file)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)


def test_a_file_cut_off_under_a_reader_is_an_exception(store: Path) -> None:
    done = read_cut_off(store, pread=True)
    assert done.returncode == 1
    assert "mqstore.errors." in done.stderr.splitlines()[-1]
    assert f"{0:020}" in done.stderr.splitlines()[-1]


def test_a_file_cut_off_under_a_mapping_ends_the_process(store: Path) -> None:
    assert read_cut_off(store, pread=False).returncode == -signal.SIGBUS
