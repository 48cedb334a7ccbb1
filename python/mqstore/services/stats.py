"""Rates over the last minutes, and what came by midnight. Source: ``StoreStatsService``, ``BrokerStats``."""

import time
from collections import deque
from typing import TYPE_CHECKING

from mqstore.services.service import ServiceThread

if TYPE_CHECKING:
    from mqstore.store.message_store import MessageStore

__all__ = ["StoreStatsService"]

_FREQUENCY_OF_SAMPLING_MS = 1000
_MAX_RECORDS_OF_SAMPLING = 60 * 10
_SPANS_S = (10, 60, 600)
_NAMES = ("putTps", "getFoundTps", "getMissTps", "getTransferedTps")
_TOTAL = ("getFoundTps", "getMissTps")


class StoreStatsService(ServiceThread):
    """Notes a store's counters every second, for ten minutes, and at midnight."""

    def __init__(self, store: "MessageStore") -> None:
        """A service of a store, not started yet."""
        super().__init__(store)
        self.boot_timestamp = self.engine.now()
        """When the store was opened, in milliseconds."""
        self._samples: deque[tuple[float, tuple[int, ...]]] = deque(maxlen=_MAX_RECORDS_OF_SAMPLING + 1)
        self._day = _day_of(self.engine.now())
        self._yesterday_morning = self._today_morning = (0, 0)

    def make_pass(self) -> None:
        """Notes the counters, and waits for the next second."""
        store = self.store()
        if store is not None:
            self.sample(store)
        del store  # it is not held while this waits
        self.wait(_FREQUENCY_OF_SAMPLING_MS)

    def sample(self, store: "MessageStore") -> None:
        """Notes the counters."""
        found, miss, transfered, _ = store._get_figures()
        put = store._put_figures()[0]
        self._samples.append((time.monotonic(), (put, found, miss, transfered)))
        day = _day_of(self.engine.now())
        if day > self._day:
            self._day = day
            self._yesterday_morning, self._today_morning = self._today_morning, (put, transfered)

    def totals(self) -> dict[str, int]:
        """By 4.9.3's names, messages put and got up to the last midnight and the one before, by local time."""
        return {
            "msgPutTotalYesterdayMorning": self._yesterday_morning[0],
            "msgPutTotalTodayMorning": self._today_morning[0],
            "msgGetTotalYesterdayMorning": self._yesterday_morning[1],
            "msgGetTotalTodayMorning": self._today_morning[1],
        }

    def rates(self) -> dict[str, str]:
        """By 4.9.3's names, what happened a second in the last 10, 60 and 600 samples; "" where they are fewer."""
        samples = list(self._samples)
        by_span = [_rates(samples[-1 - span], samples[-1]) if len(samples) > span else None for span in _SPANS_S]
        of_each = {
            name: ["" if rates is None else str(rates[at]) for rates in by_span] for at, name in enumerate(_NAMES)
        }
        totals = [0.0 if rates is None else sum(rates[_NAMES.index(name)] for name in _TOTAL) for rates in by_span]
        of_each["getTotalTps"] = [str(total) for total in totals]
        return {name: " ".join(rates) for name, rates in of_each.items()}


def _day_of(time_ms: int) -> tuple[int, int, int]:
    local = time.localtime(time_ms / 1000)
    return local.tm_year, local.tm_mon, local.tm_mday


def _rates(before: tuple[float, tuple[int, ...]], now: tuple[float, tuple[int, ...]]) -> list[float]:
    seconds = now[0] - before[0]
    return [(last - first) / seconds if seconds > 0 else 0.0 for first, last in zip(before[1], now[1], strict=True)]
