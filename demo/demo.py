"""The main job, end to end: a store that Java wrote is read, searched, written to, and recovered.

At the end Spark rebuilds and audits the store. Run by ``make demo``. Everything happens in a temporary folder.
"""

import datetime as dt
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

import mqstore
from mqstore.spark import spark_session
from mqstore.spark.audit import audit
from mqstore.spark.rebuild import rebuild

SHIPPED = Path(__file__).parent / "java-store.tar.gz"
OPTIONS = {"maxHashSlotNum": 50_000, "maxIndexNum": 200_000}
SINGLE_COUNT = 200_000
BATCH_COUNT = 200
BATCH_SIZE = 1000
KILLED_AFTER = 20_000
BODY = os.urandom(200)

console = Console()


def timed(what: str, count: int, work: Callable[[], object]) -> None:
    """Does something and says how fast."""
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    console.print(f"  {what}: {count:,} in {seconds:.2f} s, {count / seconds:,.0f} a second")


def show_queues(store: mqstore.MessageStore) -> None:
    """The store's topics as a table."""
    table = Table("topic", "queues", "messages", "first stored", title="What Java's store holds")
    for name in store.topics():
        topic = store.topic(name)
        first = next(iter(topic))
        stored = dt.datetime.fromtimestamp(first.store_timestamp / 1000, dt.UTC)
        table.add_row(name[:40], str(len(topic.queues)), str(len(topic)), f"{stored:%Y-%m-%d %H:%M:%S.%f} UTC"[:27])
    console.print(table)


def read(store: mqstore.MessageStore) -> None:
    """By queue, by key, by time."""
    queue = store.topic("orders").queue(0)
    console.print(f"[bold]by queue[/]  {queue} holds {len(queue)} messages; the last: {queue[-1]}")
    message = next(message for message in store.topic("orders") if message.keys)
    found = store.select("orders", key=message.keys[0])
    console.print(f"[bold]by key[/]    {message.keys[0]!r} is a key of {found.count()} messages of orders")
    middle = queue[len(queue) // 2].store_timestamp
    console.print(f"[bold]by time[/]   {middle} is offset {queue.offset_by_time(middle)} of that queue")


def write(store: mqstore.MessageStore) -> None:
    """A few hundred thousand messages, one a call and a thousand a call."""
    console.print("[bold]appending[/]")

    def one_by_one() -> None:
        for number in range(SINGLE_COUNT):
            store.put("demo", BODY, keys=f"demo-{number}", tags="single")

    def thousands() -> None:
        bodies = [BODY] * BATCH_SIZE
        for batch in range(BATCH_COUNT):
            keys = [f"batch-{batch}-{number}" for number in range(BATCH_SIZE)]
            store.put_many("demo", bodies, keys=keys, tags="batch")

    timed("one message a call", SINGLE_COUNT, one_by_one)
    timed("a thousand a call", BATCH_COUNT * BATCH_SIZE, thousands)
    total = len(store.topic("demo"))
    timed("read by queue", total, lambda: sum(1 for _ in store.topic("demo")))
    timed("looked up by key", 1000, lambda: store.select("demo").look_up_keys([f"demo-{n}" for n in range(1000)]))


def crash(path: Path) -> None:
    """A process is killed in the middle of its puts; what it had put is there afterwards."""
    console.print("[bold]crashing[/]   a process puts messages and is killed in the middle")
    child = subprocess.Popen([sys.executable, __file__, "--put-until-killed", path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    acknowledged = 0
    for line in child.stdout:
        acknowledged = int(line)
        if acknowledged >= KILLED_AFTER:
            break
    child.send_signal(signal.SIGKILL)
    acknowledged = max([acknowledged, *(int(line) for line in child.stdout if line.endswith("\n"))])
    child.wait()
    begin = time.perf_counter()
    with mqstore.open(path, "rw", **OPTIONS) as store:
        seconds = time.perf_counter() - begin
        recovered = len(store.topic("crash"))
        console.print(
            f"  opened again after {seconds:.2f} s: {recovered:,} messages recovered, "
            f"{acknowledged:,} were acknowledged"
        )
        if recovered < acknowledged:
            sys.exit("messages were lost")
        last = store.select("crash", key=f"crash-{acknowledged - 1}").first()
        console.print(f"  the last acknowledged one, by key: {last}")


def on_spark(path: Path) -> None:
    """Queues and index are made anew from the log, then everything is held against everything."""
    console.print("[bold]on Spark[/]   queues and index from the log alone, then an audit of the store")
    spark = spark_session("mqstore demo", conf={"spark.ui.enabled": False, "spark.log.level": "ERROR"})
    begin = time.perf_counter()
    made = rebuild(path, path.parent / "rebuilt", spark=spark, **OPTIONS)
    seconds = time.perf_counter() - begin
    console.print(
        f"  {made.unit_count:,} places in {made.queue_count} queues and {made.index_entry_count:,} keys "
        f"made from {made.record_count:,} records in {seconds:.1f} s"
    )
    for folder in ("consumequeue", "index"):
        shutil.rmtree(path / folder)
        (path.parent / "rebuilt" / folder).rename(path / folder)
    begin = time.perf_counter()
    found = audit(path, spark=spark, **OPTIONS)
    console.print(f"  every record, place and key checked in {time.perf_counter() - begin:.1f} s")
    spark.stop()
    if not found.is_whole:
        sys.exit(f"the audit found {found.stores[0].counts}")
    with mqstore.open(path, **OPTIONS) as store:
        last = store.select("crash").where(limit=1).first()
        console.print(f"  and the store goes on with what was rebuilt: {last}")


def put_until_killed(path: str) -> None:
    """The process that is killed."""
    store = mqstore.open(path, "rw", **OPTIONS)
    for number in range(10_000_000):
        store.put("crash", BODY, keys=f"crash-{number}")
        count = number + 1
        if count % 1000 == 0:
            print(count, flush=True)


def main() -> None:
    """All of it."""
    if len(sys.argv) > 1:
        put_until_killed(sys.argv[2])
        return
    with tempfile.TemporaryDirectory(prefix="mqstore-demo-") as folder:
        with tarfile.open(SHIPPED) as shipped:
            shipped.extractall(folder, filter="data")
        path = Path(folder) / "java-store"
        with mqstore.open(path, **OPTIONS) as store:
            show_queues(store)
            read(store)
        with mqstore.open(path, "rw", **OPTIONS) as store:
            write(store)
        crash(path)
        on_spark(path)
    console.print("[bold green]done[/]")


if __name__ == "__main__":
    main()
