"""What retention does to a store that is open, done when a test wants it."""

import mqstore

__all__ = ["expire"]


def expire(store: mqstore.MessageStore, count: int) -> None:
    """Removes the first log files, and what goes with them of queues and index."""
    store._reput()
    store.flush()
    for _ in range(count):
        assert store._delete_expired_log_file(0, at_once=True, keep_from=None) is not None
    for topic, queue_id, *_ in store._queues():
        store._delete_expired_queue_files(topic, queue_id)
    store._delete_expired_index_files()
