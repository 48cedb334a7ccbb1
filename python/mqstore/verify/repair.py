"""Making a store whole again: every record that checks out is kept where it is, all else is made anew."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from mqstore import _native
from mqstore.errors import MQStoreError, StoreIOError, StoreLayoutError, StoreLockedError
from mqstore.option_error import bad_argument
from mqstore.options import StoreOptions, snake_case
from mqstore.store.arguments import checked_path
from mqstore.store.byte_ranges import folder_to_write, refuse_remote, resolved
from mqstore.store.file_kinds import wrong_kind, wrong_kinds
from mqstore.store.group_offsets import keep, read_up_to, unread
from mqstore.store.listing import listed_below
from mqstore.verify import unfinished
from mqstore.verify.cut_end import cut_end
from mqstore.verify.expired_queues import ExpiredQueue, expired_queues, put_back
from mqstore.verify.file_sizes import file_sizes
from mqstore.verify.kept_config import KeptConfig, are_topics_damaged, mend_config, remove_topics, topics_are_aside
from mqstore.verify.log_ranges import locked_log_view, log_view
from mqstore.verify.lost_messages import Lost, Told, gone
from mqstore.verify.lost_messages import told as told_by
from mqstore.verify.made_anew import MadeAnew, Makes, derive
from mqstore.verify.targets import refuse_inside

__all__ = ["GO_ON", "LostMessage", "RepairResult", "repair"]

GO_ON = "what was changed is saved in it, repair it in place again to go on"
"""What is to be known of a store where a repair in place was broken off."""
_IS_DONE = "it is repaired"
"""What is to be known of one where that came too late."""

_READ_ONLY = "read_only_commit_log_store_paths"
_DERIVED = ("consumequeue", "consumequeue_ext", "index", "checkpoint", "abort")
"""What follows from the log, by the names that it has in a store."""
_OWN = ("removed_queues", "consumers", "spark")
"""What mqstore keeps of a store that does not follow from the log: which messages are no queue's any more, how far
consumers of this machine are, and Spark's sinks."""

_KEPT = ("config", *(f"mqstore/{name}" for name in _OWN))
"""What is copied as it is."""


@dataclass(frozen=True, kw_only=True)
class LostMessage:
    """A message that the store had and that cannot be read."""

    topic: str
    """Its topic."""
    queue_id: int
    """Its queue."""
    queue_offset: int
    """Its offset there."""


@dataclass(frozen=True, kw_only=True)
class RepairResult:
    """What a repair did."""

    path: Path
    """The store that is whole now."""
    saved: Path | None
    """Where the old files are, after a repair in place; what others left that were broken off is in folders in it."""
    holes: tuple[tuple[int, int, str | None], ...]
    """Parts of the log that held no record: begin, end, what was wrong there. So is an end that was on the disk and
    is not there any more."""
    cut: tuple[tuple[int, int], ...]
    """Parts of the log behind its end that held something, and no record: begin and end. Nothing is there now."""
    lost: tuple[LostMessage, ...]
    """Messages that are lost, as far as queues or offsets tell."""
    message_count: int
    """Messages that are in the queues now."""
    set_back_count: int
    """Offsets of groups and delay levels that were set back to the ends of queues which had lost what they had read."""
    timed_again_count: int
    """Timed messages that may be delivered once more: what said that they are is lost."""
    topics_anew: tuple[str, ...] | None
    """Topics that were made anew, with as many queues as they have, where their file and its ``.bak`` were damaged."""
    unread: tuple[Path, ...]
    """Files of groups and delay levels that are damaged, as are their ``.bak``: they are as they were."""


