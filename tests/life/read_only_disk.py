"""Opens a store in a folder that this process may not write to, as a user without privileges.

``python -m tests.life.read_only_disk FOLDER``; prints nothing where all is as it has to be.
"""

import errno
import os
import sys
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import verify
from tests.store.conftest import SMALL

_NOBODY = 65_534


def main(folder: Path) -> None:
    if os.geteuid() == 0:
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    with pytest.raises(mqstore.StoreIOError, match=str(folder)) as refused:
        mqstore.open(folder, "rw", **SMALL)
    assert refused.value.errno in {errno.EACCES, errno.EROFS}
    with pytest.raises(mqstore.StoreIOError, match=str(folder)):
        mqstore.open(folder / "new", "rw", **SMALL)
    with mqstore.open(folder, **SMALL) as store:
        assert [int(bytes(message.body)) for message in store.topic("t")] == list(range(100))
        assert [bytes(message.body) for message in store.query_message("t", "key-7")] == [b"7"]
        assert store.refresh() == 0
        assert store.figures().commit_log_max_offset == store.get_max_phy_offset()
        with pytest.raises(mqstore.StoreIOError, match="consumers"):
            store.consumer("g", "t")
    audit, findings = verify(folder, **SMALL)
    assert audit.record_count == 100
    # Of a store that was not closed, what was dispatched last is in no file.
    assert (folder / "abort").exists() or not findings


if __name__ == "__main__":
    main(Path(sys.argv[1]))
