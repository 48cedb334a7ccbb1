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
MEMORY = 'mount -t tmpfs -o size=1m tmpfs "$1"'
SMALL_BLOCKS = 'truncate -s 48M "$1.image" && mkfs.ext4 -q -F -m 0 -b 1024 "$1.image" && mount -o loop "$1.image" "$1"'


def fill_mounted(module: str, disk: Path, mount: str, *options: str) -> None:
    """Runs a module of these tests on a disk that is mounted for it alone; it ends well."""
    mounted = ["unshare", *options, "--mount", "sh", "-ec", f'{mount} && shift && exec "$@"', "sh", str(disk)]
    if shutil.which("unshare") is None or subprocess.run([*mounted, "true"], check=False).returncode:
        pytest.skip("no such file system can be mounted here, not even in a namespace of its own")
    command = [*mounted, sys.executable, "-m", f"tests.crash.{module}", str(disk)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=240, check=False)
    assert done.returncode == 0, done.stderr


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    fill_mounted("full_disk", tmp_path, MEMORY, "--map-root-user")


def test_a_full_disk_of_small_blocks_does_not_end_the_process(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    fill_mounted("small_blocks", disk, SMALL_BLOCKS)


READ_A_CUT_FILE = """
import os, sys, mqstore
store = mqstore.open(sys.argv[1], "r", pread=sys.argv[2] == "True")
queue = store.topic("orders").queue(0)
bytes(queue[0].body)
os.truncate(sys.argv[3], 0)
print(sum(len(bytes(message.body)) for message in queue))
"""


FIND_IN_A_CUT_FILE = """
import os, sys, mqstore
with mqstore.open(sys.argv[1], "r", pread=True) as store:
    assert len(store.query_message("orders", "k7")) == 1
    os.truncate(sys.argv[2], 0)
    store.query_message("orders", "k7")
"""
HOLD = """
import os, sys, mqstore
from tests.crash.test_sigkill import SMALL
store = mqstore.open(sys.argv[1], "rw", **SMALL)
print("open", flush=True)
sys.stdin.read()
os._exit(0)  # what was cut off under it would end a close
"""
CHECK_A_CUT_FILE = """
import os, sys
from mqstore.verify.log_ranges import log_view
from mqstore.verify.store_check import StoreCheck, check_part
from tests.crash.test_sigkill import SMALL
pread = {"None": None, "False": False}[sys.argv[2]]
check = StoreCheck(sys.argv[1], SMALL, compat=False, pread=pread)
view = log_view(check.path, check.options, compat=False, end=check.end, pread=pread)
tasks = check.tasks(0, None)
for task in tasks:
    check_part(view, task)
os.truncate(sys.argv[3], 0)
for task in tasks:
    check_part(view, task)
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


def test_an_index_file_cut_off_under_a_reader_is_an_exception(store: Path) -> None:
    with mqstore.open(store, "rw", **SMALL) as writer:
        writer.put("orders", b"with a key", keys="k7", queue_id=0)
    newest = max((store / "index").iterdir())
    command = [sys.executable, "-c", FIND_IN_A_CUT_FILE, str(store), str(newest)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert f"{newest}: expected" in done.stderr
    assert "it was cut off meanwhile" in done.stderr


def test_a_file_cut_off_under_a_mapping_ends_the_process(store: Path) -> None:
    assert read_cut_off(store, pread=False).returncode == -signal.SIGBUS


def check_cut_off(store: Path, *, pread: bool | None) -> "subprocess.CompletedProcess[str]":
    """Checks a store that another process writes, of which the first log file is cut off meanwhile."""
    python = [sys.executable, "-c"]
    with subprocess.Popen(
        [*python, HOLD, str(store)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        command = [*python, CHECK_A_CUT_FILE, str(store), str(pread), str(store / "commitlog" / f"{0:020}")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60, check=False)
        writer.communicate()
    return done


def test_a_file_cut_off_under_a_check_of_a_live_store_is_an_exception(store: Path) -> None:
    done = check_cut_off(store, pread=None)
    assert done.returncode == 1, done.stderr
    assert "mqstore.errors." in done.stderr.splitlines()[-1]
    assert f"{0:020}" in done.stderr.splitlines()[-1]


def test_a_file_cut_off_under_the_mapping_of_a_check_ends_the_process(store: Path) -> None:
    assert check_cut_off(store, pread=False).returncode == -signal.SIGBUS
