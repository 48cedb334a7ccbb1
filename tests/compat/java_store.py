"""The real store of Apache RocketMQ 4.9.3, run by the driver in ``peer/``."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["JavaRun", "JavaStore", "LiveJava", "is_java_required", "missing_tools"]

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


class LiveJava:
    """A master or slave of the driver, which runs until it is stopped."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: Path) -> None:
        """A process whose input and output are pipes, and the file that its errors go to."""
        self.process, self._errors = process, errors
        self._lines: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self._lines.append(json.loads(line))
                self._changed.notify_all()

    def wait_for(self, is_so: Callable[[list[dict[str, Any]]], bool], timeout_s: float = _RUN_TIMEOUT_S) -> None:
        """Waits until what it has printed is so.

        Raises:
            TimeoutError: it was not in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: is_so(self._lines), timeout_s):
                raise TimeoutError(f"{self.process.args!r}: {self._lines[-3:]} {self.errors()}")

    @property
    def port(self) -> int:
        """Where a master listens for slaves."""
        self.wait_for(lambda lines: any("haListenPort" in line for line in lines))
        return next(int(line["haListenPort"]) for line in self._lines if "haListenPort" in line)

    def put(self, messages: Sequence[str]) -> list[dict[str, Any]]:
        """Lets a master put messages, and waits until they are dispatched; gives the results."""
        assert self.process.stdin is not None
        before = len(self.results())
        self.process.stdin.write("".join(f"{message}\n" for message in messages).encode())
        self.process.stdin.flush()
        self.wait_for(lambda _: len(self.results()) == before + len(messages))
        results = self.results()[before:]
        self.wait_dispatched(max(result["wroteOffset"] + result["wroteBytes"] for result in results))
        return results

    def results(self) -> list[dict[str, Any]]:
        """The results of all puts."""
        return [line for line in self._lines if "status" in line]

    def max_phy_offset(self) -> int:
        """The end of its log."""
        self.wait_for(lambda lines: any("maxPhyOffset" in line for line in lines))
        return next(int(line["maxPhyOffset"]) for line in reversed(self._lines) if "maxPhyOffset" in line)

    def wait_dispatched(self, offset: int) -> None:
        """Waits until its log ends at an offset, and all of it is dispatched."""
        end = {"maxPhyOffset": offset, "dispatchedOffset": offset}
        self.wait_for(lambda lines: next((line for line in reversed(lines) if "maxPhyOffset" in line), None) == end)

    def stop(self) -> None:
        """Ends its input, and waits until it has closed its store."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(_RUN_TIMEOUT_S)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert code == 0, f"{self.process.args!r} ended with {code}: {self.errors()}"

    def errors(self) -> str:
        """What it wrote to standard error."""
        return self._errors.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class JavaStore:
    """Runs commands of the driver, any number beside each other, each in a JVM of its own."""

    def __init__(self, scratch: Path) -> None:
        """Builds the driver where that was not done yet; ``scratch`` takes what the commands read and print."""
        self._scratch = scratch
        self._runs: list[JavaRun | LiveJava] = []
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

    def start_live(self, command: str, directory: Path, options: Mapping[str, Any]) -> LiveJava:
        """Starts a master or a slave on a store."""
        errors = self._scratch / f"run-{len(self._runs)}.err"
        arguments = [str(_PEER / "run"), command, str(directory), *(f"{name}={text}" for name, text in options.items())]
        with errors.open("wb") as stderr:
            process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        live = LiveJava(process, errors)
        self._runs.append(live)
        return live

    def run(self, command: str, directory: Path, options: Mapping[str, Any], lines: Iterable[str] = ()) -> list[str]:
        """Runs a command, which has to end well, and gives the lines it printed."""
        return self.start(command, directory, options, lines).lines()

    def close(self) -> None:
        """Leaves no process behind."""
        for run in self._runs:
            run.kill()
