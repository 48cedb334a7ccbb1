"""Replication with another side that is broken, slow or gone, or no master or slave at all."""

import logging
import math
import subprocess
import sys
from pathlib import Path

import pytest

import mqstore
from mqstore.services import ha
from tests.services.ha_peers import REPORT, Pair, RawMaster, put_some, records, wait_equal
from tests.store.conftest import SMALL
from tests.store_files import copy_store, log_contents, queue_contents
from tests.waiting import wait_until

BLANK_MAGIC_CODE = bytes.fromhex("cbd43194")

# ---- a slave that is none ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (REPORT.pack(-1), "found -1"),
        (REPORT.pack(1 << 40), "behind the master's end"),
        (b"GET / HTTP/1.1\r\n\r\n", "behind the master's end"),
        (REPORT.pack(0) + REPORT.pack(1 << 40), "was sent no more than"),
    ],
    ids=["negative", "ahead", "another protocol", "not sent"],
)
def test_garbage_ends_the_connection(pair: Pair, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str) -> None:
    master = pair.open("master")
    put_some(master, 10)
    slave = pair.raw_slave(master)
    slave.socket.sendall(sent)
    assert slave.is_closed()
    wait_until(lambda: reason in caplog.text)
    assert not master.replication.slaves
    put_some(master, 10)
    assert master.replication.push2_slave_max_offset == 0


