"""What follows from a repaired log, made anew: queues, index and checkpoint."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from mqstore import _native
from mqstore.errors import MQStoreError
from mqstore.option_error import bad_option
from mqstore.options import StoreOptions
from mqstore.store.delayed import TIMED_TOPIC
from mqstore.store.group_offsets import first_unread, read_up_to
from mqstore.store.message_store import MessageStore
from mqstore.verify.lost_messages import Lost, Told
from mqstore.verify.lost_messages import lost as lost_of

__all__ = ["MadeAnew", "Makes", "derive"]

_NOBODY = "127.0.0.1:0"


@dataclass(frozen=True, kw_only=True)
class MadeAnew:
    """What a store is then."""

    lost: Lost
    """The messages that it has not."""
    message_count: int
    """Those that it has."""
    ends: dict[tuple[str, int], int]
    """The next offset of each queue."""
    unread: Mapping[tuple[str, int, int], int]
    """Of a queue, and a place up to which groups have read the log: the first message that they have not read, if there
    is one."""
    timed_again_count: int
    """Timed messages of which it is lost whether they are delivered."""


class Makes(NamedTuple):
    """Whether a store's options make further queues from messages that name them."""

    further: bool
    """Any."""
    light: bool
    """Light ones as such."""

    @classmethod
    def of(cls, options: StoreOptions) -> Self:
        """What options make."""
        return cls(options.enable_multi_dispatch, options.enable_lmq)

    def options(self) -> dict[str, bool]:
        """Options that make the same."""
        return {"enable_multi_dispatch": self.further, "enable_lmq": self.light}

    def refuse_lack(self, queue: tuple[str, int] | None) -> None:
        """Refuses to make a store anew without a queue that it has.

        Args:
            queue: One that other options make, where the store has such a queue.

        Raises:
            OptionError: it has.
        """
        if queue is None or (self.further and self.light):
            return
        lacking, (topic, queue_id) = "enableLmq" if self.further else "enableMultiDispatch", queue
        problem = f"the repaired store would lack the queue {topic} {queue_id}, which messages name"
        raise bad_option(lacking, "false", f"{problem}: give it as the store's broker has it")


def derive(
    options: StoreOptions,
    told: Iterable[Told],
    holes: Iterable[tuple[int, int, str | None]],
    end: int,
    under: _native.LogView | None = None,
) -> MadeAnew:
    """Makes them, and finds what is lost.

    Args:
        options: Those of the store, which has none of them.
        told: The messages that it told of where nothing is.
        holes: Where its log had none.
        end: Where that ends.
        under: What holds the store's lock, where others could open it.
    """
    # Without them the engine dispatches the whole log when it opens the store.
    with MessageStore(
        options,
        mode="rw",
        compat=False,
        truncate_on_damage=False,
        pread=False,
        ranges=None,
        clock=None,
        born_host=_NOBODY,
        store_host=_NOBODY,
        mended_to=end,
        under=under,
    ) as repaired:
        places = [(begin, behind) for begin, behind, _ in holes]
        lost, message_count = lost_of(repaired, told, places)
        ends = {(topic, queue_id): behind for topic, queue_id, _, behind, _ in repaired._queues()}
        up_to = read_up_to(repaired.path)
        unread = {read: first for read in up_to if (first := first_unread(repaired, *read)) is not None}
        counted, due_count, is_put, reason = repaired._engine.mend_timed(places)
        if reason is not None:
            raise MQStoreError(f"{repaired.path}: which timed messages are delivered could not be put: {reason}")
        newest = -1 if counted is None else counted
        is_known = not any(one[:2] == (TIMED_TOPIC, 1) and one[2] > newest for one in lost)
        return MadeAnew(
            lost=lost,
            message_count=message_count + is_put,
            ends=ends,
            unread=unread,
            timed_again_count=0 if is_known else due_count,
        )
