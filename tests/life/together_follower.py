"""A process that follows the store of ``test_together`` until its input ends.

``python -m tests.life.together_follower DIRECTORY``: prints how many messages it has seen, a line a look.
"""

import sys
import threading

import mqstore
from tests.life.together_messages import Seen
from tests.store.conftest import SMALL


def main() -> None:
    """Ends well where all that it saw was right."""
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    seen = Seen()
    with mqstore.open(sys.argv[1], **SMALL) as store:
        while not ended.is_set():
            store.refresh()
            seen.read_queues(store)
            print(seen.count, flush=True)  # noqa: T201 - this is what it is for
        assert store.rejected_count == 0


if __name__ == "__main__":
    main()
