"""Messages, records, queries and answers as JSON lines: the language that the Java store's driver speaks.

What is printed here is what that driver prints for the same store, line for line.
"""

import base64
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from mqstore import _native
from mqstore._native import DispatchRequest, Message, PutMessageResult
from mqstore.store.delayed import DELIVER_AT
from mqstore.store.message_store import MessageStore
from mqstore.store.messages import MessageExtBatch, MessageExtBrokerInner

__all__ = ["answer_lines", "dump_lines", "message_to_json", "put_lines"]

_DEFAULT_BORN_HOST = "127.0.0.1:50000"
_DEFAULT_STORE_HOST = "127.0.0.1:10911"
_UNITS_AT_ONCE = 16_384


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("objects are nested too deeply") from None
    return _checked(value, text.strip())


def _checked(value: object, shown: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {shown!r}")
    return value


def _field(item: dict[str, Any], name: str) -> Any:
    if name not in item:
        raise ValueError(f"there is no {name}, only {', '.join(item) or 'an empty object'}")
    return item[name]


# ---- put ---------------------------------------------------------------------------------------


def _properties(item: dict[str, Any]) -> dict[str, str]:
    """In the order in which the driver puts them, which decides between names of one hash bucket."""
    given = {str(name): str(value) for name, value in dict(item.get("properties", {})).items()}
    found = {name: given[name] for name in _native.java_hash_map_order(list(given))}
    if "tags" in item:
        found["TAGS"] = item["tags"]
    if "keys" in item:
        found["KEYS"] = item["keys"]
    if "delayTimeLevel" in item:
        found["DELAY"] = str(item["delayTimeLevel"])
    if "deliverAt" in item:
        found[DELIVER_AT] = str(item["deliverAt"])
    found["WAIT"] = "true" if item.get("waitStoreMsgOK", True) else "false"
    return found


def _shared(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": _field(item, "topic"),
        "queue_id": item.get("queueId", 0),
        "sys_flag": item.get("sysFlag", 0),
        "born_timestamp": item.get("bornTimestamp"),
        "born_host": item.get("bornHost", _DEFAULT_BORN_HOST),
        "store_host": item.get("storeHost", _DEFAULT_STORE_HOST),
        "reconsume_times": item.get("reconsumeTimes", 0),
    }


def _body(item: dict[str, Any]) -> bytes:
    return base64.b64decode(item.get("body", ""), validate=True)


def _put(store: MessageStore, item: dict[str, Any]) -> PutMessageResult:
    if "batch" in item:
        parts = [_checked(part, str(part)) for part in item["batch"]]
        messages = [(_body(part), part.get("flag", 0), _properties(part)) for part in parts]
        return store.put_messages(MessageExtBatch(**_shared(item), messages=messages))
    return store.put_message(
        MessageExtBrokerInner(
            **_shared(item),
            body=_body(item),
            flag=item.get("flag", 0),
            properties=_properties(item),
            prepared_transaction_offset=item.get("preparedTransactionOffset", 0),
        )
    )


def _put_result(result: PutMessageResult) -> dict[str, object]:
    found: dict[str, object] = {"status": result.status.value}
    if result.append_status is not None:
        found |= {
            "append": result.append_status,
            "msgId": result.msg_id,
            "wroteOffset": result.wrote_offset,
            "wroteBytes": result.wrote_bytes,
            "storeTimestamp": result.store_timestamp,
            "logicsOffset": result.logics_offset,
            "msgNum": result.msg_num,
        }
    return found


def put_lines(store: MessageStore, lines: Iterable[str]) -> Iterator[str]:
    """Puts a message a line (or a ``{"batch": […]}``; ``{"sleep": ms}`` waits) and gives its result.

    Raises:
        ValueError: a line is no JSON object, or holds what a message cannot.
    """
    for line in lines:
        if not line.strip():
            continue
        item = _object(line)
        if "sleep" in item:
            time.sleep(item["sleep"] / 1000)
            continue
        yield _line(_put_result(_put(store, item)))


# ---- dump --------------------------------------------------------------------------------------


def _record(request: DispatchRequest) -> dict[str, object]:
    return {
        "kind": "record",
        "success": request.success,
        "msgSize": request.msg_size,
        "topic": request.topic,
        "queueId": request.queue_id,
        "commitLogOffset": request.commit_log_offset,
        "consumeQueueOffset": request.consume_queue_offset,
        "tagsCode": request.tags_code,
        "storeTimestamp": request.store_timestamp,
        "keys": request.keys,
        "uniqKey": request.uniq_key,
        "sysFlag": request.sys_flag,
        "preparedTransactionOffset": request.prepared_transaction_offset,
        "properties": None if request.properties is None else dict(_java_sorted(dict(request.properties))),
    }


def _java_sorted(properties: dict[str, str]) -> list[tuple[str, str]]:
    return sorted(properties.items(), key=lambda pair: pair[0].encode("utf-16-be"))


def _records(store: MessageStore) -> Iterator[DispatchRequest]:
    offset, end = max(0, store.get_min_phy_offset()), store.get_max_phy_offset()
    file_size = store._log_file_size
    while offset < end:
        request = store.check_message_and_return_size(offset)
        if request is None:
            return
        yield request
        if not request.success:
            return
        offset = offset + request.msg_size if request.msg_size else offset + file_size - offset % file_size


def _entries(store: MessageStore, topic: str, queue_id: int, index: int, end: int) -> Iterator[tuple[int, int, int]]:
    while index < end:
        units = store._units(topic, queue_id, index, min(_UNITS_AT_ONCE, end - index))
        if not units:
            return
        yield from units
        index += len(units)


def dump_lines(store: MessageStore) -> Iterator[str]:
    """The store's bounds, every record of its log, and every queue with its units."""
    yield _line(
        {
            "kind": "bounds",
            "minPhyOffset": store.get_min_phy_offset(),
            "maxPhyOffset": store.get_max_phy_offset(),
            "earliestMessageTime": store.get_earliest_message_time(),
        }
    )
    for request in _records(store):
        yield _line(_record(request))
    for topic, queue_id, min_offset, max_offset, _ in store._queues():
        yield _line(
            {
                "kind": "queue",
                "topic": topic,
                "queueId": queue_id,
                "minOffset": min_offset,
                "maxOffset": max_offset,
                "entries": list(_entries(store, topic, queue_id, min_offset, max_offset)),
            }
        )


# ---- query -------------------------------------------------------------------------------------


def message_to_json(message: Message) -> dict[str, object]:
    """A message with its fields by RocketMQ's names, the body in base64 as it is stored."""
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.commit_log_offset,
        "storeSize": message.store_size,
        "bodyCRC": message.body_crc,
        "body": base64.b64encode(message.raw_body).decode(),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp,
        "bornHost": message.born_host,
        "storeTimestamp": message.store_timestamp,
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "msgId": message.msg_id,
        "properties": dict(_java_sorted(message.properties)),
    }


