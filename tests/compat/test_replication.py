"""Replication with the real store on the other side of the wire."""

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.cli.json_lines import put_lines
from tests.compat.cutter import Cutter
from tests.compat.java_store import JavaStore
from tests.compat.peer.messages import messages
from tests.compat.streams import FEATURES, options_for
from tests.store_files import index_contents, log_contents, queue_contents
from tests.waiting import wait_until

OPTIONS: dict[str, Any] = options_for(set(FEATURES)) | {"haSendHeartbeatInterval": "100"}
JAVA_SLAVE = {"brokerRole": "SLAVE", "broker.brokerId": "1"}
FILE_SIZE = int(OPTIONS["mappedFileSizeCommitLog"])


class Network:
    """What a test has opened on this side, and the wires between."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._open: list[mqstore.MessageStore | Cutter] = []

    def master(self, folder: Path, **given: Any) -> mqstore.MessageStore:
        """An mqstore master."""
        store = mqstore.open(folder, "rw", replication=True, **(OPTIONS | {"haListenPort": 0} | given))
        self._open.append(store)
        return store

    def slave(self, folder: Path, address: str, **given: Any) -> mqstore.MessageStore:
        """An mqstore slave."""
        return self.master(folder, brokerRole="SLAVE", haMasterAddress=address, **given)

    def cutter(self, to: str, cut_after: int | None = None) -> Cutter:
        """A wire that can be cut."""
        cutter = Cutter(to, cut_after=cut_after)
        self._open.append(cutter)
        return cutter

    def close(self) -> None:
        """Closes everything."""
        for it in reversed(self._open):
            it.close()


@pytest.fixture
def network() -> Iterator[Network]:
    """Stores and wires that are closed when the test ends."""
    network = Network()
    yield network
    network.close()


def stream(seed: int, count: int, features: AbstractSet[str]) -> list[str]:
    """Messages of a stream, without its pauses.

    The last one goes to a queue: otherwise 4.9.3 would index it again in its next life.
    """
    lines = [line for line in messages(seed, count, features) if "sleep" not in json.loads(line)]
    return [*lines, '{"topic": "last", "bornTimestamp": 1}']


def address_of(master: mqstore.MessageStore) -> str:
    """Where a master listens."""
    return str(master.replication.listen_address)


def wait_asked(master: mqstore.MessageStore) -> None:
    """Waits until a slave has said from where it wants the log."""
    wait_until(lambda: any(it.request_offset is not None for it in master.replication.slaves))


def wait_dispatched(slave: mqstore.MessageStore, offset: int) -> None:
    """Waits until a slave's log ends at an offset, and all of it is dispatched."""
    wait_until(lambda: slave.get_max_phy_offset() == offset and not slave.dispatch_behind_bytes())


def written_queues(store: Path) -> dict[str, bytes]:
    """The files of queues and extensions, but for light queues' that hold nothing.

    Those begin at 0 again when 4.9.3 opens a store. It takes their units for repeated then, and makes the next file
    of a queue whose last one is full before it sees that.
    """
    files = queue_contents(store)
    return {name: content for name, content in files.items() if "/%LMQ%" not in name or any(content)}


def check_equal(one: Path, other: Path) -> None:
    """The logs, queues and indexes of two stores are the same bytes."""
    assert log_contents(one) == log_contents(other)
    assert written_queues(one) == written_queues(other)
    assert counted(index_contents(one)) == counted(index_contents(other))


def counted(indexes: list[bytes]) -> list[bytes]:
    """Index files with the number of their entries and one: 4.9.3 writes none into a file before its first key."""
    at = slice(36, 40)
    return [index[: at.start] + (index[at] if any(index[at]) else b"\0\0\0\1") + index[at.stop :] for index in indexes]


def test_a_java_slave_follows(java: JavaStore, network: Network, tmp_path: Path, seed: int) -> None:
    master = network.master(tmp_path / "master")
    # Each connection is cut after some frames, inside one.
    wire = network.cutter(address_of(master), cut_after=200_000)
    options = OPTIONS | JAVA_SLAVE | {"haMasterAddress": wire.address}
    slave = java.start_live("slave", tmp_path / "slave", options)
    wait_asked(master)
    list(put_lines(master, stream(seed, 300, set(FEATURES))))
    slave.wait_dispatched(master.get_max_phy_offset())
    assert wire.cut_count > 0
    slave.stop()
    list(put_lines(master, stream(seed + 1, 100, set(FEATURES))))
    slave = java.start_live("slave", tmp_path / "slave", options)
    slave.wait_dispatched(master.get_max_phy_offset())
    assert master.replication.wait_for_slave(timeout=30)
    slave.stop()
    network.close()
    check_equal(tmp_path / "slave", tmp_path / "master")


def test_a_java_master_is_followed(java: JavaStore, network: Network, tmp_path: Path, seed: int) -> None:
    master = java.start_live("master", tmp_path / "master", OPTIONS)
    wire = network.cutter(f"127.0.0.1:{master.port}", cut_after=200_000)
    slave = network.slave(tmp_path / "slave", wire.address)
    wait_until(lambda: slave.replication.is_connected)
    # A Java master says nothing before it has understood what its slave wants.
    results = master.put(stream(seed, 1, set()))
    wait_dispatched(slave, master.max_phy_offset())
    results += master.put(stream(seed, 300, set(FEATURES)))
    wait_dispatched(slave, master.max_phy_offset())
    assert wire.cut_count > 0
    assert not slave.report().gaps
    slave.close()
    master.put(stream(seed + 1, 50, set(FEATURES)))
    slave = network.slave(tmp_path / "slave", wire.address)
    wait_dispatched(slave, master.max_phy_offset())
    master.stop()
    master = java.start_live("master", tmp_path / "master", OPTIONS)
    wire.lead_to(f"127.0.0.1:{master.port}")
    master.put(stream(seed + 2, 50, set(FEATURES)))
    wait_dispatched(slave, master.max_phy_offset())
    master.stop()
    network.close()
    check_equal(tmp_path / "slave", tmp_path / "master")
    assert {result["status"] for result in results} == {"PUT_OK"}