def test_a_slave_that_needs_what_is_gone_is_told(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    first = pair.open("first")
    put_some(first, 1000)
    second = pair.slave_of(first, "second")
    wait_equal(first, second)
    assert second.get_min_phy_offset() > 1000
    late = pair.raw_slave(second)
    late.report(1000)
    assert late.is_closed()
    wait_until(lambda: "the master's begins at" in caplog.text)


def test_a_slave_whose_master_no_longer_has_what_it_asks_for_says_so(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    first = pair.open("first")
    put_some(first, 1)
    late = pair.slave_of(first, "late")
    wait_equal(first, late)
    late.close()
    put_some(first, 1000)
    second = pair.slave_of(first, "second")
    wait_equal(first, second)
    # By its address: nobody waits for a connection that lasts.
    late = pair.slave_of(str(second.replication.listen_address), "late")
    wait_until(lambda: "sent nothing of the log from 1 on; its own log says why" in caplog.text)
    wait_until(lambda: "the slave needs the log from 1, the master's begins at" in caplog.text)
    report = late.report()
    assert not report.is_whole
    assert report.failing == [f"HAClient: {late.replication.failure}"]
    assert "sent nothing of the log from 1 on" in str(report)


def test_a_silent_slave_is_let_go(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    master = pair.open("master", haHousekeepingInterval=100)
    assert pair.raw_slave(master).is_closed()
    wait_until(lambda: "haHousekeepingInterval" in caplog.text)


def test_connections_have_a_bound(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    master = pair.open("master")
    slaves = [pair.raw_slave(master) for _ in range(64)]
    wait_until(lambda: len(master.replication.slaves) == len(slaves))
    assert pair.raw_slave(master).is_closed()
    wait_until(lambda: "there are 64 connections already" in caplog.text)
    slaves.pop().socket.close()
    wait_until(lambda: len(master.replication.slaves) == len(slaves))
    late = pair.raw_slave(master)
    late.report(0)
    wait_until(lambda: any(it.request_offset == 0 for it in master.replication.slaves))


def test_reports_come_in_pieces(pair: Pair) -> None:
    master = pair.open("master")
    put_some(master, 1)
    slave = pair.raw_slave(master)
    for byte in REPORT.pack(0):
        slave.socket.sendall(bytes([byte]))
    assert slave.frame()[0] == 0


def test_a_slave_that_reads_nothing_holds_nobody_up(pair: Pair) -> None:
    master = pair.open("master", mappedFileSizeCommitLog=64 << 20)
    stuck = pair.raw_slave(master)
    stuck.report(0)
    slave = pair.slave_of(master, mappedFileSizeCommitLog=64 << 20)
    put_some(master, 30, size=1 << 20)
    wait_equal(master, slave)


# ---- a master that is none -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ((-1, 10), "found -1"),
        ((0, -1), "found -1"),
        ((0, 4 << 20), "expected a body of 0 to"),
        ((5, 10), "at 5 is none of files of 65536 bytes"),
    ],
    ids=["negative offset", "negative size", "too large", "inside a file"],
)
def test_a_bad_frame_ends_the_connection(
    pair: Pair, raw_master: RawMaster, caplog: pytest.LogCaptureFixture, header: tuple[int, int], reason: str
) -> None:
    slave = pair.slave_of(raw_master.address)
    assert raw_master.accept() == 0
    raw_master.send(*header, bytes(10))
    wait_until(lambda: reason in caplog.text)
    assert raw_master.accept() == 0
    assert slave.get_max_phy_offset() == 0


def test_a_cut_connection_goes_on_where_it_was(pair: Pair, raw_master: RawMaster, tmp_path: Path) -> None:
    log = records(tmp_path / "source")
    slave = pair.slave_of(raw_master.address)
    assert raw_master.accept() == 0
    raw_master.send(0, 1000, log[:1000])
    # A frame that is cut off leaves no byte.
    raw_master.send(1000, 1000, log[1000:1500])
    assert raw_master.reported() == 1000
    assert raw_master.socket is not None
    raw_master.socket.close()
    # It is sent what it has once more, to see that this is the same log.
    assert raw_master.accept() == 1
    raw_master.send(1, 0)
    raw_master.send(1, 500, log[1:501])
    raw_master.send(501, len(log) - 501, log[501:])
    assert raw_master.reported() == len(log)
    wait_until(lambda: slave.get_max_phy_offset() == len(log) and not slave.dispatch_behind_bytes())
    assert slave.get_max_offset_in_queue("topic-0", 0) > 0
    assert not slave.report().gaps


@pytest.mark.parametrize(("own", "wrong_at"), [(5000, 904), (5000, 4999), (1000, 1), (1000, 999)])
def test_another_log_is_not_followed(  # noqa: PLR0917 - cases and fixtures
    pair: Pair, raw_master: RawMaster, tmp_path: Path, caplog: pytest.LogCaptureFixture, own: int, wrong_at: int
) -> None:
    log = records(tmp_path / "source")
    slave = pair.slave_of(raw_master.address)
    raw_master.accept()
    raw_master.send(0, own, log[:own])
    assert raw_master.reported() == own
    asked = raw_master.accept()
    # From where a record begins.
    assert max(1, own - 4096 - 600) <= asked <= max(1, own - 4096)
    assert asked == 1 or log[asked + 4 : asked + 8] == bytes.fromhex("daa320a7")
    other = bytearray(log)
    other[wrong_at] ^= 1
    raw_master.send(asked, len(log) - asked, bytes(other[asked:]))
    wait_until(lambda: f"the master's log has other bytes from {asked} to {own}" in caplog.text)
    assert slave.get_max_phy_offset() == own
    assert raw_master.accept() == asked
    raw_master.send(asked, len(log) - asked, log[asked:])
    wait_until(lambda: slave.get_max_phy_offset() == len(log))


def test_what_does_not_follow_ends_the_connection(
    pair: Pair, raw_master: RawMaster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = records(tmp_path / "source")
    slave = pair.slave_of(raw_master.address)
    raw_master.accept()
    raw_master.send(0, 1000, log[:1000])
    raw_master.send(2000, 1000, log[2000:3000])
    wait_until(lambda: "the master sends from 2000, the slave's log ends at 1000" in caplog.text)
    assert slave.get_max_phy_offset() == 1000


def test_logs_of_other_file_sizes_are_refused(
    pair: Pair, raw_master: RawMaster, caplog: pytest.LogCaptureFixture
) -> None:
    slave = pair.slave_of(raw_master.address)
    raw_master.accept()
    raw_master.send(0, 70_000, bytes(70_000))
    wait_until(lambda: "both logs need the same mappedFileSizeCommitLog" in caplog.text)
    assert slave.get_max_phy_offset() == 0


@pytest.mark.parametrize(
    ("file_size", "has"), [(2 * 65_536, 65_536), (65_536 // 2, 65_536 // 2)], ids=["larger files", "smaller files"]
)
def test_a_slave_of_other_file_sizes_confirms_nothing_that_it_cannot_read(
    pair: Pair, caplog: pytest.LogCaptureFixture, file_size: int, has: int
) -> None:
    """A blank in the middle of a file hides what stands behind it there, and a record goes on in no next file."""
    master = pair.open("master", haTransferBatchSize=has // 8)
    slave = pair.slave_of(master, mappedFileSizeCommitLog=file_size)
    for number in range(9):
        master.put("orders", b"%02d" % number + bytes(20_000), queue_id=0)
    wait_until(lambda: "both logs need the same mappedFileSizeCommitLog" in caplog.text)
    assert slave.get_max_phy_offset() == has
    assert master.replication.push2_slave_max_offset <= has


@pytest.mark.parametrize("end", ["close", "kill", "leave open"])
def test_a_record_that_is_not_whole_is_not_there_yet(
    pair: Pair, raw_master: RawMaster, tmp_path: Path, end: str
) -> None:
    log = records(tmp_path / "source")
    first = int.from_bytes(log[:4], "big")
    slave = pair.slave_of(raw_master.address)
    raw_master.accept()
    cut = first + 200
    raw_master.send(0, cut, log[:cut])
    assert raw_master.reported() == cut
    assert slave.topics() == ["topic-0"]
    assert slave.dispatch_behind_bytes() == 200
    assert not slave.report().gaps
    with mqstore.open(pair.path("slave"), "r") as reader:
        assert not reader.report().gaps
        assert reader.topics() == ["topic-0"]
    name = "slave"
    if end != "leave open":
        if end == "kill":
            # What a killed process leaves is what its files hold at that moment.
            name = copy_store(pair.path("slave"), pair.path("killed")).name
        slave.close()
        with mqstore.open(pair.path(name), "r") as reader:
            assert not reader.report().gaps
        slave = pair.slave_of(raw_master.address, name)
        # What was cut in the middle is asked for again from its begin, and what stands before it.
        assert slave.get_max_phy_offset() == first
        assert raw_master.accept() == 1
        raw_master.send(1, len(log) - 1, log[1:])
    else:
        raw_master.send(cut, len(log) - cut, log[cut:])
    wait_until(lambda: slave.get_max_phy_offset() == len(log) and not slave.dispatch_behind_bytes())
    pair.close()
    assert log_contents(pair.path(name)) == log_contents(tmp_path / "source")
    assert queue_contents(pair.path(name)) == queue_contents(tmp_path / "source")


def test_the_blank_that_ends_a_file_comes_in_pieces(pair: Pair, raw_master: RawMaster, tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "source", "rw", **SMALL) as store:
        put_some(store, 250)
        first = bytes(store.get_commit_log_data(0))
        second = bytes(store.get_commit_log_data(len(first)))
    blank = first.rindex(BLANK_MAGIC_CODE) - 4
    cut = blank + 12
    assert cut < len(first)
    slave = pair.slave_of(raw_master.address)
    raw_master.accept()
    raw_master.send(0, cut, first[:cut])
    assert raw_master.reported() == cut
    assert slave.topics()
    assert slave.dispatch_behind_bytes() == cut - blank
    raw_master.send(cut, len(first) - cut, first[cut:])
    raw_master.send(len(first), len(second), second)
    wait_until(lambda: slave.get_max_phy_offset() == len(first + second) and not slave.dispatch_behind_bytes())
    assert not slave.report().gaps
    pair.close()
    assert log_contents(pair.path("slave")) == log_contents(tmp_path / "source")
    assert queue_contents(pair.path("slave")) == queue_contents(tmp_path / "source")


def refused(pair: Pair) -> None:
    """A slave that comes again and again, since it has another log."""
    for name in ("master", "slave"):
        with pair.open(name, replication=False) as store:
            put_some(store, 10)
    pair.slave_of(str(pair.open("master").replication.listen_address))


def levels(caplog: pytest.LogCaptureFixture, text: str) -> list[int]:
    """How loud something was said, each time."""
    return [record.levelno for record in caplog.records if text in record.getMessage()]


def test_what_happens_again_and_again_is_said_once(
    pair: Pair, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha, "_OF_LATE_S", math.inf)
    caplog.set_level(logging.DEBUG, "mqstore")
    refused(pair)
    # The master may see that its slave has gone in one of two ways.
    for text in (
        "the master's log has other bytes",
        "connected to the master",
        "asks for the log",
        "the slave 127.0.0.1",
    ):
        wait_until(lambda text=text: levels(caplog, text).count(logging.DEBUG) > 2)  # type: ignore[misc]
    assert levels(caplog, "the master's log has other bytes").count(logging.WARNING) == 1
    assert levels(caplog, "connected to the master").count(logging.INFO) == 1
    assert levels(caplog, "asks for the log").count(logging.INFO) == 1
    assert levels(caplog, "the other side closed").count(logging.WARNING) <= 1
    assert levels(caplog, "reset by peer").count(logging.WARNING) <= 1


def test_what_happens_again_later_is_said_again(
    pair: Pair, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha, "_OF_LATE_S", 0)
    refused(pair)
    wait_until(lambda: levels(caplog, "the master's log has other bytes").count(logging.WARNING) > 2)


def test_a_silent_master_is_let_go(pair: Pair, raw_master: RawMaster, caplog: pytest.LogCaptureFixture) -> None:
    pair.slave_of(raw_master.address, haHousekeepingInterval=100)
    raw_master.accept()
    wait_until(lambda: "haHousekeepingInterval" in caplog.text)
    raw_master.accept()


LEAVE = """
import signal, socket, struct, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
import mqstore
store = mqstore.open(sys.argv[1], "rw", replication=True, haListenPort=0, haTransferBatchSize=1024)
for _ in range(4):
    store.put("t", bytes(1_000_000), queue_id=0)
host, port = store.replication.listen_address.rsplit(":", 1)
for size in range(100_000, 3_000_000, 30_000):
    with socket.create_connection((host, int(port))) as slave:
        slave.sendall(struct.pack(">q", 0))
        while size > 0:
            size -= len(slave.recv(1 << 20))
        slave.setblocking(False)
        try:
            while slave.recv(1 << 20):
                pass
        except BlockingIOError:
            pass
store.close()
print("alive")
"""


def test_a_slave_that_leaves_ends_no_process(tmp_path: Path) -> None:
    """Also one that has the default action for a pipe that is closed."""
    command = [sys.executable, "-c", LEAVE, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
