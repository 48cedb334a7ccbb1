"""A master that waits for its slave: ``SYNC_MASTER``."""

import asyncio
from pathlib import Path

import pytest

import mqstore
from mqstore import MessageExtBrokerInner, PutMessageStatus
from tests.services.ha_peers import Pair
from tests.store.conftest import SMALL
from tests.waiting import wait_until


def status_of(store: mqstore.MessageStore) -> PutMessageStatus:
    """How a put ends."""
    return store.put_message(MessageExtBrokerInner(topic="orders", queue_id=0, body=b"body")).status


def test_a_synchronous_master_waits_for_its_slave(pair: Pair) -> None:
    master = pair.open("master", brokerRole="SYNC_MASTER")
    assert status_of(master) is PutMessageStatus.SLAVE_NOT_AVAILABLE
    with pytest.raises(mqstore.SlaveNotAvailableError) as raised:
        master.put("orders", b"stored all the same", queue_id=0)
    assert raised.value.result.logics_offset == 1
    slave = pair.slave_of(master)
    assert master.replication.wait_for_slave(timeout=60)
    for _ in range(50):
        assert status_of(master) is PutMessageStatus.PUT_OK
        assert slave.get_max_phy_offset() == master.get_max_phy_offset()
    master.put_many("orders", [b"a", b"b"], queue_id=0)
    assert slave.get_max_phy_offset() == master.get_max_phy_offset()
    assert asyncio.run(master.aio.put("orders", b"c", queue_id=0)).logics_offset == 54


def test_a_synchronous_master_without_replication_waits_for_nobody(tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "store", "rw", brokerRole="SYNC_MASTER", **SMALL) as store:
        assert status_of(store) is PutMessageStatus.PUT_OK


def test_a_slave_that_confirms_nothing_is_waited_for_in_vain(pair: Pair) -> None:
    master = pair.open("master", brokerRole="SYNC_MASTER", slaveTimeout=100)
    slave = pair.raw_slave(master)
    slave.report(0)
    wait_until(lambda: any(it.request_offset == 0 for it in master.replication.slaves))
    assert status_of(master) is PutMessageStatus.FLUSH_SLAVE_TIMEOUT
    with pytest.raises(mqstore.FlushSlaveTimeoutError, match="100 ms") as raised:
        master.put("orders", b"stored", queue_id=0)
    assert raised.value.result.logics_offset == 1
    with pytest.raises(mqstore.FlushSlaveTimeoutError, match="100 ms"):
        asyncio.run(master.aio.put("orders", b"stored"))
    offset, body = slave.frame()
    slave.report(offset + len(body))
    assert master.replication.wait_for_slave(offset + len(body), timeout=60)


def test_a_task_that_waits_for_a_slave_at_a_close_is_told_that_its_message_is_stored(pair: Pair) -> None:
    master = pair.open("master", brokerRole="SYNC_MASTER", slaveTimeout=60_000)
    slave = pair.raw_slave(master)
    slave.report(0)
    wait_until(lambda: any(it.request_offset == 0 for it in master.replication.slaves))

    async def put_and_close() -> None:
        task = asyncio.ensure_future(master.aio.put("orders", b"stored", queue_id=0))
        await asyncio.sleep(0)
        assert master.get_max_phy_offset()
        await asyncio.to_thread(master.close)
        await task

    with pytest.raises(mqstore.FlushSlaveTimeoutError) as raised:
        asyncio.run(put_and_close())
    assert raised.value.result.logics_offset == 0
    with mqstore.open(master.path) as store:
        assert [bytes(message.body) for message in store.select("orders")] == [b"stored"]


def test_a_silent_connection_is_no_slave(pair: Pair) -> None:
    master = pair.open("master", brokerRole="SYNC_MASTER")
    pair.raw_slave(master)
    wait_until(lambda: bool(master.replication.slaves))
    assert status_of(master) is PutMessageStatus.SLAVE_NOT_AVAILABLE


def test_a_slave_too_far_behind_is_not_available(pair: Pair) -> None:
    master = pair.open("master", brokerRole="SYNC_MASTER", slaveTimeout=50, haSlaveFallbehindMax=1000)
    slave = pair.raw_slave(master)
    slave.report(0)
    wait_until(lambda: any(it.request_offset == 0 for it in master.replication.slaves))
    assert status_of(master) is PutMessageStatus.FLUSH_SLAVE_TIMEOUT
    statuses = {status_of(master) for _ in range(20)}
    assert PutMessageStatus.SLAVE_NOT_AVAILABLE in statuses
