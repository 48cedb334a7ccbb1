"""Replication between mqstore stores."""

import logging
import math
import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.services import TimedMessageService
from mqstore.store import life_cycle
from tests.compat.cutter import Cutter
from tests.services.conftest import HandClock
from tests.services.delivery import service_of, wait_for_passes
from tests.services.ha_peers import Pair, put_some, records, wait_equal
from tests.store.conftest import SMALL
from tests.store_files import log_contents
from tests.waiting import wait_until

NOBODY = "127.0.0.1:1"
"""Where nobody listens."""


def test_a_slave_becomes_its_masters_copy(pair: Pair) -> None:
    master = pair.open("master")
    slave = pair.slave_of(master)
    put_some(master, 500)
    wait_equal(master, slave)
    bodies = [bytes(message.body) for message in master.topic("topic-1")]
    assert [bytes(message.body) for message in slave.topic("topic-1")] == bodies
    assert slave.query_message("topic-2", "key-440")[0].tags == "tag-0"
    assert master.replication.wait_for_slave(timeout=60)
    assert master.slave_fall_behind_much() == 0
    (connection,) = master.replication.slaves
    assert connection.transferred_offset == master.get_max_phy_offset()
    put_some(master, 100)
    assert master.replication.wait_for_slave(timeout=60)
    wait_equal(master, slave)
    pair.check_equal("master", "slave")


def test_a_slave_has_what_was_not_committed_yet_too(pair: Pair) -> None:
    master = pair.open(
        "master", transientStorePoolEnable=True, transientStorePoolSize=2, commitIntervalCommitLog=3_600_000
    )
    slave = pair.slave_of(master)
    put_some(master, 3)
    last = master.put("topic-1", b"last")
    assert master.replication.wait_for_slave(timeout=60)
    assert last.wrote_offset is not None
    assert slave.get_max_phy_offset() == last.wrote_offset + last.wrote_bytes


def test_a_slave_that_is_closed_leaves_all_that_it_got_in_its_files(pair: Pair) -> None:
    """Whatever its pool and how seldom it would commit: a slave has none, as in 4.9.3."""
    seldom: dict[str, Any] = {
        "transientStorePoolEnable": True,
        "transientStorePoolSize": 2,
        "commitIntervalCommitLog": 3_600_000,
        "flushIntervalCommitLog": 3_600_000,
    }
    master = pair.open("master")
    slave = pair.slave_of(master, **seldom)
    # More than a file: the pool has some for either role.
    put_some(master, 500)
    wait_equal(master, slave)
    end = slave.get_max_phy_offset()
    slave.close()
    with mqstore.open(pair.path("slave"), **SMALL) as reader:
        report = reader.report()
        assert report.closed_cleanly
        assert report.is_whole
        assert reader.get_max_phy_offset() == end
        assert len(list(reader.select())) == 500
    assert log_contents(pair.path("slave")) == log_contents(pair.path("master"))


def test_a_slave_takes_no_messages(pair: Pair) -> None:
    slave = pair.slave_of(pair.open("master"))
    with pytest.raises(mqstore.ServiceNotAvailableError, match="master alone"):
        slave.put("orders", b"no")


@pytest.mark.parametrize(("of_master", "of_slave"), [(0, 50), (50, 0), (0, 0)])
def test_heartbeats_without_a_pause_keep_nobody_waiting(pair: Pair, of_master: int, of_slave: int) -> None:
    master = pair.open("master", brokerRole="SYNC_MASTER", haSendHeartbeatInterval=of_master)
    slave = pair.slave_of(master, haSendHeartbeatInterval=of_slave)
    put_some(master, 20)
    wait_equal(master, slave)
    pair.check_equal("master", "slave")


@pytest.mark.parametrize("batch_size", [1, 7, 100, 32 << 10])
def test_records_are_cut_anywhere(pair: Pair, batch_size: int) -> None:
    master = pair.open("master", haTransferBatchSize=batch_size)
    slave = pair.slave_of(master)
    put_some(master, 12 if batch_size == 1 else 300)
    wait_equal(master, slave)
    assert not slave.report().gaps
    pair.check_equal("master", "slave")


