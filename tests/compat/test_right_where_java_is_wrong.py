"""Where 4.9.3 loses messages, hangs or answers wrongly: what it does, and beside it what mqstore does.

A difference whose wrong side is no longer shown by the real store here has no place in ``docs/compat.md``.
"""

import base64
import json
import os
import shutil
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore import DamagedStoreError, GetMessageStatus, MessageExtBrokerInner, MessageIllegalError, PutMessageStatus
from mqstore.verify import repair, verify
from tests.command import put_and_kill, run_mqstore
from tests.compat.java_store import JavaStore
from tests.compat.naive_model import NaiveModel
from tests.compat.replay import put_at_times
from tests.compat.streams import SMALL_FILES, options_for
from tests.store_files import copy_store, forget_derived, index_entries, index_entry_at, log_contents

LIGHT = options_for({"lmq"})
BODY_AT = 84 + 4
"""Where a body begins in a record with IPv4 addresses."""
UNIT_SIZE = 20
BLANK_UNIT = struct.pack(">qiq", 0, 2**31 - 1, 0)
"""What stands in a queue for a message that the log has no more."""


def message(body: str = "", **fields: Any) -> str:
    """A message as both commands read it."""
    return json.dumps({"topic": "a", "body": base64.b64encode(body.encode()).decode(), **fields})


def keyed(count: int, **fields: Any) -> list[str]:
    """Messages with a key each."""
    return [message(f"body {number:03}", keys=f"K{number}", **fields) for number in range(count)]


def statuses(results: Iterable[str]) -> list[str]:
    """The statuses of puts."""
    return [json.loads(result)["status"] for result in results]


def bodies(store: mqstore.MessageStore, topic: str = "a", queue_id: int = 0) -> list[str]:
    """The bodies of a queue's messages, in order."""
    return [bytes(found.body).decode() for found in store.topic(topic).queue(queue_id)]


def flip_a_bit(store: Path, offset: int) -> None:
    """Flips a bit of the log."""
    file_size = int(SMALL_FILES["mappedFileSizeCommitLog"])
    flip_a_bit_of(store / "commitlog" / f"{offset // file_size * file_size:020}", offset % file_size)