def repair(
    store: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    step: Callable[[str], object] = lambda _: None,
    **options: Any,
) -> RepairResult:
    """Makes a store whole again, into another folder or in place.

    No record moves: what lies between two that check out is filled with records of rolled back
    transactions, which are in no queue and no index, so that the Java store walks over them and loses
    nothing behind. A torn end is cut. Queues, index and checkpoint are made anew from the log, the
    configuration is kept; of topics that nobody can read those are made anew that have queues.

    Where it is broken off, or fails, another folder is not there at all, nor are those that were made for it: it is
    made as ``OUT.repairing`` and has its name at the end. In place all that was changed is saved, and another repair in
    place goes on and tells the whole of it; an error or a ``KeyboardInterrupt`` that comes once something was changed
    has a note that says so. In place the store is locked meanwhile; for another folder it is only looked whether
    somebody has it open for writing, and it is to stay closed until that is done.

    Args:
        store: Its folder.
        out: A folder that does not exist yet; ``None`` repairs in place, and keeps what is changed
            under ``mqstore/repaired-…`` in the store.
        step: Is told in words what is begun: each step can take long.
        **options: RocketMQ's options, as the store's broker has them.

    Raises:
        StoreNotFoundError: there is no store.
        OptionError: ``out`` exists, is in the store or its log's folders, or not on this machine's disks, an option
            does not work, or the store has queues that its options do not make.
        StoreLockedError: somebody has the store open for writing.
        StoreLayoutError: a folder is where a file belongs, or the other way round, or a link that is to be copied leads
            nowhere; a whole log file is missing, something else is in the log's folder, or what is to be
            moved is a link or lies on another disk, and the repair is to be in place; or the note of one that was
            broken off can't be read, or ``out`` is given where there is such a note.
        StoreIOError: the operating system refused something.
        TypeError: a folder is no path.
    """
    refuse_remote("store", checked_path("store", store))
    if out is not None:
        checked_path("out", out)
    source = Path(resolved(store))
    given = {snake_case(name): value for name, value in options.items()}
    of_source = StoreOptions.of(str(source), given)
    with _named_place(out):
        target = None if out is None else _new_folder(out, of_source)
    writer = _native.locked_by(source / "lock", source / "mqstore")
    if writer is not None:
        error = StoreLockedError(f"{source} cannot be repaired while it is open for writing: {writer}")
        error.path, error.holder = str(source / "lock"), writer
        raise error
    with _one_kind_of_error(source):
        for wrong in wrong_kinds(str(source)):
            raise wrong_kind(*wrong)
        if target is not None:
            _refuse_broken_off(source)
            _refuse_dangling(source)
            are_topics_damaged(source)  # what the system refuses to read is no damage
            return _repair_into(target, source, of_source, given, step)
        return _repair_in_place(source, of_source, given, step)


_Holes: TypeAlias = tuple[tuple[int, int, str | None], ...]
_Cut: TypeAlias = tuple[tuple[int, int], ...]

_GOING_OVER = "going over the log"
_COPYING = "going over the log and copying it"
_FILLING = "filling the log's holes"
_MAKING = "making queues and index anew"
_Step: TypeAlias = Callable[[str], object]


def _repair_into(
    target: Path, source: Path, of_source: StoreOptions, given: dict[str, Any], step: _Step
) -> RepairResult:
    def fill(made: Path) -> RepairResult:
        step(_COPYING)
        view = log_view(str(source), of_source, compat=False)
        Makes.of(of_source).refuse_lack(view.further_queue())
        cut = _cut(view, of_source)
        copied = _copy(view, source, made, cut)
        sizes = file_sizes(view, of_source)
        options = StoreOptions.of(str(made), _without_paths(given) | sizes.options())
        step(_MAKING)
        derived = derive(options, copied.told, copied.holes, copied.end)
        ends = derived.ends | put_back(copied.expired, [source], made, sizes.queue)
        config = mend_config(made, ends, derived, lacks_topics=copied.lacks_topics)
        config = replace(config, unread=tuple(target / path.relative_to(made) for path in config.unread))
        return _result(target, None, (copied.holes, cut), derived, config)

    return _whole_or_not_at_all(target, fill)


def _repair_in_place(source: Path, of_source: StoreOptions, given: dict[str, Any], step: _Step) -> RepairResult:
    own = source / "mqstore"
    # A writer in between would put messages where a hole was found, behind the end, or into queues that are set aside.
    with _going_on(source) as state, locked_log_view(of_source) as view:
        step(_GOING_OVER)
        found = _found(view, source, of_source)
        options = StoreOptions.of(str(source), given | found.sizes.options() | found.makes.options())
        step(_FILLING)
        _save(view, own, found)
        _fill(view, source, found)
        step(_MAKING)
        derived = derive(options, found.told, found.holes, view.end, view)
        ends = derived.ends | put_back(found.expired, found.all_saved, source, found.sizes.queue)
        lacks_topics = topics_are_aside(found.all_saved)
        config = mend_config(source, ends, derived, lacks_topics=lacks_topics, saved=found.first)
        result = _result(source, found.first, (found.holes, found.cut), derived, config)
        state.append(_IS_DONE)
        unfinished.end(own)
    return result


def _refuse_broken_off(source: Path) -> None:
    """Refuses to fill a folder from a store that is half repaired: what tells of lost messages is set aside in it.

    Raises:
        StoreLayoutError: a repair in place of it was broken off.
    """
    note = unfinished.note_of(str(source))
    if note is not None:
        expected, found = "a store of which no repair in place was broken off", "the note of one"
        error = StoreLayoutError(f"{note}: expected {expected}, found {found}: {GO_ON}")
        error.path, error.expected, error.found = note, expected, found
        raise error


