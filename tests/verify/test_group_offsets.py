"""How far groups and delay levels are once a queue has lost its last messages."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import mqstore
from mqstore.cli.main import main
from mqstore.store import config_json
from mqstore.verify import repair
from tests.compat.streams import SMALL_FILES
from tests.services.conftest import HandClock
from tests.verify.damage import BODY_AT, lose, overwrite
from tests.waiting import wait_until

SHARED = "mqstore/consumers/shared/consumerOffset.json"
LIGHT: dict[str, Any] = SMALL_FILES | {"enableLmq": True, "enableMultiDispatch": True}


@pytest.mark.parametrize("in_place", [False, True])
def test_no_group_is_further_than_its_queue(tmp_path: Path, *, in_place: bool) -> None:
    """A queue that has lost its last messages gives their offsets again: who has read them would miss what comes."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        puts = [opened.put("t", b"%d" % number, queue_id=number % 2) for number in range(600)]
    shared = path / "mqstore" / "consumers" / "shared" / "consumerOffset.json"
    shared.parent.mkdir(parents=True)
    shared.write_text('{"offsetTable":{"t@shared":{0:299,1:300}}}')
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        opened.consumers.reset_offset("far", {("t", 0): 300, ("t", 1): 300, ("t", 7): 5})
        opened.consumers.reset_offset("near", {("t", 0): 12, ("t", 1): 297})
    before = (path / "config" / "consumerOffset.json").read_bytes()
    for number in (595, 597, 599):
        overwrite(path, (puts[number].wrote_offset or 0) + BODY_AT, b"\0\1")
    done = repair(path, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert [(lost.queue_id, lost.queue_offset) for lost in done.lost] == [(1, 297), (1, 298), (1, 299)]
    assert done.set_back_count == 3
    if done.saved is not None:
        assert (done.saved / "config" / "consumerOffset.json").read_bytes() == before
    with mqstore.open(done.path, "rw", **SMALL_FILES) as opened:
        stats = {
            (group, at.queue_id): at.consumer_offset
            for group in ("far", "near", "shared")
            for at in opened.consumers.consume_stats(group)
        }
        assert opened.put("t", b"next", queue_id=1).logics_offset == 297
    assert stats == {
        ("far", 0): 300,
        ("far", 1): 297,
        ("far", 7): 0,
        ("near", 0): 12,
        ("near", 1): 297,
        ("shared", 0): 299,
        ("shared", 1): 297,
    }


@pytest.mark.parametrize("in_place", [False, True])
def test_a_group_that_has_read_a_queue_that_was_removed_is_given_all_that_the_next_one_has(
    tmp_path: Path, *, in_place: bool
) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        for queue_id in (0, 1):
            store.put_many("t", [b"old"] * 5, queue_id=queue_id)
        with store.consumer("g", "t", from_where="first", timeout=0) as consumer:
            assert len(list(consumer)) == 10
        store.clean_unused_topic({"other"})
        store.put_many("t", [b"new 0", b"new 1"], queue_id=0)
    done = repair(path, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert done.set_back_count == 2
    with (
        mqstore.open(done.path, "rw", **SMALL_FILES) as store,
        store.consumer("g", "t", from_where="first", timeout=0) as consumer,
    ):
        assert [bytes(message.body) for message in consumer] == [b"new 0", b"new 1"]


@pytest.mark.parametrize("in_place", [False, True])
def test_no_delay_level_is_further_than_its_queue(tmp_path: Path, *, in_place: bool) -> None:
    """What is delayed next has the offsets that the lost ones had, and would never be delivered."""
    path, clock = tmp_path / "store", HandClock()
    given: dict[str, Any] = SMALL_FILES | {"messageDelayLevel": "1s 2s 3s", "clock": clock}
    options = {name: value for name, value in given.items() if name != "clock"}
    with mqstore.open(path, "rw", **given) as store:
        for level in (1, 2):
            places = [store.put("t", b"first", delay_time_level=level).wrote_offset or 0 for _ in range(10)]
    # Three of level 2, all that there are behind the log's last but those.
    for place in places[7:]:
        lose(path, place)
    offsets = path / "config" / "delayOffset.json"
    offsets.write_text('{"offsetTable":{1:10,2:10,3:4}}')
    before = offsets.read_bytes()
    done = repair(path, None if in_place else tmp_path / "whole", **options)
    assert done.set_back_count == 2
    written = config_json.loads((done.path / "config" / "delayOffset.json").read_text())
    assert written["offsetTable"] == {"1": 10, "2": 7, "3": 0}
    if done.saved is not None:
        assert (done.saved / "config" / "delayOffset.json").read_bytes() == before
    with mqstore.open(done.path, "rw", schedule_messages=True, **given) as store:
        for _ in range(5):
            store.put("t", b"next", queue_id=0, delay_time_level=2)
        clock.now_ms += 10_000
        wait_until(lambda: [bytes(message.body) for message in store.topic("t")] == [b"next"] * 5)


@pytest.mark.parametrize("in_place", [False, True])
def test_no_group_of_a_broker_with_light_queues_is_further_than_its_queue(tmp_path: Path, *, in_place: bool) -> None:
    """Such a broker keeps the offsets of all groups in another file, those of light ones beside the others."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **LIGHT) as store:
        puts = [store.put("t", b"x", queue_id=0, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}) for _ in range(10)]
    for put in puts[7:]:
        lose(path, put.wrote_offset or 0)
    offsets = path / "config" / "lmqConsumerOffset.json"
    offsets.parent.mkdir(exist_ok=True)
    offsets.write_text(
        '{"lmqOffsetTable":{"%LMQ%a@%LMQ%far":10,"%LMQ%a@%LMQ%near":3},"offsetTable":{"t@far":{0:10},"t@near":{0:7}}}'
    )
    before = offsets.read_bytes()
    done = repair(path, None if in_place else tmp_path / "whole", **LIGHT)
    assert done.set_back_count == 2
    written = config_json.loads((done.path / "config" / "lmqConsumerOffset.json").read_text())
    assert written["lmqOffsetTable"] == {"%LMQ%a@%LMQ%far": 7, "%LMQ%a@%LMQ%near": 3}
    assert written["offsetTable"] == {"t@far": {"0": 7}, "t@near": {"0": 7}}
    if done.saved is not None:
        assert (done.saved / "config" / "lmqConsumerOffset.json").read_bytes() == before


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    "name", ["config/consumerOffset.json", "config/delayOffset.json", "config/subscriptionGroup.json", SHARED]
)
def test_what_groups_have_and_nobody_can_read_stays_and_is_told(tmp_path: Path, name: str, *, in_place: bool) -> None:
    """Made anew they would have every group begin anew, and some of them at the end."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        opened.put("t", b"message", queue_id=0)
    for damaged in (path / name, path / f"{name}.bak"):
        damaged.parent.mkdir(parents=True, exist_ok=True)
        damaged.write_bytes(b"{damaged")
    out = tmp_path / "whole"
    options = [part for option, value in SMALL_FILES.items() for part in ("-o", f"{option}={value}")]
    to = ["--in-place"] if in_place else ["--out", str(out)]
    done = CliRunner().invoke(main, ["repair", str(path), *options, "--json", *to])
    whole = path if in_place else out
    assert f"  {whole / name} can't be read, and is as it was" in done.stderr
    assert done.exit_code == 1
    assert (whole / name).read_bytes() == b"{damaged"
    assert repair(whole, tmp_path / "again", **SMALL_FILES).unread == (tmp_path / "again" / name,)
