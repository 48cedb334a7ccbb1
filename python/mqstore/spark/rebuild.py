"""Queues and index of a store from its log alone, on Spark."""

import dataclasses
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from mqstore import _native
from mqstore.errors import StoreLayoutError
from mqstore.option_error import bad_argument
from mqstore.options import StoreOptions, snake_case
from mqstore.spark.session import spark_session
from mqstore.spark.tasks import run_tasks
from mqstore.store.byte_ranges import folder_to_write, is_remote, resolved, shown
from mqstore.verify.log_ranges import log_view, options_of, with_boundaries
from mqstore.verify.targets import refuse_inside

__all__ = ["Rebuilt", "rebuild"]

RANGE_SIZE = 128 << 20
"""Bytes of log that a task walks: its units and entries take a fraction of that in memory."""


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """What a rebuild made."""

    out: str
    """Where."""
    begin: int
    """The offset of the log from which records were dispatched."""
    end: int
    """Behind the last record."""
    record_count: int
    """Records of that part of the log."""
    queue_count: int
    """Queues."""
    unit_count: int
    """Units in them."""
    index_entry_count: int
    """Keys in the index."""
    index_file_count: int
    """Files of the index."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Parts of the log that hold no record: begin and end. So is an end that was on the disk and is gone."""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What is rebuilt, and in which ranges: kept beside the work files, so that it can go on."""

    store: str
    options: Mapping[str, Any]
    compat: bool
    topics: list[str] | None
    with_index: bool
    begin: int
    end: int
    ranges: list[int]
    lost_end: tuple[int, int] | None = None
    """What was on the disk behind the log's end, and is not there any more."""

    @property
    def _store_options(self) -> StoreOptions:
        return StoreOptions.of(self.store, self.options)

    def source(self, path: str, run: str) -> _native.LogView:
        return log_view(path, self._store_options, compat=self.compat, end=self.end, run=run)

    def target(self, out: str) -> Any:
        return StoreOptions.of(out, self.options).engine(compat=self.compat, truncate_on_damage=False, pread=False)

    def ends(self) -> list[tuple[int, int]]:
        """Begin and end of each range."""
        return list(zip(self.ranges, [*self.ranges[1:], self.end], strict=True)) if self.ranges else []

    def behind(self, begin: int) -> "_Plan":
        """The plan for a log whose first files, up to an offset, went meanwhile."""
        begin = min(begin, self.end)
        ranges = [begin] * (begin < self.end) + [each for each in self.ranges if each > begin]
        return dataclasses.replace(self, begin=begin, ranges=ranges)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _native.write_whole(path, json.dumps(dataclasses.asdict(self), indent=1).encode())


