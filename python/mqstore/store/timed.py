"""The names of timed messages, which are delivered at a time that was told with each."""

__all__ = ["DELIVER_AT", "TIMED_TOPIC"]

TIMED_TOPIC = "MQSTORE_TIMED_TOPIC"
"""Where they wait, in queue 0; in queue 1 stands which of them are delivered."""
DELIVER_AT = "MQSTORE_DELIVER_AT"
"""The property that holds the time, in milliseconds, while they wait."""
