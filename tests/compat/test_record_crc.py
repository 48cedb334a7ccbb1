"""The checksum of a whole record (``enabledAppendPropCRC``), as RocketMQ 5 writes it, and 4.9.3 beside it."""

import itertools
import json
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore import DamagedStoreError, MessageExtBatch
from mqstore.verify import verify
from tests.command import put_and_kill, run_mqstore
from tests.compat.java_store import JavaStore
from tests.compat.naive_model import NaiveModel
from tests.compat.streams import SMALL_FILES
from tests.store_files import copy_store, log_contents

WITH_CRC = SMALL_FILES | {"enabledAppendPropCRC": "true"}
LIGHT = {"enableLmq": "true", "enableMultiDispatch": "true"}
CRC_SIZE = 20
MAGIC_CODE = 0xDAA320A7


def crc_property(covered: bytes) -> bytes:
    """What RocketMQ 5 appends to a record, worked out anew: ten digits, the lowest first."""
    digits = f"{zlib.crc32(covered) & 0x7FFFFFFF:010}"[::-1]
    return b"__CRC32#\x01" + digits.encode() + b"\x02"


def records(log: bytes) -> Iterator[bytes]:
    """The records of a file of the log."""
    at = 0
    while at + 8 <= len(log):
        size, magic_code = struct.unpack_from(">iI", log, at)
        if magic_code != MAGIC_CODE:
            return
        yield log[at : at + size]
        at += size


def fill(path: Path, options: dict[str, Any]) -> None:
    """Puts single messages, a batch, and messages of further queues."""
    with mqstore.open(path, "rw", **options) as store:
        for number in range(300):
            further = {"INNER_MULTI_DISPATCH": f"%LMQ%{number % 3}"} if number % 5 == 0 else {}
            store.put("t", b"body %d" % number, keys=f"k{number}", tags="a", queue_id=number % 2, properties=further)
        store.put_many("t", [b"many %d" % number for number in range(50)])
        batch = MessageExtBatch(topic="t", queue_id=1, messages=[(b"in a batch", 0, {"p": "q"}), (b"too", 0, {})])
        store.put_messages(batch)


@pytest.mark.parametrize("option", [{}, LIGHT], ids=["plain", "light"])
def test_each_record_ends_with_what_rocketmq_5_writes(tmp_path: Path, option: dict[str, str]) -> None:
    fill(tmp_path / "store", WITH_CRC | option)
    count = 0
    for log in log_contents(tmp_path / "store").values():
        for record in records(log):
            assert record[-CRC_SIZE:] == crc_property(record[:-CRC_SIZE])
            assert record[-CRC_SIZE - 1] in {2, CRC_SIZE}, "a separator, or the length of properties that are no others"
            count += 1
    assert count == 352
    assert verify(tmp_path / "store", **WITH_CRC | option)[0].is_whole


@pytest.mark.parametrize("option", [{}, LIGHT], ids=["plain", "light"])
def test_4_9_3_reads_past_it(java: JavaStore, tmp_path: Path, option: dict[str, str]) -> None:
    store = tmp_path / "store"
    fill(store, WITH_CRC | option)
    with_java = NaiveModel.of(java.run("dump", copy_store(store, tmp_path / "java"), SMALL_FILES | option))
    assert with_java == NaiveModel.of(run_mqstore("dump", store, SMALL_FILES | option))
    assert len(with_java.records) == 352


def test_4_9_3_recovers_them_and_goes_on(java: JavaStore, tmp_path: Path) -> None:
    store = tmp_path / "store"
    lines = [json.dumps({"topic": "t", "queueId": 0, "body": "Ym9keQ==", "keys": f"k{number}"}) for number in range(99)]
    put_and_kill(store, WITH_CRC, lines)
    java.run("put", store, SMALL_FILES, lines[:1])
    run_mqstore("put", store, WITH_CRC, lines[:1])
    found = NaiveModel.of(java.run("dump", store, SMALL_FILES))
    assert len(found.records) == 101
    assert found == NaiveModel.of(run_mqstore("dump", store, SMALL_FILES))


