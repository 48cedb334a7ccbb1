"""Damaged stores: what verify says of them, and what repair makes of them."""

import contextlib
import json
import os
import pty
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.verify import LostMessage, repair, unfinished, verify
from tests.command import mqstore_command, run_mqstore
from tests.compat.java_store import JavaStore
from tests.compat.naive_model import NaiveModel
from tests.compat.streams import SMALL_FILES
from tests.services.conftest import HandClock
from tests.store_files import copy_store, forged, index_contents, log_contents, queue_contents
from tests.verify.damage import BODY_AT, LOG_FILE_SIZE, lose, overwrite

MESSAGES = 600


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, list[int]]:
    """A closed store of messages in two queues, and where each stands."""
    path, rnd = tmp_path / "store", random.Random(7)
    offsets = []
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        for number in range(MESSAGES):
            body = rnd.randbytes(rnd.randrange(600))
            result = opened.put("t", body, keys=f"k{number}", queue_id=number % 2)
            assert result.wrote_offset is not None
            offsets.append(result.wrote_offset)
    return path, offsets


def flip_body(store: Path, offsets: list[int]) -> set[int]:
    overwrite(store, offsets[100] + BODY_AT, b"\0" * 20 + b"\1")
    return {100}


def flip_size(store: Path, offsets: list[int]) -> set[int]:
    overwrite(store, offsets[100] + 1, b"\1")
    return {100}


def zero_across_files(store: Path, offsets: list[int]) -> set[int]:
    behind = next(number for number, offset in enumerate(offsets) if offset >= LOG_FILE_SIZE)
    first, last = behind - 3, behind + 3
    overwrite(store, offsets[first], bytes(LOG_FILE_SIZE - offsets[first]))
    overwrite(store, LOG_FILE_SIZE, bytes(offsets[last] - LOG_FILE_SIZE))
    return set(range(first, last))


def lose_a_file(store: Path, offsets: list[int]) -> set[int]:
    (store / f"commitlog/{LOG_FILE_SIZE:020}").unlink()
    return {number for number, offset in enumerate(offsets) if LOG_FILE_SIZE <= offset < 2 * LOG_FILE_SIZE}


def tear_the_end(store: Path, offsets: list[int]) -> set[int]:
    overwrite(store, offsets[-1] + 10, bytes(30))
    return {MESSAGES - 1}


DAMAGES = [flip_body, flip_size, zero_across_files, lose_a_file, tear_the_end]
Damage = Callable[[Path, list[int]], set[int]]


def check_repaired(path: Path, offsets: list[int], lost: set[int]) -> None:
    """Every message that was not damaged is where it was, by place, by queue and by key."""
    left = [number for number in range(MESSAGES) if number not in lost]
    with mqstore.open(path, **SMALL_FILES) as opened:
        assert opened.report().is_whole
        assert [found.commit_log_offset for found in opened.topic("t").queue(0)] == [
            offsets[number] for number in left if number % 2 == 0
        ]
        for number in range(0, MESSAGES, 7):
            found = opened.query_message("t", f"k{number}")
            assert [message.commit_log_offset for message in found] == ([] if number in lost else [offsets[number]])
    audit, findings = verify(path, **SMALL_FILES)
    # What is gone stays gone: offsets that no record has. All else agrees.
    assert {finding.kind for finding in findings} <= {"offset_gap"}
    assert audit.record_count >= len(left)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("in_place", [False, True])
