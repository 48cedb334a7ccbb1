"""Scenarios that run in a process of their own: what waits for itself can be ended from outside alone."""

import subprocess
import sys
from pathlib import Path

__all__ = ["assert_runs"]

_TIMEOUT_S = 240


def assert_runs(module: str, scenario: str, folder: Path) -> None:
    """Runs a scenario of a module of these tests, on a store in a folder: it says nothing, and ends well."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.life.{module}", scenario, str(folder / "store")],
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
