"""asyncio tasks that wait until the log is safe: on the disk, or at a slave."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from mqstore._native import Bell
from mqstore.errors import StoreIOError

__all__ = ["OffsetWaiters"]

_LINGER = 0.1
"""For how long a loop of which nobody waits any more counts as one whose next put comes soon, in seconds."""

# Each is called once a put, of which looking a name up in two modules would be a part.
_Future, _running_loop, _now_s = asyncio.Future, asyncio.get_running_loop, time.monotonic


class _OfLoop:
    """The tasks of one event loop that wait, by their offsets. Used in the loop's thread alone."""

    def __init__(self, waiters: "OffsetWaiters", loop: asyncio.AbstractEventLoop) -> None:
        self.bell = Bell()
        self._waiters = waiters
        self._loop = loop
        loop.add_reader(self.bell.fileno(), self._rung)
        self._timer: asyncio.TimerHandle | None = None
        self.is_told = False
        """Whether it is to look already: a loop that does not run would keep every call."""
        self.told = 0
        """How far it was told that it is."""
        # A loop puts one message after the other: offsets and times come in their order.
        self._waiting: deque[tuple[int, float, asyncio.Future[bool], int]] = deque()

    def add(self, offset: int, start: int = 0) -> "asyncio.Future[bool]":
        future: asyncio.Future[bool] = _Future(loop=self._loop)
        waiting = self._waiting
        if not waiting:
            self._call_later(self._waiters.timeout_s, self._expire)
        waiting.append((offset, _now_s(), future, start))
        return future

    def look(self) -> None:
        """Looks how far it is."""
        self.is_told = False
        self.reached(max(self.told, self._waiters.now()))

    def _rung(self) -> None:
        self.bell.silence()
        self.reached(self._waiters.now())

    def reached(self, offset: int) -> None:
        waiting = self._waiting
        if not waiting:
            return
        is_there, left = self._waiters.is_there, []
        while waiting and waiting[0][0] <= offset:
            one = waiting.popleft()
            end, _, future, start = one
            # A task that was cancelled does not wait any more.
            if future.done():
                continue
            if is_there is None or is_there(start, end):
                future.set_result(True)
            else:
                left.append(one)
        waiting.extendleft(reversed(left))
        self._rest()

    def failed(self, error: BaseException | None) -> None:
        if not self._waiting:
            return
        while self._waiting:
            future = self._waiting.popleft()[2]
            if future.done():
                continue
            if error is None:
                future.set_result(False)
            else:
                future.set_exception(error)
        self._rest()

    def _expire(self) -> None:
        began_by = _now_s() - self._waiters.timeout_s
        while self._waiting and self._waiting[0][1] <= began_by:
            future = self._waiting.popleft()[2]
            if not future.done():
                future.set_result(False)
        if self._waiting:
            self._call_later(self._waiting[0][1] - began_by, self._expire)
        self._rest()

    def _rest(self) -> None:
        if not self._waiting:
            self._call_later(_LINGER, self._end)

    def _end(self) -> None:
        self._loop.remove_reader(self.bell.fileno())
        self._waiters.drop(self._loop, self)

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, call)


class OffsetWaiters:
    """asyncio tasks that wait until the log is safe up to an offset: on the disk, or at a slave."""

    def __init__(
        self,
        timeout_ms: int,
        now: Callable[[], int],
        changed: Callable[[], None] | None = None,
        is_there: Callable[[int, int], bool] | None = None,
    ) -> None:
        """Nobody waits yet.

        Args:
            timeout_ms: How long each waits.
            now: Up to where the log is safe.
            changed: Called when the bells to ring are others than before.
            is_there: Whether messages are safe, from an offset to another, where not all is that stands before ``now``.
        """
        self.timeout_s = timeout_ms / 1000
        self.now = now
        self.is_there = is_there
        self._changed = changed
        # Without a lock: a signal's handler may close the store, and so wait for a service that asks for it.
        self._loops: dict[asyncio.AbstractEventLoop, _OfLoop] = {}

    @property
    def in_time(self) -> str:
        """How long each waits, in words."""
        return f"within {self.timeout_s * 1000:.0f} ms"

    def bells(self) -> list[Bell]:
        """Which bells tell those who wait to look again."""
        return [of_loop.bell for of_loop in list(self._loops.values())]

    def wait(self, offset: int, start: int = 0) -> "asyncio.Future[bool]":
        """A future of the running loop: whether the log is safe up to the offset before the time is up.

        Args:
            offset: Where the messages end that have to be safe.
            start: Where they begin.

        Raises:
            StoreIOError: the system has nothing left by which the loop could be told.
        """
        loop = _running_loop()
        of_loop = self._loops.get(loop)
        if of_loop is not None:
            return of_loop.add(offset, start)
        try:
            of_loop = self._loops[loop] = _OfLoop(self, loop)
        except OSError as refused:
            raise _not_told(refused) from refused
        self._tell_changed()
        future = of_loop.add(offset, start)
        # Nobody told this loop of what was reached between the put and now.
        of_loop.reached(self.now())
        return future

    def reached(self, offset: int) -> None:
        """The log is safe up to here. Called by any thread."""
        for loop, of_loop in self._told():
            of_loop.told = max(of_loop.told, offset)
            if not of_loop.is_told:
                of_loop.is_told = True
                self._call_in(loop, of_loop, of_loop.look)

    def failed(self, error: BaseException) -> None:
        """It will not get there any more. Called by any thread."""
        for loop, of_loop in self._told():
            self._call_in(loop, of_loop, of_loop.failed, error)

    def given_up(self) -> None:
        """Nobody will say any more whether it got there. Called by any thread."""
        for loop, of_loop in self._told():
            self._call_in(loop, of_loop, of_loop.failed, None)

    def _told(self) -> list[tuple[asyncio.AbstractEventLoop, _OfLoop]]:
        """Those who are to be told; a loop that was closed, with what it was told last, is let go."""
        loops = list(self._loops.items())
        for loop, of_loop in loops:
            if loop.is_closed():
                self.drop(loop, of_loop)
        return [(loop, of_loop) for loop, of_loop in loops if not loop.is_closed()]

    def _call_in(
        self, loop: asyncio.AbstractEventLoop, of_loop: _OfLoop, call: Callable[..., None], *given: object
    ) -> None:
        try:
            loop.call_soon_threadsafe(call, *given)
        except RuntimeError:
            # A loop that was closed meanwhile has nobody left who waits.
            self.drop(loop, of_loop)

    def drop(self, loop: asyncio.AbstractEventLoop, of_loop: _OfLoop) -> None:
        """Of these tasks none waits any more. Others of the same loop may, by now."""
        if self._loops.get(loop) is not of_loop:
            return
        # By its own thread, or once it is closed and nobody waits in it: another one does not come in between.
        self._loops.pop(loop, None)
        self._tell_changed()

    def _tell_changed(self) -> None:
        if self._changed is not None:
            self._changed()


def _not_told(refused: OSError) -> StoreIOError:
    text = f"the message is stored; its loop cannot be told that it is confirmed: {refused.strerror}"
    return StoreIOError.of(text, refused.errno)