def test_roles_change_hands(java: JavaStore, network: Network, tmp_path: Path, seed: int) -> None:
    features = set(FEATURES) - {"lmq"}  # 4.9.3 begins light queues at 0 again when it opens a store
    java_master = java.start_live("master", tmp_path / "java", OPTIONS)
    slave = network.slave(tmp_path / "ours", f"127.0.0.1:{java_master.port}")
    wait_until(lambda: slave.replication.is_connected)
    java_master.put(stream(seed, 1, set()))
    wait_dispatched(slave, java_master.max_phy_offset())
    java_master.put(stream(seed, 100, features))
    wait_dispatched(slave, java_master.max_phy_offset())
    java_master.stop()
    slave.close()

    master = network.master(tmp_path / "ours")
    options = OPTIONS | JAVA_SLAVE | {"haMasterAddress": address_of(master)}
    java_slave = java.start_live("slave", tmp_path / "java", options)
    list(put_lines(master, stream(seed + 1, 100, features)))
    java_slave.wait_dispatched(master.get_max_phy_offset())
    java_slave.stop()
    master.close()
    check_equal(tmp_path / "ours", tmp_path / "java")

    java_master = java.start_live("master", tmp_path / "java", OPTIONS)
    slave = network.slave(tmp_path / "ours", f"127.0.0.1:{java_master.port}")
    java_master.put(stream(seed + 2, 100, features))
    wait_dispatched(slave, java_master.max_phy_offset())
    java_master.stop()
    network.close()
    check_equal(tmp_path / "ours", tmp_path / "java")


def test_synchronous_masters_wait_for_the_other_kind_of_slave(
    java: JavaStore, network: Network, tmp_path: Path, seed: int
) -> None:
    sync = {"brokerRole": "SYNC_MASTER", "slaveTimeout": "30000"}
    lines = stream(seed, 40, set())
    java_master = java.start_live("master", tmp_path / "java master", OPTIONS | sync)
    assert {result["status"] for result in java_master.put(lines[:1])} == {"SLAVE_NOT_AVAILABLE"}
    slave = network.slave(tmp_path / "our slave", f"127.0.0.1:{java_master.port}")
    wait_dispatched(slave, java_master.max_phy_offset())
    for result in java_master.put(lines):
        assert result["status"] == "PUT_OK"
    assert slave.get_max_phy_offset() == java_master.max_phy_offset()

    master = network.master(tmp_path / "our master", **sync)
    options = OPTIONS | JAVA_SLAVE | {"haMasterAddress": address_of(master)}
    java_slave = java.start_live("slave", tmp_path / "java slave", options)
    wait_asked(master)
    assert all('"status":"PUT_OK"' in result for result in put_lines(master, lines))
    java_slave.wait_dispatched(master.get_max_phy_offset())
    java_slave.stop()
    java_master.stop()


def test_an_empty_slave_gets_the_newest_file_alone(
    java: JavaStore, network: Network, tmp_path: Path, seed: int
) -> None:
    lines = stream(seed, 400, {"big"})
    java_master = java.start_live("master", tmp_path / "java master", OPTIONS)
    java_master.put(lines)
    end = java_master.max_phy_offset()
    assert end > FILE_SIZE
    slave = network.slave(tmp_path / "our slave", f"127.0.0.1:{java_master.port}")
    wait_dispatched(slave, end)
    assert slave.get_min_phy_offset() == end // FILE_SIZE * FILE_SIZE

    master = network.master(tmp_path / "our master")
    list(put_lines(master, lines))
    end = master.get_max_phy_offset()
    options = OPTIONS | JAVA_SLAVE | {"haMasterAddress": address_of(master)}
    java_slave = java.start_live("slave", tmp_path / "java slave", options)
    java_slave.wait_dispatched(end)
    java_slave.stop()
    java_master.stop()
    network.close()
    for master_name, slave_name in (("java master", "our slave"), ("our master", "java slave")):
        of_master, of_slave = log_contents(tmp_path / master_name), log_contents(tmp_path / slave_name)
        assert of_slave == {max(of_master): of_master[max(of_master)]}


def test_what_a_java_slave_took_is_read_here(java: JavaStore, network: Network, tmp_path: Path, seed: int) -> None:
    master = network.master(tmp_path / "master")
    options = OPTIONS | JAVA_SLAVE | {"haMasterAddress": address_of(master)}
    slave = java.start_live("slave", tmp_path / "slave", options)
    wait_asked(master)
    list(put_lines(master, stream(seed, 100, set())))
    slave.wait_dispatched(master.get_max_phy_offset())
    slave.kill()
    with mqstore.open(tmp_path / "slave", **OPTIONS) as opened:
        assert [message.msg_id for message in opened.select()] == [message.msg_id for message in master.select()]
