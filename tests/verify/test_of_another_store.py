"""Files of another store among a store's own, or in the place of others: each is whole by itself."""

import shutil
from pathlib import Path

import pytest

import mqstore
from mqstore.verify import RepairResult, repair, verify
from tests.compat.streams import SMALL_FILES
from tests.verify.damage import LOG_FILE_SIZE, lose

LIGHT = SMALL_FILES | {"enableMultiDispatch": True, "enableLmq": True}
BOTH_WAYS = pytest.mark.parametrize("in_place", [False, True], ids=["into a folder", "in place"])


def made(
    path: Path, count: int, size: int, queues: int = 2, further: str | None = None
) -> dict[int, tuple[str, int, int]]:
    """Makes a store; gives where its messages stand in the log and in the queues."""
    properties = {} if further is None else {"INNER_MULTI_DISPATCH": further}
    with mqstore.open(path, "rw", **LIGHT) as store:
        for number in range(count):
            store.put("t", bytes(size), queue_id=number % queues, properties=properties)
    return told(path)


def told(path: Path) -> dict[int, tuple[str, int, int]]:
    with mqstore.open(path, **LIGHT) as store:
        return {
            message.commit_log_offset: (message.topic, message.queue_id, message.queue_offset)
            for message in store.select("t")
        }


def repaired(path: Path, *, in_place: bool) -> RepairResult:
    """Repairs a store; what that gives is whole, opens for writing, and is the same when it is repaired again."""
    done = repair(path, None if in_place else path.with_name("whole"), **LIGHT)
    has = told(done.path)
    found = {finding.kind for finding in verify(done.path, **LIGHT)[1]}
    assert found <= {"offset_gap", "clock_set_back"}
    again = repair(done.path, path.with_name("again"), **LIGHT)
    assert (again.holes, again.lost, told(again.path)) == ((), (), has)
    with mqstore.open(done.path, "rw", **LIGHT) as store:
        store.put("u", b"next")
    assert told(done.path) == has
    return done


@BOTH_WAYS
def test_queues_of_another_store_tell_of_no_lost_messages(tmp_path: Path, *, in_place: bool) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    known = made(path, 100, 10)
    made(other, 500, 300)
    shutil.rmtree(path / "consumequeue")
    shutil.copytree(other / "consumequeue", path / "consumequeue")
    done = repaired(path, in_place=in_place)
    assert (done.lost, done.holes, told(done.path)) == ((), (), known)


@BOTH_WAYS
def test_a_queue_file_of_another_store_tells_of_no_lost_messages(tmp_path: Path, *, in_place: bool) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    known = made(path, 30, 10)
    made(other, 500, 300)
    name = "consumequeue/t/1/00000000000000000000"
    shutil.copy(other / name, path / name)
    done = repaired(path, in_place=in_place)
    assert (done.lost, done.holes, told(done.path)) == ((), (), known)


