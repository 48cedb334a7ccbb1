"""What every command does alike: its output, and how it ends."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

import mqstore
from tests.command import mqstore_command

SMALL: dict[str, Any] = {"maxHashSlotNum": 97, "maxIndexNum": 400}


@pytest.mark.parametrize("command", ["ls", "dump", "du"])
@pytest.mark.parametrize(
    ("redirection", "expected"),
    [
        (">/dev/full", "Error: standard output: No space left on device\n"),
        (">&-", "Error: standard output is closed: send it to /dev/null where it is not wanted\n"),
        ("| true", ""),
    ],
)
def test_output_that_is_not_taken_is_one_line(tmp_path: Path, command: str, redirection: str, expected: str) -> None:
    with mqstore.open(tmp_path / "s", "rw", **SMALL) as store:
        store.put("t", b"1" * 100_000, queue_id=0)
    script = f'"$@" {redirection}'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *mqstore_command(command, tmp_path / "s", SMALL)],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.stderr == expected
    assert done.returncode == (1 if expected else 0)
