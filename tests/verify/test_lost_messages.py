"""Which messages a repair tells as lost: what heads say where queues say nothing."""

from pathlib import Path

import pytest

import mqstore
from mqstore.verify import LostMessage, repair
from tests.compat.streams import SMALL_FILES
from tests.store_files import forget_derived
from tests.verify.damage import BODY_AT, overwrite


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store without queues; of one queue the last message's body is damaged, of another all there are."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        queues = [0, 0, 0, 1, 0, 2, 2]
        offsets = [opened.put("t", b"x" * 600, queue_id=queue).wrote_offset or 0 for queue in queues]
    for number in (3, 4):
        overwrite(path, offsets[number] + BODY_AT, b"\1")
    forget_derived(path, clean=True)
    return path


@pytest.mark.parametrize("in_place", [False, True])
def test_a_head_is_believed_where_the_repaired_store_has_its_queue(
    store: Path, tmp_path: Path, *, in_place: bool
) -> None:
    """Of a queue that nothing else tells of it is as likely damaged too."""
    done = repair(store, None if in_place else tmp_path / "whole", **SMALL_FILES)
    assert done.lost == (LostMessage(topic="t", queue_id=0, queue_offset=3),)
    assert done.message_count == 5
