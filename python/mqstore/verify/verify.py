"""Checking a store in the threads of one process."""

import errno
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

from mqstore._native import LogView
from mqstore.errors import StoreIOError
from mqstore.store.arguments import checked_path
from mqstore.store.byte_ranges import resolved
from mqstore.store.file_kinds import layout_told
from mqstore.verify.findings import Finding, StoreAudit
from mqstore.verify.log_ranges import log_view
from mqstore.verify.store_check import StoreCheck, Task, check_part

__all__ = ["verify"]


def verify(
    store: str | os.PathLike[str],
    *,
    compat: bool = False,
    progress: Callable[[int, int], None] | None = None,
    range_size: int | None = None,
    pread: bool | None = None,
    **options: object,
) -> tuple[StoreAudit, list[Finding]]:
    """Checks a store, and changes nothing in it.

    Every record is checked by itself and in the order of its queue, every unit of a queue against its
    record, every index entry against the keys of its message, and each of these the other way round.
    A store that is being written to is checked up to where it is when this begins.

    Args:
        store: Its folder, or a URI of another file system.
        compat: The store closes gaps in a queue's offsets as 4.9.3 does.
        progress: Is told how many parts are done, and of how many, after each.
        range_size: About how many bytes of log a part has.
        pread: Read without mappings, which survives a file that is cut off by somebody else; by default where
            another process writes the store, or it lies on a network disk or on tmpfs.
        **options: RocketMQ's options, as the store's broker has them.

    Returns:
        What the store holds, and what is wrong: all of it is counted, the first of each kind in each part told.

    Raises:
        StoreNotFoundError: there is no store.
        StoreLayoutError: a folder is where a file belongs, or the other way round, so that it can't be read.
        OptionError: an option does not exist or has a value that does not work.
        StoreIOError: the operating system refused something.
        TypeError: the folder is no path.
    """
    path = resolved(checked_path("store", store))
    with layout_told(path):
        return _checked(StoreCheck(path, options, compat=compat, pread=pread), progress, range_size, pread=pread)


def _checked(
    check: StoreCheck, progress: Callable[[int, int], None] | None, range_size: int | None, *, pread: bool | None
) -> tuple[StoreAudit, list[Finding]]:
    view = log_view(check.path, check.options, compat=check.compat, end=check.end, pread=pread)
    threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="verify")
    try:
        tasks = check.tasks(0, range_size)
        while tasks:
            running = _begin(threads, view, tasks)
            for number, done in enumerate(as_completed(running), 1):
                check.take(running[done], done.result())
                if progress is not None:
                    progress(number, len(tasks))
            tasks = check.again(0)
    finally:
        # Ctrl-C waits for the parts that are under way, and for no other.
        threads.shutdown(cancel_futures=True)
    findings = check.findings()
    return check.result(), findings


def _begin(threads: ThreadPoolExecutor, view: LogView, tasks: list[Task]) -> dict[Future[Any], Task]:
    try:
        return {threads.submit(check_part, view, task): task for task in tasks}
    except RuntimeError as refused:
        raise StoreIOError.of(f"start a thread of the check: {refused}", errno.EAGAIN) from refused
