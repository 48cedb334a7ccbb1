"""Runs the ``mqstore`` command as its users do: as a process."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["MQSTORE", "mqstore_command", "put_and_kill", "run_mqstore"]

MQSTORE = Path(sys.executable).with_name("mqstore")
"""The command that the package installs."""
_TIMEOUT_S = 120


def mqstore_command(command: str, directory: Path, options: Mapping[str, Any]) -> list[str]:
    """The arguments that run a command on a store."""
    given = [argument for name, value in options.items() for argument in ("-o", f"{name}={value}")]
    return [str(MQSTORE), command, str(directory), *given]


def run_mqstore(command: str, directory: Path, options: Mapping[str, Any], lines: Iterable[str] = ()) -> list[str]:
    """Runs a command that has to succeed, with lines as its input, and gives the lines it printed."""
    done = subprocess.run(
        mqstore_command(command, directory, options),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"mqstore {command} ended with {done.returncode}: {done.stderr}"
    return done.stdout.splitlines()


def put_and_kill(directory: Path, options: Mapping[str, Any], lines: Iterable[str]) -> list[str]:
    """Puts messages by the command, kills it once the last result is printed, and gives the results."""
    given = [line for line in lines if "sleep" not in json.loads(line)]
    with tempfile.TemporaryFile() as stdin:
        # The command waits at the end of its input, and is killed there.
        stdin.write("".join(f"{line}\n" for line in [*given, '{"sleep": 600000}']).encode())
        stdin.seek(0)
        command = mqstore_command("put", directory, options)
        with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            results = [process.stdout.readline().decode() for _ in given]
            process.kill()
            errors = process.stderr.read().decode()
    assert all(results), f"mqstore put ended too early: {errors}"
    return [result.rstrip("\n") for result in results]
