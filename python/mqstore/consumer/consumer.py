"""A member of a consumer group, as Python goes through messages.

Source: ``DefaultMQPushConsumerImpl``, ``ConsumeMessageConcurrentlyService``, ``ConsumeMessageOrderlyService``.
"""

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from mqstore._native import Message
from mqstore.consumer.hold import Held, PullHold, Waking
from mqstore.consumer.membership import Membership
from mqstore.consumer.process_queue import Place, ProcessQueue
from mqstore.consumer.pull import Pulled, Puller
from mqstore.consumer.rebalance import Rebalance
from mqstore.consumer.send_back import comes_again_here, is_given_up, seconds_until_again, send_message_back
from mqstore.consumer.settings import ConsumerSettings, Subscription, retry_topic
from mqstore.consumer.steps import Steps
from mqstore.errors import MessageIllegalError, MQStoreError, PutError, StoreClosedError
from mqstore.option_error import bad_argument
from mqstore.store.arguments import INT_MAX, check_function, check_timeout, checked_integer
from mqstore.store.message_waiters import TaskWaking

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["Consumer"]

_log = logging.getLogger("mqstore")
_PASSED_OVER_AT_ONCE = 0.005
"""For how many seconds a poll passes over what is not wanted before others have their turn."""
_PAUSE = 0.0001
"""For how many seconds they have it: a lock that is asked for again at once is had again, whoever waits for it."""
_AGAIN_AFTER_FAILED_PUT = 5.0
_Waking = TypeVar("_Waking", Waking, TaskWaking)
_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True, eq=False)
class _Hand:
    """A message that the user was given once; given again it is another of these."""

    message: Message
    queue: ProcessQueue
    place: Place


