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


def test_a_file_that_no_key_has_come_to_is_sound_whatever_its_size(tmp_path: Path) -> None:
    """It is made by the first message behind a full one, which need not have any."""
    options: dict[str, Any] = {"maxHashSlotNum": 101, "maxIndexNum": 4}
    with mqstore.open(tmp_path / "store", "rw", **options) as store:
        for number in range(3):
            store.put("t", b"x", keys=f"k{number}", unique_key=False)
        store.put("t", b"x", unique_key=False)
    assert len(list((tmp_path / "store" / "index").iterdir())) == 2
    assert verify(tmp_path / "store")[1] == []
    with mqstore.open(tmp_path / "store", "rw") as store:
        store.put("t", b"y", keys="later", unique_key=False)
        assert [message.body for message in store.query_message("t", "later", 10)] == [b"y"]
    assert verify(tmp_path / "store")[1] == []
