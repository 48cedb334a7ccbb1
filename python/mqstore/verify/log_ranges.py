"""A log divided into ranges that are looked at beside each other, in threads or in other processes."""

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping

from mqstore import _native
from mqstore.options import StoreOptions, snake_case
from mqstore.store.byte_ranges import ranges_of, shown
from mqstore.store.mappings import reads_without_mappings

__all__ = ["locked_log_view", "log_view", "options_of", "with_boundaries"]


@functools.lru_cache(maxsize=8)
def _kept(path: str, options: StoreOptions, compat: bool, end: int, run: str) -> _native.LogView:  # noqa: FBT001 - a key
    del run  # it tells this run's view from an older one: the store may have been changed in between
    return _opened(path, options, end, compat=compat, pread=None)


def _opened(path: str, options: StoreOptions, end: int | None, *, compat: bool, pread: bool | None) -> _native.LogView:
    ranges = ranges_of(path)
    pread = reads_without_mappings(options, ranges, given=pread)
    return _native.LogView(options.engine(compat=compat, truncate_on_damage=False, pread=pread), end, ranges)


def options_of(path: str, given: Mapping[str, object]) -> StoreOptions:
    """The options of a store, by its path as :func:`mqstore.store.byte_ranges.resolved` gives it.

    Raises:
        OptionError: an option does not exist or has a value that does not work.
    """
    return StoreOptions.of(shown(path), {snake_case(name): value for name, value in given.items()})


def log_view(
    path: str,
    options: StoreOptions,
    *,
    compat: bool,
    end: int | None = None,
    run: str | None = None,
    pread: bool | None = None,
) -> _native.LogView:
    """A store's log up to an end that is known, or as it is now.

    An executor's process keeps it over the tasks of one run.

    Args:
        path: The store, as :func:`mqstore.store.byte_ranges.resolved` gives it.
        options: Its options, as :func:`options_of` gives them.
        compat: It closes gaps in a queue's offsets as 4.9.3 does.
        end: Where its log ends, where that is known.
        run: What the view is kept for.
        pread: As :func:`mqstore.open` takes it, where the view is not kept.

    Raises:
        StoreNotFoundError: there is no store, or this machine does not see it.
    """
    if end is None or run is None:
        return _opened(path, options, end, compat=compat, pread=pread)
    return _kept(path, options, compat, end, run)


@contextlib.contextmanager
def locked_log_view(options: StoreOptions) -> Iterator[_native.LogView]:
    """A store's log as it is now, for who changes it by what is seen there: nobody else writes meanwhile.

    Raises:
        StoreLockedError: somebody has the store open for writing.
    """
    view = _native.LogView(options.engine(compat=False, truncate_on_damage=False, pread=False), locked=True)
    try:
        yield view
    finally:
        view.unlock()


def with_boundaries(begins: Iterable[int], broken: Iterable[tuple[int, int]], end: int) -> list[int]:
    """Where ranges begin, where none does at the first of each pair, but the walk before came to the second."""
    kept = set(begins)
    for wrong, reached in broken:
        kept -= {begin for begin in kept if begin == wrong or wrong <= begin < reached}
        if reached < end:
            kept.add(reached)
    return sorted(kept)
