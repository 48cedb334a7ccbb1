"""What a store holds and what is right to answer, worked out from a dump by looking at everything."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["NaiveModel"]

_TRANSACTION_TYPE = 3 << 2
_TRANSACTION_PREPARED = 1 << 2
_TRANSACTION_ROLLBACK = 3 << 2


@dataclass
class NaiveModel:
    """The records of a log and the units of its queues."""

    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By offset in the log."""
    queues: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    """By topic and queue."""

    @classmethod
    def of(cls, dump: Iterable[str]) -> Self:
        """The model of a store from its dump."""
        model = cls()
        for line in dump:
            item = json.loads(line)
            if item["kind"] == "queue":
                model.queues[item["topic"], item["queueId"]] = item
            elif item["kind"] == "record" and item["success"] and item["msgSize"] > 0:
                model.records[item["commitLogOffset"]] = item
        return model

    def enters_queue(self, offset: int) -> bool:
        """Whether a message has a place in its queue: one that is prepared or rolled back has none."""
        return self.records[offset]["sysFlag"] & _TRANSACTION_TYPE not in {_TRANSACTION_PREPARED, _TRANSACTION_ROLLBACK}

    def by_key(self, topic: str, key: str, max_num: int, begin: int, end: int) -> list[int]:
        """Log offsets of the newest messages with a topic, a key and a time in a range, oldest first."""
        found = [
            offset
            for offset, record in self.records.items()
            if record["topic"] == topic
            and begin <= record["storeTimestamp"] <= end
            and record["sysFlag"] & _TRANSACTION_TYPE != _TRANSACTION_ROLLBACK
            and (key == record["uniqKey"] or key in (record["keys"] or "").split(" "))
        ]
        return sorted(found)[-max_num:] if max_num > 0 else []

    def by_time(self, topic: str, queue_id: int, timestamp: int, boundary: str) -> int:
        """The offset in a queue that a time stands for."""
        queue = self.queues.get((topic, queue_id))
        if queue is None or queue["maxOffset"] == 0:
            return 0
        times = dict(self._times(queue))
        if not times:
            return 0
        first, end = min(times), queue["maxOffset"]
        match boundary:
            case "lower":
                return min((number for number, time in times.items() if time >= timestamp), default=end)
            case "upper":
                return max((number for number, time in times.items() if time <= timestamp), default=first)
        distance = min(abs(time - timestamp) for time in times.values())
        return min(number for number, time in times.items() if abs(time - timestamp) == distance)

    def messages_of(self, topic: str, queue_id: int) -> dict[int, int]:
        """Log offset by number of a queue's messages, as far as they are still in the log."""
        queue = self.queues[topic, queue_id]
        units = enumerate(queue["entries"], queue["minOffset"])
        return {number: offset for number, (offset, _, _) in units if offset in self.records}

    def _times(self, queue: dict[str, Any]) -> Iterator[tuple[int, int]]:
        for number, offset in self.messages_of(queue["topic"], queue["queueId"]).items():
            yield number, self.records[offset]["storeTimestamp"]