def flip_a_bit_of(path: Path, position: int, bit: int = 0) -> None:
    """Flips a bit of a file's byte."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


# ---- damage --------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, int]:
    """A closed store of 1,000 messages of one size, with a flipped bit in the body of number 300; its offset."""
    store = tmp_path / "damaged"
    results = run_mqstore("put", store, SMALL_FILES, keyed(1000))
    offset: int = json.loads(results[300])["wroteOffset"]
    flip_a_bit(store, offset + BODY_AT)
    return store, offset


def test_one_flipped_bit_costs_one_message(java: JavaStore, damaged: tuple[Path, int], tmp_path: Path) -> None:
    store, offset = damaged
    left_by_java = NaiveModel.of(java.run("dump", copy_store(store, tmp_path / "java"), SMALL_FILES))
    assert len(left_by_java.records) == 300
    with mqstore.open(store, "r", **SMALL_FILES) as opened:
        others = [f"body {number:03}" for number in range(1000) if number != 300]
        assert bodies(opened) == others
        assert [bytes(found.body).decode() for found in opened.select()] == others
        assert opened.query_message("a", "K300") == []
        assert opened.look_message_by_offset(offset) is None
        assert [gap[:2] for gap in opened._gaps()] == [(offset, left_by_java_end(left_by_java))]
    before = log_contents(store)
    with pytest.raises(DamagedStoreError) as raised:
        mqstore.open(store, "rw", **SMALL_FILES)
    assert raised.value.offset == offset
    assert log_contents(store) == before


def left_by_java_end(model: NaiveModel) -> int:
    """Behind the record that follows the last one, all being of one size."""
    last = max(model.records)
    size: int = model.records[last]["msgSize"]
    return last + 2 * size


def test_what_is_cut_does_not_come_back(java: JavaStore, damaged: tuple[Path, int], tmp_path: Path) -> None:
    store, _ = damaged
    again = message("body 300", keys="K300")
    with_java = copy_store(store, tmp_path / "java")
    java.run("put", with_java, SMALL_FILES, [again])
    came_back = NaiveModel.of(java.run("dump", with_java, SMALL_FILES))
    assert len(came_back.records) > 301
    with mqstore.open(store, "rw", on_damage="truncate", **SMALL_FILES):
        pass
    run_mqstore("put", store, SMALL_FILES, [again])
    assert len(NaiveModel.of(run_mqstore("dump", store, SMALL_FILES)).records) == 301
    assert len(NaiveModel.of(java.run("dump", store, SMALL_FILES)).records) == 301


# ---- unclean stops -------------------------------------------------------------------------------


def test_an_unclean_stop_costs_no_keys(java: JavaStore, tmp_path: Path) -> None:
    options = SMALL_FILES | {"maxIndexNum": "10000"}
    store = tmp_path / "store"
    now_ms = 1_700_000_000_000
    with mqstore.open(store, "rw", clock=lambda: now_ms, **options) as opened:
        for number in range(1500):
            opened.put("a", b"x" * 10, keys=f"K{number}", queue_id=0)
            now_ms += 100
    # As if the machine had gone down just after the next start.
    (store / "abort").touch()
    asked = [
        json.dumps({"op": "byKey", "topic": "a", "key": f"K{number}", "maxNum": 32, "begin": 0, "end": 2**62})
        for number in range(1500)
    ]
    ours = copy_store(store, tmp_path / "ours")
    answers = java.run("query", store, options, asked)
    found_by_java = [number for number, answer in enumerate(answers) if json.loads(answer)["messages"]]
    assert found_by_java == list(range(1500 - len(found_by_java), 1500))
    assert len(found_by_java) < 750
    with mqstore.open(ours, "rw", **options) as opened:
        for number in range(1500):
            assert [found.keys for found in opened.query_message("a", f"K{number}")] == [(f"K{number}",)]


def test_an_unclean_stop_leaves_delayed_messages_their_times(java: JavaStore, tmp_path: Path) -> None:
    options = options_for({"delay"})
    store = tmp_path / "store"
    lines = [message(f"{number}", delayTimeLevel=1, tags="TagA") for number in range(10)]
    results = put_and_kill(store, options, lines)
    ten_hours_ms = 10 * 3_600_000
    due = [json.loads(result)["storeTimestamp"] + ten_hours_ms for result in results]
    ours = copy_store(store, tmp_path / "ours")
    with_java = NaiveModel.of(java.run("dump", store, options)).queues["SCHEDULE_TOPIC_XXXX", 0]
    assert len(with_java["entries"]) == 10
    assert not {unit[2] for unit in with_java["entries"]} & set(due)
    with_us = NaiveModel.of(run_mqstore("dump", ours, options)).queues["SCHEDULE_TOPIC_XXXX", 0]
    assert [unit[2] for unit in with_us["entries"]] == due


def test_a_queue_of_blank_units_gets_its_messages(java: JavaStore, tmp_path: Path) -> None:
    store = tmp_path / "store"
    lines = [message(f"{number:03}" + "x" * 1000) for number in range(100)]
    offsets = [json.loads(result)["wroteOffset"] for result in run_mqstore("put", store, SMALL_FILES, lines)]
    first = offsets.index(int(SMALL_FILES["mappedFileSizeCommitLog"]))
    (store / "commitlog" / f"{0:020}").unlink()
    # A queue without its first messages begins in the middle of a file. As if the process that dispatched them
    # again had been killed with what goes before written, and no message yet.
    forget_derived(store, clean=False)
    queue = store / "consumequeue/a/0"
    queue.mkdir(parents=True)
    file_size = int(SMALL_FILES["mappedFileSizeConsumeQueue"])
    blanks = BLANK_UNIT * (first % (file_size // UNIT_SIZE))
    (queue / f"{first * UNIT_SIZE // file_size * file_size:020}").write_bytes(blanks.ljust(file_size, b"\0"))
    left_by_java = NaiveModel.of(java.run("dump", copy_store(store, tmp_path / "java"), SMALL_FILES))
    assert len(left_by_java.records) == 100 - first
    assert left_by_java.messages_of("a", 0) == {}
    run_mqstore("recover", store, SMALL_FILES)
    ours = NaiveModel.of(run_mqstore("dump", store, SMALL_FILES))
    assert ours.messages_of("a", 0) == dict(enumerate(offsets[first:], first))


def test_zeros_that_a_power_cut_leaves_in_an_older_queue_file_are_dispatched_again(
    java: JavaStore, tmp_path: Path
) -> None:
    # Half a queue file of 256 units are whole sectors.
    options = SMALL_FILES | {"mappedFileSizeConsumeQueue": "5120"}
    store = tmp_path / "store"
    lines = [message(f"{number:04}", tags="TagA") for number in range(5 * 256)]
    run_mqstore("put", store, options, lines)
    # As a power cut leaves it before queues and checkpoint were flushed: 4.9.3 looks at a queue's last three files.
    (store / "abort").touch()
    (store / "checkpoint").unlink()
    shutil.rmtree(store / "mqstore")
    oldest = store / "consumequeue/a/0" / f"{0:020}"
    oldest.write_bytes(oldest.read_bytes()[:2560].ljust(5120, b"\0"))
    get = {"op": "get", "topic": "a", "queueId": 0, "offset": 128, "maxMsgNums": 32, "subscription": "TagA"}
    with_java = copy_store(store, tmp_path / "java")
    (answer,) = map(json.loads, java.run("query", with_java, options, [json.dumps(get)]))
    assert (answer["status"], answer["messages"], answer["nextBeginOffset"]) == ("NO_MATCHED_MESSAGE", [], 256)
    units = with_java.joinpath("consumequeue/a/0", f"{0:020}").read_bytes()
    assert not any(units[2560:])
    for compat in (False, True):
        ours = copy_store(store, tmp_path / f"ours-{compat}")
        for mode in ("r", "rw", "r"):
            with mqstore.open(ours, mode, compat=compat, **options) as opened:
                assert bodies(opened) == [f"{number:04}" for number in range(5 * 256)]
        _, findings = verify(ours, **options)
        assert not findings


def test_a_queue_that_lost_its_end_gets_it_again(java: JavaStore, tmp_path: Path) -> None:
    store = tmp_path / "store"
    # The other queue has the log's last message, from which 4.9.3 tells that all is dispatched.
    run_mqstore("put", store, SMALL_FILES, [message(f"{number}", queueId=number % 2) for number in range(80)])
    queue = store / "consumequeue/a/0" / f"{0:020}"
    units = queue.read_bytes()
    get = json.dumps({"op": "get", "topic": "a", "queueId": 0, "offset": 29, "maxMsgNums": 32})
    for name, left in (("zeros", b"\0"), ("garbage", b"\x99")):
        queue.write_bytes((units[: 30 * UNIT_SIZE] + left * 10 * UNIT_SIZE).ljust(len(units), b"\0"))
        with_java = copy_store(store, tmp_path / f"{name}-java")
        (put,) = map(json.loads, java.run("put", with_java, SMALL_FILES, [message("80", queueId=0)]))
        (answer,) = map(json.loads, java.run("query", with_java, SMALL_FILES, [get]))
        # Ten messages are in no queue any more, and another one has their first one's offset.
        assert (put["status"], put["logicsOffset"]) == ("PUT_OK", 30)
        assert [base64.b64decode(found["body"]) for found in answer["messages"]] == [b"58", b"80"]
        for compat in (False, True):
            ours = copy_store(store, tmp_path / f"{name}-ours-{compat}")
            for mode in ("r", "rw", "r"):
                with mqstore.open(ours, mode, compat=compat, **SMALL_FILES) as opened:
                    assert bodies(opened) == [f"{2 * number}" for number in range(40)]
            _, findings = verify(ours, **SMALL_FILES)
            assert not findings


# ---- what cannot be stored -----------------------------------------------------------------------


def test_a_topic_that_cannot_be_read_back_is_refused(java: JavaStore, tmp_path: Path) -> None:
    lines = [message("before"), message("lost", topic="主" * 60), message("lost too")]
    results = java.run("put", tmp_path / "java", SMALL_FILES, lines)
    assert statuses(results) == ["PUT_OK"] * 3
    assert len(NaiveModel.of(java.run("dump", tmp_path / "java", SMALL_FILES)).records) == 1
    with mqstore.open(tmp_path / "ours", "rw", **SMALL_FILES) as store:
        store.put("a", b"before")
        with pytest.raises(MessageIllegalError):
            store.put("主" * 60, b"refused")
        refused = store.put_message(MessageExtBrokerInner(topic="主" * 60, body=b"refused"))
        assert refused.status is PutMessageStatus.MESSAGE_ILLEGAL
        store.put("a", b"behind", queue_id=0)
    with mqstore.open(tmp_path / "ours", "r", **SMALL_FILES) as store:
        assert [bytes(found.body) for found in store.select()] == [b"before", b"behind"]


def test_a_message_larger_than_a_file_is_refused(java: JavaStore, tmp_path: Path) -> None:
    lines = [message("before"), message("x" * 70_000), message("behind")]
    results = java.run("put", tmp_path / "java", SMALL_FILES, lines)
    assert statuses(results) == ["PUT_OK", "PUT_OK", "PUT_OK"]
    assert len(NaiveModel.of(java.run("dump", tmp_path / "java", SMALL_FILES)).records) == 2
    assert statuses(run_mqstore("put", tmp_path / "ours", SMALL_FILES, lines)) == [
        "PUT_OK",
        "MESSAGE_ILLEGAL",
        "PUT_OK",
    ]
    assert len(NaiveModel.of(run_mqstore("dump", tmp_path / "ours", SMALL_FILES)).records) == 2


# ---- light queues --------------------------------------------------------------------------------


def test_light_queues_go_on_where_they_were(java: JavaStore, tmp_path: Path) -> None:
    lines = [message(f"{number}", properties={"INNER_MULTI_DISPATCH": "%LMQ%1"}) for number in range(20)]
    for life in (lines[:10], lines[10:]):
        java.run("put", tmp_path / "java", LIGHT, life)
        run_mqstore("put", tmp_path / "ours", LIGHT, life)
    dumped = java.start("dump", copy_store(tmp_path / "ours", tmp_path / "ours for java"), LIGHT)
    with_java = NaiveModel.of(java.run("dump", tmp_path / "java", LIGHT)).queues["%LMQ%1", 0]
    assert len(with_java["entries"]) == 11
    with mqstore.open(tmp_path / "ours", "r", **LIGHT) as store:
        assert bodies(store, "%LMQ%1") == [f"{number}" for number in range(20)]
    # 4.9.3 reads all of those.
    assert len(NaiveModel.of(dumped.lines()).queues["%LMQ%1", 0]["entries"]) == 20


def test_a_record_without_properties_lets_the_store_start(java: JavaStore, tmp_path: Path) -> None:
    hanging, fine = tmp_path / "hanging", tmp_path / "fine"
    for path, options in ((hanging, SMALL_FILES), (fine, LIGHT)):
        with mqstore.open(path, "rw", **options) as store:
            assert store.put_message(MessageExtBrokerInner(topic="a", body=b"bare")).is_ok
        shutil.rmtree(path / "consumequeue")  # so that it is dispatched again when the store is opened
    run = java.start("dump", hanging, LIGHT)
    assert len(NaiveModel.of(java.run("dump", fine, LIGHT)).records) == 1
    # By now the other has had as much time as a whole run takes.
    assert run.process.poll() is None
    run.kill()
    with mqstore.open(hanging, "rw", **LIGHT) as store:
        assert bodies(store) == ["bare"]


# ---- look-ups ------------------------------------------------------------------------------------


def put_at(store: Path, lines: Sequence[tuple[int, str]]) -> list[int]:
    """Puts messages at times, given in milliseconds from some second on; gives the times."""
    second = 1_700_000_000_000
    results = [json.dumps({"storeTimestamp": second + after_ms}) for after_ms, _ in lines]
    given = put_at_times(store, SMALL_FILES, [line for _, line in lines], results)
    return [json.loads(result)["storeTimestamp"] for result in given]


def test_a_key_finds_its_messages_alone_and_all_of_them(java: JavaStore, tmp_path: Path) -> None:
    store = tmp_path / "store"
    # "Aa" and "BB" have one hash in Java.
    keys = [(0, "Aa"), (0, "BB"), (300, "late")]
    *_, late = put_at(store, [(after_ms, message(key, keys=key)) for after_ms, key in keys])
    asked = [
        json.dumps({"op": "byKey", "topic": "a", "key": key, "maxNum": 32, "begin": begin, "end": 2**62})
        for key, begin in (("Aa", 0), ("late", late))
    ]
    two, none = (json.loads(answer)["messages"] for answer in java.run("query", store, SMALL_FILES, asked))
    assert len(two) == 2
    assert none == []
    with mqstore.open(store, "r", **SMALL_FILES) as opened:
        assert [bytes(found.body) for found in opened.query_message("a", "Aa")] == [b"Aa"]
        assert [bytes(found.body) for found in opened.query_message("a", "late", begin=late)] == [b"late"]


def test_a_chain_that_is_a_circle_is_walked_once(java: JavaStore, tmp_path: Path) -> None:
    store = tmp_path / "store"
    slots = int(SMALL_FILES["maxHashSlotNum"])
    # Three keys of one slot: two that messages have, and one that none has.
    keys = ["K0", "K35", "K69"]
    run_mqstore("put", store, SMALL_FILES, [message(key, keys=key) for key in keys[:2]])
    assert [key_hash % slots for key_hash, _ in index_entries(store, slots)] == [21, 21]
    fine = copy_store(store, tmp_path / "fine")
    (index,) = (store / "index").iterdir()
    # Before the first entry stands none, and before the second the first: with one flipped bit each leads to the other.
    flip_a_bit_of(index, index_entry_at(slots, 2) - 1, bit=1)
    asked = [
        json.dumps({"op": "byKey", "topic": "a", "key": key, "maxNum": 32, "begin": 0, "end": 2**62}) for key in keys
    ]
    # A copy each, since a store is written to that is opened; and what is asked for in the circle fills an answer.
    hanging = java.start("query", copy_store(store, tmp_path / "hanging"), SMALL_FILES, asked[2:])
    (repeated,) = java.run("query", copy_store(store, tmp_path / "repeated"), SMALL_FILES, asked[:1])
    assert len(json.loads(repeated)["messages"]) == 32
    found = [len(json.loads(answer)["messages"]) for answer in java.run("query", fine, SMALL_FILES, asked)]
    assert found == [1, 1, 0]
    # By now the first has had as much time as two whole runs take.
    assert hanging.process.poll() is None
    hanging.kill()
    for compat in (False, True):
        with mqstore.open(store, "r", compat=compat, **SMALL_FILES) as opened:
            with_us = [[bytes(found.body) for found in opened.query_message("a", key)] for key in keys]
            assert with_us == [[b"K0"], [b"K35"], []]
    _, findings = verify(store, **SMALL_FILES)
    assert [finding.kind for finding in findings] == ["index_chain"]


def test_a_time_is_looked_up_by_the_messages_times(java: JavaStore, tmp_path: Path) -> None:
    store = tmp_path / "store"
    times = put_at(store, [(number, message(f"{number}")) for number in range(120)])
    # As when files are copied without their times: all queue files are newer than every message.
    for path in (store / "consumequeue/a/0").iterdir():
        os.utime(path, (4_000_000_000, 4_000_000_000))
    asked = [json.dumps({"op": "byTime", "topic": "a", "queueId": 0, "timestamp": times[110]})]
    (answer,) = java.run("query", store, SMALL_FILES, asked)
    assert json.loads(answer) == {"offset": 49}
    with mqstore.open(store, "r", **SMALL_FILES) as opened:
        assert opened.get_offset_in_queue_by_time("a", 0, times[110]) == 110


def test_the_logs_first_message_is_not_another_one(java: JavaStore, tmp_path: Path) -> None:
    store = tmp_path / "store"
    lines = [message(f"{number:03}" + "x" * 1000) for number in range(100)]
    offsets = [json.loads(result)["wroteOffset"] for result in run_mqstore("put", store, SMALL_FILES, lines)]
    # As retention leaves it: the first file of the queue has deleted messages only.
    first = offsets.index(int(SMALL_FILES["mappedFileSizeCommitLog"]))
    assert first > 50
    (store / "commitlog" / f"{0:020}").unlink()
    asked = [
        json.dumps({"op": "get", "topic": "a", "queueId": 0, "offset": offset, "maxMsgNums": 1}) for offset in (0, 1)
    ]
    of_first, of_second = map(json.loads, java.run("query", copy_store(store, tmp_path / "java"), SMALL_FILES, asked))
    assert (of_first["status"], [found["queueOffset"] for found in of_first["messages"]]) == ("FOUND", [first])
    assert (of_second["status"], of_second["messages"]) == ("MESSAGE_WAS_REMOVING", [])
    with mqstore.open(store, "r", **SMALL_FILES) as opened:
        assert opened.get_message("a", 0, 0, 1).status is GetMessageStatus.OFFSET_TOO_SMALL
    with mqstore.open(store, "r", compat=True, **SMALL_FILES) as opened:
        found = opened.get_message("a", 0, 0, 1)
        assert (found.status, len(found.messages)) == (GetMessageStatus.MESSAGE_WAS_REMOVING, 0)


def test_a_prepared_message_is_indexed_once(java: JavaStore, tmp_path: Path) -> None:
    store = tmp_path / "store"
    java.run("put", store, SMALL_FILES, [message("half", keys="K", sysFlag=4)])
    ours = copy_store(store, tmp_path / "ours")
    slots = int(SMALL_FILES["maxHashSlotNum"])
    java.run("dump", store, SMALL_FILES)
    run_mqstore("recover", ours, SMALL_FILES)
    assert list(index_entries(store, slots).values()) == [2]
    assert list(index_entries(ours, slots).values()) == [1]


def test_a_removed_queue_stays_away_and_what_it_has_since_stays(java: JavaStore, tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "store", "rw", **SMALL_FILES) as store:
        store.put_many("a", [b"old %d" % number for number in range(5)], queue_id=0)
        assert store.clean_unused_topic(set()) == 1
        store.put_many("a", [b"new %d" % number for number in range(3)], queue_id=0)
        store.flush()
        crashed = copy_store(store.path, tmp_path / "crashed")
    # As where somebody lets a store make its queues anew.
    shutil.rmtree(crashed / "consumequeue")
    asked = [json.dumps({"op": "get", "topic": "a", "queueId": 0, "offset": 0, "maxMsgNums": 32})]
    (answer,) = map(json.loads, java.run("query", copy_store(crashed, tmp_path / "java"), SMALL_FILES, asked))
    bodies = [base64.b64decode(found["body"]) for found in answer["messages"]]
    # The new queue's first message has the offset 5 there, the others are in no queue.
    assert bodies == [*(b"old %d" % number for number in range(5)), b"new 0"]
    new = [b"new %d" % number for number in range(3)]
    for compat in (False, True):
        ours = copy_store(crashed, tmp_path / f"ours-{compat}")
        for mode in ("r", "rw", "r"):
            with mqstore.open(ours, mode, compat=compat, **SMALL_FILES) as opened:
                assert [bytes(found.body) for found in opened.topic("a")] == new
        _, findings = verify(ours)
        assert not findings
    repaired = repair(crashed, tmp_path / "repaired")
    assert (repaired.lost, repaired.message_count) == ((), 3)
    with mqstore.open(repaired.path) as opened:
        assert [bytes(found.body) for found in opened.topic("a")] == new


def test_what_a_removed_queue_had_is_found_by_no_key(java: JavaStore, tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "store", "rw", **SMALL_FILES) as store:
        store.put_many("a", [b"old"] * 2, keys=["k", "k"], queue_id=0)
        assert store.clean_unused_topic(set()) == 1
        store.put("a", b"new", keys="k", queue_id=0)
    asked = json.dumps({"op": "byKey", "topic": "a", "key": "k", "maxNum": 32, "begin": 0, "end": 2**62})
    (answer,) = map(json.loads, java.run("query", copy_store(store.path, tmp_path / "java"), SMALL_FILES, [asked]))
    of_java = [base64.b64decode(found["body"]) for found in answer["messages"]]
    assert of_java == [b"old", b"old", b"new"]
    for compat, expected in ((False, [b"new"]), (True, of_java)):
        with mqstore.open(store.path, compat=compat, **SMALL_FILES) as opened:
            assert [bytes(found.body) for found in opened.query_message("a", "k")] == expected
            assert [bytes(found.body) for found in opened.query_message("a", "k", max_num=1)] == expected[-1:]
            by_key = opened.select("a").look_up_keys(["k"])["k"]
            assert [bytes(found.body) for found in by_key] == expected
            assert opened.report().is_whole


@pytest.mark.parametrize("compat", [False, True])
def test_a_group_that_is_ahead_of_a_queue_that_was_cut_is_given_what_comes(
    java: JavaStore, damaged: tuple[Path, int], tmp_path: Path, *, compat: bool
) -> None:
    store, _ = damaged
    offsets = store / "config" / "consumerOffset.json"
    offsets.parent.mkdir(exist_ok=True)
    # As a broker writes it, whose consumers have read all.
    offsets.write_text('{"offsetTable":{"a@g":{0:1000}}}')
    new = [message(f"new {number:03}") for number in range(1000)]
    with_java = copy_store(store, tmp_path / "java")
    asked = [json.dumps({"op": "get", "topic": "a", "queueId": 0, "offset": 1000, "maxMsgNums": 1})]
    (before,) = map(json.loads, java.run("query", with_java, SMALL_FILES, asked))
    # Who asks now begins anew, and has all of the queue once more.
    assert (before["status"], before["maxOffset"], before["nextBeginOffset"]) == ("OFFSET_OVERFLOW_BADLY", 300, 0)
    java.run("put", with_java, SMALL_FILES, new)
    (behind,) = map(json.loads, java.run("query", with_java, SMALL_FILES, asked))
    assert [base64.b64decode(found["body"]) for found in behind["messages"]] == [b"new 700"]
    with mqstore.open(store, "rw", on_damage="truncate", compat=compat, **SMALL_FILES) as opened:
        for number in range(1000):
            opened.put("a", f"new {number:03}".encode(), queue_id=0)
    with (
        mqstore.open(store, "rw", compat=compat, **SMALL_FILES) as opened,
        opened.consumer("g", "a", timeout=0) as consumer,
    ):
        assert [bytes(found.body).decode() for found in consumer] == [f"new {number:03}" for number in range(1000)]
