"""Whether a store's files are read by way of mappings."""

import os

from mqstore import _native
from mqstore.options import StoreOptions

__all__ = ["needs_pread"]


def needs_pread(options: StoreOptions) -> bool:
    """Whether a store is better read without mappings: a file that is cut off under one ends the process.

    So it is where another process writes the store, and where the log lies on a network disk.
    """
    root = options.store_path_root_dir
    writer = _native.locked_by(os.path.join(root, "lock"), os.path.join(root, "mqstore"))
    return writer is not None or any(_native.on_network_disk(path) for path in options.commit_log_paths())
