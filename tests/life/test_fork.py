"""A process is forked while a store is open."""

import subprocess
import sys
from pathlib import Path

import pytest

_TIMEOUT_S = 240


@pytest.mark.parametrize(
    "scenario", ["children_touch_nothing", "a_living_child_holds_nothing", "forks_beside_busy_threads"]
)
def test_fork(scenario: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.life.forking", scenario, str(tmp_path / "store")],
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
