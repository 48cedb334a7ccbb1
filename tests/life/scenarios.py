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
    # As a text: pytest shows what an assertion compares in a module of tests, and this is none.
    said = f"it ended with {done.returncode}\n{done.stdout}{done.stderr}"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), said
