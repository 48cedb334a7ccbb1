"""Whether a store's files are read by way of mappings."""

import os

from mqstore import _native
from mqstore.options import StoreOptions
from mqstore.store.byte_ranges import ByteRanges

__all__ = ["reads_without_mappings"]


def reads_without_mappings(options: StoreOptions, ranges: ByteRanges | None, *, given: bool | None) -> bool:
    """Whether a store that is only read is read without mappings, as its caller says, or as is better.

    A file that is cut off under a mapping ends the process, and so does a hole that is read on a full tmpfs. So a
    store is read without where another process writes it, and where the log lies on a network disk or on tmpfs;
    what is not local has none.
    """
    if ranges is not None:
        return True
    if given is not None:
        return given
    root = options.store_path_root_dir
    writer = _native.locked_by(os.path.join(root, "lock"), os.path.join(root, "mqstore"))
    return writer is not None or any(_native.is_mapping_risky(path) for path in options.commit_log_paths())