def test_what_checks_out_is_kept_where_it_is(
    java: JavaStore,
    store: tuple[Path, list[int]],
    tmp_path: Path,
    damage: Damage,
    in_place: bool,  # noqa: FBT001 (a case)
) -> None:
    path, offsets = store
    lost = damage(path, offsets)
    audit, _ = verify(path, **SMALL_FILES)
    assert not audit.is_whole
    if in_place and damage is lose_a_file:
        with pytest.raises(mqstore.StoreLayoutError):
            repair(path, **SMALL_FILES)
        return
    before = copy_store(path, tmp_path / "before")
    done = repair(path, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert set(done.lost) == {LostMessage(topic="t", queue_id=n % 2, queue_offset=n // 2) for n in lost}
    assert done.message_count == MESSAGES - len(lost)
    check_repaired(done.path, offsets, lost)
    if in_place:
        assert done.saved is not None
        assert queue_contents(done.saved) == queue_contents(before)
    else:
        assert log_contents(path) == log_contents(before)
        assert queue_contents(path) == queue_contents(before)
    # The Java store loses nothing more.
    with_java = NaiveModel.of(java.run("dump", copy_store(done.path, tmp_path / "java"), SMALL_FILES))
    assert {offsets[number] for number in range(MESSAGES) if number not in lost} <= set(with_java.records)


def test_a_whole_store_is_rebuilt_as_it_is(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, _ = store
    audit, findings = verify(path, **SMALL_FILES)
    assert (audit.is_whole, findings, audit.record_count) == (True, [], MESSAGES)
    done = repair(path, tmp_path / "whole", **SMALL_FILES)
    assert (done.lost, done.holes, done.message_count) == ((), (), MESSAGES)
    assert log_contents(done.path) == log_contents(path)
    assert queue_contents(done.path) == queue_contents(path)
    assert index_contents(done.path) == index_contents(path)


def test_derived_files_are_made_anew(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, offsets = store
    unit = path / "consumequeue/t/0/00000000000000000000"
    content = bytearray(unit.read_bytes())
    content[45] ^= 4
    unit.write_bytes(content)
    (index,) = sorted((path / "index").iterdir())[:1]
    index.write_bytes(bytes(index.stat().st_size))
    audit, _ = verify(path, **SMALL_FILES)
    assert {"unit_missing", "unit_wrong"} <= set(audit.counts)
    done = repair(path, tmp_path / "whole", **SMALL_FILES)
    assert not done.lost
    check_repaired(done.path, offsets, set())


def test_what_cannot_be_repaired_is_told(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, _ = store
    with pytest.raises(mqstore.OptionError, match="does not exist yet"):
        repair(path, tmp_path, **SMALL_FILES)
    with mqstore.open(path, "rw", **SMALL_FILES), pytest.raises(mqstore.StoreLockedError):
        repair(path, tmp_path / "whole", **SMALL_FILES)
    with pytest.raises(mqstore.StoreNotFoundError):
        verify(tmp_path / "nowhere")


def test_nobody_writes_from_the_look_at_the_log_to_the_end(
    store: tuple[Path, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, offsets = store
    lost = flip_body(path, offsets)
    refused = []

    def write(what: str) -> None:
        """A writer that cuts the log at the hole, as 4.9.3 would, and puts something else there."""
        with pytest.raises(mqstore.StoreLockedError):
            mqstore.open(path, "rw", on_damage="truncate", **SMALL_FILES)
        refused.append(what)

    begin, rename, module = unfinished.begin, Path.rename, sys.modules["mqstore.verify.repair"]

    def begin_later(own: Path, found: unfinished.Found) -> None:
        write("noted")
        begin(own, found)

    def rename_later(self: Path, target: Path) -> Path:
        write(self.name)
        return rename(self, target)

    def called_later(name: str) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(module, name)

        def call_later(*given: Any, **named: Any) -> Any:
            write(name)
            return call(*given, **named)

        return call_later

    for name in ("derive", "put_back", "mend_config"):
        monkeypatch.setattr(module, name, called_later(name))
    monkeypatch.setattr(unfinished, "begin", begin_later)
    monkeypatch.setattr(Path, "rename", rename_later)
    done = repair(path, **SMALL_FILES)
    monkeypatch.undo()
    aside = ["positions", "closed", "consumequeue", "index", "checkpoint"]
    assert refused == ["noted", *aside, "derive", "put_back", "mend_config"]
    assert len(done.lost) == len(lost)
    check_repaired(path, offsets, lost)


@pytest.mark.parametrize("in_place", [True, False], ids=["in-place", "out"])
def test_a_log_that_lies_elsewhere(tmp_path: Path, *, in_place: bool) -> None:
    """In two folders, and a third that is only read."""
    path = tmp_path / "store"
    given = SMALL_FILES | {"storePathCommitLog": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    with mqstore.open(path, "rw", **given) as opened:
        offsets = [opened.put("t", bytes(500), queue_id=0).wrote_offset or 0 for _ in range(MESSAGES)]
    (tmp_path / "c").mkdir()
    first = next(folder for folder in (tmp_path / "a", tmp_path / "b") if (folder / f"{0:020}").exists())
    (first / f"{0:020}").rename(tmp_path / "c" / f"{0:020}")
    given["readOnlyCommitLogStorePaths"] = str(tmp_path / "c")
    last = tmp_path / ("a" if (tmp_path / "a" / f"{LOG_FILE_SIZE:020}").exists() else "b")
    damaged = next(number for number, offset in enumerate(offsets) if offset > LOG_FILE_SIZE)
    with (last / f"{LOG_FILE_SIZE:020}").open("r+b") as file:
        file.seek(offsets[damaged] - LOG_FILE_SIZE + BODY_AT)
        file.write(b"\1")
    done = repair(path, None if in_place else tmp_path / "whole", **given)
    assert [message.queue_offset for message in done.lost] == [damaged]
    assert done.message_count == MESSAGES - 1
    if in_place:
        assert not (path / "commitlog").exists()
    else:
        shutil.rmtree(tmp_path / "c")
    with mqstore.open(done.path, **(given if in_place else SMALL_FILES)) as repaired:
        assert [message.queue_offset for message in repaired.select("t")] == [
            number for number in range(MESSAGES) if number != damaged
        ]


@pytest.mark.parametrize("in_place", [True, False], ids=["in-place", "out"])
@pytest.mark.parametrize("gap", [0, 200], ids=["small-hole-before", "small-hole-behind"])
def test_a_forged_record_costs_nothing_behind_it(tmp_path: Path, gap: int, *, in_place: bool) -> None:
    """A body holds one, and the head before it is damaged: what is left on a side has no room for a record."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        for number in range(20):
            offset = opened.get_max_phy_offset()
            body = b"%d" % number
            if number == 10:
                damaged, body = offset, bytes(gap) + forged(offset + BODY_AT + gap, b"forged", 300)
            opened.put("t", body, queue_id=0)
    overwrite(path, damaged, b"\xee" * BODY_AT)
    done = repair(path, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert [message.queue_offset for message in done.lost] == [10]
    with mqstore.open(done.path, **SMALL_FILES) as repaired:
        found = [(message.topic, message.queue_offset) for message in repaired.select() if message.topic != "-"]
    assert found == [("t", number) for number in range(20) if number != 10]


def test_the_commands(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, offsets = store
    (total,) = (json.loads(line) for line in run_mqstore("verify", path, SMALL_FILES))
    assert total["wrong"] == 0
    damaged = copy_store(path, tmp_path / "damaged")
    flip_body(damaged, offsets)
    shown = run_and_fail("verify", damaged, SMALL_FILES)
    assert json.loads(shown[0])["kind"] in {"bad_body", "bad_record"}
    shown = run_and_fail("repair", damaged, SMALL_FILES, "--out", str(tmp_path / "whole"))
    assert [json.loads(line) for line in shown] == [{"topic": "t", "queue": 0, "lost offset": 50}]
    check_repaired(tmp_path / "whole", offsets, {100})


@pytest.mark.parametrize("was_closed", [False, True])
def test_a_check_says_that_a_store_was_not_closed(store: tuple[Path, list[int]], *, was_closed: bool) -> None:
    """What is missing at the ends then is made by the next opening."""
    path, _ = store
    queue = path / "consumequeue" / "t" / "0"
    with max(file for file in queue.iterdir() if any(file.read_bytes())).open("r+b") as file:
        file.seek(len(file.read().rstrip(b"\0")) // 20 * 20 - 20)
        file.write(bytes(40))
    if not was_closed:
        (path / "abort").touch()
    for given in ("--json", "--table"):
        done = subprocess.run(
            [*mqstore_command("verify", path, SMALL_FILES), given], capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 1
        assert done.stderr.startswith(f"{path} was not closed: the next opening") == (not was_closed)


def run_and_fail(command: str, directory: Path, options: dict[str, Any], *given: str) -> list[str]:
    """Runs a command that has to end with 1, and gives the lines it printed."""
    done = subprocess.run(
        [*mqstore_command(command, directory, options), *given], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("in_place", [False, True])
def test_a_repair_tells_its_steps(store: tuple[Path, list[int]], tmp_path: Path, *, in_place: bool) -> None:
    flip_body(*store)
    steps = list[str]()
    repair(store[0], None if in_place else tmp_path / "whole", step=steps.append, **SMALL_FILES)
    into_folder = ["going over the log and copying it", "making queues and index anew"]
    assert steps == (
        ["going over the log", "filling the log's holes", "making queues and index anew"] if in_place else into_folder
    )


def test_a_terminal_sees_what_a_repair_is_at(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    master, terminal = pty.openpty()
    command = [*mqstore_command("repair", store[0], SMALL_FILES), "--out", str(tmp_path / "whole")]
    told = b""
    with subprocess.Popen(command, stderr=terminal, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(terminal)
        with contextlib.suppress(OSError):  # as a terminal tells its end
            while part := os.read(master, 4096):
                told += part
    os.close(master)
    assert process.returncode == 0
    assert b"making queues and index anew" in told
    assert b"messages, 0 lost" in told


@pytest.mark.parametrize("out", ["store/whole", "store", "link/whole"])
def test_nothing_is_made_in_the_store_that_is_repaired(tmp_path: Path, out: str) -> None:
    with mqstore.open(tmp_path / "store", "rw", **SMALL_FILES) as store:
        store.put("t", b"body")
    (tmp_path / "link").symlink_to(tmp_path / "store")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(mqstore.OptionError, match=f"option out='.*{out}': expected a folder"):
        repair(tmp_path / "store", tmp_path / out, **SMALL_FILES)
    assert sorted(tmp_path.rglob("*")) == before


def test_progress_is_copied(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, offsets = store
    damaged = flip_body(path, offsets)
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        for model in ("clustering", "broadcasting"):
            with opened.consumer(f"g-{model}", "t", message_model=model, from_where="first") as consumer:
                message = consumer.poll()
                assert message is not None
                consumer.ack(message)
    sink = path / "mqstore/spark/sink"
    sink.mkdir(parents=True)
    (sink / "batch.json").write_bytes(b"{}")
    done = repair(path, tmp_path / "whole", **SMALL_FILES)
    assert len(done.lost) == len(damaged)
    kept = {at.relative_to(path): at.read_bytes() for at in path.rglob("*.json") if at.stat().st_size}
    assert {at: (done.path / at).read_bytes() for at in kept} == kept
    assert len([at for at in kept if at.parts[0] == "mqstore"]) >= 2


@pytest.mark.parametrize("in_place", [False, True])
def test_a_lost_message_makes_no_other_queue_s_first_one_a_stranger(tmp_path: Path, *, in_place: bool) -> None:
    """Its offset is missing in one queue, and the first that another has: nothing was moved there."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES, fileReservedTime=0) as store:
        while store.get_max_phy_offset() < 3 * LOG_FILE_SIZE:
            for queue_id in range(4):
                store.put("t", bytes(901), queue_id=queue_id)
        store.flush()
        store.execute_delete_files_manually()
        for number in range(40):
            store.put("t", bytes(901), queue_id=number % 4)
        kept = [(message.queue_id, message.queue_offset, message.commit_log_offset) for message in store.select("t")]
    in_log_order = sorted(kept, key=lambda message: message[2])
    first_queue, first_offset, _ = in_log_order[0]
    assert first_queue > 0
    damaged = (first_queue, first_offset + 1)
    assert (0, first_offset + 1) == in_log_order[4 - first_queue][:2]
    overwrite(path, next(offset for *place, offset in kept if tuple(place) == damaged) + BODY_AT, b"\0\1")
    done = repair(path, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert done.lost == (LostMessage(topic="t", queue_id=damaged[0], queue_offset=damaged[1]),)
    with mqstore.open(done.path, **SMALL_FILES) as store:
        found = [(message.queue_id, message.queue_offset, message.commit_log_offset) for message in store.select("t")]
    assert found == [message for message in kept if message[:2] != damaged]
    shutil.rmtree(done.path / "consumequeue")
    with mqstore.open(done.path, "rw", **SMALL_FILES) as store:
        assert [message.commit_log_offset for message in store.select("t")] == [message[2] for message in found]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_jump_over_a_lost_message_makes_no_stranger(tmp_path: Path, *, in_place: bool) -> None:
    """A queue's last message jumps, and says the offset that another queue misses: both have lost the one before."""
    path, places = tmp_path / "store", dict[tuple[int, int], int]()
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        for queue_id, queue_offset in [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (1, 2), (0, 3), (2, 0)]:
            result = store.put("t", bytes(100), queue_id=queue_id)
            assert result.logics_offset == queue_offset
            assert result.wrote_offset is not None
            places[queue_id, queue_offset] = result.wrote_offset
    lost = [(0, 2), (1, 1)]
    for place in lost:
        overwrite(path, places[place], b"\1" * 8)
    # Units would tell.
    shutil.rmtree(path / "consumequeue")
    done = repair(path, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert sorted((message.queue_id, message.queue_offset) for message in done.lost) == lost
    with mqstore.open(done.path, **SMALL_FILES) as store:
        found = sorted((message.queue_id, message.queue_offset) for message in store.select("t"))
    assert found == sorted(places.keys() - lost)


def test_a_damaged_body_is_told_by_its_head(store: tuple[Path, list[int]], tmp_path: Path) -> None:
    """No unit tells of it, and no message behind it in its queue."""
    path, offsets = store
    overwrite(path, offsets[-2] + BODY_AT, b"\0\1")
    for unit in (path / "consumequeue" / "t" / "0").iterdir():
        unit.write_bytes(bytes(len(unit.read_bytes())))
    done = repair(path, tmp_path / "whole", **SMALL_FILES)
    assert done.lost == (LostMessage(topic="t", queue_id=0, queue_offset=299),)


@pytest.mark.parametrize("in_place", [False, True])
def test_what_was_lost_once_is_not_told_again(store: tuple[Path, list[int]], tmp_path: Path, *, in_place: bool) -> None:
    path, offsets = store
    flip_body(path, offsets)
    first = repair(path, None if in_place else tmp_path / "first", **SMALL_FILES)
    assert len(first.lost) == 1
    second = repair(first.path, None if in_place else tmp_path / "second", **SMALL_FILES)
    assert (second.lost, second.holes, second.message_count) == ((), (), MESSAGES - 1)
    overwrite(second.path, offsets[200] + BODY_AT, b"\0\1")
    third = repair(second.path, None if in_place else tmp_path / "third", **SMALL_FILES)
    assert third.lost == (LostMessage(topic="t", queue_id=0, queue_offset=100),)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("lost_count", [1, 3])
def test_a_removed_queue_stays_away_though_its_last_messages_are_lost(
    tmp_path: Path, lost_count: int, *, in_place: bool
) -> None:
    """The list of removed queues names the last of them, where there is a hole, or what fills it."""
    path, clock = tmp_path / "store", HandClock()
    with mqstore.open(path, "rw", clock=clock, **SMALL_FILES) as opened:

        def put(topic: str, body: bytes) -> int:
            clock.now_ms += 1000
            return opened.put(topic, body, queue_id=0).wrote_offset or 0

        old = [put("t", b"old") for _ in range(10)]
        put("stays", b"stays")
        assert opened.clean_unused_topic({"stays"}) == 1
        new = [put("t", b"new") for _ in range(12)]
    removed = (path / "mqstore" / "removed_queues").read_bytes()
    for place in old[-lost_count:]:
        lose(path, place)
    done = repair(path, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert (done.lost, done.message_count) == ((), 13)
    if done.saved is not None:
        assert (done.saved / "mqstore" / "removed_queues").read_bytes() == removed
    for _ in range(2):
        with mqstore.open(done.path, "rw", **SMALL_FILES) as opened:
            found = [(message.commit_log_offset, message.queue_offset) for message in opened.select("t")]
        assert found == [(place, number) for number, place in enumerate(new)]
        shutil.rmtree(done.path / "consumequeue")
    assert repair(done.path, tmp_path / "again", **SMALL_FILES).message_count == 13