def _refuse_dangling(source: Path) -> None:
    """Refuses what can't be copied, and may lead to a disk that is not there: without it groups would begin anew.

    Raises:
        StoreLayoutError: a link leads nowhere.
    """
    for path in (path for kept in _KEPT for path in (source / kept, *listed_below(source / kept))):
        if path.is_symlink() and not path.exists():
            raise wrong_kind(str(path), "a file", "a link that leads nowhere")


def _result(
    path: Path, saved: Path | None, damage: tuple[_Holes, _Cut], derived: MadeAnew, config: KeptConfig
) -> RepairResult:
    holes, cut = damage
    return RepairResult(
        path=path,
        saved=saved,
        holes=holes,
        cut=cut,
        lost=_in_order(derived.lost),
        message_count=derived.message_count,
        set_back_count=config.set_back_count,
        timed_again_count=derived.timed_again_count,
        topics_anew=config.topics,
        unread=config.unread,
    )


def _in_order(lost: Lost) -> tuple[LostMessage, ...]:
    return tuple(LostMessage(topic=topic, queue_id=queue, queue_offset=at) for topic, queue, at in sorted(lost))


def _new_folder(out: str | os.PathLike[str], of_source: StoreOptions) -> Path:
    target = Path(folder_to_write("out", out))
    refuse_inside("out", out, of_source)
    for folder in (target, _unfinished(target)):
        if folder.exists():
            left = "" if folder == target else f": {folder} is what a repair made that was killed, or that still runs"
            raise bad_argument("out", str(out), f"expected a folder that does not exist yet{left}")
    return target


def _unfinished(target: Path) -> Path:
    return target.with_name(f"{target.name}.repairing")


@contextlib.contextmanager
def _one_kind_of_error(source: Path) -> Iterator[None]:
    """What the operating system refuses is told as the engine tells it."""
    try:
        yield
    except OSError as refused:
        if isinstance(refused, MQStoreError):
            raise
        error = StoreIOError.of(f"repair {source}: {refused}", refused.errno, refused.filename)
        for note in getattr(refused, "__notes__", ()):
            error.add_note(note)
        raise error from refused


@contextlib.contextmanager
def _named_place(out: str | os.PathLike[str] | None) -> Iterator[None]:
    """Says of what cannot be made that it is where the store is to be made, not the store."""
    try:
        yield
    except OSError as refused:
        # Of a path that begins at the current folder the system names none where that is gone.
        text = f"out={out}: no folder can be made there: {refused.strerror}: {refused.filename or 'the current folder'}"
        raise StoreIOError.of(text, refused.errno, refused.filename) from refused


@contextlib.contextmanager
def _going_on(source: Path) -> Iterator[list[str]]:
    """Has what breaks a repair in place off say how the store is, where that was changed, and what is to be done."""
    state = list[str]()
    try:
        with _one_kind_of_error(source):
            yield state
    except BaseException as error:
        if unfinished.is_begun(source / "mqstore"):
            state = [GO_ON]
        for text in state:
            error.add_note(f"{source}: {text}")
        raise


def _whole_or_not_at_all(target: Path, fill: Callable[[Path], RepairResult]) -> RepairResult:
    """Has a folder filled that becomes the new one at the end, and goes where that is not reached."""
    made = _unfinished(target)
    with _named_place(target):
        lacking = [folder for folder in made.parents if not folder.exists()]
    # No context manager: Ctrl-C between its making the folder and its body would leave that.
    try:
        with _named_place(target):
            made.parent.mkdir(parents=True, exist_ok=True)
            made.mkdir()
        result = fill(made)
        for folder in (made, *(inside for name in ("config", "mqstore") for inside in (made / name).glob("**/"))):
            _sync_folder(folder)
        made.rename(target)
        _sync_folder(target.parent)
    except BaseException as error:
        if made.exists() and not _is_anothers(made, error):
            _remove(made, error)
        # Others may have made them, and may use them by now.
        with contextlib.suppress(OSError):
            for folder in lacking:
                folder.rmdir()
        raise
    return result


def _remove(made: Path, error: BaseException) -> None:
    """Removes what was made until an error came, which is told whether that can be done or not."""
    try:
        shutil.rmtree(made)
    except OSError as refused:
        error.add_note(f"{made}: cannot be removed, and is in the way of the next repair: {refused.strerror}")


def _is_anothers(made: Path, error: BaseException) -> bool:
    """Whether what was to be made was there: another repair came before this one."""
    return isinstance(error, OSError) and error.errno == errno.EEXIST and error.filename == str(made)


def _cut(view: _native.LogView, of_source: StoreOptions) -> _Cut:
    """What will be cut: one part, or none."""
    cut = cut_end(view, of_source)
    return () if cut is None else (cut,)


def _lost_end(view: _native.LogView, cut: _Cut) -> _Holes:
    """What was on the disk behind the log's end and is not there, unless it is told as cut: one part, or none."""
    lost = view.lost_end
    return () if lost is None or any(begin <= lost[0] and lost[1] <= to for begin, to in cut) else (lost,)


