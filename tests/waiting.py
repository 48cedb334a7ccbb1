"""Waiting for what another thread does."""

import time
from collections.abc import Callable

__all__ = ["wait_until"]

_TIMEOUT_S = 60


def wait_until(is_so: Callable[[], bool], *, timeout_s: float = _TIMEOUT_S) -> None:
    """Waits until something is so.

    Raises:
        TimeoutError: it was not in time.
    """
    end = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() >= end:
            raise TimeoutError(f"waited {timeout_s} s in vain")
        time.sleep(0.002)