def test_restarts_on_either_side_change_nothing(pair: Pair) -> None:
    master = pair.open("master")
    # A master that is opened again has another port: somebody else may have taken the one that it gave back.
    with closing(Cutter(str(master.replication.listen_address))) as wire:
        slave = pair.slave_of(master, haMasterAddress=wire.address)
        put_some(master, 200)
        wait_equal(master, slave)
        slave.close()
        put_some(master, 200)
        slave = pair.slave_of(master, haMasterAddress=wire.address)
        wait_equal(master, slave)
        assert master.replication.failure is None
        wait_until(lambda: slave.replication.failure is None)
        wire.lead_to(NOBODY)
        master.close()
        wait_until(lambda: not slave.replication.is_connected)
        assert wire.address in str(slave.replication.failure)
        assert slave.report().failing
        master = pair.open("master")
        wire.lead_to(str(master.replication.listen_address))
        put_some(master, 200)
        wait_equal(master, slave)
        wait_until(lambda: slave.report().is_whole)
        pair.check_equal("master", "slave")


def test_an_empty_slave_gets_the_newest_file_alone(pair: Pair) -> None:
    master = pair.open("master")
    put_some(master, 1000)
    last = master.get_max_phy_offset() // 65_536 * 65_536
    assert last > 0
    slave = pair.slave_of(master)
    wait_equal(master, slave)
    assert slave.get_min_phy_offset() == last
    put_some(master, 300)
    wait_equal(master, slave)
    slave.close()
    slave = pair.slave_of(master)
    put_some(master, 10)
    wait_equal(master, slave)
    assert slave.get_min_phy_offset() == last
    pair.close()
    of_slave, of_master = (log_contents(pair.path(name)) for name in ("slave", "master"))
    assert of_slave == {name: content for name, content in of_master.items() if int(name) >= last}


def test_a_slave_can_be_anothers_master(pair: Pair) -> None:
    master = pair.open("master")
    slave = pair.slave_of(master)
    third = pair.slave_of(slave, "third")
    put_some(master, 300)
    wait_equal(master, third)
    pair.check_equal("master", "slave", "third")


def test_a_slave_that_has_lost_its_end_becomes_no_master_before_it_has_it_again(pair: Pair) -> None:
    """Else what it lost is gone without a word, and its queue offsets are other messages'."""
    master = pair.open("master")
    slave = pair.slave_of(master)
    put_some(master, 300)
    wait_equal(master, slave)
    end = slave.get_max_phy_offset()
    slave.close()
    max((pair.path("slave") / "commitlog").iterdir()).unlink()
    slave = pair.slave_of(NOBODY)
    assert not slave.report().is_whole
    slave.close()
    with pytest.raises(mqstore.DamagedStoreError, match=f"was on the disk up to {end}"):
        pair.open("slave")
    slave = pair.slave_of(master)
    wait_equal(master, slave)
    assert slave.report().is_whole
    slave.close()
    pair.open("slave")
    pair.check_equal("master", "slave")


def test_a_slave_that_is_not_told_of_a_removed_queue_tells_it_and_becomes_no_master(pair: Pair) -> None:
    """The wire has no word for it. What is under the queue's name by now has places that the old messages have here."""
    master = pair.open("master")
    slave = pair.slave_of(master)
    old = [b"old %d" % number for number in range(5)]
    for body in old:
        master.put("orders", body, queue_id=0)
        master.put("other", body, queue_id=0)
    wait_equal(master, slave)
    assert master.clean_unused_topic({"other"}) == 1
    master.put("orders", b"new", queue_id=0)
    assert master.replication.wait_for_slave(timeout=60)
    wait_equal(master, slave)
    assert [bytes(message.body) for message in master.topic("orders")] == [b"new"]
    assert [bytes(message.body) for message in slave.topic("orders")] == old
    assert not slave.report().is_whole
    slave.close()
    with pytest.raises(mqstore.DamagedStoreError, match="found one that says it is offset 0"):
        pair.open("slave")


