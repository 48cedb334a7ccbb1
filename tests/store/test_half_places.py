"""Where the halves of transactions stand."""

from mqstore import LocalTransactionState
from mqstore.store.half_places import HalfPlaces


def test_a_half_is_found_from_either_side_however_often_it_moves() -> None:
    places = HalfPlaces()
    places.set(10, 10)
    places.set(20, 20)
    places.set(10, 30)
    places.set(10, 40)
    assert (places.now(10), places.now(20), places.now(50)) == (40, 20, 50)
    assert [places.prepared_at(at) for at in (10, 20, 30, 40)] == [None, 20, None, 10]


def test_one_that_was_decided_on_stands_nowhere() -> None:
    places = HalfPlaces()
    places.set(10, 10)
    places.set(10, LocalTransactionState.COMMIT_MESSAGE)
    assert places.now(10) is LocalTransactionState.COMMIT_MESSAGE
    assert places.prepared_at(10) is None


def test_what_is_forgotten_is_known_from_neither_side() -> None:
    places = HalfPlaces()
    places.set(10, 30)
    places.forget(10)
    places.forget(10)
    assert (len(places), places.now(10), places.prepared_at(30)) == (0, 10, None)
