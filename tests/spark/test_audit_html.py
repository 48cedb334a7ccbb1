"""An audit's page: what it says of a store as a whole, and that it can be made of any."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import mqstore
from mqstore.spark.audit import Audit
from mqstore.verify import verify
from mqstore.verify.findings import StoreAudit
from mqstore.verify.meanings import MEANINGS
from tests.compat.streams import SMALL_FILES

STORE_TIME_AT = 56
LOST = "Messages are damaged or missing."
DOUBTFUL = "Messages may be missing."
HERE = "No message is missing, but not all of this can be rebuilt."
REBUILT = "No message is lost: what is wrong can be rebuilt."


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store of a few log files."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL_FILES) as opened:
        for number in range(300):
            opened.put("t", bytes(400), keys=f"k{number}", queue_id=number % 2)
    return path


def page_of(store: Path) -> str:
    checked, findings = verify(store, **SMALL_FILES)
    return Audit(stores=(checked,), findings=tuple(findings)).to_html()


def page_with(**found: object) -> str:
    """The page of a store of which only this was found."""
    return Audit(stores=(StoreAudit(store="s", begin=0, end=9, **found),), findings=()).to_html()  # type: ignore[arg-type]


def lose_the_end(store: Path) -> None:
    max((store / "commitlog").iterdir()).unlink()


def lose_a_place(store: Path) -> None:
    with (store / "consumequeue" / "t" / "1" / f"{0:020}").open("r+b") as units:
        units.write(bytes(20))


def change_a_store_time(store: Path) -> None:
    with (store / "commitlog" / f"{0:020}").open("r+b") as log:
        (size,) = struct.unpack(">i", log.read(4))
        log.seek(size + STORE_TIME_AT)
        log.write(bytes(8))


@pytest.mark.parametrize(
    ("damage", "expected"), [(lose_the_end, LOST), (lose_a_place, REBUILT), (change_a_store_time, HERE)]
)
def test_what_a_damage_means_for_the_messages(store: Path, damage: Callable[[Path], None], expected: str) -> None:
    damage(store)
    assert f"{expected}</p>" in page_of(store)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ({"bad_record", "stray"}, LOST),
        ({"offset_gap", "unit_missing"}, LOST),
        ({"end_lost", "unit_dangling"}, LOST),
        ({"unit_dangling", "unit_missing", "time_backwards"}, DOUBTFUL),
        ({"unit_wrong"}, DOUBTFUL),
        ({"stray"}, DOUBTFUL),
        ({"offset_repeated", "record_odd"}, DOUBTFUL),
        ({"a kind of another version"}, DOUBTFUL),
        ({"time_backwards"}, HERE),
        ({"config_damaged"}, HERE),
        ({"config_damaged", "bad_body"}, LOST),
        ({"record_odd", "key_missing"}, HERE),
        ({"unit_missing", "unit_stray", "key_missing", "entry_wrong"}, REBUILT),
    ],
    ids=lambda value: "+".join(sorted(value)) if isinstance(value, set) else "",
)
def test_what_kinds_of_findings_mean_for_the_messages(kinds: set[str], expected: str) -> None:
    assert f"{expected}</p>" in page_with(counts=dict.fromkeys(kinds, 1))


def test_a_remark_is_nothing_wrong() -> None:
    page = page_with(counts={"clock_set_back": 2})
    assert "All is well: 0 messages" in page
    assert f"<b>{MEANINGS['clock_set_back'].title}" in page.replace("&#x27;", "'")
    assert f"1 findings over 0 messages. {HERE}" in page_with(counts={"clock_set_back": 2, "record_odd": 1})


def test_a_rebuild_is_promised_only_where_it_is_what_to_do() -> None:
    for kind, meaning in MEANINGS.items():
        promised = f"{REBUILT}</p>" in page_with(counts={kind: 1})
        assert promised == (meaning.to_do == MEANINGS["unit_missing"].to_do), kind


FIRST = "0001-01-01T00:00:00+00:00"
LAST = "9999-12-31T23:59:59.999999+00:00"
NOW = "2026-11-23T12:00:00+00:00"


@pytest.mark.parametrize(
    "hours", [[FIRST], [LAST], [FIRST, NOW], [NOW, LAST], [FIRST, LAST], ["1969-12-31T23:00:00+00:00", NOW]]
)
def test_any_store_time_has_its_bar(hours: list[str]) -> None:
    """A flipped bit makes any of a store time, and the calendar has not all of them."""
    page = page_with(record_count=7, totals={"hour": dict.fromkeys(hours, (7, 700))})
    assert "Messages stored per" in page
    assert page.count(": 7</title>") == len(hours)


@pytest.mark.parametrize("flipped", [0x80, 0x02])
def test_a_flipped_bit_in_a_store_time_leaves_the_page(store: Path, flipped: int) -> None:
    with (store / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(STORE_TIME_AT)
        log.write(bytes([flipped]))
    assert "Messages stored per" in page_of(store)
