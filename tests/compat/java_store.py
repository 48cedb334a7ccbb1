"""The real store of Apache RocketMQ 4.9.3, run by the driver in ``peer/``."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["JavaRun", "JavaStore", "is_java_required", "missing_tools"]

_PEER = Path(__file__).with_name("peer")
_RUN_TIMEOUT_S = 120
_BUILD_TIMEOUT_S = 900


def _build_folder() -> Path:
    return Path(os.environ.get("PEER_BUILD", _PEER / "build"))


def is_java_required() -> bool:
    """Whether a machine without the real store must not pass its tests."""
    return any(os.environ.get(name) for name in ("CI", "MQSTORE_REQUIRE_JAVA"))


def missing_tools() -> list[str]:
    """Programs that running the driver needs, and building it where that was not done yet."""
    needed = ["java"] if (_build_folder() / "ready").exists() else ["java", "javac", "mvn"]
    return [program for program in needed if shutil.which(program) is None]


class JavaRun:
    """A command of the driver that is under way."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        """A process and the files that it writes to."""
        self.process, self._output, self._errors = process, output, errors

    def wait(self, timeout_s: float = _RUN_TIMEOUT_S) -> int:
        """Waits for its end and gives the exit code; one that hangs is killed.

        Raises:
            subprocess.TimeoutExpired: it did not end.
        """
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def lines(self, timeout_s: float = _RUN_TIMEOUT_S) -> list[str]:
        """Waits for its end, which has to be a good one, and gives the lines it printed."""
        code = self.wait(timeout_s)
        assert code == 0, f"{self.process.args!r} ended with {code}: {self.errors()}"
        return self._output.read_text(encoding="utf-8").splitlines()

    def errors(self) -> str:
        """What it wrote to standard error."""
        return self._errors.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        self.process.wait()


class JavaStore:
    """Runs commands of the driver, any number beside each other, each in a JVM of its own."""

    def __init__(self, scratch: Path) -> None:
        """Builds the driver where that was not done yet; ``scratch`` takes what the commands read and print."""
        self._scratch = scratch
        self._runs: list[JavaRun] = []
        self.start("recover", scratch / "first", {}).lines(_BUILD_TIMEOUT_S)

    def start(self, command: str, directory: Path, options: Mapping[str, Any], lines: Iterable[str] = ()) -> JavaRun:
        """Starts a command on a store, with lines as its input."""
        base = self._scratch / f"run-{len(self._runs)}"
        given, output, errors = (base.with_suffix(suffix) for suffix in (".in", ".out", ".err"))
        given.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        arguments = [str(_PEER / "run"), command, str(directory), *(f"{name}={text}" for name, text in options.items())]
        with given.open("rb") as stdin, output.open("wb") as stdout, errors.open("wb") as stderr:
            process = subprocess.Popen(arguments, stdin=stdin, stdout=stdout, stderr=stderr)
        run = JavaRun(process, output, errors)
        self._runs.append(run)
        return run

    def run(self, command: str, directory: Path, options: Mapping[str, Any], lines: Iterable[str] = ()) -> list[str]:
        """Runs a command, which has to end well, and gives the lines it printed."""
        return self.start(command, directory, options, lines).lines()

    def close(self) -> None:
        """Leaves no process behind."""
        for run in self._runs:
            if run.process.poll() is None:
                run.kill()
