"""How large a store's files are: what is made anew has the same sizes, or the store would open nowhere."""

import contextlib
from typing import Any, NamedTuple

from mqstore import _native
from mqstore.errors import MQStoreError
from mqstore.options import StoreOptions

__all__ = ["FileSizes", "file_sizes"]


class FileSizes(NamedTuple):
    """Sizes of a store's files beside its log's, which stay."""

    queue: int
    """Bytes of a queue's file."""
    extension: int
    """Bytes of a file of a queue's extension."""
    hash_slots: int
    """Slots of an index file."""
    index_entries: int
    """Its entries."""

    def options(self) -> dict[str, Any]:
        """The options that make such files."""
        return {
            "mapped_file_size_consume_queue": self.queue,
            "mapped_file_size_consume_queue_ext": self.extension,
            "max_hash_slot_num": self.hash_slots,
            "max_index_num": self.index_entries,
        }


def file_sizes(view: _native.LogView, options: StoreOptions) -> FileSizes:
    """The sizes that a store has; of what it has no file, or none that can be used, what its options say."""
    queue = options.engine(compat=False, truncate_on_damage=False, pread=False).mapped_file_size_consume_queue
    extension = options.mapped_file_size_consume_queue_ext
    hash_slots, index_entries = options.max_hash_slot_num, options.max_index_num
    with contextlib.suppress(MQStoreError):
        queue, extension = view.queue_file_size, view.ext_file_size
    with contextlib.suppress(MQStoreError):
        hash_slots, index_entries = view.index_shape
    return FileSizes(queue, extension, hash_slots, index_entries)
