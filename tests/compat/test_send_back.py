"""What becomes of messages that a consumer gives back, beside the broker's own ``SendMessageProcessor``."""

import json
import struct
from pathlib import Path
from typing import Any

import mqstore
from mqstore import MessageExtBrokerInner
from mqstore.cli.json_lines import put_lines
from mqstore.consumer.send_back import send_message_back
from tests.compat.java_store import JavaStore
from tests.compat.streams import SMALL_FILES

OPTIONS: dict[str, Any] = SMALL_FILES | {"messageDelayLevel": " ".join(f"{hours}h" for hours in range(1, 19))}
STORE_TIMESTAMP_AT = 56
TIME = struct.Struct(">q")
GROUP = "billing"
FEW: dict[str, Any] = {"group_name": "few", "retry_max_times": 2}
NONE: dict[str, Any] = {"group_name": "none", "retry_queue_nums": 0}

MESSAGES: list[dict[str, Any]] = [
    {"tags": "T", "keys": "a b", "flag": 3, "queueId": 2},
    {"reconsumeTimes": 5, "properties": {"zone": "eu", "Aa": "1", "BB": "2", "C#": "3"}},
    {"properties": {"RETRY_TOPIC": "first", "ORIGIN_MESSAGE_ID": "7F00000100002A9F0000000000000000"}},
    {"reconsumeTimes": 2, "bornHost": "[::1]:5", "storeHost": "6.7.8.9:1", "waitStoreMsgOK": False},
    {"reconsumeTimes": 16, "body": "ZGVhZA=="},
    # It gets DELAY and WAIT when it is given back: they are in one bucket of Java's map.
    {"withoutWait": True, "bornHost": "127.0.0.1:1", "storeHost": "127.0.0.1:2", "properties": {"UNIQ_KEY": "u"}},
    {"sysFlag": 8, "preparedTransactionOffset": 77, "properties": {"DELAY": "0", "REAL_TOPIC": "x", "REAL_QID": "9"}},
]
BACK: list[dict[str, Any]] = [
    {"message": 0, "delayLevel": 0},
    {"message": 0, "delayLevel": 7},
    {"message": 0, "delayLevel": 30},
    {"message": 0, "delayLevel": -1},
    {"message": 1, "delayLevel": 0},
    {"message": 1, "delayLevel": 0, "maxReconsumeTimes": 5},
    {"message": 2, "delayLevel": 0},
    {"message": 2, "delayLevel": -1},
    {"message": 3, "delayLevel": 0},
    {"message": 3, "delayLevel": 0, "group": "few"},
    {"message": 4, "delayLevel": 0},
    {"message": 4, "delayLevel": 0, "maxReconsumeTimes": 20},
    {"message": 5, "delayLevel": 0},
    {"message": 5, "delayLevel": -1},
    {"message": 6, "delayLevel": 1},
    {"message": 6, "delayLevel": 1, "group": "none"},
]


def lines() -> list[str]:
    """The messages as the driver takes them."""
    return [json.dumps({"topic": "orders", "bornTimestamp": at} | item) for at, item in enumerate(MESSAGES)]


def give_back_ours(store: Path) -> list[int]:
    """Puts the messages and gives them back; gives where they stand."""
    with mqstore.open(store, "rw", **OPTIONS) as opened:
        for item, line in zip(MESSAGES, lines(), strict=True):
            if item.get("withoutWait"):
                given = {"properties": item["properties"], "born_host": item["bornHost"]}
                message = MessageExtBrokerInner(topic="orders", store_host=item["storeHost"], **given)
                message.born_timestamp = json.loads(line)["bornTimestamp"]
                opened.put_message(message)
            else:
                list(put_lines(opened, [line]))
        stored = list(opened.select("orders"))
        stored.sort(key=lambda message: message.commit_log_offset)
        for group in (FEW, NONE):
            opened.consumers.groups.update(mqstore.SubscriptionGroupConfig(**group))
        for back in BACK:
            of_group = opened.consumers.group(back.get("group", GROUP))
            most = back.get("maxReconsumeTimes")
            send_message_back(opened, of_group, stored[back["message"]], back["delayLevel"], most)
        return [message.commit_log_offset for message in stored]


def records(store: Path) -> list[bytes]:
    """The records of the log, without when they were stored."""
    found = []
    with mqstore.open(store, **OPTIONS) as opened:
        for message in opened.select():
            record = bytearray(message.record_bytes)
            # Behind a born host of another length it stands elsewhere.
            at = STORE_TIMESTAMP_AT + (12 if message.sys_flag & 0x10 else 0)
            assert TIME.unpack_from(record, at) == (message.store_timestamp,)
            TIME.pack_into(record, at, 0)
            found.append(bytes(record))
    return found


def test_records_are_those_of_the_brokers_processor(java: JavaStore, tmp_path: Path) -> None:
    offsets = give_back_ours(tmp_path / "ours")
    given = lines()
    given += [json.dumps({"group": {"groupName": "few", "retryMaxTimes": 2}})]
    given += [json.dumps({"group": {"groupName": "none", "retryQueueNums": 0}})]
    for back in BACK:
        asked = {name: value for name, value in back.items() if name != "message"}
        given.append(json.dumps({"back": {"group": GROUP, "offset": offsets[back["message"]]} | asked}))
    answers = [json.loads(line) for line in java.run("send-back", tmp_path / "java", OPTIONS, given)]
    assert [answer for answer in answers if answer.get("code")] == []
    ours, theirs = records(tmp_path / "ours"), records(tmp_path / "java")
    assert len(ours) == len(MESSAGES) + len(BACK) - 1
    assert ours == theirs
    topics = {name: json.loads((tmp_path / name / "config" / "topics.json").read_text()) for name in ("ours", "java")}
    for topic in (f"%RETRY%{GROUP}", f"%DLQ%{GROUP}", "%DLQ%few"):
        assert topics["ours"]["topicConfigTable"][topic] == topics["java"]["topicConfigTable"][topic]
