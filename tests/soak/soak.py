"""Everything at once for a while: puts, a group of consumers, delays, timed messages, retention and a slave.

Ends with its figures as one JSON line, and with an error where a message is missing or comes twice, the
slave or a consumer lags behind at the end, or memory or open files have grown.
"""

import argparse
import json
import logging
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import mqstore

QUEUES = 4
LATER = "later"
BODY = bytes(1000)
BATCH = 50
DELAYED_IN_BATCH = 5
TIMED_AHEAD_MS = 1500
CONSUMERS = 2
OPTIONS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 20_000 * 20,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
    "messageDelayLevel": "1s",
    "haListenPort": 0,
    "fileReservedTime": 0,
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    "cleanResourceInterval": 1000,
    "flushConsumeQueueThoroughInterval": 5000,
}
ALLOWED_GROWTH = 1.25
"""Of memory, between the end of the warm-up and the end."""
WARM_UP = 0.2
"""Of the whole time."""
END_TIMEOUT_S = 60


class Soak:
    """One run."""

    def __init__(self, folder: Path, rate: int) -> None:
        """Opens a master and its slave."""
        self.rate = rate
        self.master = mqstore.open(
            folder / "master", "rw", schedule_messages=True, retention=True, replication=True, **OPTIONS
        )
        address = self.master.replication.listen_address
        self.slave = mqstore.open(
            folder / "slave",
            "rw",
            retention=True,
            replication=True,
            brokerRole="SLAVE",
            haMasterAddress=address,
            **OPTIONS,
        )
        self.stopping = threading.Event()
        self.failures: list[str] = []
        self.put_counts = [0] * QUEUES
        self.delayed_count = 0
        self.consumed: dict[tuple[str, int], int] = {}
        self.taking = threading.Lock()

    def produce(self) -> None:
        """Puts messages to all queues at the wanted rate; some of them for later."""
        begin, count = time.monotonic(), 0
        while not self.stopping.is_set():
            for number in range(BATCH):
                queue_id = (count + number) % QUEUES
                self.master.put("orders", BODY, queue_id=queue_id, keys=f"key-{count + number}", tags="soak")
                self.put_counts[queue_id] += 1
            for number in range(DELAYED_IN_BATCH):
                if number % 2:
                    self.master.put(LATER, BODY, queue_id=0, deliver_at=self.master.now() + TIMED_AHEAD_MS)
                else:
                    self.master.put(LATER, BODY, queue_id=0, delay_time_level=1)
                self.delayed_count += 1
            count += BATCH
            self.stopping.wait(max(0.0, begin + count / self.rate - time.monotonic()))

    def consume(self) -> None:
        """A member of the group: takes what comes, until everything that was put has come."""
        deadline: float | None = None
        with self.master.consumer("soak", ["orders", LATER], from_where="first", timeout=0.2) as consumer:
            while not self.failures:
                for message in consumer:
                    self._take(message)
                if not self.stopping.is_set():
                    continue
                deadline = deadline or time.monotonic() + END_TIMEOUT_S
                if self._lag() == 0:
                    return
                if time.monotonic() > deadline:
                    self.failures.append(f"{self._lag()} messages did not come")

    def _take(self, message: mqstore.Message) -> None:
        place = message.topic, message.queue_id
        with self.taking:
            expected = self.consumed.get(place, 0)
            if message.queue_offset != expected:
                self.failures.append(f"{place}: expected {expected}, found {message.queue_offset}")
            self.consumed[place] = message.queue_offset + 1

    def _lag(self) -> int:
        """Messages that were put and have not come: those that wait for their time too."""
        return sum(self.put_counts) + self.delayed_count - sum(list(self.consumed.values()))

    def run(self, seconds: float) -> dict[str, Any]:
        """Runs for so long; gives the figures."""
        threads = [threading.Thread(target=self.produce)]
        threads += [threading.Thread(target=self.consume) for _ in range(CONSUMERS)]
        for thread in threads:
            thread.start()
        samples = self._watch(seconds)
        self.stopping.set()
        for thread in threads:
            thread.join()
        if not self.master.replication.wait_for_slave(timeout=END_TIMEOUT_S):
            self.failures.append(f"the slave is {self.master.slave_fall_behind_much()} bytes behind")
        return self._figures(seconds, samples)

    def _watch(self, seconds: float) -> list[dict[str, int]]:
        samples = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(min(1.0, seconds / 20))
            samples.append(
                {
                    "memory_bytes": anonymous_bytes(),
                    "open_files": len(list(Path("/proc/self/fd").iterdir())),
                    "consumer_lag": self._lag(),
                    "slave_lag_bytes": self.master.slave_fall_behind_much(),
                    "dispatch_lag_bytes": self.master.dispatch_behind_bytes(),
                    "log_bytes": self.master.get_max_phy_offset() - self.master.get_min_phy_offset(),
                }
            )
        return samples

    def _consumed_of(self, topic: str) -> list[int]:
        return [offset for (name, _), offset in list(self.consumed.items()) if name == topic]

    def _figures(self, seconds: float, samples: list[dict[str, int]]) -> dict[str, Any]:
        steady = samples[int(len(samples) * WARM_UP) :]
        quarter = max(1, len(steady) // 4)
        for name in ("memory_bytes", "open_files"):
            first = max(sample[name] for sample in steady[:quarter])
            last = min(sample[name] for sample in steady[-quarter:])
            if last > first * ALLOWED_GROWTH:
                self.failures.append(f"{name} has grown from {first} to {last}")
        return {
            "seconds": seconds,
            "put": sum(self.put_counts),
            "delayed": self.delayed_count,
            "consumed": sum(self._consumed_of("orders")),
            "delivered": sum(self._consumed_of(LATER)),
            "log_deleted_bytes": self.master.get_min_phy_offset(),
            "memory_bytes_after_warm_up": steady[0]["memory_bytes"],
            "memory_bytes_at_the_end": steady[-1]["memory_bytes"],
            **{f"max_{name}": max(sample[name] for sample in steady) for name in steady[0]},
            "slave_lag_bytes_at_the_end": self.master.slave_fall_behind_much(),
            "failures": self.failures,
        }

    def close(self) -> None:
        """Closes both stores."""
        self.slave.close()
        self.master.close()


def anonymous_bytes() -> int:
    """Memory of this process that is no file's."""
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines():
        name, _, size = line.partition(":")
        if name == "Anonymous":
            return int(size.split()[0]) * 1024
    raise LookupError("Anonymous")


def main() -> int:
    """Runs as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=int, default=5000, help="puts a second")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="mqstore-soak-") as folder:
        soak = Soak(Path(folder), given.rate)
        try:
            figures = soak.run(given.seconds)
        finally:
            soak.close()
    sys.stdout.write(json.dumps(figures) + "\n")
    return 1 if figures["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
