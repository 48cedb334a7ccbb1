"""The changes of what a consumer has, one at a time: Ctrl-C and signals' handlers come between any of their steps."""

from collections import deque
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Steps"]

_Outcome = TypeVar("_Outcome")


class Steps:
    """Whoever makes a change, or asks for one, has its consumer's lock.

    While a change is under way only its own thread comes here again: in a signal's handler, or where a function of the
    user's that is asked for something asks the consumer.
    """

    def __init__(self) -> None:
        """All is whole."""
        self._is_under_way = False
        self._is_whole = True
        self._deferred: deque[Callable[[], object]] = deque()

    @property
    def are_under_way(self) -> bool:
        """Whether this thread is in the middle of a change."""
        return self._is_under_way

    def make(self, change: Callable[[], _Outcome], mend: Callable[[], None]) -> _Outcome:
        """Makes a change, and those that were asked for meanwhile.

        Where one before it was broken off, what that has left over is mended first.
        """
        # Ctrl-C comes behind calls and as a loop goes round: before the block and at its end there is neither.
        self._is_under_way = True
        try:
            if not self._is_whole:
                mend()
            self._is_whole = False
            outcome = change()
            while self._deferred:
                self._deferred.popleft()()
            self._is_whole = True
            return outcome
        finally:
            self._is_under_way = False

    def defer(self, change: Callable[[], object]) -> None:
        """A change that is made behind the one that is under way, or, where that is broken off, behind the next one."""
        self._deferred.append(change)