def _get(store: MessageStore, query: dict[str, Any]) -> dict[str, object]:
    topic, offset, max_msg_nums = _field(query, "topic"), _field(query, "offset"), _field(query, "maxMsgNums")
    found = store.get_message(topic, query.get("queueId", 0), offset, max_msg_nums, query.get("subscription"))
    return {
        "status": found.status.value,
        "nextBeginOffset": found.next_begin_offset,
        "minOffset": found.min_offset,
        "maxOffset": found.max_offset,
        "messages": [message_to_json(message) for message in found.messages],
    }


def _bounds(store: MessageStore, topic: str, queue_id: int) -> dict[str, object]:
    return {
        "minOffsetInQueue": store.get_min_offset_in_queue(topic, queue_id),
        "maxOffsetInQueue": store.get_max_offset_in_queue(topic, queue_id),
        "earliestMessageTime": store.get_earliest_message_time(topic, queue_id),
        "messageTotalInQueue": store.get_message_total_in_queue(topic, queue_id),
        "minPhyOffset": store.get_min_phy_offset(),
        "maxPhyOffset": store.get_max_phy_offset(),
    }


def _answer(store: MessageStore, query: dict[str, Any]) -> dict[str, object]:
    topic, queue_id = query.get("topic", ""), query.get("queueId", 0)
    match _field(query, "op"):
        case "get":
            return _get(store, query)
        case "byKey":
            key, max_num = _field(query, "key"), _field(query, "maxNum")
            messages = store.query_message(topic, key, max_num, _field(query, "begin"), _field(query, "end"))
            return {"messages": [message_to_json(message) for message in messages]}
        case "byTime":
            return {"offset": store.get_offset_in_queue_by_time(topic, queue_id, _field(query, "timestamp"))}
        case "byOffset":
            message = store.select_one_message_by_offset(_field(query, "commitLogOffset"))
            return {"message": None if message is None else message_to_json(message)}
        case "bounds":
            return _bounds(store, topic, queue_id)
        case "messageStoreTimeStamp":
            return {"timestamp": store.get_message_store_time_stamp(topic, queue_id, _field(query, "offset"))}
        case op:
            raise ValueError(
                f"expected op to be get, byKey, byTime, byOffset, bounds or messageStoreTimeStamp, found {op!r}"
            )


def answer_lines(store: MessageStore, lines: Iterable[str]) -> Iterator[str]:
    """Answers a query a line.

    Raises:
        ValueError: a line is no JSON object, or no query.
    """
    for line in lines:
        if line.strip():
            yield _line(_answer(store, _object(line)))