@BOTH_WAYS
@pytest.mark.parametrize("number", [0, 1, 2], ids=["the first", "one in the middle", "the last"])
@pytest.mark.parametrize(("size", "queues"), [(300, 2), (100, 3), (1000, 1)])
def test_a_log_file_of_another_store_takes_no_message_of_the_other_files(
    tmp_path: Path, number: int, size: int, queues: int, *, in_place: bool
) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    known = made(path, 500, 200)
    made(other, 3000, size, queues)
    files = sorted((path / "commitlog").iterdir())
    assert len(files) >= 3
    at = [0, 1, len(files) - 1][number]
    shutil.copy(other / "commitlog" / files[at].name, files[at])
    done = repaired(path, in_place=in_place)
    has = told(done.path)
    others = {place: message for place, message in known.items() if place // LOG_FILE_SIZE != at}
    assert {place: has.get(place) for place in others} == others
    gone = {message for place, message in known.items() if has.get(place) != message}
    assert {(lost.topic, lost.queue_id, lost.queue_offset) for lost in done.lost} <= gone


@BOTH_WAYS
def test_a_queue_file_of_later_messages_of_another_store_tells_of_none(tmp_path: Path, *, in_place: bool) -> None:
    """All of its units lead behind the log's end, also those at the places of messages that are there."""
    path, other = tmp_path / "store", tmp_path / "other"
    known = made(path, 4, 10)
    with mqstore.open(other, "rw", **LIGHT) as store:
        for number in range(60):
            store.put("u" if number < 40 else "t", bytes(300), queue_id=number % 2)
    name = "consumequeue/t/1/00000000000000000000"
    shutil.copy(other / name, path / name)
    done = repaired(path, in_place=in_place)
    assert (done.lost, done.holes, told(done.path)) == ((), (), known)


@BOTH_WAYS
def test_a_log_file_that_is_a_copy_of_another_takes_no_message_of_that(tmp_path: Path, *, in_place: bool) -> None:
    path = tmp_path / "store"
    known = made(path, 500, 200)
    files = sorted((path / "commitlog").iterdir())
    shutil.copy(files[2], files[1])
    done = repaired(path, in_place=in_place)
    has = told(done.path)
    gone = {message for place, message in known.items() if place // LOG_FILE_SIZE == 1}
    assert has == {place: message for place, message in known.items() if message not in gone}
    assert {(lost.topic, lost.queue_id, lost.queue_offset) for lost in done.lost} == gone


@BOTH_WAYS
@pytest.mark.parametrize("number", [0, 1, 2], ids=["the first", "one in the middle", "the last"])
@pytest.mark.parametrize("further", [None, "%LMQ%a,%LMQ%b"])
def test_what_fits_between_in_a_log_file_of_another_store_does_not_stay(
    tmp_path: Path, number: int, further: str | None, *, in_place: bool
) -> None:
    """Where it says that it stands queues lead to what the store's own file had, and lead to nothing in this one."""
    path, other = tmp_path / "store", tmp_path / "other"
    known = made(path, 500, 200, further=further)
    made(other, 600, 201, further="%LMQ%b,%LMQ%a")
    files = sorted((path / "commitlog").iterdir())
    at = [0, 1, len(files) - 1][number]
    shutil.copy(other / "commitlog" / files[at].name, files[at])
    done = repaired(path, in_place=in_place)
    gone = {message for place, message in known.items() if place // LOG_FILE_SIZE == at}
    assert told(done.path) == {place: message for place, message in known.items() if message not in gone}
    lost = {(lost.topic, lost.queue_id, lost.queue_offset) for lost in done.lost}
    assert {message for message in lost if message[0] == "t"} == gone


@BOTH_WAYS
@pytest.mark.parametrize("damaged", [0, 2], ids=["before it", "behind it"])
def test_what_a_damaged_record_in_another_file_parts_tells_nothing_of_a_log_file_of_another_store(
    tmp_path: Path, damaged: int, *, in_place: bool
) -> None:
    """Though the store's own records are on either side of the damage."""
    path, other = tmp_path / "store", tmp_path / "other"
    known = made(path, 500, 200)
    made(other, 600, 201)
    name = f"commitlog/{LOG_FILE_SIZE:020}"
    shutil.copy(other / name, path / name)
    bad = [place for place in known if place // LOG_FILE_SIZE == damaged][50]
    lose(path, bad)
    done = repaired(path, in_place=in_place)
    stays = {place: message for place, message in known.items() if place // LOG_FILE_SIZE != 1 and place != bad}
    assert told(done.path) == stays
    assert len(done.lost) == len(known) - len(stays)


@pytest.mark.parametrize("number", [0, 1, 2], ids=["the first", "one in the middle", "the last"])
@pytest.mark.parametrize(("size", "queues"), [(300, 2), (100, 3), (201, 2)])
def test_without_queues_the_most_records_that_follow_each_other_stay(
    tmp_path: Path, number: int, size: int, queues: int
) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    known = made(path, 500, 200)
    made(other, 3000, size, queues)
    name = f"commitlog/{number * LOG_FILE_SIZE:020}"
    shutil.copy(other / name, path / name)
    shutil.rmtree(path / "consumequeue")
    has = told(repaired(path, in_place=False).path)
    others = {place: message for place, message in known.items() if place // LOG_FILE_SIZE != number}
    assert {place: has.get(place) for place in others} == others


@BOTH_WAYS
def test_two_messages_that_a_log_file_had_are_enough_to_tell_another_in_its_place(
    tmp_path: Path, *, in_place: bool
) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    in_first_file = sum(place < LOG_FILE_SIZE for place in made(other, 300, 201, queues=1))
    known = made(path, in_first_file + 2, 200, queues=1)
    gone = {message for place, message in known.items() if place >= LOG_FILE_SIZE}
    assert len(gone) == 2
    name = f"commitlog/{LOG_FILE_SIZE:020}"
    shutil.copy(other / name, path / name)
    done = repaired(path, in_place=in_place)
    assert told(done.path) == {place: message for place, message in known.items() if message not in gone}
    assert {(lost.topic, lost.queue_id, lost.queue_offset) for lost in done.lost} == gone


@BOTH_WAYS
@pytest.mark.parametrize("number", [0, 1, -1], ids=["the first", "one in the middle", "the last"])
def test_a_queue_file_of_another_store_takes_no_log_file_that_it_alone_leads_to(
    tmp_path: Path, number: int, *, in_place: bool
) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    known = made(path, 190, 3000, queues=1)
    made(other, 200, 2900, queues=1)
    queue = path / "consumequeue/t/0"
    name = sorted(queue.iterdir())[number].name
    shutil.copy(other / "consumequeue/t/0" / name, queue / name)
    done = repaired(path, in_place=in_place)
    assert (done.lost, done.holes, told(done.path)) == ((), (), known)


def unit_file(path: Path, number: int) -> tuple[Path, int]:
    """The file of a unit of queue 0, and where it stands there."""
    file_size = int(SMALL_FILES["mappedFileSizeConsumeQueue"])
    file, position = divmod(20 * number, file_size)
    return path / f"consumequeue/t/0/{file * file_size:020}", position


@BOTH_WAYS
@pytest.mark.parametrize("damage", ["all but the last", "a single one", "in each other's place", "out of the log"])
def test_damaged_units_take_no_log_file(tmp_path: Path, damage: str, *, in_place: bool) -> None:
    """Though some lead to other places of it, or all out of it, and but for a whole last one none to its record."""
    path = tmp_path / "store"
    known = made(path, 500, 200, queues=1)
    numbers = [number for number, place in enumerate(sorted(known)) if place // LOG_FILE_SIZE == 1]
    units = []
    for file, position in (unit_file(path, number) for number in numbers):
        units.append(file.read_bytes()[position : position + 20])
    elsewhere = [unit[:7] + bytes([unit[7] ^ 4]) + unit[8:] for unit in units]
    match damage:
        case "all but the last":
            units[:-1] = elsewhere[:-1]
        case "a single one":
            units = [elsewhere[0], *[bytes(20)] * (len(units) - 1)]
        case "out of the log":
            units = [unit[:4] + bytes([unit[4] ^ 1]) + unit[5:] for unit in units]
        case _:
            units = [*units[1:], units[0]]
    for (file, position), unit in zip((unit_file(path, number) for number in numbers), units, strict=True):
        content = file.read_bytes()
        file.write_bytes(content[:position] + unit + content[position + 20 :])
    done = repaired(path, in_place=in_place)
    assert (done.lost, done.holes, told(done.path)) == ((), (), known)
