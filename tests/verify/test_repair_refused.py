"""What a repair refuses, before it changes anything; and what it says where it fails behind that."""

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import mqstore
from mqstore.cli.main import main
from mqstore.verify import repair, unfinished
from tests.compat.streams import SMALL_FILES
from tests.verify.damage import interrupted, lose

GO_ON = "what was changed is saved in it, repair it in place again to go on"
OPTIONS = [part for name, value in SMALL_FILES.items() for part in ("-o", f"{name}={value}")]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store of a few log files, one record of it damaged."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        put = [opened.put("t", bytes(500), keys=f"k{number}", queue_id=0) for number in range(300)]
    with (path / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek((put[20].wrote_offset or 0) + 100)
        log.write(b"damage")
    return path


def contents(store: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def call(store: Path, *given: str) -> Result:
    return CliRunner().invoke(main, ["repair", str(store), *OPTIONS, "--json", *given])


def test_a_place_that_is_not_local(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(store, "--out", "s3://AKIA:SeCrEt@bucket/store")
    assert done.exit_code == 1
    assert "option out=s3://bucket/store: what is not on this machine's disks is only read" in done.output
    assert "SeCrEt" not in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_place_by_its_uri(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert repair(store, f"file://{tmp_path}/wh%6Fle", **SMALL_FILES).path == tmp_path / "whole"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "whole"]


def test_the_root_of_all_folders(store: Path) -> None:
    for root in ("/", "//", "/..", "file:///"):
        with pytest.raises(mqstore.OptionError, match=r"^option out=.*: expected a folder in another one"):
            repair(store, root, **SMALL_FILES)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("/proc/x", "No such file or directory"),
        ("/proc/x/y", "No such file or directory"),
        ("file/x", "File exists"),
        ("x" * 250, "File name too long"),
    ],
)
def test_a_place_where_no_folder_can_be_made(store: Path, tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "file").touch()
    before, out = sorted(tmp_path.rglob("*")), tmp_path / place
    with pytest.raises(mqstore.StoreIOError) as raised:
        repair(store, out, **SMALL_FILES)
    assert raised.value.errno in {errno.ENOENT, errno.EEXIST, errno.ENAMETOOLONG}
    told = call(store, "--out", str(out))
    assert told.exit_code == 1
    assert told.stderr.startswith(f"Error: out={out}: no folder can be made there: {reason}: ")
    assert told.stderr.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_what_another_repair_makes_at_that_moment_is_left(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["mqstore.verify.repair"], "_new_folder", lambda *_: tmp_path / "whole")
    others = tmp_path / "whole.repairing" / "commitlog"
    others.mkdir(parents=True)
    with pytest.raises(mqstore.StoreIOError, match=r"out=.*/whole: no folder can be made there: File exists: "):
        repair(store, tmp_path / "whole", **SMALL_FILES)
    assert others.is_dir()


@pytest.mark.parametrize("place", ["log", "log/new", "old/a/new", "link/new", "store/new", "store/commitlog/new"])
def test_a_place_in_the_store_wherever_that_lies(tmp_path: Path, place: str) -> None:
    """The next opening of the store would meet it."""
    old, log = tmp_path / "old", tmp_path / "log"
    paths: dict[str, Any] = {"storePathCommitLog": str(log), "readOnlyCommitLogStorePaths": str(old)}
    old.mkdir()
    (tmp_path / "link").symlink_to(log)
    with mqstore.open(tmp_path / "store", "rw", **SMALL_FILES, **paths) as opened:
        opened.put("t", b"message", queue_id=0)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(mqstore.OptionError, match=r"^option out=.*: expected a folder outside of "):
        repair(tmp_path / "store", tmp_path / place, **SMALL_FILES, **paths)
    assert sorted(tmp_path.rglob("*")) == before
    assert repair(tmp_path / "store", tmp_path / "logs" / "new", **SMALL_FILES, **paths).message_count == 1


def leave_a_file(log: Path) -> str:
    (log / "README.txt").touch()
    return "README.txt: expected a file named by an offset"


def leave_a_folder(log: Path) -> str:
    (log / "old").mkdir()
    return "old: expected a file named by an offset"


def lose_a_file(log: Path) -> str:
    sorted(log.iterdir())[1].unlink()
    return f"expected the file {65536:020}"


def cut_the_last_file(log: Path) -> str:
    with max(log.iterdir()).open("r+b") as file:
        file.truncate(61_440)
    return "expected 65536 bytes"


@pytest.mark.parametrize("damage", [leave_a_file, leave_a_folder, lose_a_file, cut_the_last_file])
def test_what_a_writer_would_not_accept_in_the_log_s_folder(
    store: Path, tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    expected = damage(store / "commitlog")
    before = contents(store)
    with pytest.raises(mqstore.StoreLayoutError, match=f"{expected}.*: nothing was changed, repair into another"):
        repair(store, **SMALL_FILES)
    assert contents(store) == before
    assert repair(store, tmp_path / "whole", **SMALL_FILES).lost


@pytest.mark.parametrize("place", ["index", "consumequeue/CURRENT", "consumequeue/t/0/README.txt"])
def test_what_is_set_aside_may_hold_anything(store: Path, place: str) -> None:
    if (store / place).is_dir():
        (store / place).rename(store / "mqstore" / "away")
    (store / place).touch()
    done = repair(store, **SMALL_FILES)
    assert done.saved is not None
    assert (done.saved / place).is_file()
    assert len(done.lost) == 1


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_failure_says_that_the_store_was_changed_and_that_another_goes_on(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(sys.modules["mqstore.verify.repair"], "mend_config", full)
        with pytest.raises(mqstore.StoreIOError, match="No space left") as failed:
            repair(store, **SMALL_FILES)
        assert failed.value.__notes__ == [f"{store}: {GO_ON}"]
        told = call(store, "--in-place")
    assert told.exit_code == 1
    assert f"{store}: {GO_ON}\n" in told.output
    assert "No space left" in told.output
    assert len(repair(store, **SMALL_FILES).lost) == 1


def test_a_failure_while_it_is_set_aside_says_so_too(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def fail_at_index(self: Path, target: Path) -> Path:
        if self.name == "index":
            full()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_at_index)
    told = call(store, "--in-place")
    assert told.exit_code == 1
    assert f"{store}: {GO_ON}\n" in told.output
    assert (store / "mqstore" / "repairing.json").exists()


def test_a_failure_before_anything_is_changed_says_no_such_thing(store: Path) -> None:
    (store / "commitlog" / "README.txt").touch()
    told = call(store, "--in-place")
    assert told.exit_code == 1
    assert "README.txt" in told.output
    assert GO_ON not in told.output


@pytest.mark.parametrize("name", ["consumequeue", "index"])
def test_a_place_among_queues_or_index_that_lie_elsewhere(store: Path, tmp_path: Path, name: str) -> None:
    (store / name).rename(tmp_path / "elsewhere")
    (store / name).symlink_to("../elsewhere")
    before = contents(tmp_path)
    for place in ("elsewhere/new", "elsewhere"):
        with pytest.raises(mqstore.OptionError, match=r"^option out=.*: expected a folder outside of "):
            repair(store, tmp_path / place, **SMALL_FILES)
    assert contents(tmp_path) == before


def test_one_that_is_broken_off_before_anything_is_changed_says_so(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(store)
    with monkeypatch.context() as broken:
        broken.setattr(sys.modules["mqstore.verify.repair"], "told_by", interrupted)
        told = call(store, "--in-place")
    assert f"broken off; {store}: as it was\n" in told.output
    assert contents(store) == before


def test_what_cannot_be_saved_is_not_changed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(store)
    with monkeypatch.context() as failing:
        # Below a file no folder can be made.
        failing.setattr(unfinished, "_free", lambda path: store / "checkpoint" / path.name)
        told = call(store, "--in-place")
    assert told.exit_code == 1
    assert "/checkpoint/repaired-" in told.output
    assert GO_ON not in told.output
    assert contents(store) == before


@pytest.mark.parametrize("name", ["consumequeue", "index", "checkpoint"])
def test_what_lies_elsewhere_is_not_moved_into_the_store(store: Path, tmp_path: Path, name: str) -> None:
    (store / name).rename(tmp_path / "elsewhere")
    (store / name).symlink_to("../elsewhere")
    before = contents(tmp_path)
    with pytest.raises(mqstore.StoreLayoutError, match=rf"/{name}: expected .* a link: nothing was changed, repair"):
        repair(store, **SMALL_FILES)
    assert contents(tmp_path) == before
    assert len(repair(store, tmp_path / "whole", **SMALL_FILES).lost) == 1


LIGHT = SMALL_FILES | {"enableMultiDispatch": True, "enableLmq": True}


def further(tmp_path: Path, name: str, given: dict[str, Any]) -> Path:
    """A damaged store of messages that are in a further queue too."""
    path = tmp_path / "further"
    with mqstore.open(path, "rw", **given) as opened:
        puts = [opened.put("t", b"x", queue_id=2, properties={"INNER_MULTI_DISPATCH": name}) for _ in range(50)]
    lose(path, puts[20].wrote_offset or 0)
    return path


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("lacking", ["enableLmq", "enableMultiDispatch"])
def test_queues_that_these_options_do_not_make(tmp_path: Path, lacking: str, *, in_place: bool) -> None:
    path = further(tmp_path, "%LMQ%a", LIGHT)
    offsets = path / "config" / "consumerOffset.json"
    offsets.parent.mkdir(exist_ok=True)
    offsets.write_text('{"offsetTable":{"%LMQ%a@g":{0:50}}}')
    before = contents(tmp_path)
    out = None if in_place else tmp_path / "whole"
    with pytest.raises(mqstore.OptionError, match=rf"option {lacking}=false: .* the queue %LMQ%a 0"):
        repair(path, out, **LIGHT | {lacking: False})
    assert contents(tmp_path) == before
    assert repair(path, out, **LIGHT).message_count == 2 * 49


@pytest.mark.parametrize("in_place", [False, True])
def test_further_queues_that_these_options_do_not_make(tmp_path: Path, *, in_place: bool) -> None:
    """By their names they are as any other."""
    given = SMALL_FILES | {"enableMultiDispatch": True}
    path = further(tmp_path, "others", given)
    before = contents(tmp_path)
    out = None if in_place else tmp_path / "whole"
    with pytest.raises(mqstore.OptionError, match=r"option enableMultiDispatch=false: .* the queue others 2"):
        repair(path, out, **SMALL_FILES)
    assert contents(tmp_path) == before
    assert repair(path, out, **given).message_count == 2 * 49


def test_queues_that_these_options_do_not_make_where_one_was_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are set aside by then: it goes on with the options that it had."""
    path = further(tmp_path, "%LMQ%a", LIGHT)
    with monkeypatch.context() as broken:
        broken.setattr(sys.modules["mqstore.verify.repair"], "derive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            repair(path, **LIGHT)
    assert repair(path).message_count == 2 * 49


def test_further_queues_that_a_message_alone_names_are_none(tmp_path: Path) -> None:
    """It was stored elsewhere before, and brings what it had there."""
    path = tmp_path / "plain"
    brought = {"INNER_MULTI_DISPATCH": "others", "INNER_MULTI_QUEUE_OFFSET": "0"}
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        opened.put("others", b"first", queue_id=0)
        opened.put("t", b"brings", queue_id=0, properties=brought)
    assert repair(path, tmp_path / "whole", **SMALL_FILES).message_count == 2


@pytest.mark.parametrize("in_place", [False, True])
def test_names_go_to_a_terminal_as_what_can_be_shown(store: Path, tmp_path: Path, *, in_place: bool) -> None:
    named = store.rename(tmp_path / "st\x07re")
    told = call(named, *(["--in-place"] if in_place else ["--out", str(tmp_path / "wh\x07le")]))
    assert told.exit_code == 1, told.output
    assert "299 messages, 1 lost" in told.output
    assert "\x07" not in told.output
    assert ("st\\x07re" if in_place else "wh\\x07le") in told.output
