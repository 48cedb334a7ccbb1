"""FIFOs, sockets and devices where a store has small files: to open one could wait for ever."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mqstore
from tests.command import MQSTORE
from tests.compat.streams import SMALL_FILES

_TIMEOUT_S = 60
_RUN = """
import sys
import mqstore
from mqstore.verify import verify
call, path, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
try:
    if call == "verify":
        print(*(finding.path for finding in verify(path, **options)[1]))
    else:
        mqstore.open(path, call, **options).close()
except mqstore.MQStoreError as error:
    print(error)
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store with each kind of small file."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        opened.put("t", b"x", queue_id=0)
    return path


def run(call: str, store: Path) -> str:
    """Opens or verifies a store in a process that may hang; gives what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, call, str(store), repr(SMALL_FILES)],
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT_S,
        check=True,
    )
    return done.stdout


def make_socket(path: Path) -> None:
    folder = Path.cwd()
    os.chdir(path.parent)  # the name of a socket has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(folder)


@pytest.mark.parametrize("name", ["checkpoint", "lock", "mqstore/positions", "mqstore/published"])
@pytest.mark.parametrize(("make", "kind"), [(os.mkfifo, "a FIFO"), (make_socket, "a socket")])
def test_what_the_engine_opens(store: Path, name: str, make: Callable[[Path], None], kind: str) -> None:
    path = store / name
    path.unlink(missing_ok=True)
    make(path)
    for call in ("r", "rw", "verify"):
        told = run(call, store)
        assert str(path) in told
        assert call == "verify" or f"{kind}, and no file" in told


@pytest.mark.parametrize("name", ["topics", "consumerOffset", "delayOffset", "subscriptionGroup"])
def test_what_is_read_of_the_configuration(store: Path, name: str) -> None:
    path = store / "config" / f"{name}.json"
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    for call in ("r", "rw", "verify"):
        run(call, store)
    for command in ("ls", "groups"):
        done = subprocess.run(
            [MQSTORE, command, store], capture_output=True, encoding="utf-8", timeout=_TIMEOUT_S, check=False
        )
        assert done.stderr in {"", "nothing found\n"} or str(path) in done.stderr


_RUN_SWAPPED = """
import os
import sys
import mqstore
path, name, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
swapped = []

def swap(event, arguments):
    if event == "open" and str(arguments[0]).endswith(name) and not swapped:
        swapped.append(arguments[0])
        os.unlink(arguments[0])
        os.mkfifo(arguments[0])

sys.addaudithook(swap)
try:
    mqstore.open(path, "rw", **options).close()
except mqstore.MQStoreError as error:
    print(error)
print(*swapped)
"""


def test_what_takes_the_place_of_a_file_right_before_it_is_opened(store: Path) -> None:
    arguments = [sys.executable, "-c", _RUN_SWAPPED, str(store), "topics.json", repr(SMALL_FILES)]
    done = subprocess.run(arguments, capture_output=True, encoding="utf-8", timeout=_TIMEOUT_S, check=True)
    told, swapped = done.stdout.splitlines()
    assert swapped == str(store / "config" / "topics.json")
    assert told == f"{swapped}: expected JSON as RocketMQ writes it, found a FIFO"


def test_a_look_up_by_key_that_cannot_know_the_topics_tells(store: Path) -> None:
    topics = store / "config" / "topics.json"
    topics.write_bytes(b"{")
    with mqstore.open(store) as reader:
        assert list(reader.select(key="of nobody")) == []
    topics.unlink()
    topics.symlink_to(topics)
    with mqstore.open(store) as reader, pytest.raises(mqstore.StoreIOError, match=str(topics)):
        list(reader.select(key="of nobody"))