def rebuild(
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    topics: Iterable[str] | None = None,
    begin: int | None = None,
    end: int | None = None,
    compat: bool = False,
    range_size: int = RANGE_SIZE,
    **options: object,
) -> Rebuilt:
    """Makes all queue files and index files of a store from its log alone, in another folder.

    They equal, byte for byte, what one uninterrupted dispatch over the same log gives; an index file
    is named by the time of its first message. The log is read where it lies, and nothing of the
    store is changed. Memory does not grow with the store: a task holds what one range of the log
    gives. A rebuild that was stopped goes on where it was when it is called again.

    Args:
        store: The store's folder, or a URI of another file system; every executor sees it.
        out: Where ``consumequeue``, ``consumequeue_ext`` and ``index`` go; every executor sees it.
        spark: The session; :func:`mqstore.spark.spark_session` by default.
        topics: Only the queues of these topics, and no index.
        begin: Only records from this offset of the log on, and no index.
        end: Only records that begin before this offset of the log, and no index.
        compat: Close gaps in a queue's offsets as 4.9.3 does.
        range_size: About how many bytes of log a task walks.
        **options: RocketMQ's options. Sizes of files are by default those that the store has.

    Raises:
        StoreNotFoundError: there is no store, or an executor does not see it.
        StoreLayoutError: ``out`` holds something else, or another rebuild.
        OptionError: an option does not exist or has a value that does not work, ``out`` is in the store, its log's
            folders included, or ``begin`` lies behind ``end``.
        StoreIOError: the operating system refused something.
    """
    given, store, out = out, resolved(store), folder_to_write("out", out)
    if begin is not None and end is not None and begin > end:
        raise bad_argument("begin", begin, f"expected an offset of at most the end, {end}")
    of_store = options_of(store, options)
    if not is_remote(store):
        refuse_inside("out", given, of_store)
    work = os.path.join(out, "mqstore", "rebuild")
    named = {snake_case(name): value for name, value in options.items()}
    wanted = [*dict.fromkeys(topics)] if topics is not None else None
    asked = {
        "store": shown(store),
        "options": {name: value for name, value in named.items() if name != "store_path_root_dir"},
        "compat": compat,
        "topics": wanted,
        "begin": begin,
        "end": end,
        "range_size": range_size,
    }
    if (known := _ended(work, asked)) is not None:
        return known
    plan_path = Path(work, "plan.json")
    plan = _begun(plan_path, asked) or _begin(store, Path(out), asked)
    session = spark or spark_session()
    plan.write(plan_path)
    _native.write_whole(Path(work, "asked.json"), json.dumps(asked).encode())
    plan = _stage(session, store, plan, plan_path)
    plan, folded = _fold(session, plan, plan_path, work, out, store=store)
    _write(session, plan, work, out, folded)
    _, queue_count, unit_count, record_count, entry_count, names, gaps = folded
    lost = () if plan.lost_end is None else (plan.lost_end,)
    done = Rebuilt(
        out=out,
        begin=plan.begin,
        end=plan.end,
        record_count=record_count,
        queue_count=queue_count,
        unit_count=unit_count,
        index_entry_count=entry_count,
        index_file_count=len(names),
        gaps=tuple((begin, end) for begin, end in (*gaps, *lost)),
    )
    _end(work, asked, done)
    return done


_DONE = "done.json"


def _end(work: str, asked: Mapping[str, Any], rebuilt: Rebuilt) -> None:
    """Removes the work files. From the first step on nothing is left to go on with, but what was asked and done."""
    done = Path(f"{work}.done")
    if done.exists():
        shutil.rmtree(done)
    told = json.dumps({"asked": asked, "done": dataclasses.asdict(rebuilt)})
    _native.write_whole(Path(work, _DONE), told.encode())
    Path(work).rename(done)
    _remove(done)


def _remove(done: Path) -> None:
    """What was asked and done goes last: until then the same call can tell it."""
    for path in done.iterdir():
        if path.name != _DONE:
            path.unlink()
    shutil.rmtree(done)


