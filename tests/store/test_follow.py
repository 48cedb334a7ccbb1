"""Readers beside a writer, in this process and in others."""

import itertools
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mqstore
from mqstore.store.follower import Follower
from tests.expiring import expire
from tests.store.conftest import SMALL, Opener

WRITER = """
import sys, mqstore
store = mqstore.open(sys.argv[1], "rw", **{options!r})
for line in sys.stdin:
    first, count = map(int, line.split())
    for number in range(first, first + count):
        store.put("t", b"%d" % number, keys=f"k{{number}}", queue_id=number % 2)
    print(store.get_max_phy_offset(), flush=True)
store.close()
"""


@pytest.mark.parametrize("pread", [True, False])
def test_a_reader_follows_a_writer_in_another_process(tmp_path: Path, pread: bool) -> None:  # noqa: FBT001 (a case)
    path = tmp_path / "store"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER.format(options=SMALL), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdin is not None
    assert writer.stdout is not None

    def write(first: int, count: int) -> int:
        print(first, count, file=writer.stdin, flush=True)
        return int(writer.stdout.readline())  # type: ignore[union-attr]

    write(0, 500)
    with mqstore.open(path, pread=pread, **SMALL) as reader:
        assert "mqstore in process" in str(reader.report().writer)
        assert len(reader.topic("t")) == 500
        for round_ in range(1, 4):
            end = write(500 * round_, 500)
            assert reader.refresh() == 500
            assert reader.get_max_phy_offset() == end
            total = 500 * (round_ + 1)
            numbers = sorted(int(bytes(message.body)) for message in reader.topic("t"))
            assert numbers == list(range(total))
            for number in (0, total // 2, total - 1):
                found = reader.select("t", key=f"k{number}").first()
                assert found is not None
                assert int(bytes(found.body)) == number
        assert reader.rejected_count == 0
        with pytest.raises(mqstore.StoreLockedError, match="mqstore in process"):
            mqstore.open(path, "rw", **SMALL)
    writer.stdin.close()
    assert writer.wait() == 0
    writer.stdout.close()


def test_waiting_in_a_reader_looks_at_what_the_writer_added(open_store: Opener) -> None:
    writer = open_store()
    writer.put("t", b"0", queue_id=0)
    reader = open_store(mode="r")
    assert not reader.wait_for_message("t", 0, 1, timeout=0)
    writer.put("t", b"1", queue_id=0)
    assert reader.wait_for_message("t", 0, 1, timeout=30)
    assert int(bytes(reader.topic("t").queue(0)[1].body)) == 1


def test_messages_stay_when_their_store_is_gone(open_store: Opener) -> None:
    store = open_store()
    store.put_many("t", [b"%d" % number for number in range(3000)], queue_id=0)
    messages = list(store.topic("t").queue(0))
    views = [message.body for message in messages]
    store.destroy()
    assert [int(bytes(view)) for view in views] == list(range(3000))


def test_a_follower_goes_on_where_a_log_was_cut(open_store: Opener, tmp_path: Path) -> None:
    writer = open_store()
    puts = [writer.put("t", b"%d" % number, queue_id=0) for number in range(10)]
    reader = open_store(mode="r")
    follower = Follower(reader.topic("t").queue(0), 0)
    assert len(follower.take()) == 10
    writer.close()
    with (tmp_path / "store" / "commitlog" / f"{0:020}").open("r+b") as log:
        assert puts[7].wrote_offset is not None
        log.seek(puts[7].wrote_offset + 4)
        log.write(b"\0")
    writer = open_store(on_damage="truncate")
    reader.refresh()
    assert follower.is_wanted(reader.get_max_offset_in_queue("t", 0))
    assert follower.take() == []
    writer.put_many("t", [b"a", b"b"], queue_id=0)
    reader.refresh()
    assert [bytes(message.body) for message in follower.take()] == [b"a", b"b"]


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("size", [0, 10, 100])
def test_a_follower_that_looks_once_the_queue_has_come_as_far_again_misses_nothing(
    open_store: Opener, tmp_path: Path, count: int, size: int
) -> None:
    writer = open_store()
    puts = [writer.put("t", bytes(10), queue_id=0) for _ in range(10)]
    reader = open_store(mode="r")
    follower = Follower(reader.topic("t").queue(0), 0)
    assert len(follower.take()) == 10
    writer.close()
    with (tmp_path / "store" / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek((puts[7].wrote_offset or 0) + 4)
        log.write(b"\0")
    writer = open_store(on_damage="truncate")
    writer.put_many("t", [bytes(size)] * count, queue_id=0)
    reader.refresh()
    assert follower.is_wanted(reader.get_max_offset_in_queue("t", 0))
    assert [message.queue_offset for message in follower.take()] == list(range(7, 7 + count))
    assert not follower.is_wanted(7 + count)


def test_a_follower_of_a_queue_whose_first_message_is_the_logs(open_store: Opener) -> None:
    store = open_store()
    store.put("t", b"old", queue_id=0)
    follower = Follower(store.topic("t").queue(0), 0)
    assert [bytes(message.body) for message in follower.take()] == [b"old"]
    store.clean_unused_topic(set())
    store.put_many("t", [b"new", b"newer"], queue_id=0)
    assert [bytes(message.body) for message in follower.take()] == [b"new", b"newer"]


def test_a_reader_looks_for_what_no_queue_has_beside_files_that_its_writer_removes(open_store: Opener) -> None:
    """Whether another queue leads to such a message is asked of all of them, as they were when they were listed."""
    options = {"mappedFileSizeCommitLog": 4096, "mappedFileSizeConsumeQueue": 20, "maxMessageSize": 2000}
    store = open_store(**options)
    for number in range(60):
        for topic in ("t", "gone"):
            store.put(topic, b"x", keys=f"k{number}", queue_id=0)
    store.flush()
    reader = open_store(mode="r", **options)
    store.clean_unused_topic({"t"})
    store.put("t", b"behind", queue_id=0)
    expire(store, 3)
    assert len(list((store.path / "consumequeue" / "t" / "0").iterdir())) < 60
    assert [found.queue_offset for found in reader.query_message("gone", "k50")] == [50]
    reader.refresh()
    assert list(reader.select()) == list(store.select())
    for number in range(60):
        assert reader.query_message("gone", f"k{number}") == store.query_message("gone", f"k{number}")


PUT_AND_DIE = """
import os, sys, mqstore
store = mqstore.open(sys.argv[1], "rw")
store.put_many("t", [b"x"] * 20_000, queue_id=0)
os._exit(0)
"""
LIVES = 6


def test_threads_that_follow_by_one_reader_get_nothing_again(tmp_path: Path) -> None:
    """One of them sees that a writer has opened the store, and lets go of units, while the others look at the queue."""

    def live_and_die() -> None:
        subprocess.run([sys.executable, "-c", PUT_AND_DIE, str(tmp_path / "store")], check=True, timeout=60)

    live_and_die()
    followed: list[list[int]] = [[], [], []]
    with mqstore.open(tmp_path / "store") as reader:
        queue = reader.topic("t").queue(0)

        def follow(offsets: list[int]) -> None:
            messages = itertools.islice(queue.follow(0, timeout=60), 20_000 * LIVES)
            offsets += [message.queue_offset for message in messages]

        def refresh() -> None:
            while not all(followed):
                reader.refresh()

        threads = [threading.Thread(target=follow, args=(offsets,)) for offsets in followed]
        threads.append(threading.Thread(target=refresh))
        for thread in threads:
            thread.start()
        for _ in range(LIVES - 1):
            live_and_die()
        for thread in threads:
            thread.join()
    assert followed == [list(range(20_000 * LIVES))] * 3


@pytest.mark.parametrize("pread", [True, False])
@pytest.mark.parametrize("is_java", [True, False])
def test_a_reader_whose_store_is_moved_is_told(tmp_path: Path, *, is_java: bool, pread: bool) -> None:
    path, moved = tmp_path / "store", tmp_path / "moved"
    with mqstore.open(path, "rw", **SMALL) as writer:
        for number in range(100):
            writer.put("t", b"%d" % number, keys=f"k{number}", queue_id=0)
    if is_java:
        shutil.rmtree(path / "mqstore")
    with mqstore.open(path, pread=pread, **SMALL) as reader:
        path.rename(moved)
        for _ in range(2):
            with pytest.raises(mqstore.StoreNotFoundError, match="the folder does not exist"):
                reader.refresh()
        assert reader.get_max_offset_in_queue("t", 0) == 100
        moved.rename(path)
        assert reader.refresh() == 0
        assert [bytes(message.body) for message in reader.topic("t")] == [b"%d" % number for number in range(100)]
        with mqstore.open(path, "rw", **SMALL) as writer:
            writer.put("t", b"last", queue_id=0)
        assert reader.refresh() == 1
