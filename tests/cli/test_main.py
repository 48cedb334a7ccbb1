"""What every command does alike: its output, its input, and how it ends."""

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
    done = redirected(command, tmp_path / "s", redirection)
    assert done.stderr == expected
    assert done.returncode == (1 if expected else 0)


@pytest.mark.parametrize("command", ["put", "query"])
@pytest.mark.parametrize(
    ("redirection", "expected"),
    [
        ("<&-", "Error: standard input is closed: the command takes its lines there\n"),
        ("0>/dev/null", "Error: standard input: Bad file descriptor\n"),
    ],
)
def test_input_that_cannot_be_read_is_one_line(tmp_path: Path, command: str, redirection: str, expected: str) -> None:
    mqstore.open(tmp_path / "s", "rw", **SMALL).close()
    done = redirected(command, tmp_path / "s", redirection)
    assert done.stderr == expected
    assert done.returncode == 1


def redirected(command: str, store: Path, redirection: str) -> subprocess.CompletedProcess[str]:
    script = f'"$@" {redirection}'
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", *mqstore_command(command, store, SMALL)],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
