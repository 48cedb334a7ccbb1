"""What counts as a slave's confirmation: bytes that it was sent over the connection by which it reports."""

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import mqstore
from mqstore import PutMessageResult
from tests.services.ha_peers import Pair, RawSlave, put_some
from tests.waiting import wait_until

FILE_SIZE = 65_536
SYNC: dict[str, Any] = {"brokerRole": "SYNC_MASTER", "haHousekeepingInterval": 600_000}
"""A master that puts wait at, with patience for a slave in the test's hand."""
Put = Callable[[mqstore.MessageStore, bytes], PutMessageResult]


def put_in_thread(store: mqstore.MessageStore, body: bytes) -> PutMessageResult:
    """A put that waits in its thread."""
    return store.put("orders", body, queue_id=0)


def put_in_task(store: mqstore.MessageStore, body: bytes) -> PutMessageResult:
    """A put that waits in a task."""
    return asyncio.run(store.aio.put("orders", body, queue_id=0))


def asked(pair: Pair, master: mqstore.MessageStore, offset: int) -> RawSlave:
    """A slave in the test's hand that has asked for the log from an offset."""
    slave = pair.raw_slave(master)
    own = "{}:{}".format(*slave.socket.getsockname())
    slave.report(offset)
    wait_until(lambda: any(it.address == own and it.request_offset == offset for it in master.replication.slaves))
    return slave


def waiting(pool: ThreadPoolExecutor, put: Put, store: mqstore.MessageStore, body: bytes) -> Future[PutMessageResult]:
    """A put that has stored its message, and waits for a slave."""
    end = store.get_max_phy_offset()
    future = pool.submit(put, store, body)
    wait_until(lambda: store.get_max_phy_offset() > end)
    return future


def confirm_up_to(slave: RawSlave, offset: int) -> None:
    """Takes frames up to an offset, and confirms them."""
    end = 0
    while end < offset:
        begin, body = slave.frame()
        end = begin + len(body)
        slave.report(end)


@pytest.mark.parametrize("put", [put_in_thread, put_in_task])
def test_what_a_slave_asks_for_first_confirms_nothing(pair: Pair, put: Put) -> None:
    master = pair.open("master", **SYNC)
    stalled = asked(pair, master, 0)
    with ThreadPoolExecutor() as pool:
        future = waiting(pool, put, master, b"waits")
        end = master.get_max_phy_offset()
        asked(pair, master, end)
        # It was sent none of this.
        assert master.replication.push2_slave_max_offset == 0
        assert not master.replication.wait_for_slave(end, timeout=0)
        assert not future.done()
        confirm_up_to(stalled, end)
        assert future.result().wrote_offset == 0


@pytest.mark.parametrize("put", [put_in_thread, put_in_task])
def test_what_was_sent_behind_a_message_does_not_confirm_it(pair: Pair, put: Put) -> None:
    """An empty slave gets the newest file alone, and another one what follows its end."""
    master = pair.open("master", **SYNC)
    stalled = asked(pair, master, 0)
    with ThreadPoolExecutor() as pool:
        first = waiting(pool, put, master, b"first")
        first_end = master.get_max_phy_offset()
        later = asked(pair, master, first_end)
        while master.get_max_phy_offset() < FILE_SIZE:
            master.put("orders", bytes(1000), queue_id=0, wait_store_msg_ok=False)
        empty = asked(pair, master, 0)
        last = waiting(pool, put, master, b"last")
        end = master.get_max_phy_offset()
        confirm_up_to(empty, end)
        # The one that it was sent is confirmed, behind the one that waits on.
        assert (last.result().wrote_offset or 0) > FILE_SIZE
        assert not master.replication.wait_for_slave(first_end, timeout=0)
        confirm_up_to(later, end)
        wait_until(lambda: min(it.ack_offset for it in master.replication.slaves if it.request_offset) == end)
        assert not first.done()
        confirm_up_to(stalled, first_end)
        assert first.result().wrote_offset == 0


def test_messages_of_one_put_are_confirmed_together(pair: Pair) -> None:
    master = pair.open("master", **SYNC)
    stalled = asked(pair, master, 0)
    bodies = [bytes(1000)] * 100

    def put_many(store: mqstore.MessageStore, _body: bytes) -> PutMessageResult:
        return store.put_many("orders", bodies, queue_id=0)

    with ThreadPoolExecutor() as pool:
        future = pool.submit(put_many, master, b"")
        wait_until(lambda: master.get_max_offset_in_queue("orders", 0) == len(bodies))
        end = master.get_max_phy_offset()
        assert end > FILE_SIZE
        empty = asked(pair, master, 0)
        confirm_up_to(empty, end)
        assert master.replication.wait_for_slave(end, timeout=60)
        assert not master._engine.is_transferred(0, end)
        assert not future.done()
        confirm_up_to(stalled, end)
        assert future.result().msg_num == len(bodies)


def test_a_java_slave_that_has_everything_says_so_again(pair: Pair) -> None:
    """It is sent nothing, and reports its end as a heartbeat."""
    master = pair.open("master", haSlaveFallbehindMax=1000, slaveTimeout=50, **SYNC)
    assert master.replication.wait_for_slave(timeout=0), "there is nothing to have"
    put_many_alone(master)
    end = master.get_max_phy_offset()
    slave = asked(pair, master, end)
    assert not master.replication.wait_for_slave(timeout=0)
    # As near as it says, puts wait for it.
    assert master.slave_fall_behind_much() == 0
    with pytest.raises(mqstore.FlushSlaveTimeoutError):
        master.put("orders", b"body", queue_id=0)
    slave.report(end)
    assert master.replication.wait_for_slave(end, timeout=60)
    assert master.replication.wait_for_slave(end // 2, timeout=0)


def put_many_alone(master: mqstore.MessageStore) -> None:
    """Puts for which no slave is waited for."""
    for number in range(20):
        master.put("orders", b"%d" % number + bytes(300), queue_id=0, wait_store_msg_ok=False)


def test_a_slave_that_was_put_to_confirms_no_put(pair: Pair) -> None:
    put_some(common := pair.open("master"), 20)
    common.close()
    shutil.copytree(pair.path("master"), pair.path("slave"))
    with pair.open("slave", replication=False) as lost:
        put_some(lost, 20, size=1000)
        own_end = lost.get_max_phy_offset()
    master = pair.open("master", **SYNC)
    stalled = asked(pair, master, master.get_max_phy_offset())
    with ThreadPoolExecutor(40) as pool:
        futures = [waiting(pool, put_in_thread, master, b"%d" % number + bytes(900)) for number in range(40)]
        end = master.get_max_phy_offset()
        assert end > own_end
        address = str(master.replication.listen_address)
        slave = pair.open("slave", brokerRole="SLAVE", haMasterAddress=address)
        wait_until(lambda: has_lost_its_master(slave))
        assert not [future for future in futures if future.done()]
        confirm_up_to(stalled, end)
        assert len([future.result() for future in futures]) == len(futures)


def has_lost_its_master(slave: mqstore.MessageStore) -> bool:
    """Whether a slave has lost its master after it had asked."""
    client = slave._ha_client()
    return client is not None and not client[1] and client[2] > 0
