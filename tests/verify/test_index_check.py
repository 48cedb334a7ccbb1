"""What a check says of index files."""

from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.verify import verify


@pytest.mark.parametrize("entry_count", [1, 2, 3, 7])
def test_a_message_may_have_its_keys_in_any_number_of_files(tmp_path: Path, entry_count: int) -> None:
    options: dict[str, Any] = {"maxHashSlotNum": 7, "maxIndexNum": entry_count + 1}
    with mqstore.open(tmp_path / "store", "rw", **options) as store:
        for count in (3, 9, 1, 0, 8):
            store.put("t", b"x", keys=[f"{count}-{number}" for number in range(count)])
    assert verify(tmp_path / "store", **options)[1] == []
