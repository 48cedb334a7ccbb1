"""Messages, records, queries and answers as JSON lines: the language that the Java store's driver speaks.

What is printed here is what that driver prints for the same store, line for line.
"""

import base64
import json
import time
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Any, TypeVar

from mqstore import _native
from mqstore._native import DispatchRequest, Message, PutMessageResult
from mqstore.errors import MessageIllegalError
from mqstore.status import PutMessageStatus
from mqstore.store.arguments import INT_MAX, LONG_MAX
from mqstore.store.config_json import Fraction
from mqstore.store.delayed import DELIVER_AT
from mqstore.store.message_store import MessageStore
from mqstore.store.messages import MessageExtBatch, MessageExtBrokerInner

__all__ = ["answer_lines", "dump_lines", "message_to_json", "put_lines"]

_MAX_SHOWN_CHARS = 60
"""Most of a body that an error shows."""
_DEFAULT_BORN_HOST = "127.0.0.1:50000"
_DEFAULT_STORE_HOST = "127.0.0.1:10911"
_UNITS_AT_ONCE = 16_384
_EXPECTED = MappingProxyType(
    {bool: "true or false", dict: "an object", int: "a whole number", list: "an array", str: "text"}
)

_INTS = frozenset({"delayTimeLevel", "flag", "maxMsgNums", "maxNum", "queueId", "reconsumeTimes", "sysFlag"})
"""Numbers that are an ``int`` in RocketMQ; the others are a ``long``."""

_Value = TypeVar("_Value", bool, dict[str, Any], int, list[object], str)
_Default = TypeVar("_Default")


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_float=Fraction)
    except RecursionError:
        raise ValueError("objects are nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {text.strip()!r}")
    return value


def _checked(name: str, value: object, kind: type[_Value]) -> _Value:
    # To Python true and false are numbers too.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name}: expected {_EXPECTED[kind]}, found {_line(value)}")
    most = INT_MAX if name in _INTS else LONG_MAX
    if isinstance(value, int) and not -most - 1 <= value <= most:
        raise ValueError(f"{name}: expected a whole number from {-most - 1} to {most}, found {value}")
    return value


def _field(item: dict[str, Any], name: str, kind: type[_Value]) -> _Value:
    if name not in item:
        raise ValueError(f"there is no {name}, only {', '.join(item) or 'an empty object'}")
    return _checked(name, item[name], kind)


def _optional(item: dict[str, Any], name: str, kind: type[_Value], otherwise: _Default) -> _Value | _Default:
    return _checked(name, item[name], kind) if name in item else otherwise


# ---- put ---------------------------------------------------------------------------------------


def _property(name: str, value: object) -> str:
    # A plain float is NaN or an infinity, which JSON does not have.
    if isinstance(value, bool) or not isinstance(value, str | int | Fraction):
        raise ValueError(f"properties, {name}: expected text or a number, found {_line(value)}")
    return str(value)


def _properties(item: dict[str, Any]) -> dict[str, str]:
    """In the order in which the driver puts them, which decides between names of one hash bucket."""
    given = {name: _property(name, value) for name, value in _optional(item, "properties", dict, {}).items()}
    found = {name: given[name] for name in _native.java_hash_map_order(list(given))}
    for name, key in (("tags", "TAGS"), ("keys", "KEYS")):
        if name in item:
            found[key] = _field(item, name, str)
    for name, key in (("delayTimeLevel", "DELAY"), ("deliverAt", DELIVER_AT)):
        if name in item:
            found[key] = str(_field(item, name, int))
    found["WAIT"] = "true" if _optional(item, "waitStoreMsgOK", bool, otherwise=True) else "false"
    return found


def _shared(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": _field(item, "topic", str),
        "queue_id": _optional(item, "queueId", int, 0),
        "sys_flag": _optional(item, "sysFlag", int, 0),
        "born_timestamp": _optional(item, "bornTimestamp", int, None),
        "born_host": _optional(item, "bornHost", str, _DEFAULT_BORN_HOST),
        "store_host": _optional(item, "storeHost", str, _DEFAULT_STORE_HOST),
        "reconsume_times": _optional(item, "reconsumeTimes", int, 0),
    }


def _body(item: dict[str, Any]) -> bytes:
    body = _optional(item, "body", str, "")
    try:
        return base64.b64decode(body, validate=True)
    except ValueError as error:
        shown = body if len(body) <= _MAX_SHOWN_CHARS else f"{body[:_MAX_SHOWN_CHARS]}…"
        raise ValueError(f"body: expected base64, found {_line(shown)}") from error