def test_a_slave_becomes_the_master(pair: Pair) -> None:
    master = pair.open("master")
    slave = pair.slave_of(master)
    put_some(master, 200)
    wait_equal(master, slave)
    master.close()
    slave.close()
    new_master = pair.open("slave")
    assert new_master.get_max_offset_in_queue("topic-0", 0) > 0
    put_some(new_master, 200)
    queue = new_master.topic("topic-0").queue(0)
    assert [message.queue_offset for message in queue] == list(range(len(queue)))
    new_slave = pair.slave_of(new_master, "master")
    wait_equal(new_master, new_slave)
    pair.check_equal("slave", "master")


def test_delayed_messages_are_the_masters_to_deliver(pair: Pair) -> None:
    given: dict[str, Any] = {"schedule_messages": True, "messageDelayLevel": "1s"}
    master = pair.open("master", **given)
    slave = pair.slave_of(master, **given)
    master.put("orders", b"later", delay_time_level=1, queue_id=0)
    assert slave.wait_for_message("orders", 0, 0, timeout=30)
    wait_equal(master, slave)
    pair.check_equal("master", "slave")


def test_timed_messages_go_on_where_a_former_master_stopped(pair: Pair) -> None:
    given: dict[str, Any] = {"schedule_messages": True, "clock": (clock := HandClock())}
    master = pair.open("master", **given)
    slave = pair.slave_of(master, **given)
    for number in range(6):
        master.put("orders", b"%d" % number, queue_id=0, deliver_at=clock.now_ms + 1 + number)
    clock.now_ms += 3
    wait_until(lambda: len(master.topic("orders")) == 3)
    assert slave.wait_for_message("orders", 0, 2, timeout=30)
    master.handle_schedule_message_service("SLAVE")  # writes what it has delivered
    wait_equal(master, slave)
    assert [service.name for service in slave._services if service.name == "TimedMessageService"] == []
    # Nothing of the master but its log is there.
    pair.check_equal("master", "slave")
    clock.now_ms += 3
    new_master = pair.open("slave", **given)
    wait_until(lambda: len(new_master.topic("orders")) == 6)
    assert [int(bytes(message.body)) for message in new_master.topic("orders").queue(0)] == list(range(6))


