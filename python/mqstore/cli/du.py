"""``mqstore du``."""

import os
from collections.abc import Iterator
from pathlib import Path

import click

import mqstore
from mqstore.cli.reader_call import ReaderCall, reader_call
from mqstore.store.byte_ranges import ByteRanges

__all__ = ["du"]

_BLOCK_SIZE = 512


def _part_rows(store: mqstore.MessageStore) -> Iterator[dict[str, object]]:
    """What each folder of the store takes: its files' sizes, and the blocks that they have."""
    root = store.path
    elsewhere = [folder for folder in map(Path, store.options.log_folders()) if root not in folder.parents]
    for part in [*sorted(root.iterdir()), *filter(Path.is_dir, elsewhere)]:
        files = (
            [Path(folder) / name for folder, _, names in os.walk(part) for name in names] if part.is_dir() else [part]
        )
        stats = [stat for stat in map(_stat, files) if stat is not None]
        yield {
            "part": part.name if part.parent == root else str(part),
            "files": len(stats),
            "size": sum(stat.st_size for stat in stats),
            "on disk": sum(stat.st_blocks * _BLOCK_SIZE for stat in stats),
        }


def _stat(file: Path) -> os.stat_result | None:
    """A file's size and blocks; ``None`` for one that the store's writer has taken away since it was listed."""
    try:
        return file.lstat()
    except FileNotFoundError:
        return None


def _remote_part_rows(ranges: ByteRanges) -> Iterator[dict[str, object]]:
    """The same of a store that is not local, as far as its listing tells."""
    parts: dict[str, list[int]] = {}
    for path, is_dir, size, _ in ranges.list_below("", recursive=True) or []:
        if not is_dir:
            parts.setdefault(path.partition("/")[0], []).append(size or 0)
    for part, sizes in sorted(parts.items()):
        yield {"part": part, "files": len(sizes), "size": sum(sizes), "on disk": None}


def _topic_rows(store: mqstore.MessageStore) -> Iterator[dict[str, object]]:
    """What each topic takes of the log, the largest first."""
    for usage in sorted(store.topic_usage(), key=lambda usage: -usage.log_size):
        if usage.message_count:
            yield {"topic": usage.topic, "messages": usage.message_count, "size": usage.log_size}


@click.command
@reader_call
@click.option("--topics", is_flag=True, help="What each topic takes of the log instead.")
def du(call: ReaderCall, *, topics: bool) -> None:
    """Show what takes the space: the parts of the store, or its topics.

    A topic takes what the messages in its queues take. One that was put to further queues counts for each of them.
    """
    with call.open() as store:
        if topics:
            call.end_if_nothing(call.show(_topic_rows(store)))
        else:
            call.show(_part_rows(store) if store._ranges is None else _remote_part_rows(store._ranges))
