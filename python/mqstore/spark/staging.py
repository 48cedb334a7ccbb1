"""What tasks hand over to the driver: rows in Arrow files of a folder that both see."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["remove", "remove_folder", "rows_behind", "stage", "sync"]


def stage(folder: Path, batches: Iterable["pa.RecordBatch"], *, prefix: str = "") -> str | None:
    """Writes a task's rows to a file of its own, whose name has a prefix; none where there are no rows."""
    import pyarrow as pa  # noqa: PLC0415 - the module is imported where nothing is written

    file = None
    writer = None
    with contextlib.ExitStack() as stack:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if writer is None:
                folder.mkdir(parents=True, exist_ok=True)
                file = str(folder / f"{prefix}{uuid.uuid4().hex}.arrow")
                stack.enter_context(_whole_or_gone(file))
                writer = stack.enter_context(pa.ipc.new_file(file, batch.schema))
            writer.write_batch(batch)
    return file


@contextlib.contextmanager
def _whole_or_gone(file: str) -> Iterator[None]:
    """A file that goes where it can't be finished: a stream that tries again and again would fill the disk."""
    try:
        yield
    except BaseException as error:
        Path(file).unlink(missing_ok=True)
        error.add_note(f"a task's rows were staged in {file}")
        raise


def sync(paths: Iterable[str | Path]) -> None:
    """Brings files, and what folders have, to the disk."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def rows_behind(file: str, skipped: int) -> tuple[int, "pa.RecordBatchReader | None"]:
    """The rows of a staged file behind its first ones, and how many are still to be skipped behind it.

    The file is mapped, and a batch is read when the reader comes to it.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above

    reader = pa.ipc.open_file(pa.memory_map(file))

    def batches() -> Iterator["pa.RecordBatch"]:
        left = skipped
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            rest = batch.slice(min(left, batch.num_rows))
            left -= batch.num_rows - rest.num_rows
            if rest.num_rows:
                yield rest

    count = reader.count_rows()
    if skipped >= count:
        return skipped - count, None
    return 0, pa.RecordBatchReader.from_batches(reader.schema, batches())


def remove(files: Iterable[str]) -> None:
    """Removes staged files, those that are there."""
    for file in files:
        Path(file).unlink(missing_ok=True)


def remove_folder(folder: str | Path) -> None:
    """Removes a folder of staged files.

    An attempt of a task that another one has overtaken may write to it until Spark has ended it. What it leaves there
    is no error: who is told of one takes it that nothing was put, and puts all of it again.
    """
    shutil.rmtree(folder, ignore_errors=True)