def test_a_master_that_is_closed_first_leaves_its_slaves_all_of_its_log(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes last which timed messages it has delivered."""
    # However long a slave takes on a busy machine.
    monkeypatch.setattr(life_cycle, "_LAST_TRANSFER_MS", 60_000)
    given: dict[str, Any] = {
        "schedule_messages": True,
        "clock": (clock := HandClock()),
        "flush_delay_offset_interval": 3_600_000,
    }
    master = pair.open("master", **given)
    slave = pair.slave_of(master, **given)
    master.put("orders", b"timed", queue_id=0, deliver_at=clock.now_ms + 1)
    clock.now_ms += 1
    assert slave.wait_for_message("orders", 0, 0, timeout=60)
    wait_equal(master, slave)
    end = master.get_max_phy_offset()
    master.close()
    assert slave.get_max_phy_offset() > end
    slave.close()
    assert log_contents(pair.path("slave")) == log_contents(pair.path("master"))
    # Nothing is delivered twice, and the former master is a slave.
    new_master = pair.open("slave", **given)
    wait_for_passes(service_of(new_master, TimedMessageService))
    new_slave = pair.slave_of(new_master, "master", **given)
    new_master.put("orders", b"another", queue_id=0)
    assert new_master.replication.wait_for_slave(timeout=60)
    assert [bytes(message.body) for message in new_slave.topic("orders").queue(0)] == [b"timed", b"another"]


def test_a_slave_that_takes_nothing_holds_no_close_up(
    pair: Pair, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life_cycle, "_LAST_TRANSFER_MS", 50)
    master = pair.open("master", schedule_messages=True)
    slave = pair.raw_slave(master)
    slave.report(0)
    wait_until(lambda: any(it.request_offset == 0 for it in master.replication.slaves))
    master.put("orders", b"body", queue_id=0)
    master.close()
    assert "closed before a slave had the end of its log" in caplog.text


def test_a_slave_follows_another_master_when_told(pair: Pair) -> None:
    master = pair.open("master")
    slave = pair.open("slave", brokerRole="SLAVE")
    put_some(master, 10)
    assert slave.replication.master_address is None
    slave.update_ha_master_address(str(master.replication.listen_address))
    wait_equal(master, slave)
    with pytest.raises(mqstore.OptionError, match="only a SLAVE"):
        master.update_ha_master_address(NOBODY)


@pytest.mark.parametrize("address", ["", "nowhere", "host:0", "host:99999", ":1"])
def test_an_address_to_follow_is_checked_as_the_option_is(pair: Pair, address: str) -> None:
    slave = pair.slave_of(NOBODY)
    with pytest.raises(mqstore.OptionError, match=r"haMasterAddress=.*: expected host:port"):
        slave.update_ha_master_address(address)
    assert slave.replication.master_address == NOBODY


def test_how_long_to_wait_for_a_slave_is_any_number_of_seconds(pair: Pair) -> None:
    master = pair.open("master")
    put_some(master, 10)
    assert master.replication.wait_for_slave(timeout=0) is False
    slave = pair.slave_of(master)
    for timeout in (None, math.inf, 1e30):
        assert master.replication.wait_for_slave(timeout=timeout)
    for past in (-1, -math.inf):
        assert master.replication.wait_for_slave(timeout=past)
        assert not master.replication.wait_for_slave(1 << 40, timeout=past)
    assert slave.get_max_phy_offset() == master.get_max_phy_offset()
    with pytest.raises(mqstore.OptionError, match="timeout=nan: expected a number of seconds"):
        master.replication.wait_for_slave(timeout=math.nan)
    for offset in (-1, 1 << 63):
        with pytest.raises(ValueError, match=f"offset={offset}: expected an integer from 0"):
            master.replication.wait_for_slave(offset)


# ---- append_to_commit_log ------------------------------------------------------------------------


def test_raw_bytes_are_appended_at_the_end_of_a_slave_alone(pair: Pair, tmp_path: Path) -> None:
    log = records(tmp_path / "source")
    slave = pair.open("slave", brokerRole="SLAVE", replication=False)
    slave.append_to_commit_log(0, log[:700])
    with pytest.raises(mqstore.OffsetOutOfRangeError, match="expected bytes for offset 700, the log's end") as raised:
        slave.append_to_commit_log(0, log)
    assert (raised.value.offset, raised.value.max) == (0, 700)
    with pytest.raises(mqstore.OptionError, match="same mappedFileSizeCommitLog"):
        slave.append_to_commit_log(700, bytes(65_536))
    slave.append_to_commit_log(700, memoryview(log)[700:])
    assert [m.queue_offset for m in slave.topic("topic-0").queue(0)] == [0]
    master = pair.open("master", replication=False)
    with pytest.raises(mqstore.OptionError, match="only a SLAVE takes"):
        master.append_to_commit_log(0, log)


# ---- opening -------------------------------------------------------------------------------------


def test_an_address_that_is_taken_is_an_error(pair: Pair) -> None:
    port = str(pair.open("one").replication.listen_address).rpartition(":")[2]
    with pytest.raises(mqstore.StoreIOError, match="listen on 127") as raised:
        pair.open("two", haListenPort=port)
    assert raised.value.filename == f"127.0.0.1:{port}"
    pair.open("two").put("orders", b"the store is not locked")


def test_it_listens_to_this_machine_alone_and_when_asked_alone(pair: Pair) -> None:
    assert str(pair.open("one").replication.listen_address).startswith("127.0.0.1:")
    quiet = pair.open("two", replication=False)
    assert quiet.replication.listen_address is None
    assert quiet.replication.slaves == []
    with pytest.raises(mqstore.OptionError, match='expected "rw", which replication is for'):
        mqstore.open(pair.path("one"), "r", replication=True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("haListenPort", 65_536),
        ("haTransferBatchSize", 0),
        ("haTransferBatchSize", 4 << 20),
        ("haMasterAddress", "nowhere"),
        ("haMasterAddress", "host:0"),
    ],
)
def test_bad_options_are_named(pair: Pair, option: str, value: object) -> None:
    with pytest.raises(mqstore.OptionError, match=option):
        pair.open("one", **{option: value})


@pytest.mark.parametrize("more", [1, 3], ids=["a message more", "some more"])
def test_a_former_master_with_a_little_more_is_refused(pair: Pair, caplog: pytest.LogCaptureFixture, more: int) -> None:
    """Its end alone says so: what it asks for again is all the same."""
    common = pair.open("master", replication=False)
    put_some(common, 20)
    end = common.get_max_phy_offset()
    common.close()
    shutil.copytree(pair.path("master"), pair.path("former"))
    with pair.open("former", replication=False) as former:
        put_some(former, more)
        own_end = former.get_max_phy_offset()
    assert own_end - end < 4096
    master = pair.open("master")
    slave = pair.slave_of(master, "former")
    wait_until(lambda: f"the slave's log ends at {own_end}, behind the master's end {end}" in caplog.text)
    assert master.replication.push2_slave_max_offset == 0
    assert not master.replication.wait_for_slave(timeout=0)
    assert slave.get_max_phy_offset() == own_end


def test_a_former_master_with_much_more_is_told_what_it_asked_for(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """That is not where its log ends."""
    caplog.set_level(logging.INFO, "mqstore")
    with pair.open("former", replication=False) as former:
        put_some(former, 60)
        own_end = former.get_max_phy_offset()
    master = pair.open("master")
    put_some(master, 3)
    pair.slave_of(str(master.replication.listen_address), "former")
    told = r"the slave asks for the log from (\d+), behind the master's end (\d+)"
    wait_until(lambda: re.search(told, caplog.text) is not None)
    (asked, end), *_ = re.findall(told, caplog.text)
    assert f"asking for the log from {asked}" in caplog.text
    assert int(end) == master.get_max_phy_offset() < int(asked) < own_end
    assert "A copy of the master's log makes it a slave again" in caplog.text


def lose_behind(path: Path, offset: int) -> None:
    """What a power cut leaves where the log was on the disk up to an offset."""
    log_file = path / "commitlog" / f"{0:020}"
    size = log_file.stat().st_size
    with log_file.open("r+b") as file:
        file.truncate(offset)
        file.truncate(size)
    shutil.rmtree(path / "mqstore")
    (path / "abort").touch()


@pytest.mark.parametrize("more", [1, 20], ids=["shorter than the slave", "longer than the slave"])
def test_a_slave_that_has_what_its_master_lost_is_not_its_slave(
    pair: Pair, caplog: pytest.LogCaptureFixture, more: int
) -> None:
    """The end of a log does not say whether it is the same log."""
    master = pair.open("master")
    slave = pair.slave_of(master)
    put_some(master, 4)
    master.flush()
    kept = master.get_max_phy_offset()
    put_some(master, 3)
    wait_equal(master, slave)
    end = slave.get_max_phy_offset()
    slave.close()
    master.close()
    lose_behind(pair.path("master"), kept)
    master = pair.open("master")
    assert master.get_max_phy_offset() == kept
    master.put("others", bytes(200))
    slave = pair.open("slave", brokerRole="SLAVE", haMasterAddress=str(master.replication.listen_address))
    for _ in range(more):
        master.put("others", bytes(300))
    assert (master.get_max_phy_offset() > end) == (more > 1)
    wait_until(lambda: "it is another log" in caplog.text)
    for _ in range(20):
        master.put("others", bytes(300))
    wait_until(lambda: "the master's log has other bytes" in caplog.text)
    assert slave.get_max_phy_offset() == end
    assert master.replication.push2_slave_max_offset <= kept
    assert not master.replication.wait_for_slave(timeout=0.2)
    assert len(list(slave.select())) == 7
