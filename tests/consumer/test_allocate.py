"""Which member of a group reads which queues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.consumer import AllocateMessageQueue, allocate_averagely, allocate_averagely_by_circle


@pytest.mark.parametrize("allocate", [allocate_averagely, allocate_averagely_by_circle])
@given(st.integers(0, 40), st.integers(1, 12))
def test_each_queue_goes_to_one_member(allocate: AllocateMessageQueue, queue_count: int, member_count: int) -> None:
    queue_ids = list(range(queue_count))
    members = [f"member-{number:02}" for number in range(member_count)]
    shares = [allocate(member, queue_ids, members) for member in members]
    assert sorted(queue_id for share in shares for queue_id in share) == queue_ids
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert allocate("a stranger", queue_ids, members) == []


def test_neighbours_and_circles() -> None:
    members = ["a", "b", "c"]
    assert [allocate_averagely(one, range(8), members) for one in members] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [allocate_averagely_by_circle(one, range(8), members) for one in members] == [[0, 3, 6], [1, 4, 7], [2, 5]]
