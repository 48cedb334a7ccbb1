"""Ctrl-C in the middle of a repair: nothing is lost, and another repair goes on."""

import json
import math
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from click.testing import CliRunner

import mqstore
from mqstore.cli.main import main
from mqstore.verify import LostMessage, RepairResult, repair, verify
from tests.command import mqstore_command
from tests.compat.streams import SMALL_FILES
from tests.store_files import copy_store, index_contents, log_contents, queue_contents
from tests.verify.damage import LOG_FILE_SIZE, interrupted
from tests.waiting import wait_until

# Python itself leaves a file that Ctrl-C finds just opened, before any "with" has it, to its finalizer.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning"
)

GO_ON = "what was changed is saved in it, repair it in place again to go on"
OPTIONS = [part for name, value in SMALL_FILES.items() for part in ("-o", f"{name}={value}")]
MESSAGES = 90
LOST = {20, 21, MESSAGES - 1}
TRIED = 25
"""Of some hundred places."""
_MODULES = {
    sys.modules[f"mqstore.{name}"].__file__
    for name in ("verify.repair", "verify.unfinished", "verify.kept_config", "store.group_offsets")
}


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A store with a hole in the middle and a torn end, of which the queues still tell."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        put = [store.put("t", b"%d " % n * 200, keys=f"k{n}", queue_id=n % 2) for n in range(MESSAGES)]
        store.consumer("g", "t", from_where="first").close()
    assert max(result.wrote_offset or 0 for result in put) < LOG_FILE_SIZE
    with (path / "commitlog" / f"{0:020}").open("r+b") as log:
        for number in LOST:
            log.seek((put[number].wrote_offset or 0) + 100)
            log.write(bytes(20))
    return path


