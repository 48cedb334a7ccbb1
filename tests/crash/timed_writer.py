"""The process that is killed while it puts and delivers timed messages.

``python -m tests.crash.timed_writer DIRECTORY OPTIONS LIFE``. After ``"opened"`` each acknowledged put is a line on
standard output: the numbers that it put.
"""

import json
import os
import random
import sys
import time

import mqstore


def _say(what: object) -> None:
    os.write(sys.stdout.fileno(), (json.dumps(what) + "\n").encode())


def main() -> None:
    """Lives until it is killed."""
    directory, options, life = sys.argv[1:]
    store = mqstore.open(directory, "rw", schedule_messages=True, **json.loads(options))
    _say("opened")
    rnd, number = random.Random(int(life)), int(life) * 1_000_000
    while True:
        numbers = list(range(number, number + rnd.randint(1, 40)))
        now_ms = time.time_ns() // 1_000_000
        # Some are due at once, some when the process is long dead; several at the same time.
        due = [now_ms + rnd.choice([0, 1, 5, 5, 20, 100, 1000]) for _ in numbers]
        bodies = [b"%d %d" % each for each in zip(numbers, due, strict=True)]
        store.put_many("orders", bodies, queue_id=0, deliver_at=due)
        _say(numbers)
        number += len(numbers)


if __name__ == "__main__":
    main()