def _ended(work: str, asked: Mapping[str, Any]) -> Rebuilt | None:
    """What a rebuild has made that was broken off when that was all there; it is finished with."""
    done = Path(f"{work}.done")
    try:
        told = json.loads((done / _DONE).read_text(encoding="utf-8"))
        rebuilt = Rebuilt(**told["done"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    is_there = rebuilt.queue_count == 0 or Path(rebuilt.out, "consumequeue").is_dir()
    if Path(work).exists() or not is_there or told["asked"] != json.loads(json.dumps(asked)):
        return None
    _remove(done)
    return dataclasses.replace(rebuilt, gaps=tuple((begin, end) for begin, end in rebuilt.gaps))


_Folded: TypeAlias = tuple[list[tuple[int, int]], int, int, int, int, list[str], list[tuple[int, int]]]


def _begun(plan_path: Path, asked: Mapping[str, Any]) -> _Plan | None:
    """The plan of a rebuild that was stopped."""
    try:
        begun = json.loads((plan_path.parent / "asked.json").read_text(encoding="utf-8"))
        plan = _Plan(**json.loads(plan_path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise _layout_error(plan_path, "the plan of a rebuild", f"{error}: remove the folder to begin again") from error
    different = [name for name, value in json.loads(json.dumps(asked)).items() if begun.get(name) != value]
    if different:
        name = different[0]
        raise _layout_error(
            plan_path.parent,
            f"a rebuild with {name}={asked[name]!r}",
            f"one that was stopped, with {name}={begun.get(name)!r}: finish that, or remove the folder",
        )
    return plan


def _begin(store: str, out: Path, asked: Mapping[str, Any]) -> _Plan:
    for name in ("commitlog", "consumequeue", "consumequeue_ext", "index"):
        if (out / name).exists():
            raise _layout_error(out, "a folder without a store, queues or index", f"one with {name}")
    options = dict(asked["options"])
    view = log_view(store, StoreOptions.of(asked["store"], options), compat=asked["compat"])
    slots, entries = view.index_shape
    sizes = {
        "mapped_file_size_consume_queue": view.queue_file_size,
        "mapped_file_size_consume_queue_ext": view.ext_file_size,
        "max_hash_slot_num": slots,
        "max_index_num": entries,
    }
    options = sizes | options
    is_part = asked["topics"] is not None or asked["begin"] is not None or asked["end"] is not None
    begin = view.boundary(max(asked["begin"] or 0, view.min_offset))
    # As the begin of a rebuild that goes on there: each record is in one of the two.
    end = view.end if asked["end"] is None or asked["end"] >= view.end else max(begin, view.boundary(asked["end"]))
    return _Plan(
        store=asked["store"],
        options=options,
        compat=asked["compat"],
        topics=asked["topics"],
        with_index=not is_part and StoreOptions.of(asked["store"], options).message_index_enable,
        begin=begin,
        end=end,
        ranges=view.divide(begin, end, asked["range_size"]) if begin < end else [],
        lost_end=None if view.lost_end is None or end < view.end else view.lost_end[:2],
    )


def _stage(spark: SparkSession, store: str, plan: _Plan, plan_path: Path) -> _Plan:
    """Walks the ranges; gives the plan, which begins further on where the log does by now."""
    while True:
        run = uuid.uuid4().hex

        def stage(item: tuple[int, int], plan: _Plan = plan, run: str = run) -> int | None:
            """Where the log begins by now, where the range's begin is not there any more."""
            begin, to = item
            view = plan.source(store, run)
            work = str(plan_path.parent)
            staged = view.stage(work, begin, to, topics=plan.topics, with_index=plan.with_index)
            return view.min_offset if staged is None else None

        found = run_tasks(spark, stage, plan.ends(), name=f"rebuild: walk the log of {plan.store}")
        begins = [begin for begin in found if begin is not None]
        if not begins:
            return plan
        plan = plan.behind(max(begins))
        plan.write(plan_path)


def _fold(
    spark: SparkSession, plan: _Plan, plan_path: Path, work: str, out: str, *, store: str
) -> tuple[_Plan, _Folded]:
    """Decides where everything goes. A range that does not begin at a record is divided anew."""
    while True:
        folded: _Folded = _native.rebuild_fold(plan.target(out), work, plan.ranges, plan.with_index)
        broken = folded[0]
        if not broken:
            return plan, folded
        plan = dataclasses.replace(plan, ranges=with_boundaries(plan.ranges, broken, plan.end))
        plan.write(plan_path)
        plan = _stage(spark, store, plan, plan_path)


def _write(spark: SparkSession, plan: _Plan, work: str, out: str, folded: _Folded) -> None:
    """Places units and makes index files; the latter first, since each takes longer."""
    names = folded[5]

    def write(item: tuple[str, int, str]) -> int:
        kind, number, name = item
        if kind == "fill":
            return _native.rebuild_fill(plan.target(out), work, number, name)
        return _native.rebuild_place(plan.target(out), work, number)

    # The fold made the plan's last ranges its own.
    ranges = json.loads(Path(work, "plan.json").read_text(encoding="utf-8"))["ranges"]
    items = [("fill", number, name) for number, name in enumerate(names)]
    items += [("place", begin, "") for begin in ranges]
    run_tasks(spark, write, items, name=f"rebuild: write queues and index to {out}")


def _layout_error(path: Path, expected: str, found: str) -> StoreLayoutError:
    error = StoreLayoutError(f"{path}: expected {expected}, found {found}")
    error.path, error.expected, error.found = str(path), expected, found
    return error