def peer5(command: str, *arguments: str | Path) -> list[str]:
    """Runs the driver of RocketMQ 5's store, which is built where that was not done yet."""
    done = subprocess.run(
        [Path(__file__).with_name("peer5") / "run", command, *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("option", [{}, LIGHT], ids=["plain", "light"])
def test_rocketmq_5_takes_them_and_sees_each_flipped_bit(
    java: JavaStore, tmp_path: Path, option: dict[str, str]
) -> None:
    del java  # what runs that runs this
    fill(tmp_path / "store", WITH_CRC | option)
    logs = sorted((tmp_path / "store" / "commitlog").iterdir())
    *_, counts = peer5("check", tmp_path / "five", *logs)
    records, refused, flips, missed = map(int, counts.split())
    assert (records, refused, missed) == (352, 0, 0)
    assert flips > 352 * 100


@pytest.fixture(scope="module")
def made_by_rocketmq_5(java: JavaStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that RocketMQ 5 filled and closed."""
    del java
    path = tmp_path_factory.mktemp("five") / "store"
    statuses = peer5("put", path, "10", *(f"{name}={value}" for name, value in SMALL_FILES.items()))
    assert statuses == ["PUT_OK"] * 10
    return path


@pytest.fixture
def of_rocketmq_5(made_by_rocketmq_5: Path, tmp_path: Path) -> tuple[Path, list[int]]:
    """A copy of it, and where its records stand."""
    path = copy_store(made_by_rocketmq_5, tmp_path / "store")
    (log,) = log_contents(path).values()
    sizes = [len(record) for record in records(log)]
    assert len(sizes) == 10
    return path, list(itertools.accumulate(sizes[:-1], initial=0))


def test_records_of_rocketmq_5_check_out(of_rocketmq_5: tuple[Path, list[int]]) -> None:
    path, _ = of_rocketmq_5
    with mqstore.open(path, "rw", **SMALL_FILES) as store:
        found = [bytes(message.body).decode() for message in store.topic("t").queue(0)]
    assert found == [f"body {number}" for number in range(10)]
    assert verify(path, **SMALL_FILES)[0].is_whole


@pytest.mark.parametrize("at", [16, 44, 52, 75, 88 + 6 + 2 + 2 + 6, -5, -15], ids=str)
def test_what_changed_in_one_is_told_and_not_served(of_rocketmq_5: tuple[Path, list[int]], at: int) -> None:
    path, offsets = of_rocketmq_5
    mqstore.open(path, "rw", **SMALL_FILES).close()
    begin, end = offsets[4], offsets[5]
    with (path / "commitlog" / f"{0:020}").open("r+b") as file:
        place = begin + at if at >= 0 else end + at
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    assert verify(path, **SMALL_FILES)[0].counts["record_changed"] == 1
    with pytest.raises(DamagedStoreError) as raised:
        mqstore.open(path, "rw", **SMALL_FILES)
    assert raised.value.offset == begin
    with mqstore.open(path, "r", **SMALL_FILES) as store:
        assert [message.queue_offset for message in store.topic("t").queue(0)] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
        assert [message.queue_offset for message in store.select()] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
        assert store.query_message("t", "k4") == []


def test_a_message_that_is_put_again_gets_its_own(of_rocketmq_5: tuple[Path, list[int]], tmp_path: Path) -> None:
    path, _ = of_rocketmq_5
    for options in (SMALL_FILES, WITH_CRC):
        to = tmp_path / f"to {len(options)}"
        with mqstore.open(path, "r", **SMALL_FILES) as store, mqstore.open(to, "rw", **options) as again:
            for message in store.topic("t").queue(0):
                again.put("u", bytes(message.body), properties=message.properties)
        assert verify(to, **options)[0].is_whole
        with mqstore.open(to, "r", **options) as again:
            first = next(iter(again.topic("u").queue(0)))
            assert ("__CRC32#" in first.properties) == (options is WITH_CRC)