def _put(store: MessageStore, item: dict[str, Any]) -> PutMessageResult:
    if "batch" in item:
        parts = [_checked("batch", part, dict) for part in _field(item, "batch", list)]
        messages = [(_body(part), _optional(part, "flag", int, 0), _properties(part)) for part in parts]
        return store.put_messages(MessageExtBatch(**_shared(item), messages=messages))
    return store.put_message(
        MessageExtBrokerInner(
            **_shared(item),
            body=_body(item),
            flag=_optional(item, "flag", int, 0),
            properties=_properties(item),
            prepared_transaction_offset=_optional(item, "preparedTransactionOffset", int, 0),
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
        try:
            result = _put_result(_put(store, item))
        except MessageIllegalError:  # a batch that cannot be encoded
            result = {"status": PutMessageStatus.MESSAGE_ILLEGAL.value}
        yield _line(result)


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


def _records(store: MessageStore, tell: Callable[[str], None]) -> Iterator[DispatchRequest]:
    offset, end = max(0, store.get_min_phy_offset()), store.get_max_phy_offset()
    file_size = store._log_file_size
    while offset < end:
        request = store.check_message_and_return_size(offset)
        if request is not None:
            yield request
            if request.success:
                offset = offset + request.msg_size if request.msg_size else offset + file_size - offset % file_size
                continue
        reason = "a file is missing" if request is None else request.reason
        if store.compat:  # the driver ends its walk here
            tell(f"the log is printed up to {offset}, not to {end}: {reason}; -o compat=false goes on behind that")
            return
        behind = store._boundary_at(offset + 1)
        tell(f"the log has no records from {offset} to {behind}: {reason}")
        offset = behind


def _entries(store: MessageStore, topic: str, queue_id: int, index: int, end: int) -> Iterator[tuple[int, int, int]]:
    while index < end:
        units = store._units(topic, queue_id, index, min(_UNITS_AT_ONCE, end - index))
        if not units:  # what came behind would stand at wrong places of the list
            return
        yield from units
        index += len(units)


def _first_and_entries(
    store: MessageStore, topic: str, queue_id: int, first: int, end: int
) -> tuple[int, list[tuple[int, int, int]]]:
    """A queue's first offset and its units. What retention has removed since the store was opened is no hole of it."""
    while True:
        entries = list(_entries(store, topic, queue_id, first, end))
        if first + len(entries) >= end:
            return first, entries
        store.refresh()
        left = store.get_min_offset_in_queue(topic, queue_id)
        if left <= first:
            return first, entries
        first = left


def dump_lines(store: MessageStore, tell: Callable[[str], None] = lambda _: None) -> Iterator[str]:
    """The store's bounds, every record of its log, and every queue with its units.

    Args:
        store: The store.
        tell: What is called with a sentence for each part of log and queues that cannot be read. With ``compat``
            no record behind the first one is given, as by the driver.
    """
    yield _line(
        {
            "kind": "bounds",
            "minPhyOffset": store.get_min_phy_offset(),
            "maxPhyOffset": store.get_max_phy_offset(),
            "earliestMessageTime": store.get_earliest_message_time(),
        }
    )
    for request in _records(store, tell):
        yield _line(_record(request))
    for topic, queue_id, opened_min_offset, max_offset, _ in store._queues():
        min_offset, entries = _first_and_entries(store, topic, queue_id, opened_min_offset, max_offset)
        behind = min_offset + len(entries)
        if behind < max_offset:
            tell(f"{topic}-{queue_id} is printed up to {behind}, not to {max_offset}: a file is missing")
        yield _line(
            {
                "kind": "queue",
                "topic": topic,
                "queueId": queue_id,
                "minOffset": min_offset,
                "maxOffset": max_offset,
                "entries": entries,
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
    found = store.get_message(
        _field(query, "topic", str),
        _optional(query, "queueId", int, 0),
        _field(query, "offset", int),
        _field(query, "maxMsgNums", int),
        None if query.get("subscription") is None else _field(query, "subscription", str),
    )
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
    topic, queue_id = _optional(query, "topic", str, ""), _optional(query, "queueId", int, 0)
    match _field(query, "op", str):
        case "get":
            return _get(store, query)
        case "byKey":
            key, max_num = _field(query, "key", str), _field(query, "maxNum", int)
            begin, end = _field(query, "begin", int), _field(query, "end", int)
            messages = store.query_message(topic, key, max_num, begin, end)
            return {"messages": [message_to_json(message) for message in messages]}
        case "byTime":
            return {"offset": store.get_offset_in_queue_by_time(topic, queue_id, _field(query, "timestamp", int))}
        case "byOffset":
            message = store.select_one_message_by_offset(_field(query, "commitLogOffset", int))
            return {"message": None if message is None else message_to_json(message)}
        case "bounds":
            return _bounds(store, topic, queue_id)
        case "messageStoreTimeStamp":
            offset = _field(query, "offset", int)
            return {"timestamp": store.get_message_store_time_stamp(topic, queue_id, offset)}
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
