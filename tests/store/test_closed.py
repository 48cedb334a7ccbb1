"""A store that is closed says so, whatever it is asked."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import mqstore
from tests.store.conftest import Opener


def test_a_closed_store_takes_and_gives_nothing(open_store: Opener) -> None:
    store = open_store()
    store.put("t", b"kept", queue_id=0)
    message = store.topic("t").queue(0)[0]
    store.close()
    store.close()
    with pytest.raises(mqstore.StoreClosedError):
        store.put("t", b"")
    with pytest.raises(mqstore.StoreClosedError):
        store.get_message("t", 0, 0)
    with pytest.raises(mqstore.StoreClosedError):
        store.execute_delete_files_manually()
    with pytest.raises(mqstore.StoreClosedError):
        store.check_transactions(lambda _message: mqstore.LocalTransactionState.UNKNOW)
    assert bytes(message.body) == b"kept"


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_a_closed_store_says_so_of_a_new_topic_too(open_store: Opener, mode: str) -> None:
    with open_store() as made:
        made.put("t", b"", queue_id=0)
    store = open_store(mode=mode)
    store.close()
    table = pa.table({"body": [b""]})
    puts: list[Any] = [
        lambda: store.put("new", b""),
        lambda: store.put("t", b"", deliver_at=1 << 40),
        lambda: store.put_many("new", [b""]),
        lambda: store.put_arrow(table, topic="new"),
    ]
    for put in puts:
        with pytest.raises(mqstore.StoreClosedError, match=r"^the store is closed$"):
            put()


ASKED: list[Callable[[mqstore.MessageStore], object]] = [
    lambda store: store.topics(),
    lambda store: store.topic("t").queue_ids,
    lambda store: len(store.topic("t").queue(0)),
    lambda store: store.topic("t").queue(0).min_offset,
    lambda store: store.select("t").count(),
    lambda store: store.report(),
    lambda store: store.figures(),
    lambda store: store.transaction(),
    lambda store: store.consumers.consume_stats_of_groups(),
    lambda store: store.consumers.queue_ids("t"),
    lambda store: store.get_max_offset_in_queue("t", 0),
    lambda store: store.get_min_offset_in_queue("t", 0),
    lambda store: store.get_message_total_in_queue("t", 0),
    lambda store: store.check_message_and_return_size(0),
    lambda store: store.get_min_phy_offset(),
    lambda store: store.get_max_phy_offset(),
    lambda store: store.get_flushed_where(),
    lambda store: store.get_confirm_offset(),
    lambda store: store.set_confirm_offset(0),
    lambda store: store.reset_write_offset(0),
    lambda store: store.dispatch_behind_bytes(),
    lambda store: store.dispatch_behind_ms(),
    lambda store: store.remain_how_many_data_to_flush(),
    lambda store: store.remain_how_many_data_to_commit(),
    lambda store: store.remain_transient_store_buffer_numbs(),
    lambda store: store.is_transient_store_pool_deficient(),
    lambda store: store.lock_time_mills(),
    lambda store: store.is_os_page_cache_busy(),
    lambda store: store.running_flag_bits,
    lambda store: store.rejected_count,
    lambda store: store.get_runtime_info(),
    lambda store: store.handle_schedule_message_service("SLAVE"),
    lambda store: store.slave_fall_behind_much(),
    lambda store: store.update_ha_master_address("localhost:1"),
    lambda store: store.replication.slaves,
    lambda store: store.replication.master_address,
    lambda store: store.replication.listen_address,
    lambda store: store.replication.push2_slave_max_offset,
]


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_a_closed_store_tells_nothing_of_what_it_was(open_store: Opener, mode: str) -> None:
    with open_store() as made:
        made.put("t", b"", queue_id=0)
    store = open_store(mode=mode)
    views = store.topic("t").queue(0), store.select("t")
    store.close()
    for ask in ASKED:
        with pytest.raises(mqstore.StoreClosedError, match=r"^the store is closed$"):
            ask(store)
    # It may be another one's by now. What it was opened with, and what is no part of it, is there.
    assert store.is_closed
    assert (store.mode, store.path.name, store.compat) == (mode, "store", False)
    assert store.now() > 0
    assert repr(views[0]) == "Queue('t', 0)"