EXPECTED = tuple(sorted((LostMessage(topic="t", queue_id=n % 2, queue_offset=n // 2) for n in LOST), key=str))


def check_whole(done: RepairResult) -> None:
    """All that can be there is, and what can't be was told."""
    assert tuple(sorted(done.lost, key=str)) == EXPECTED
    assert len(done.holes) == 1
    assert done.message_count == MESSAGES - len(LOST)
    check_messages(done.path)


def check_messages(path: Path) -> None:
    with mqstore.open(path, **SMALL_FILES) as store:
        for queue in (0, 1):
            found = [bytes(message.body).split()[0] for message in store.topic("t").queue(queue)]
            assert found == [b"%d" % n for n in range(queue, MESSAGES, 2) if n not in LOST]
    assert {finding.kind for finding in verify(path, **SMALL_FILES)[1]} <= {"offset_gap"}


def is_place(frame: FrameType, event: str) -> bool:
    """Whether a repair makes a call. What a generator raises while it is let go of, Python itself drops."""
    is_own = frame.f_code.co_filename in _MODULES and frame.f_code.co_name != "<genexpr>"
    return is_own and event in {"call", "c_call"}


def places(store: Path, out: Path | None) -> int:
    """How many calls a repair makes by itself, which gives a store that is whole."""
    count = 0

    def look(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += is_place(frame, event)

    sys.setprofile(look)
    try:
        done = repair(store, out, **SMALL_FILES)
    finally:
        sys.setprofile(None)
    check_whole(done)
    return count


def press_at(place: int, run: Callable[[], object]) -> None:
    """Presses Ctrl-C when a repair makes its nth call."""
    count = 0

    def look(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += is_place(frame, event)
        if count == place:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(look)
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        sys.setprofile(None)


def chosen(count: int, seed: int) -> list[int]:
    """Some of the places, the last ones always."""
    return sorted({*random.Random(seed).sample(range(1, count + 1), min(TRIED, count)), *range(count - 5, count + 1)})


def test_into_another_folder(damaged: Path, tmp_path: Path, seed: int) -> None:
    count = places(damaged, tmp_path / "first")
    before = log_contents(damaged), queue_contents(damaged)
    out = tmp_path / "out" / "whole"
    for place in chosen(count, seed):
        press_at(place, lambda out=out: repair(damaged, out, **SMALL_FILES))  # type: ignore[misc]
        if out.exists():  # it was pressed once that was done
            check_messages(out)
            out = tmp_path / "out" / f"whole-{place}"
        assert not [left for left in (tmp_path / "out").glob("*") if left.name.endswith(".repairing")], place
    check_whole(repair(damaged, out, **SMALL_FILES))
    assert (log_contents(damaged), queue_contents(damaged)) == before


def test_in_place(damaged: Path, tmp_path: Path, seed: int) -> None:
    count = places(copy_store(damaged, tmp_path / "first"), None)
    queues, log = queue_contents(damaged), log_contents(damaged)
    again = 0
    for place in chosen(count, seed):
        store = copy_store(damaged, tmp_path / f"store-{place}")
        press_at(place, lambda store=store: repair(store, **SMALL_FILES))  # type: ignore[misc]
        # Another is broken off too, sooner or later, and somebody reads the store in between.
        press_at(max(1, count - place), lambda store=store: repair(store, **SMALL_FILES))  # type: ignore[misc]
        mqstore.open(store, **SMALL_FILES).close()
        is_noted = (store / "mqstore" / "repairing.json").exists()
        done = repair(store, **SMALL_FILES)
        if is_noted:
            check_whole(done)
            again += 1
        check_messages(store)
        saved = [*(store / "mqstore").glob("repaired-*"), *(store / "mqstore").glob("repaired-*/again*")]
        # What was there is there still: the queues as they were, where it says, and the bytes of the holes.
        assert done.saved in saved
        if is_noted:
            assert queue_contents(done.saved) == queues, place
        assert any(queue_contents(folder) == queues for folder in saved), place
        assert_saved(saved, log)
    assert again > 3


def assert_saved(saved: list[Path], log: dict[str, bytes]) -> None:
    """What the holes held is saved, and what stood behind the end."""
    content = b"".join(log[name] for name in sorted(log))
    kept = bytearray(len(content))
    for hole in (hole for folder in saved for hole in folder.glob("0*")):
        at, bytes_of_hole = int(hole.name), hole.read_bytes()
        assert bytes_of_hole == content[at:][: len(bytes_of_hole)]
        kept[at : at + len(bytes_of_hole)] = bytes_of_hole
    assert all(b"%d " % number * 100 in kept for number in LOST)


@pytest.mark.parametrize("step", ["derive", "put_back", "mend_config"])
def test_what_was_put_since_it_was_broken_off_stays(damaged: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The next one goes by the log as it is then, not as it was."""
    with monkeypatch.context() as broken:
        broken.setattr(sys.modules["mqstore.verify.repair"], step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            repair(damaged, **SMALL_FILES)
    with mqstore.open(damaged, "rw", **SMALL_FILES) as store:
        new = [store.put("new", b"%d" % number * 100, queue_id=0).wrote_offset for number in range(500)]
    assert (new[-1] or 0) > LOG_FILE_SIZE
    done = repair(damaged, **SMALL_FILES)
    assert done.message_count == MESSAGES - len(LOST) + len(new)
    assert tuple(sorted(done.lost, key=str)) == EXPECTED
    check_messages(damaged)
    with mqstore.open(damaged, **SMALL_FILES) as store:
        assert [message.commit_log_offset for message in store.select("new")] == new


@pytest.fixture
def broken_off(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, once a repair in place of it was broken off."""
    with monkeypatch.context() as broken:
        broken.setattr(sys.modules["mqstore.verify.repair"], "derive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            repair(damaged, **SMALL_FILES)
    return damaged


def test_no_other_folder_is_filled_from_what_one_that_was_broken_off_left(broken_off: Path, tmp_path: Path) -> None:
    """What is lost it would not know, nor where queues without messages go on."""
    before = log_contents(broken_off)
    with pytest.raises(mqstore.StoreLayoutError, match=rf"^{broken_off}/mqstore/repairing\.json: .*{GO_ON}$"):
        repair(broken_off, tmp_path / "new" / "whole", **SMALL_FILES)
    told = CliRunner().invoke(main, ["repair", str(broken_off), "--out", str(tmp_path / "new" / "whole")])
    assert told.exit_code == 1
    assert GO_ON in told.output
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert log_contents(broken_off) == before
    check_whole(repair(broken_off, **SMALL_FILES))


def test_a_check_says_that_a_repair_was_broken_off(broken_off: Path) -> None:
    audit, findings = verify(broken_off, **SMALL_FILES)
    assert not audit.is_whole
    (one,) = [finding for finding in findings if finding.kind == "repair_broken_off"]
    assert one.path == str(broken_off / "mqstore" / "repairing.json")
    told = CliRunner().invoke(main, ["verify", str(broken_off), *OPTIONS, "--table"])
    assert told.exit_code == 1
    assert "A repair in place that was broken off: 1\n" in told.stdout
    # That is what there is to do, and nothing else: what is missing is set aside.
    assert told.stdout.count("mqstore repair") == told.stdout.count("mqstore repair --in-place") == 1
    assert "mqstore recover" not in told.output
    assert next(line for line in told.stdout.splitlines()[1:] if line).startswith("A repair in place")
    repair(broken_off, **SMALL_FILES)
    assert "repair_broken_off" not in verify(broken_off, **SMALL_FILES)[0].counts


def test_a_check_says_so_of_one_that_lies_elsewhere(broken_off: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("mqstore.store.byte_ranges.is_remote", lambda path: str(path).startswith("file://"))
    (one,) = [each for each in verify(f"file://{broken_off}", **SMALL_FILES)[1] if each.kind == "repair_broken_off"]
    assert one.path.endswith("/mqstore/repairing.json")


@pytest.mark.parametrize("is_aside", [False, True])
def test_what_was_there_before_any_is_told(damaged: Path, monkeypatch: pytest.MonkeyPatch, *, is_aside: bool) -> None:
    """Not what those left that were broken off: they had made queues and index by then, or had set half of it aside."""
    (damaged / "config").mkdir(exist_ok=True)
    offsets = '{"offsetTable":{"t@g":{1:45}}}'
    (damaged / "config" / "consumerOffset.json").write_text(offsets)
    names = ("checkpoint", "config/consumerOffset.json")
    before = [(damaged / name).read_bytes() for name in names], queue_contents(damaged), index_contents(damaged)
    for _ in range(3):
        with monkeypatch.context() as broken:
            if is_aside:
                broken.setattr(sys.modules["mqstore.verify.repair"], "put_back", interrupted)
            else:
                rename, count = Path.rename, iter(range(9))
                broken.setattr(Path, "rename", lambda *of: interrupted() if next(count) == 1 else rename(*of))  # noqa: B023
            with pytest.raises(KeyboardInterrupt):
                repair(damaged, **SMALL_FILES)
    told = CliRunner().invoke(main, ["repair", str(damaged), *OPTIONS, "--in-place"])
    (saved,) = (damaged / "mqstore").glob("repaired-*")
    assert f"  what was there before is in {saved}\n" in told.output
    assert ([(saved / name).read_bytes() for name in names], queue_contents(saved), index_contents(saved)) == before


def noted(**wrong: object) -> str:
    """The note of a repair, wrong in one place."""
    return json.dumps(
        {
            "saved": "repaired-1",
            "holes": [],
            "told": [],
            "expired": [],
            "sizes": [1000, 4096, 97, 400],
            "makes": [False, False],
        }
        | wrong
    )


@pytest.mark.parametrize(
    "note",
    [
        *("", "[]", "7", '{"saved": "x"}', '{"saved": "../repaired-1", "holes": [], "told": []}', "[" * 100_000),
        noted(saved="../repaired-1"),
        noted(saved="repaired-\0"),
        noted(saved="repaired-" + "x" * 255),
        noted(sizes=[1000, 4096, 97]),
        noted(sizes=[1001, 4096, 97, 400]),
        noted(sizes=[1000, 0, 97, 400]),
        noted(sizes=[1000, 4096, 10**24, 400]),
        noted(sizes=[1000, 4096, 97, math.inf]),
        noted(makes=[]),
        noted(makes=7),
        noted(told=[["\ud800", 0, 1, 2]]),
        noted(cut=[7]),
        noted(expired=[["\ud800", 0, "0", 1]]),
        noted(expired=[["t" * 256, 0, "0", 1]]),
        noted(expired=[["t", 2**31, "0", 1]]),
        noted(expired=[["t", 0, "0", 0]]),
    ],
)
def test_a_note_that_is_none_is_told(damaged: Path, note: str) -> None:
    (damaged / "mqstore" / "repairing.json").write_text(note)
    before = log_contents(damaged), queue_contents(damaged)
    with pytest.raises(mqstore.StoreLayoutError, match=r"repairing\.json: expected what a repair in place had found"):
        repair(damaged, **SMALL_FILES)
    assert (log_contents(damaged), queue_contents(damaged)) == before


def test_what_a_killed_repair_left_is_told(damaged: Path, tmp_path: Path) -> None:
    (tmp_path / "whole.repairing").mkdir()
    with pytest.raises(mqstore.OptionError, match=r"whole\.repairing is what a repair made that was killed"):
        repair(damaged, tmp_path / "whole", **SMALL_FILES)


def test_a_repair_that_fails_leaves_nothing(damaged: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(mqstore.StoreIOError, match="/file"):
        repair(damaged, tmp_path / "file" / "whole", **SMALL_FILES)
    # It cannot be copied, and may lead to a disk that is not there: without it groups would begin anew.
    (damaged / "config" / "nowhere").symlink_to("elsewhere")
    told = "config/nowhere: expected a file, found a link that leads nowhere; move it out of the store, or restore"
    with pytest.raises(mqstore.StoreLayoutError, match=told):
        repair(damaged, tmp_path / "whole", **SMALL_FILES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "store"]
    check_whole(repair(damaged, **SMALL_FILES))
    assert (damaged / "config" / "nowhere").is_symlink()


def test_a_repair_whose_copy_fails_leaves_nothing(
    damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "not allowed", "config/topics.json")

    monkeypatch.setattr("shutil.copyfile", refuse)
    with pytest.raises(mqstore.StoreIOError, match=r"config/topics\.json"):
        repair(damaged, tmp_path / "whole", **SMALL_FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    (tmp_path / "kept").mkdir()
    with pytest.raises(mqstore.StoreIOError, match=r"config/topics\.json"):
        repair(damaged, tmp_path / "kept" / "a" / "b" / "whole", **SMALL_FILES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "store"]
    assert not list((tmp_path / "kept").iterdir())


def test_a_repair_that_fails_leaves_what_others_made_meanwhile(
    damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tmp_path / "a" / "others"

    def refuse(*_: object) -> None:
        others.touch()
        raise PermissionError(13, "not allowed", "config/topics.json")

    monkeypatch.setattr("shutil.copyfile", refuse)
    with pytest.raises(mqstore.StoreIOError, match=r"config/topics\.json"):
        repair(damaged, tmp_path / "a" / "b" / "whole", **SMALL_FILES)
    assert list((tmp_path / "a").iterdir()) == [others]


BIG: dict[str, Any] = {"mappedFileSizeCommitLog": 64 << 20}
ATTEMPTS = 10
"""A test that is kept waiting may come once the command is done."""


class Attempt:
    """A repair by the command, and Ctrl-C while it is at work."""

    def __init__(self, damaged: Path, folder: Path, *, in_place: bool) -> None:
        """Begins with a store as it was damaged."""
        store, self.out = copy_store(damaged, folder / "store"), folder / "whole"
        to = ["--in-place"] if in_place else ["--out", str(self.out)]
        self.command = [*mqstore_command("repair", store, BIG), "--json", *to]
        self.begun = store / "mqstore" / "repairing.json" if in_place else folder / "whole.repairing"
        with subprocess.Popen(self.command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            wait_until(lambda: self.begun.exists() or process.poll() is not None)
            process.send_signal(signal.SIGINT)
            _, self.told = process.communicate(timeout=60)
        self.returncode = process.returncode
        self.is_done = not self.begun.exists() if in_place else self.out.exists()


@pytest.mark.parametrize("in_place", [False, True])
def test_the_command(tmp_path: Path, *, in_place: bool) -> None:
    path = tmp_path / "damaged"
    with mqstore.open(path, "rw", **BIG) as store:
        for _ in range(15):
            store.put_many("t", [bytes(100)] * 20_000, queue_id=0, unique_key=False)
        size = store.get_max_phy_offset() // 300_000
    with (path / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(5 * size + 100)
        log.write(b"damage")
    attempts = (Attempt(path, tmp_path / f"{number}", in_place=in_place) for number in range(ATTEMPTS))
    attempt = next((attempt for attempt in attempts if not attempt.is_done), None)
    assert attempt is not None, "each was done before it was interrupted"
    assert attempt.returncode == 130, attempt.told
    assert attempt.told.startswith("broken off; ")
    assert "Traceback" not in attempt.told
    assert not attempt.out.exists()
    assert attempt.begun.exists() == in_place
    done = subprocess.run(attempt.command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert [json.loads(line)["lost offset"] for line in done.stdout.splitlines()] == [5]
    assert "299,999 messages, 1 lost" in done.stderr
