"""Files of a store's configuration that nobody can read: nothing of them follows from the log."""

import errno
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from mqstore.errors import MQStoreError, StoreIOError
from mqstore.store.byte_ranges import is_remote
from mqstore.store.config_manager import ConfigManager
from mqstore.store.group_offsets import files_of_groups
from mqstore.store.topics import TOPICS, read_topics

__all__ = ["damaged_config"]


def damaged_config(store: str, told: Collection[str]) -> Iterator[tuple[str, str]]:
    """Files of topics, groups and delay levels that are damaged, as is the ``.bak`` of each.

    Args:
        store: Its path; of another file system nothing is looked at.
        told: What is known not to be a file, or a folder, as it should be.

    Yields:
        The file, and what was found.

    Raises:
        StoreIOError: the operating system refuses to read one.
    """
    if is_remote(store):
        return
    root = Path(store)
    for path, read in ((root / TOPICS, lambda: read_topics(root)), *files_of_groups(root)):
        damage = None if _is_told(path, told) else _damage(read)
        if damage is not None:
            yield str(path), damage.removeprefix(f"{path}: ")


def _is_told(path: Path, told: Collection[str]) -> bool:
    return any(str(each) in told for each in (path, *path.parents))


def _damage(read: Callable[[], ConfigManager]) -> str | None:
    try:
        read()
    except StoreIOError as error:
        # A folder in a file's place is damage, and not the system's refusal.
        if error.errno != errno.EISDIR:
            raise
        return str(error)
    except MQStoreError as error:
        return str(error)
    return None
