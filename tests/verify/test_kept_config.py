"""Repair of a store whose topics nobody can read: those that have queues are made anew."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import mqstore
from mqstore.cli.main import main
from mqstore.store import config_json
from mqstore.verify import repair, verify
from tests.compat.streams import SMALL_FILES

LIGHT: dict[str, Any] = SMALL_FILES | {"enableLmq": True, "enableMultiDispatch": True}
OPTIONS = [part for name, value in LIGHT.items() for part in ("-o", f"{name}={value}")]
DAMAGED = b"{damaged"
FILES = ("config/topics.json", "config/topics.json.bak")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store with topics of several kinds, and nobody can say which."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **LIGHT) as opened:
        opened.put("orders", b"one", queue_id=0)
        opened.put("orders", b"one", queue_id=6)
        opened.put("bills", b"one", queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%light"})
        opened.put("bills", b"delayed", delay_time_level=3)
        with opened.transaction() as transaction:
            transaction.put("paid", b"one", queue_id=1)
    for name in FILES:
        (path / name).write_bytes(DAMAGED)
    return path


def queue_counts(store: Path) -> dict[str, tuple[int, int]]:
    table = config_json.loads((store / FILES[0]).read_text())["topicConfigTable"]
    return {topic: (entry["readQueueNums"], entry["writeQueueNums"]) for topic, entry in table.items()}


MADE = {"orders": (7, 7), "bills": (1, 1), "paid": (2, 2)}


@pytest.mark.parametrize("in_place", [False, True])
def test_topics_are_made_anew_with_the_queues_that_they_have(store: Path, tmp_path: Path, *, in_place: bool) -> None:
    out = tmp_path / "whole"
    done = CliRunner().invoke(
        main, ["repair", str(store), *OPTIONS, *(["--in-place"] if in_place else ["--out", str(out)])]
    )
    assert done.exit_code == 1, "what was set of them is lost"
    assert "  config/topics.json can't be read: 3 topics were made anew" in done.stderr
    whole = store if in_place else out
    assert queue_counts(whole) == MADE
    assert not (whole / FILES[1]).exists()
    with mqstore.open(whole, "rw", **LIGHT) as opened:
        opened.put("orders", b"two", queue_id=6)
    with mqstore.open(whole) as opened:
        assert [message.body for message in opened.topic("orders").queue(6)] == [b"one", b"two"]
    assert verify(whole, **LIGHT)[1] == []
    kept = next((whole / "mqstore").glob("repaired-*")) if in_place else store
    assert [(kept / name).read_bytes() for name in FILES] == [DAMAGED, DAMAGED]


def test_a_whole_bak_is_what_they_are(store: Path, tmp_path: Path) -> None:
    (store / FILES[1]).write_text(
        '{"topicConfigTable":{"orders":{"topicName":"orders","writeQueueNums":9,"order":true}}}'
    )
    done = repair(store, tmp_path / "whole", **LIGHT)
    assert done.topics_anew is None
    with mqstore.open(done.path, "rw", **LIGHT) as opened:
        topic = opened.consumers.topics.get("orders")
    assert topic is not None
    assert (topic.write_queue_nums, topic.order) == (9, True)


def fail(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def fail_at_the_bak(unlink: Callable[..., None]) -> Callable[..., None]:
    def failing(self: Path, *, missing_ok: bool = False) -> None:
        if self.name.endswith(".bak"):
            fail()
        unlink(self, missing_ok=missing_ok)

    return failing


@pytest.mark.parametrize("place", ["derive", "mend_config", "unlink"])
def test_a_repair_that_goes_on_makes_them_anew_too(store: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    with monkeypatch.context() as failing:
        if place == "unlink":
            failing.setattr(Path, place, fail_at_the_bak(Path.unlink))
        else:
            failing.setattr(sys.modules["mqstore.verify.repair"], place, fail)
        with pytest.raises(mqstore.StoreIOError, match="No space left"):
            repair(store, **LIGHT)
    done = repair(store, **LIGHT)
    assert done.topics_anew == tuple(sorted(MADE))
    assert queue_counts(store) == MADE
    assert done.saved is not None
    assert [(done.saved / name).read_bytes() for name in FILES] == [DAMAGED, DAMAGED]


def test_topics_that_the_system_refuses_to_read_are_not_made_anew(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = sys.modules["mqstore.store.config_manager"].read_file

    def refusing(path: Path) -> bytes:
        if path.name.startswith("topics.json"):
            raise OSError(5, "Input/output error")
        return bytes(read(path))

    monkeypatch.setattr(sys.modules["mqstore.store.config_manager"], "read_file", refusing)
    for out in (None, tmp_path / "whole"):
        with pytest.raises(mqstore.StoreIOError, match=r"topics.json: Input/output error"):
            repair(store, out, **LIGHT)
    assert not (tmp_path / "whole").exists()
    assert [(store / name).read_bytes() for name in FILES] == [DAMAGED, DAMAGED]
    assert not list((store / "mqstore").glob("repair*"))
