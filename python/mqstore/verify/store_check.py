"""Checking one store: what is to be looked at, part by part, and what comes of it together."""

import dataclasses
import datetime as dt
import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mqstore import _native
from mqstore.store.file_kinds import wrong_kinds
from mqstore.verify.damaged_config import damaged_config
from mqstore.verify.findings import BROKEN_OFF, Finding, StoreAudit
from mqstore.verify.log_ranges import log_view, options_of, with_boundaries
from mqstore.verify.unfinished import note_of

__all__ = ["StoreCheck", "Task", "check_part"]

_RANGE_SIZE = 128 << 20
_MOST_RANGES = 1024
"""Ranges grow with the store, so that what is kept of them does not."""
_UNITS_PER_TASK = 1 << 20
_HOUR_MS = 3_600_000
_TOTALS = ("by_topic", "by_hour", "by_host", "by_size")

Task: TypeAlias = tuple[str, int, list[Any]]
"""A kind, which store, and what of it."""


def check_part(view: _native.LogView, task: Task) -> Any:
    """Does a task by calls of the engine."""
    kind, _, of = task
    if kind == "log":
        return view.check_log(*of)
    if kind == "queues":
        return [[*part, *view.check_queue(*part)] for part in of]
    return view.check_index_file(*of)


class StoreCheck:
    """One store: what is to be checked, and what came of it."""

    def __init__(self, path: str, given: Mapping[str, object], *, compat: bool, pread: bool | None = None) -> None:
        """Lists a store's parts."""
        options = options_of(path, given)
        view = log_view(path, options, compat=compat, pread=pread)
        self.path, self.options, self.compat = path, options, compat
        self.begin, self.end = view.min_offset, view.end
        self._view = view
        self._index_files = view.index_file_names() if options.message_index_enable else None
        self._strays = [*view.strays(), *wrong_kinds(path)]
        self._damaged_config = [*damaged_config(path, {stray for stray, _, _ in self._strays})]
        self._broken_off = note_of(path)
        self._queues: set[tuple[str, int]] = set()
        self._begins: list[int] = []
        self._reached: dict[int, int] = {}
        self._ahead: dict[int, dict[str, Any]] = {}
        self._next = self.begin
        self._last: dict[tuple[str, int], tuple[int, bool]] = {}
        """Of each queue the largest offset so far, and whether the last one was there before."""
        self._times: tuple[int, int] | None = None
        self._totals: dict[str, dict[Any, tuple[int, int]]] = {name: {} for name in _TOTALS}
        self._counts: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()
        self._findings: list[Finding] = []

    def __getstate__(self) -> None:
        """Only its parts and results go to other processes."""
        raise TypeError("a check stays in the process that puts the results together")

    def tasks(self, number: int, range_size: int | None) -> list[Task]:
        """All checks, of about the same size each."""
        step = range_size or max(_RANGE_SIZE, (self.end - self.begin) // _MOST_RANGES)
        self._begins = self._view.divide(self.begin, self.end, step) if self.begin < self.end else []
        tasks: list[Task] = [("index", number, [each]) for each in self._index_files or ()]
        tasks += self._log_tasks(number)
        part: list[tuple[str, int, int, int]] = []
        size = 0
        for topic, queue_id, begin, to in self._view.queue_files():
            self._queues.add((topic, queue_id))
            for first in range(begin, to, _UNITS_PER_TASK):
                part.append((topic, queue_id, first, min(to, first + _UNITS_PER_TASK)))
                size += part[-1][3] - first
                if size >= _UNITS_PER_TASK:
                    tasks.append(("queues", number, part))
                    part, size = [], 0
        if part:
            tasks.append(("queues", number, part))
        return tasks

    def _log_tasks(self, number: int) -> list[Task]:
        ends = zip(self._begins, [*self._begins[1:], self.end], strict=True) if self._begins else ()
        return [("log", number, [begin, to]) for begin, to in ends if self._reached.get(begin, -1) < to]

    def again(self, number: int) -> list[Task]:
        """Ranges that did not begin at a record: a body held bytes that look like one."""
        pairs = zip(self._begins, self._begins[1:], strict=False)
        broken = [(after, self._reached[begin]) for begin, after in pairs if self._reached[begin] != after]
        if not broken:
            return []
        self._begins = with_boundaries(self._begins, broken, self.end)
        self._put_together()
        return self._log_tasks(number)

    def take(self, task: Task, result: Any) -> None:
        """What a task found."""
        kind, _, of = task
        if kind == "log":
            self._reached[of[0]], self._ahead[of[0]] = result["reached"], result
            self._put_together()
        elif kind == "queues":
            for *_, unit_count, expired_count, blank_count, found in result:
                self._sums.update(unit_count=unit_count, expired_unit_count=expired_count, blank_unit_count=blank_count)
                self._add(found)
        else:
            entry_count, _, found = result
            self._sums.update(entry_count=entry_count)
            self._add(found)

    def _add(self, found: tuple[list[tuple[str, int]], list[tuple[Any, ...]]]) -> None:
        counts, first = found
        self._counts.update(dict(counts))
        names = [each.name for each in dataclasses.fields(Finding)][1:]
        for row in first:
            known = dict(zip(names, row, strict=True))
            self._findings.append(Finding(store=self.options.store_path_root_dir, **known))

    def _put_together(self) -> None:
        """Takes in the ranges that follow on those before them; of each queue its last place is kept, and no more."""
        while (log := self._ahead.pop(self._next, None)) is not None:
            self._take_in(log)
            self._next = log["reached"]

    def _take_in(self, log: Mapping[str, Any]) -> None:
        """A range's part in what is known of the log; what lies between it and those before comes out here."""
        self._add(log["findings"])
        self._sums.update(record_count=log["record_count"], key_count=log["key_count"])
        for name in _TOTALS:
            totals = self._totals[name]
            for value, count, size in log[name]:
                known = totals.get(value, (0, 0))
                totals[value] = (known[0] + count, known[1] + size)
        if log["begins_anew"] is not None:
            # Nothing is left of what stood before.
            self.begin, self._times = log["begins_anew"], None
            self._last.clear()
        if log["times"] is not None:
            first, last = log["times"]
            self._times = (first if self._times is None else self._times[0], last)
        for topic, queue_id, first_place, largest, is_behind in log["spans"]:
            before = self._last.get((topic, queue_id))
            if before is None:
                self._last[topic, queue_id] = (largest, is_behind)
                continue
            self._join(topic, queue_id, before, first_place)
            self._last[topic, queue_id] = (max(before[0], largest), is_behind or largest <= before[0])

    def findings(self) -> list[Finding]:
        """All that was found."""
        if self._broken_off is not None:
            self._tell(BROKEN_OFF, self._broken_off, "what was changed is saved beside it")
        if self._view.lost_end is not None:
            self._tell_lost_end(*self._view.lost_end)
        begun = self._view.begin_when_closed
        if begun is not None and begun < self._view.named_begin:
            detail = f"it begins at {self._view.named_begin} now"
            self._tell("begin_gone", self.options.commit_log_paths()[0], detail, phy_offset=begun)
        for path, expected, found in self._strays:
            self._tell("stray", path, f"expected {expected}, found {found}")
        for path, found in self._damaged_config:
            self._tell("config_damaged", path, found)
        # A live writer makes its first file with the first keys that it dispatches.
        if self._index_files == [] and self._sums["key_count"] and not self._view.is_live:
            count = self._sums["key_count"]
            self._counts["key_missing"] += count - 1
            self._tell("key_missing", os.path.join(self.options.store_path_root_dir, "index"), f"none of {count} keys")
        return self._findings

    def _join(self, topic: str, queue_id: int, before: tuple[int, bool], place: tuple[int, int]) -> None:
        (last, was_behind), (first, phy_offset) = before, place
        if first == last + 1 or (first <= last and was_behind):
            return
        if first > last:
            kind, detail = "offset_gap", f"{first - last - 1} offsets before it are in no record"
        else:
            kind, detail = "offset_repeated", f"expected {last + 1}, found {first}"
        path = self._view.queue_folder(topic, queue_id)
        self._tell(kind, path, detail, topic=topic, queue_id=queue_id, queue_offset=first, phy_offset=phy_offset)

    def _tell_lost_end(self, begin: int, to: int, why: str | None) -> None:
        folder = self.options.commit_log_paths()[0]
        detail = f"it was on the disk up to {to}; found {why or 'no file'}"
        self._tell("end_lost", folder, detail, phy_offset=begin)

    def _tell(self, kind: str, path: str, detail: str, **place: Any) -> None:
        self._counts[kind] += 1
        known = {"topic": None, "queue_id": None, "queue_offset": None, "phy_offset": None} | place
        store = self.options.store_path_root_dir
        self._findings.append(Finding(store=store, kind=kind, path=path, detail=detail, **known))

    def result(self) -> StoreAudit:
        """The store as it is; to be asked after the findings."""
        totals = {
            "topic": self._total("by_topic", str),
            "hour": self._total("by_hour", lambda hour: _time(hour * _HOUR_MS).isoformat()),
            "host": self._total("by_host", str),
            "size": self._total("by_size", lambda power: str(1 << power)),
        }
        return StoreAudit(
            store=self.options.store_path_root_dir,
            begin=self.begin,
            end=self.end,
            queue_count=len(self._queues),
            first_store_time=_time(self._times[0]) if self._times else None,
            last_store_time=_time(self._times[1]) if self._times else None,
            counts={kind: count for kind, count in sorted(self._counts.items()) if count},
            totals=totals,
            **self._sums,
        )

    def _total(self, name: str, text: Callable[[Any], str]) -> dict[str, tuple[int, int]]:
        totals = self._totals[name]
        return {text(value): totals[value] for value in sorted(totals)}


def _time(milliseconds: int) -> dt.datetime:
    """A store time; one that no calendar has is cut to what it has."""
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    try:
        return epoch + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return dt.datetime.max.replace(tzinfo=dt.UTC) if milliseconds > 0 else dt.datetime.min.replace(tzinfo=dt.UTC)