@dataclass(frozen=True, kw_only=True)
class _Copied:
    """What was found while a store was copied."""

    lacks_topics: bool
    holes: _Holes
    told: frozenset[Told]
    expired: frozenset[ExpiredQueue]
    end: int


def _copy(view: _native.LogView, source: Path, made: Path, cut: _Cut) -> _Copied:
    is_gone = gone(view)
    told, expired = told_by(view, is_gone), expired_queues(view, is_gone)
    holes = (*view.copy_repaired(made / "commitlog"), *_lost_end(view, cut))
    for kept in _KEPT:
        _copy_files(source / kept, made / kept)
    lacks_topics = are_topics_damaged(made)
    if lacks_topics:
        remove_topics(made)
    return _Copied(lacks_topics=lacks_topics, holes=holes, told=told, expired=expired, end=view.end)


def _copy_files(source: Path, target: Path) -> None:
    """A file, or all that a folder has, on the disk then; what is empty is locked by somebody and says nothing."""
    for file in [source] if source.is_file() else listed_below(source):
        if not file.is_dir() and file.stat().st_size:
            to = target / file.relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to)
            with to.open("rb") as copy:
                os.fsync(copy.fileno())


def _sync_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _found(view: _native.LogView, source: Path, of_source: StoreOptions) -> unfinished.Found:
    """Finds out what is to be changed, and refuses what can't be."""
    _refuse_strays(view, source)
    _refuse_moving(source)
    # What the system refuses to read can't be set back or told in the end either.
    read_up_to(source)
    unread(source)
    are_topics_damaged(source)
    is_gone, cut = gone(view), _cut(view, of_source)
    found = unfinished.found(
        source / "mqstore",
        holes=(*view.holes(), *_lost_end(view, cut)),
        told=told_by(view, is_gone),
        expired=expired_queues(view, is_gone),
        sizes=file_sizes(view, of_source),
        makes=Makes.of(of_source),
        cut=cut,
    )
    found.makes.refuse_lack(view.further_queue())
    return found


def _save(view: _native.LogView, own: Path, found: unfinished.Found) -> None:
    """Saves what will be changed of the log, and notes what was found: nothing is changed yet."""
    try:
        view.save_holes(found.saved)
        unfinished.begin(own, found)
    except BaseException:
        shutil.rmtree(found.saved, ignore_errors=True)
        raise


def _aside(source: Path) -> list[Path]:
    """What will be made anew, or says how it was. Without the positions nothing is believed of what is still there."""
    own = source / "mqstore"
    return [own / "positions", own / "closed", *(source / name for name in _DERIVED)]


def _fill(view: _native.LogView, source: Path, found: unfinished.Found) -> None:
    """Fills the log's holes where they are, and sets aside what will be made anew."""
    removed = source / "mqstore" / "removed_queues"
    keep(removed, found.first / removed.relative_to(source))
    if are_topics_damaged(source):
        remove_topics(source, found.first)
    view.fill_holes()
    for path in _aside(source):
        if path.exists():
            found.set_aside(path)
    unfinished.all_is_aside(source / "mqstore", found)


def _refuse_moving(source: Path) -> None:
    """Refuses what is to be set aside where that would move a link, or can't be moved.

    Raises:
        StoreLayoutError: there is something.
    """
    own = source / "mqstore"
    disk = (own if own.exists() else source).stat().st_dev
    for path in _aside(source):
        found = "a link" if path.is_symlink() else "what lies elsewhere"
        if path.is_symlink() or (path.exists() and path.stat().st_dev != disk):
            raise _not_in_place(path, f"what can be moved into {own}", found)


def _not_in_place(path: str | Path, expected: str, found: str) -> StoreLayoutError:
    left = "nothing was changed, repair into another folder or put this right"
    error = StoreLayoutError(f"{path}: expected {expected}, found {found}: {left}")
    error.path, error.expected, error.found = str(path), expected, found
    return error


def _refuse_strays(view: _native.LogView, source: Path) -> None:
    """Refuses what a writer would not accept in the log's folder: queues and index are made anew by opening the store.

    Raises:
        StoreLayoutError: there is something.
    """
    try:
        strays = view.strays()
    except MQStoreError:  # of queues or index, which are set aside: the view has listed the log
        return
    aside = [source / name for name in _DERIVED]
    for path, expected, found in strays:
        if not any(Path(path).is_relative_to(folder) for folder in aside):
            raise _not_in_place(path, expected, found)


def _without_paths(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a store that has all its files in its own folder."""
    return {name: value for name, value in given.items() if not name.startswith("store_path_") and name != _READ_ONLY}
