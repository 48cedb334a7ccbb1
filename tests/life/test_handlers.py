"""A signal's handler runs in the middle of a call or a wait: it may use the store, and what is under way goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

_TIMEOUT_S = 240


@pytest.mark.parametrize(
    "scenario",
    [
        "uses_the_store_that_is_at_work",
        "closes_the_store_that_is_at_work",
        "breaks_nothing_off",
        "ends_an_opening",
        "closes_the_store_anywhere_in_a_wait",
        "leaves_nothing_of_a_wait",
    ],
)
def test_handlers(scenario: str, tmp_path: Path) -> None:
    # What waits for itself can be ended from outside alone.
    done = subprocess.run(
        [sys.executable, "-m", "tests.life.handling", scenario, str(tmp_path / "store")],
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
