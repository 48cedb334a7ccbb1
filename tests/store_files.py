"""What stands in the files of a store, read without the engine."""

import shutil
import struct
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "DERIVED",
    "HEAD_SIZE",
    "copy_store",
    "forged",
    "forget_derived",
    "index_contents",
    "index_entries",
    "index_entry_at",
    "log_contents",
    "queue_contents",
    "queue_units",
]

DERIVED = ("consumequeue", "consumequeue_ext", "index", "checkpoint", "config", "mqstore")
"""What can be thrown away: all of it follows from the log."""
_UNIT = struct.Struct(">qiq")
_INDEX_HEADER_SIZE = 40
_SLOT_SIZE = 4
_INDEX_ENTRY = struct.Struct(">iqii")
_INDEX_COUNT_AT = 36


HEAD_SIZE = 88
"""Bytes of a record before its body, with IPv4 hosts."""


def forged(place: int, topic: bytes, size: int) -> bytes:
    """A record that checks out at a place of the log: magic code, own offset, lengths and CRC."""
    body = b"f" * (size - HEAD_SIZE - 1 - len(topic) - 2)
    head = struct.pack(
        ">IIIiiqqiqIIqIIiqi",
        size,
        0xDAA320A7,
        zlib.crc32(body) & 0x7FFFFFFF,
        0,
        0,
        0,
        place,
        0,
        1,
        0x7F000001,
        0,
        1_700_000_000_000,
        0x7F000001,
        0,
        0,
        0,
        len(body),
    )
    return head + body + bytes([len(topic)]) + topic + struct.pack(">h", 0)


def copy_store(store: Path, to: Path) -> Path:
    """Copies a store with its file times, which the compatible look-up by time goes by."""
    return Path(shutil.copytree(store, to, symlinks=True, copy_function=_copy_unless_renamed))


def _copy_unless_renamed(source: str, to: str) -> None:
    """Copies a file. One that a live store replaces another one by has its name for a moment alone."""
    try:
        shutil.copy2(source, to, follow_symlinks=False)
    except FileNotFoundError:
        if not source.endswith(".tmp"):
            raise


def forget_derived(store: Path, *, clean: bool) -> None:
    """Leaves the log alone, as after a clean stop or after a crash."""
    for name in DERIVED:
        if (store / name).is_dir():
            shutil.rmtree(store / name)
        else:
            (store / name).unlink(missing_ok=True)
    if clean:
        (store / "abort").unlink(missing_ok=True)
    else:
        (store / "abort").touch()


def tree(store: Path) -> dict[Path, bytes | None]:
    """All that is in a folder, to see that nothing has changed; folders have no content."""
    return {path: path.read_bytes() if path.is_file() else None for path in store.rglob("*")}


def _contents(folder: Path, files: Iterable[Path]) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.is_file()}


def log_contents(store: Path) -> dict[str, bytes]:
    """The log's files; those that were allocated ahead and hold nothing yet do not count."""
    files = _contents(store / "commitlog", (store / "commitlog").iterdir())
    return {name: content for name, content in sorted(files.items()) if any(content)}


def queue_contents(store: Path) -> dict[str, bytes]:
    """The files of queues and extensions by their path in the store."""
    files = [path for folder in ("consumequeue", "consumequeue_ext") for path in (store / folder).rglob("*")]
    return _contents(store, sorted(files))


def index_contents(store: Path) -> list[bytes]:
    """The index files, oldest first. Their names are times at which they happened to be made."""
    folder = store / "index"
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def queue_units(store: Path, min_phy_offset: int = 0) -> dict[tuple[str, int], dict[int, tuple[int, int, int]]]:
    """The units of each queue by their number, of messages from an offset of the log on."""
    found: dict[tuple[str, int], dict[int, tuple[int, int, int]]] = {}
    root = store / "consumequeue"
    for path in sorted(root.glob("*/*/*")):
        topic, queue_id, name = path.relative_to(root).parts
        units = found.setdefault((topic, int(queue_id)), {})
        first = int(name) // _UNIT.size
        for number, unit in enumerate(_UNIT.iter_unpack(path.read_bytes()), first):
            phy_offset, size, _ = unit
            is_message = 0 < size < 2**31 - 1
            if is_message and phy_offset >= min_phy_offset:
                units[number] = unit
    return {queue: units for queue, units in found.items() if units}


def index_entry_at(slots: int, number: int) -> int:
    """Where an entry stands in an index file."""
    return _INDEX_HEADER_SIZE + slots * _SLOT_SIZE + number * _INDEX_ENTRY.size


def index_entries(store: Path, slots: int, min_phy_offset: int = 0) -> Counter[tuple[int, int]]:
    """Key hash and log offset of every index entry of messages from an offset of the log on."""
    found: Counter[tuple[int, int]] = Counter()
    for content in index_contents(store):
        (count,) = struct.unpack_from(">i", content, _INDEX_COUNT_AT)
        for number in range(1, count):
            key_hash, phy_offset, _, _ = _INDEX_ENTRY.unpack_from(content, index_entry_at(slots, number))
            if phy_offset >= min_phy_offset:
                found[key_hash, phy_offset] += 1
    return found
