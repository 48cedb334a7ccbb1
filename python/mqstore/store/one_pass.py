"""What is done once at a time over a whole store."""

import threading
from dataclasses import dataclass, field

__all__ = ["OnePass"]


@dataclass
class OnePass:
    """A kind of pass, during which users' functions may be called, and signals' handlers.

    These may ask for the same pass: their thread would wait for itself.
    """

    what: str
    """What is done."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held meanwhile."""
    thread: int | None = None
    """Which thread is at it."""
