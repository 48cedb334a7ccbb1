"""The names of messages that wait: for the delay of their level, or for a time that was told with each."""

__all__ = ["DELIVER_AT", "SCHEDULE_TOPIC", "TIMED_TOPIC"]

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
"""Where those with a level wait, each level in a queue of its own."""
TIMED_TOPIC = "MQSTORE_TIMED_TOPIC"
"""Where those with a time wait, in queue 0; in queue 1 stands which of them are delivered."""
DELIVER_AT = "MQSTORE_DELIVER_AT"
"""The property that holds the time, in milliseconds, while they wait."""
