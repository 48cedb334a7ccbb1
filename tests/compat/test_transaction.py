"""Transactions, by the real broker's classes and by mqstore."""

import base64
import json
import struct
import time
from pathlib import Path
from typing import Any

import mqstore
from mqstore import LocalTransactionState, Message
from mqstore.store.half_messages import CHECK_MAX_TIME_TOPIC
from tests.compat.java_store import JavaStore
from tests.compat.streams import SMALL_FILES

OPTIONS: dict[str, Any] = SMALL_FILES | {"transactionTimeOut": "0", "transactionCheckMax": "2"}
BORN_TIMESTAMP_AT = 40
STORE_TIMESTAMP_AT = 56
TIME = struct.Struct(">q")
STATES = ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"]


def prepare(body: str, born: int, **fields: Any) -> dict[str, Any]:
    """A message to prepare."""
    encoded = base64.b64encode(body.encode()).decode()
    return {"topic": "orders", "queueId": 3, "body": encoded, "bornTimestamp": born, "group": "billing"} | fields


def steps() -> list[dict[str, Any]]:
    """What both do: everything that can become of a prepared message."""
    now = int(time.time() * 1000) - 60_000
    check = {"timeout": 0, "checkMax": 2}
    return [
        prepare("committed", now, tags="T", keys="a b", flag=7, properties={"p": "v"}),
        prepare("rolled back", now + 1),
        {"commit": 0},
        {"rollback": 1},
        *(prepare(f"in doubt {state}", now + 2 + at, tags="T") for at, state in enumerate(STATES)),
        prepare("of last week", now - 7 * 24 * 3_600_000),
        {"sleep": 50},
        {"check": STATES} | check,
        {"sleep": 50},
        {"check": ["UNKNOW"]} | check,
        {"sleep": 50},
        {"check": []} | check,
    ]


def run_ours(store: mqstore.MessageStore, given: list[dict[str, Any]]) -> list[int]:
    """The same by mqstore; gives the queue offsets of what was asked for."""
    transactions: list[mqstore.Transaction] = []
    asked: list[int] = []
    for step in given:
        if "sleep" in step:
            time.sleep(step["sleep"] / 1000)  # the store time of what was put is to be over
        elif "commit" in step:
            transactions[step["commit"]].commit()
        elif "rollback" in step:
            transactions[step["rollback"]].rollback()
        elif "check" in step:
            left = list(step["check"])
            pending: list[tuple[Message, LocalTransactionState]] = []

            # The broker asks for all first; the answers come later.
            def listener(message: Message, left: list[str] = left, pending: Any = pending) -> LocalTransactionState:
                asked.append(message.queue_offset)
                pending.append((message, LocalTransactionState(left.pop(0))))
                return LocalTransactionState.UNKNOW

            store.check_transactions(listener)
            for message, state in pending:
                store._transactions.decide(message, state)
        else:
            transaction = store.transaction(step["group"])
            properties = step.get("properties", {}) | {"WAIT": "true"}
            transaction.put(
                step["topic"],
                base64.b64decode(step["body"]),
                queue_id=step["queueId"],
                properties=properties,
                born_timestamp=step["bornTimestamp"],
                tags=step.get("tags"),
                keys=step.get("keys"),
                flag=step.get("flag", 0),
                unique_key=False,
            )
            transactions.append(transaction)
    return asked


def records(store: Path) -> list[bytes]:
    """The records of a store, without when they were stored, and when the ops were made."""
    found = []
    with mqstore.open(store, **OPTIONS) as opened:
        for message in opened.select():
            record = bytearray(message.record_bytes)
            TIME.pack_into(record, STORE_TIMESTAMP_AT, 0)
            if message.topic == "RMQ_SYS_TRANS_OP_HALF_TOPIC":
                TIME.pack_into(record, BORN_TIMESTAMP_AT, 0)
            found.append(bytes(record))
    return found


def test_the_records_are_the_real_brokers(java: JavaStore, tmp_path: Path) -> None:
    given = steps()
    lines = java.run("transact", tmp_path / "java", SMALL_FILES | {"fileReservedTime": "72"}, map(json.dumps, given))
    with mqstore.open(
        tmp_path / "ours", "rw", compat=True, born_host="127.0.0.1:50000", store_host="127.0.0.1:10911", **OPTIONS
    ) as store:
        asked = run_ours(store, given)
        assert [bytes(message.body) for message in store.topic(CHECK_MAX_TIME_TOPIC)] == [
            b"of last week",
            b"in doubt UNKNOW",
        ]
    assert asked == [line["asked"] for line in map(json.loads, lines) if "asked" in line]
    assert records(tmp_path / "ours") == records(tmp_path / "java")
