"""Store times that run backwards: a clock that was set back, as in healthy stores of 4.9.3, or a time that changed."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import mqstore
from mqstore.cli.main import main
from mqstore.verify import Finding, StoreAudit, verify
from mqstore.verify.meanings import MEANINGS
from tests.compat.streams import SMALL_FILES

STORE_TIME_AT = 56
START_MS = 1_700_000_000_000
COUNT = 60
SET_BACK_AT = 31
RANGE_SIZES = (200, 400, 700, 1000, 1900, 5000, None)
"""A part of the check ends before the step, at it, behind it."""


def make(path: Path, times: list[int], **options: Any) -> list[int]:
    """A store that takes its clock as it is, with a message for each time; gives where they stand."""
    now = times[:1]
    with mqstore.open(path, "rw", compat=True, clock=lambda: now[0], **SMALL_FILES, **options) as store:
        for now[0] in times:
            store.put("t", bytes(100), queue_id=0, keys="k")
        return [message.commit_log_offset for message in store.select()]


def seconds(step_ms: int = 0) -> list[int]:
    """Times a second apart, of which those from one on are so much earlier."""
    return [START_MS + number * 1000 - (step_ms if number >= SET_BACK_AT else 0) for number in range(COUNT)]


def checked(path: Path, range_size: int | None, **options: Any) -> tuple[StoreAudit, list[Finding]]:
    return verify(path, range_size=range_size, compat=True, **SMALL_FILES, **options)


@pytest.mark.parametrize("step_ms", [5_000, 20_000, 3_600_000])
def test_a_clock_that_was_set_back_is_nothing_wrong(tmp_path: Path, step_ms: int) -> None:
    path = tmp_path / "store"
    offsets = make(path, seconds(step_ms))
    for range_size in RANGE_SIZES:
        audit, findings = checked(path, range_size)
        assert (audit.counts, audit.wrong, audit.is_whole) == ({"clock_set_back": 1}, {}, True), range_size
        (found,) = findings
        assert (found.phy_offset, found.topic, found.queue_offset) == (offsets[SET_BACK_AT], "t", SET_BACK_AT)
    told = CliRunner().invoke(main, ["verify", str(path), "--json"])
    found_line, total = map(json.loads, told.stdout.splitlines())
    assert (found_line["kind"], total["wrong"], total["remarks"], told.exit_code) == ("clock_set_back", 0, 1, 0)
    told = CliRunner().invoke(main, ["verify", str(path), "--table"])
    assert ("all is well" in told.stdout, "not all is well" in told.stdout, told.exit_code) == (True, False, 0)
    assert MEANINGS["clock_set_back"].title in told.stdout


@pytest.mark.parametrize("changed_ms", [-20_000, 20_000])
def test_one_time_that_changed_is(tmp_path: Path, changed_ms: int) -> None:
    path = tmp_path / "store"
    offsets = make(path, seconds(), messageIndexEnable=False)  # its entries have times too
    for number in (2, 17, COUNT - 4):
        with (path / "commitlog" / f"{0:020}").open("r+b") as log:
            log.seek(offsets[number] + STORE_TIME_AT)
            log.write(struct.pack(">q", START_MS + number * 1000 + changed_ms))
    for range_size in RANGE_SIZES:
        audit, findings = checked(path, range_size, messageIndexEnable=False)
        assert (audit.counts, audit.is_whole) == ({"time_backwards": 3}, False), range_size
        assert [found.phy_offset for found in findings] == [offsets[number] for number in (2, 17, COUNT - 4)]
