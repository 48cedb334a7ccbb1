"""The process that is killed: opens a store and puts from several threads until it dies.

``python -m tests.crash.writer DIRECTORY OPTIONS LIFE THREADS``. Each acknowledged put is a line on
standard output, written in one piece before the next put: JSON of ``[name, topic, queue id, offset in
the log, offset in the queue]`` for each message of the call. The first lines are ``"opening"`` and
``"opened"``. With no threads it closes the store again and says ``"closed"``.
"""

import json
import os
import sys
import threading
from typing import Any

import mqstore
from tests.crash.stream import body_of, properties_of, puts


def _say(what: Any) -> None:
    os.write(sys.stdout.fileno(), (json.dumps(what) + "\n").encode())


def _put(store: mqstore.MessageStore, life: int, thread: int) -> None:
    for put in puts(life, thread):
        bodies = [body_of(name) for name in put.names]
        properties = [properties_of(name) for name in put.names]
        if put.is_many:
            done = store.put_many(put.topic, bodies, keys=list(put.names), queue_id=put.queue_id, properties=properties)
        else:
            name, queue_id = put.names[0], put.queue_id
            done = store.put(put.topic, bodies[0], keys=name, tags="TagA", queue_id=queue_id, properties=properties[0])
        places = zip(put.names, done.wrote_offsets, done.logics_offsets, strict=True)
        _say([[name, put.topic, put.queue_id, offset, number] for name, offset, number in places])


def main() -> None:
    """Lives until it is killed."""
    directory, options, life, threads = sys.argv[1:]
    _say("opening")
    store = mqstore.open(directory, "rw", **json.loads(options))
    _say("opened")
    if threads == "0":
        store.close()
        _say("closed")
        return
    putting = [threading.Thread(target=_put, args=(store, int(life), number)) for number in range(int(threads))]
    for thread in putting:
        thread.start()


if __name__ == "__main__":
    main()
