"""Where the halves of this process's transactions stand by now."""

from mqstore.store.half_messages import LocalTransactionState

__all__ = ["HalfPlaces", "Place"]

Place = int | LocalTransactionState
"""Where a half stands in the log, or what a check has decided on it."""


class HalfPlaces:
    """Where halves stand by now, by where they were prepared, and the other way round: checks move many."""

    def __init__(self) -> None:
        """Of no half."""
        self._now: dict[int, Place] = {}
        self._prepared: dict[int, int] = {}

    def __len__(self) -> int:
        """Of how many."""
        return len(self._now)

    def now(self, prepared_at: int) -> Place:
        """Where one stands that was prepared there; where nothing is known of it, there still."""
        return self._now.get(prepared_at, prepared_at)

    def set(self, prepared_at: int, now_at: Place) -> None:
        """One that was prepared there stands elsewhere by now, or was decided on."""
        self.forget(prepared_at)
        self._now[prepared_at] = now_at
        if not isinstance(now_at, LocalTransactionState):
            self._prepared[now_at] = prepared_at

    def prepared_at(self, now_at: int) -> int | None:
        """Where one was prepared that stands there now; ``None`` where nothing is known of it."""
        return self._prepared.get(now_at)

    def forget(self, prepared_at: int) -> None:
        """Nothing is to be known of it any more."""
        now_at = self._now.pop(prepared_at, None)
        if now_at is not None and not isinstance(now_at, LocalTransactionState):
            self._prepared.pop(now_at, None)
