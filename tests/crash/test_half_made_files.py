"""Files that a crash left half made, or that were lost: they are made again, and cost nothing."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import mqstore
from tests.crash.checks import Place, check_equals_rebuilt, check_messages, check_stays, everything_in
from tests.crash.killing import Acknowledged, kill_while_putting
from tests.crash.stream import body_of
from tests.crash.test_sigkill import STORES
from tests.store_files import copy_store

OPTIONS = STORES["extension"]
LOG_FILE_SIZE: int = OPTIONS["mappedFileSizeCommitLog"]
QUEUE_FILE_SIZE: int = OPTIONS["mappedFileSizeConsumeQueue"]
EXTENSION_FILE_SIZE: int = OPTIONS["mappedFileSizeConsumeQueueExt"]
INDEX_FILE_SIZE: int = 40 + 4 * OPTIONS["maxHashSlotNum"] + 20 * OPTIONS["maxIndexNum"]

Left = tuple[Path, list[Acknowledged]]


@pytest.fixture(scope="module")
def left(module_path: Path) -> Left:
    """A store as a killed writer left it, and what it had acknowledged."""
    store = module_path / "store"
    acks: list[Acknowledged] = []
    rnd = random.Random(1)
    for life in range(4):
        acks += kill_while_putting(store, OPTIONS, life, rnd, 800)
        if len(acks) > 1500:
            break
    return store, acks


@pytest.fixture(params=["killed", "closed"])
def store(request: pytest.FixtureRequest, left: Left, tmp_path: Path) -> Path:
    """A copy of that store, as it was left or opened and closed again."""
    copy = copy_store(left[0], tmp_path / "store")
    if request.param == "closed":
        with mqstore.open(copy, "rw", **OPTIONS):
            pass
    return copy


def newest(folder: Path) -> Path:
    """The newest file of a folder that holds something: a kill can have left the next one without its size."""
    return max(file for file in folder.iterdir() if file.stat().st_size)


def behind(folder: Path, file_size: int) -> Path:
    """The file that would follow the newest one."""
    return folder / f"{int(newest(folder).name) + file_size:020}"


def make(path: Path, size: int) -> None:
    """Makes a file of zeros, or goes on where a kill left one without its size."""
    path.touch()
    assert not path.stat().st_size
    cut(path, size)


def cut(path: Path, size: int) -> None:
    """Makes a file that is there shorter or longer."""
    with path.open("r+b") as file:
        file.truncate(size)


def a_queue(store: Path, kind: str = "consumequeue") -> Path:
    """A queue's folder."""
    return store / kind / "orders" / "0"


def next_index_file(store: Path) -> Path:
    """The index file that would follow the newest one."""
    return store / "index" / f"{int(newest(store / 'index').name) + 1:017}"


def flip(path: Path, at: int) -> None:
    """Flips a bit of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _: None,
    "the next log file, empty": lambda store: make(behind(store / "commitlog", LOG_FILE_SIZE), 0),
    "the next log file, nothing in it": lambda store: make(behind(store / "commitlog", LOG_FILE_SIZE), LOG_FILE_SIZE),
    "the next queue file, empty": lambda store: make(behind(a_queue(store), QUEUE_FILE_SIZE), 0),
    "the next queue file, nothing in it": lambda store: make(behind(a_queue(store), QUEUE_FILE_SIZE), QUEUE_FILE_SIZE),
    "the newest queue file, empty": lambda store: cut(newest(a_queue(store)), 0),
    "a queue file in the middle, empty": lambda store: cut(sorted(a_queue(store).iterdir())[-2], 0),
    "the next file of an extension, empty": lambda store: make(
        behind(a_queue(store, "consumequeue_ext"), EXTENSION_FILE_SIZE), 0
    ),
    "the newest file of an extension, empty": lambda store: cut(newest(a_queue(store, "consumequeue_ext")), 0),
    "a folder of a queue without files": lambda store: (store / "consumequeue" / "orders" / "17").mkdir(),
    "the next index file, empty": lambda store: make(next_index_file(store), 0),
    "the next index file, nothing in it": lambda store: make(next_index_file(store), INDEX_FILE_SIZE),
    "the newest index file, empty": lambda store: cut(newest(store / "index"), 0),
    "an index file in the middle, empty": lambda store: cut(sorted((store / "index").iterdir())[-2], 0),
    "the checkpoint, empty": lambda store: cut(store / "checkpoint", 0),
    "the checkpoint, short": lambda store: cut(store / "checkpoint", 17),
    "the checkpoint, long": lambda store: cut(store / "checkpoint", 5000),
    "the checkpoint, gone": lambda store: (store / "checkpoint").unlink(),
    "the positions, empty": lambda store: cut(store / "mqstore" / "positions", 0),
    "the positions, short": lambda store: cut(store / "mqstore" / "positions", 39),
    "the positions, damaged": lambda store: flip(store / "mqstore" / "positions", 30),
    "the positions, gone": lambda store: (store / "mqstore" / "positions").unlink(),
    "what is published, empty": lambda store: cut(store / "mqstore" / "published", 0),
    "the mark of an unclean stop, gone": lambda store: (store / "abort").unlink(missing_ok=True),
    "the lock file, empty": lambda store: cut(store / "lock", 0),
    "the topics, not renamed yet": lambda store: (store / "config" / "topics.json.tmp").write_bytes(b"{"),
}


def put_some(store: mqstore.MessageStore, life: int) -> list[Acknowledged]:
    """Puts enough messages to roll files, into the queue that was damaged too."""
    acks = []
    for number in range(300):
        name = f"{life}.0.{number}"
        done = store.put("orders", body_of(name), keys=name, queue_id=number % 2)
        acks.append(Acknowledged(name, "orders", number % 2, done.wrote_offsets[0], done.logics_offsets[0]))
    return acks


@pytest.mark.parametrize("damage", DAMAGES)
def test_half_made_files(damage: str, store: Path, left: Left, tmp_path: Path) -> None:
    acks = left[1]
    DAMAGES[damage](store)
    before = everything_in(store)
    with mqstore.open(store, "r", **OPTIONS) as reader:
        as_read = check_messages(reader, acks, {})
    assert everything_in(store) == before
    with mqstore.open(store, "rw", **OPTIONS) as writer:
        known = check_messages(writer, [], as_read)
        check_messages(writer, put_some(writer, 100), known)
    check_equals_rebuilt(store, OPTIONS, tmp_path / "rebuilt")
    check_stays(store, OPTIONS)


@pytest.mark.parametrize("name", ["abort", "checkpoint", "lock", f"commitlog/{0:020}"])
def test_a_first_opening_that_came_no_further(name: str, tmp_path: Path) -> None:
    half_made = tmp_path / "store" / name
    half_made.parent.mkdir(parents=True)
    half_made.touch()
    known: dict[str, Place] = {}
    for life in range(2):
        with mqstore.open(tmp_path / "store", "rw", **OPTIONS) as store:
            known = check_messages(store, [], known)
            known = check_messages(store, put_some(store, life), known)
    check_stays(tmp_path / "store", OPTIONS)
