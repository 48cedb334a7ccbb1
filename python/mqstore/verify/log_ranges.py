"""A log divided into ranges that are looked at beside each other, in threads or in other processes."""

import functools
from collections.abc import Iterable

from mqstore import _native
from mqstore.options import StoreOptions

__all__ = ["log_view", "with_boundaries"]


@functools.lru_cache(maxsize=8)
def _kept(options: StoreOptions, compat: bool, end: int, run: str) -> _native.LogView:  # noqa: FBT001 - a key
    del run  # it tells this run's view from an older one: the store may have been changed in between
    return _native.LogView(options.engine(compat=compat, truncate_on_damage=False, pread=False), end)


def log_view(options: StoreOptions, *, compat: bool, end: int | None = None, run: str | None = None) -> _native.LogView:
    """A store's log up to an end that is known, or as it is now.

    An executor's process keeps it over the tasks of one run.

    Raises:
        StoreNotFoundError: there is no store, or this machine does not see it.
    """
    if end is None or run is None:
        return _native.LogView(options.engine(compat=compat, truncate_on_damage=False, pread=False), end)
    return _kept(options, compat, end, run)


def with_boundaries(begins: Iterable[int], broken: Iterable[tuple[int, int]], end: int) -> list[int]:
    """Where ranges begin, where none does at the first of each pair, but the walk before came to the second."""
    kept = set(begins)
    for wrong, reached in broken:
        kept -= {begin for begin in kept if begin == wrong or wrong <= begin < reached}
        if reached < end:
            kept.add(reached)
    return sorted(kept)
