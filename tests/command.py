"""Runs the ``mqstore`` command as its users do: as a process."""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["MQSTORE", "mqstore_command", "run_mqstore"]

MQSTORE = Path(sys.executable).with_name("mqstore")
"""The command that the package installs."""
_TIMEOUT_S = 120


def mqstore_command(command: str, directory: Path, options: Mapping[str, str]) -> list[str]:
    """The arguments that run a command on a store."""
    given = [argument for name, value in options.items() for argument in ("-o", f"{name}={value}")]
    return [str(MQSTORE), command, str(directory), *given]


def run_mqstore(command: str, directory: Path, options: Mapping[str, str], lines: Iterable[str] = ()) -> list[str]:
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
