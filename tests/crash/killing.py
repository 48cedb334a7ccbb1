"""Starting the writer and killing it at a random moment."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

__all__ = ["Acknowledged", "KilledProcess", "kill_while_opening", "kill_while_putting"]

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Acknowledged:
    """Where a put said that a message is."""

    name: str
    topic: str
    queue_id: int
    offset: int
    queue_offset: int


class KilledProcess:
    """A process that prints JSON lines until it is killed."""

    def __init__(self, module: str, *arguments: str) -> None:
        """Starts a module."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        """The process."""
        return self

    def __exit__(self, *_raised: object) -> None:
        """Leaves none behind."""
        self.process.kill()
        self.process.communicate()

    def line(self) -> Any:
        """The next line; ``None`` at the end. A writer that ends by itself has failed."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def kill(self) -> None:
        """Kills it."""
        self.process.kill()

    def check_killed(self) -> None:
        """It was this test that ended it, and nothing else."""
        assert self.process.stderr is not None
        errors = self.process.stderr.read().decode()
        assert self.process.wait() < 0, errors
        assert not errors


def _writer(directory: Path, options: Mapping[str, Any], life: int, threads: int) -> KilledProcess:
    return KilledProcess("tests.crash.writer", str(directory), json.dumps(dict(options)), str(life), str(threads))


def kill_while_putting(
    directory: Path, options: Mapping[str, Any], life: int, rnd: random.Random, most_acks: int
) -> list[Acknowledged]:
    """Lets a writer put until some random moment and gives everything that it said it had put."""
    acks: list[Acknowledged] = []
    with _writer(directory, options, life, rnd.randint(1, 4)) as writer:
        assert [writer.line(), writer.line()] == ["opening", "opened"]
        wanted = rnd.randint(0, most_acks)
        while len(acks) < wanted and (line := writer.line()) is not None:
            acks.extend(Acknowledged(*ack) for ack in line)
        time.sleep(rnd.random() * 0.002)  # between two acknowledgements too
        writer.kill()
        while (line := writer.line()) is not None:
            acks.extend(Acknowledged(*ack) for ack in line)
        writer.check_killed()
    return acks


def kill_while_opening(directory: Path, options: Mapping[str, Any], rnd: random.Random) -> bool:
    """Opens a store in another process, which is killed at a random moment; gives whether it got through."""
    with _writer(directory, options, 0, 0) as writer:
        assert writer.line() == "opening"
        time.sleep(rnd.random() ** 2 * 0.08)
        writer.kill()
        rest = []
        while (line := writer.line()) is not None:
            rest.append(line)
    return "closed" in rest