class Consumer:
    """A member of a group. Made by :meth:`MessageStore.consumer`.

    Going through it gives message after message and waits for what comes; a message counts as consumed
    when the next one is asked for. What was given and not consumed comes again: to this consumer after
    ``break``, to the group after a crash. Leaving a ``with`` block, or dropping it, closes it.

    A group's offsets are written every five seconds, when a queue changes hands, and at the end: after a
    crash what was consumed since comes again.
    """

    def __init__(self, store: "MessageStore", settings: ConsumerSettings) -> None:
        """Joins the group.

        Raises:
            OptionError: another consumer has this id, or the group may not do this.
            StoreClosedError: the store was closed meanwhile.
            MQStoreError: a configuration file is damaged.
        """
        self._is_closed = True
        self.settings = settings
        self._store, self._manager = store, store.consumers
        self._group = self._manager.group(settings.group)
        if not self._group.consume_enable:
            raise bad_argument("group", settings.group, "its consumeEnable is false")
        if not settings.is_clustering and not self._group.consume_broadcast_enable:
            raise bad_argument("message_model", "broadcasting", f"consumeBroadcastEnable of {settings.group} is false")
        self._lock = threading.RLock()
        self._polls: list[weakref.ref[Waking] | weakref.ref[TaskWaking]] = []
        """What wakes those who poll; each has one of its own, since none may take away what wakes another."""
        self._hold = PullHold(store)
        self._offsets = self._manager.offset_store(settings)
        self._membership = Membership(self._manager.folder(settings.group), settings.consumer_id)
        self._rebalance = Rebalance(store, settings, self._membership, self._offsets)
        self._puller = Puller(store, self._manager, settings, self._offsets)
        self._subscriptions = settings.subscriptions
        if settings.is_clustering:
            self._subscriptions += (Subscription(retry_topic(settings.group)),)
        self._handed: dict[int, _Hand] = {}
        self._steps = Steps()
        self._turn = 0
        self._changes = 0
        """Messages that were taken back from the user: a queue that waited for that may give its next one."""
        self._is_closed = False
        try:
            self._manager.add(self)
            # A store that another thread was closing has not closed this one, where it did not know it yet.
            self._check_open()
        except BaseException:
            with contextlib.suppress(MQStoreError):
                self.close()
            raise

    # ---- life cycle -------------------------------------------------------------------------

    @property
    def queues(self) -> list[tuple[str, int]]:
        """The topics and queues that it reads now."""
        with self._lock:
            return sorted(name for name, queue in list(self._rebalance.queues.items()) if not queue.is_dropped)

    def close(self) -> None:
        """Writes the offsets and leaves the group; a second call does nothing.

        Raises:
            StoreIOError: the offsets could not be written; it has left all the same.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._handed.clear()
            # Each whatever comes of the others: who has not left keeps queues that nobody reads.
            with contextlib.ExitStack() as leaving:
                leaving.callback(self._wake_all)
                leaving.callback(self._manager.remove, self)
                leaving.callback(self._membership.leave)
                self._rebalance.release_all()

    def abandon(self) -> None:
        """In a forked process: it goes on in the other one, and here it can neither be used nor closed."""
        self._is_closed = True
        # Who holds it may be a thread of the other process alone.
        self._lock = threading.RLock()
        self._steps = Steps()
        self._handed = {}

    def __enter__(self) -> Self:
        """The consumer itself."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    def __del__(self) -> None:
        """A consumer that is dropped leaves its group."""
        if not getattr(self, "_is_closed", True):
            self.close()

    def __repr__(self) -> str:
        """Group, topics and id."""
        topics = ", ".join(subscription.topic for subscription in self.settings.subscriptions)
        return f"<Consumer {self.settings.consumer_id} of {self.settings.group}: {topics}>"

    # ---- messages ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        """Message after message; one is consumed when the next is asked for."""
        hand = None
        try:
            while (hand := self._next(hand)) is not None:
                yield hand.message
        finally:
            self._give_back(hand)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """As ``for``, without holding up the loop."""
        hand = None
        try:
            while True:
                if hand is not None:
                    self._ack_if_handed(hand)
                hand = await self._poll_async(self.settings.timeout)
                if hand is None:
                    return
                yield hand.message
        finally:
            self._give_back(hand)

    def _next(self, done: _Hand | None) -> _Hand | None:
        if done is not None:
            self._ack_if_handed(done)
        return self._poll(self.settings.timeout, is_loop=True)

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next message, which is consumed when it is acked.

        Args:
            timeout: Waits at most so many seconds; forever by default.

        Returns:
            The message, or ``None`` when the time is up; the next call goes on behind the messages that were passed
            over until then, since they are not wanted.

        Raises:
            StoreClosedError: the store is closed, or was while this waited.
            MQStoreError: the consumer is closed; or a signal's handler asks without a timeout in the middle of another
                call of this consumer, where it finds nothing.
            OptionError: the timeout is no number of seconds.
        """
        check_timeout(timeout)
        hand = self._poll(timeout, is_loop=False)
        return None if hand is None else hand.message

    def _poll_at_once(self, timeout: float | None, given: list[_Hand]) -> bool:
        """Puts a message that is there into the list; gives whether there is nothing to wait for.

        So it is where a signal's handler polls in the middle of another call, which finds nothing.
        """
        with self._lock:
            if not self._steps.are_under_way:
                return self._poll_now(given) is Pulled.FOUND
            if timeout is None:
                raise MQStoreError("a signal's handler would wait for ever for a call that it has interrupted")
            return True

    def _poll(self, timeout: float | None, *, is_loop: bool) -> _Hand | None:
        given: list[_Hand] = []
        try:
            if not self._poll_at_once(timeout, given):
                polling = self._polling(timeout, given, is_loop=is_loop)
                woken = self._woken_with(Waking())
                with contextlib.suppress(StopIteration):
                    held, left = next(polling)
                    while True:
                        held, left = polling.send(self._hold.wait(held, left, woken))
            return given[0] if given else None
        except BaseException:  # Ctrl-C came before the user had it
            for hand in given:
                self._give_back(hand)
            raise

    async def _poll_async(self, timeout: float | None) -> _Hand | None:
        given: list[_Hand] = []
        if not self._poll_at_once(timeout, given):
            polling = self._polling(timeout, given, is_loop=True)
            woken = self._woken_with(TaskWaking())
            with contextlib.suppress(StopIteration):
                held, left = next(polling)
                while True:
                    held, left = polling.send(await self._hold.wait_async(held, left, woken))
        return given[0] if given else None

    def _woken_with(self, waking: _Waking) -> _Waking:
        """Has somebody who is about to poll woken, as long as there is what wakes him."""
        with self._lock:
            # A signal's handler may poll in between; whoever did is done when it comes back.
            self._polls = [*(poll for poll in self._polls if poll() is not None), weakref.ref(waking)]
        return waking

    def _wake_all(self) -> None:
        with self._lock:
            for poll in self._polls:
                waking = poll()
                if waking is not None:
                    waking.set()

    def _polling(
        self, timeout: float | None, given: list[_Hand], *, is_loop: bool
    ) -> Generator[tuple[Held | None, float], bool, None]:
        """A poll: gives what to wait for and how long at most, and is told whether it came.

        It ends with the message in the list, or without one when the time is up: a loop's begins behind what is there.
        """
        end = None if timeout is None else time.monotonic() + timeout
        # Another process's store tells of what has come when it is asked, which a poll without time has to do once.
        has_asked = self._store.mode != "r"
        while True:
            changes = self._changes
            pulled = self._poll_now(given)
            if pulled is Pulled.FOUND:
                return
            if pulled is Pulled.NOT_THROUGH:
                if is_loop and timeout is not None:
                    end = time.monotonic() + timeout
                elif end is not None and time.monotonic() >= end:
                    return
                yield None, _PAUSE
                continue
            with self._lock:
                held, until = self._step(self._held), time.monotonic() + self._hold.longest
            while not self._is_hold_over(held, until, changes):
                left = self._seconds_to_wait(end, until)
                if left is None:
                    if has_asked:
                        return
                    left = 0.0
                has_asked = True
                if (yield held, left):
                    break

    def ack(self, message: Message) -> None:
        """A message is consumed.

        Raises:
            StoreClosedError: the store was closed meanwhile; the message comes again.
            ValueError: it is not in hand: it was acked or given back, or another consumer gave it.
        """
        self._change(message, self._acked)

    def reconsume_later(self, message: Message, delay_level: int = 0) -> None:
        """A message could not be consumed: it comes again later.

        In a store that is open for writing it goes to the group's retry topic, with the delay of its
        attempt, and after ``retryMaxTimes`` attempts to the dead letters; that takes a store with
        ``schedule_messages=True`` to come back. Beside another process's store it comes again to this
        consumer. An orderly consumer's queue rests for a moment and begins with it again. Broadcast
        messages do not come again, as in 4.9.3.

        Args:
            message: The message.
            delay_level: Another delay level; less than 0 for the dead letters at once.

        Raises:
            StoreClosedError: the store was closed meanwhile; the message comes again.
            TypeError: the level is no integer; the message stays in hand.
            ValueError: it is not in hand; or the level is out of bounds, and it stays there.
        """
        delay_level = checked_integer("delay_level", delay_level, -INT_MAX - 1, INT_MAX)
        self._change(message, lambda queue, place: self._reconsumed_later(queue, place, message, delay_level))

    def run(self, listener: Callable[[Message], object]) -> None:
        """Gives every message to a function; one for which it raises comes again later.

        Ends as a ``for`` loop does.

        Raises:
            TypeError: it is no function.
        """
        check_function("listener", listener, "a function of a message")
        for message in self:
            try:
                listener(message)
            except Exception:
                _log.exception("%r: %s was not consumed", self, message.msg_id)
                self.reconsume_later(message)

    # ---- inside -----------------------------------------------------------------------------

    def _look_around(self) -> None:
        """What is due whether something comes or not: who is in the group."""
        self._check_open()
        self._rebalance.rebalance_if_due(self._subscriptions)

    def _take_back_what_nobody_has(self) -> None:
        """What Ctrl-C took out of a queue, or out of the user's hands, and left there comes again."""
        known = {(id(hand.queue), hand.place) for hand in self._handed.values()}
        for queue in list(self._rebalance.queues.values()):
            queue.settle()
            for place in [place for place in queue.in_hand if (id(queue), place) not in known]:
                queue.give_again(place, 0, orderly=False, is_attempt=False)
            self._rebalance.release_if_free(queue)

    def _step(self, change: Callable[[], _Outcome]) -> _Outcome:
        return self._steps.make(change, self._take_back_what_nobody_has)

    def _poll_now(self, given: list[_Hand]) -> Pulled:
        """Puts a message that is there into the list; gives whether there is one, or may be."""
        with self._lock:
            return self._step(lambda: self._take_next(given))

    def _take_next(self, given: list[_Hand]) -> Pulled:
        self._look_around()
        until = time.monotonic() + _PASSED_OVER_AT_ONCE
        queues = list(self._rebalance.queues.values())
        for turn in range(len(queues)):
            queue, pulled = queues[(self._turn + turn) % len(queues)], Pulled.NOTHING
            taken = queue.take(orderly=self.settings.orderly)
            if taken is None and queue.wants_pull:
                pulled = self._puller.pull(queue, until)
                taken = queue.take(orderly=self.settings.orderly) if pulled is Pulled.FOUND else None
            if taken is not None:
                place, message = taken
                given.append(_Hand(message, queue, place))
                self._handed[id(message)] = given[-1]
                pulled = Pulled.FOUND
            if taken is not None or pulled is Pulled.NOT_THROUGH:
                # Queues take turns, as the threads of 4.9.3's consumer give them.
                self._turn = (self._turn + turn + 1) % len(queues)
                return pulled
        return Pulled.NOTHING

    def persist(self) -> None:
        """Writes the offsets; it happens by itself every five seconds, whether anybody polls or not.

        Raises:
            StoreIOError: they cannot be written.
            StoreClosedError: the store is closed, or the other process's.
        """
        self._store._check_open()
        with self._lock:
            self._offsets.persist()

    def persist_if_free(self) -> bool:
        """Writes them, unless that would wait for somebody else; gives whether it did not have to.

        Who holds a lock may be the one that closes the store, in a signal's handler, and waits for who writes them.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._is_closed or self._offsets.persist_if_free()
        finally:
            self._lock.release()

    def _is_hold_over(self, held: Held, until: float, changes: int) -> bool:
        """Whether pulls are to be made again: they were held long enough, or are not the same any more."""
        with self._lock:
            return self._step(lambda: self._is_due(held, changes)) or time.monotonic() >= until

    def _is_due(self, held: Held, changes: int) -> bool:
        self._look_around()
        return self._changes != changes or self._held() != held or 0 in self._seconds_until_again()

    def _seconds_until_again(self) -> list[float]:
        until_again = [queue.seconds_until_again() for queue in self._rebalance.queues.values()]
        return [wait for wait in until_again if wait is not None]

    def _held(self) -> Held:
        return {
            name: (queue.next_offset, queue.subscription.codes)
            for name, queue in self._rebalance.queues.items()
            if queue.wants_pull
        }

    def _seconds_to_wait(self, end: float | None, until: float) -> float | None:
        """How long to wait until something is due; ``None`` where the time is up."""
        with self._lock:
            waits = self._step(self._seconds_until_again)
            waits += [self._rebalance.seconds_until_check(), max(0.0, until - time.monotonic())]
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                return None
            waits.append(left)
        return min(waits)

    def _check_open(self) -> None:
        self._store._check_open()
        if self._manager.is_closing:
            raise StoreClosedError("the store is closed")
        if self._is_closed:
            raise MQStoreError("the consumer is closed")

    def _change(self, message: Message, change: Callable[[ProcessQueue, Place], None]) -> None:
        """Takes a message out of the user's hands, for good or to be given again.

        Where a signal's handler asks for it in the middle of another change it comes behind that.
        """
        with self._lock:
            hand = self._handed.get(id(message))
            if hand is None:
                # What it had in hand when it was closed comes again.
                self._check_open()
                raise ValueError(f"{message!r} is not in the hands of {self!r}")
            if self._steps.are_under_way:
                self._steps.defer(lambda: self._take_if_in_hand(hand, change))
            else:
                self._step(lambda: self._take(hand, change))

    def _take_if_in_hand(self, hand: _Hand, change: Callable[[ProcessQueue, Place], None]) -> None:
        if self._has(hand):
            self._take(hand, change)

    def _take(self, hand: _Hand, change: Callable[[ProcessQueue, Place], None]) -> None:
        del self._handed[id(hand.message)]
        self._changes += 1
        self._wake_all()
        change(hand.queue, hand.place)

    def _has(self, hand: _Hand) -> bool:
        """Whether it is in hand still: not done with, nor given back and given to somebody else by now."""
        return self._handed.get(id(hand.message)) is hand

    def _ack_if_handed(self, hand: _Hand) -> None:
        with self._lock:
            if self._has(hand):
                self.ack(hand.message)

    def _give_back(self, hand: _Hand | None) -> None:
        """A loop was left: its last message comes again."""
        with self._lock:
            if hand is not None and self._has(hand):
                self._change(hand.message, self._given_back)

    def _given_back(self, queue: ProcessQueue, place: Place) -> None:
        queue.give_again(place, 0, orderly=False, is_attempt=False)
        self._rebalance.release_if_free(queue)

    def _acked(self, queue: ProcessQueue, place: Place) -> None:
        self._manager.figures_of(self.settings.group, queue.topic).ack_nums += 1
        self._done(queue, place)

    def _reconsumed_later(self, queue: ProcessQueue, place: Place, message: Message, delay_level: int) -> None:
        self._manager.figures_of(self.settings.group, queue.topic).send_back_nums += 1
        if not self.settings.is_clustering:
            _log.warning("%r: a broadcast message is not consumed again: %s", self, message.msg_id)
            self._done(queue, place)
        elif comes_again_here(self._store, self.settings, message, queue.attempts(place)):
            rest = seconds_until_again(self._store, self.settings, delay_level, queue.attempts(place))
            queue.give_again(place, rest, orderly=self.settings.orderly)
            self._rebalance.release_if_free(queue)
        else:
            self._send_back(queue, place, message, delay_level)

    def _done(self, queue: ProcessQueue, place: Place) -> None:
        queue.done(place)
        self._offsets.update_offset(queue.topic, queue.queue_id, queue.read_offset, queue.openings)
        self._rebalance.release_if_free(queue)

    def _send_back(self, queue: ProcessQueue, place: Place, message: Message, delay_level: int) -> None:
        # An orderly one has had its attempts here.
        level, attempts = (-1, 0) if self.settings.orderly else (delay_level, queue.attempts(place))
        most = self.settings.max_reconsume_times
        try:
            send_message_back(self._store, self._group, message, level, most, attempts=attempts)
        except MessageIllegalError:
            if not is_given_up(self._group, message, level, most, attempts):
                _log.exception("%r: %s comes again here: there is no room for it elsewhere", self, message.msg_id)
                rest = seconds_until_again(self._store, self.settings, level, attempts)
                queue.give_again(place, rest, orderly=False)
                self._rebalance.release_if_free(queue)
                return
            # It would hold up what the group has read for ever; where it was put it can be read still.
            _log.exception("%r: %s is passed over: there is no room for it in the dead letters", self, message.msg_id)
        except (PutError, MQStoreError):
            _log.exception("%r: %s comes again here", self, message.msg_id)
            queue.give_again(place, _AGAIN_AFTER_FAILED_PUT, orderly=self.settings.orderly, is_attempt=False)
            self._rebalance.release_if_free(queue)
            return
        except BaseException:  # Ctrl-C: nobody has it any more who could ack it
            queue.give_again(place, 0, orderly=self.settings.orderly)
            self._rebalance.release_if_free(queue)
            raise
        self._done(queue, place)
