"""A random life of a store: all that users do with one, kills, repairs and changes of role included."""

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import mqstore
from mqstore.services import ScheduleMessageService
from mqstore.verify import repair, verify
from tests.lives.expected import QUEUE_COUNT, TOPICS, Expected, Put, State
from tests.lives.groups import Groups
from tests.lives.made import Made, arguments_of
from tests.services.conftest import HandClock
from tests.services.ha_peers import FAST, wait_equal
from tests.store_files import copy_store

__all__ = ["Life"]

_DELAYS_MS = (1000, 5000, 60_000)
_SMALL: dict[str, Any] = {
    "mappedFileSizeCommitLog": 16_384,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 23,
    "maxIndexNum": 60,
    "maxMessageSize": 12_000,
    "messageDelayLevel": "1s 5s 60s",
    "transactionTimeOut": 10_000,
    "transactionCheckMax": 5,
    "fileReservedTime": 1,
    "cleanFileForciblyEnable": False,
    "syncFlushTimeout": 60_000,
}
_HOUR_MS = 3_600_000
_POOL = {"transientStorePoolEnable": True, "transientStorePoolSize": 2}
_LIGHT = {"enableLmq": True, "enableMultiDispatch": True}
_PASSES = 50
"""More than deliver all that there is."""


class Life:
    """A store, and what is expected of it. What the services do else is done here when a step wants it."""

    def __init__(self, folder: Path, seed: int) -> None:
        """An empty store with random options."""
        self._rnd, self._folder, self._clock = random.Random(seed), folder, HandClock()
        self._expected, self._generation = Expected(), 0
        self._groups = Groups(self._rnd, self._expected)
        self._reader: mqstore.MessageStore | None = None
        self._old: tuple[Path, int] | None = None
        """A copy of the store as it once was, and where its log ended."""
        self._options = dict(_SMALL)
        for given in ({"enableConsumeQueueExt": True}, {"enabledAppendPropCRC": True}, {"warmMapedFileEnable": True}):
            self._options |= given if self._rnd.random() < 0.3 else {}
        self._options |= _LIGHT if self._rnd.random() < 0.3 else {}
        self._options |= self._rnd.choice([{}, {}, {"flushDiskType": "SYNC_FLUSH"}, _POOL])
        self._made = Made(self._rnd, self._expected, is_light="enableLmq" in self._options)
        self._kept_for = ["g1a"] if self._rnd.random() < 0.3 else []
        self._log_folders = self._rnd.choice([["commitlog"], ["commitlog"], ["log 1", "log 2"]])
        self._path = folder / "0"
        self._open()

    def run(self, step_count: int) -> None:
        """Lives so many steps, and ends with a look at all of it."""
        steps = {
            self._put: 30,
            self._put_many: 8,
            self._put_batch: 4,
            self._import: 3,
            self._prepare: 6,
            self._end_transaction: 3,
            self._check_transactions: 3,
            self._let_time_pass: 12,
            self._deliver: 8,
            self._write_down: 3,
            self._flush: 2,
            self._consume: 8,
            self._look: 4,
            self._verify: 2,
            self._kill: 2,
            self._lose_end: 1,
            self._reopen: 2,
            self._expire: 2,
            self._remove_topics: 0.5,
            self._repair: 0.7,
            self._keep_copy: 1,
            self._fail_over: 1.5,
        }
        for step in self._rnd.choices(list(steps), list(steps.values()), k=step_count):
            step()
        self._clock.now_ms += 2 * max(_DELAYS_MS)
        self._deliver()
        self._look()
        self._groups.consume_all(self._store)
        self.close()

    def close(self) -> None:
        """Closes what is open."""
        self._close_reader()
        self._store.close()

    # ---- opening and closing --------------------------------------------------------------------

    def _options_in(self, folder: Path) -> dict[str, Any]:
        """The options of the store where it lies in a folder."""
        return self._options | {"storePathCommitLog": ",".join(str(folder / name) for name in self._log_folders)}

    def _open(self, on_damage: str = "raise") -> None:
        kept = mqstore.Retention(keep_unread_of=self._kept_for)
        options = self._options_in(self._path) | {"on_damage": on_damage}
        self._store = mqstore.open(self._path, "rw", clock=self._clock, retention=kept, **options)
        # It is not started: its passes are steps.
        self._schedule = ScheduleMessageService(self._store)
        self._schedule.persist()
        self._groups.forget_consumers()
        self._transactions: list[tuple[mqstore.Transaction, list[Put]]] = []

    def _close_store(self) -> None:
        self._groups.close()
        self._write_down()
        self._store._engine.forget_timed()
        self._store.close()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _next_folder(self) -> Path:
        self._generation += 1
        return self._folder / str(self._generation)

    def _move_to(self, path: Path) -> None:
        self._close_reader()
        shutil.rmtree(self._path)
        self._path = path

    def _reopen(self) -> None:
        self._close_store()
        self._change_options()
        self._open()
        self._see_new()

    def _kill(self, lost: Put | None = None) -> None:
        """Goes on with what a kill leaves, and without what was put from a message on."""
        # What a transient store pool has not committed is lost then.
        self._store.flush()
        if self._rnd.random() < 0.5:
            self._store._reput()
        killed = copy_store(self._path, self._next_folder())
        # What the close writes down is not in the copy.
        self._expected.crashed()
        self._close_store()
        self._move_to(killed)
        if lost is not None:
            file, at = divmod(lost.place, _SMALL["mappedFileSizeCommitLog"])
            folders = [self._path / name for name in self._log_folders]
            (log,) = (
                path for folder in folders for path in folder.glob(f"{file * _SMALL['mappedFileSizeCommitLog']:020}")
            )
            with log.open("r+b") as damaged:
                damaged.seek(at)
                damaged.write(b"\1" * 8)
            self._expected.cut(lost.place)
        self._change_options()
        self._open("raise" if lost is None else "truncate")
        self._see_new()

    def _lose_end(self) -> None:
        """The log loses some of what was put last, which the groups have read, and as much comes again in less room."""
        queue, count = (self._rnd.choice(TOPICS), self._rnd.randrange(QUEUE_COUNT)), self._rnd.choice([1, 4, 12])
        puts = [self._put_plain(queue, 100) for _ in range(count)]
        self._dispatch()
        self._groups.consume_all(self._store)
        self._kill(lost=self._rnd.choice(puts))
        for _ in range(count):
            self._put_plain(queue, 0)

    def _change_options(self) -> None:
        if self._rnd.random() < 0.2:
            self._options["enabledAppendPropCRC"] = not self._options.get("enabledAppendPropCRC", False)
        if self._rnd.random() < 0.2:
            for name in (*_POOL, "flushDiskType"):
                self._options.pop(name, None)
            self._options |= self._rnd.choice([{}, {"flushDiskType": "SYNC_FLUSH"}, _POOL])

    # ---- putting --------------------------------------------------------------------------------

    def _put(self) -> None:
        put, properties = self._made.one(most=3000)
        delay: dict[str, Any] = {}
        kind = self._rnd.random()
        if kind < 0.15:
            level = self._rnd.randrange(len(_DELAYS_MS))
            delay["delay_time_level"] = level + 1
            put.due_ms, put.is_of_level = self._clock.now_ms + _DELAYS_MS[level], True
        elif kind < 0.3:
            delay["deliver_at"] = at = self._clock.now_ms + self._rnd.choice([-5, 1, 900, 4000, 70_000])
            put.due_ms = at if at > self._clock.now_ms else None
        done = self._store.put(
            put.topic,
            put.body,
            **arguments_of(put, properties),
            **delay,
        )
        self._is_put([put], done)

    def _put_plain(self, queue: tuple[str, int], size: int) -> Put:
        put, properties = self._made.one()
        (put.topic, put.queue_id), put.body = queue, f"{put.name}|{'x' * size}".encode()
        self._is_put([put], self._store.put(put.topic, put.body, **arguments_of(put, properties)))
        return put

    def _put_many(self) -> None:
        made = self._made.several(self._rnd.choice([1, 3, 20]))
        times: list[int | None] | None = None
        if self._rnd.random() < 0.3:
            ahead = [self._rnd.choice([-1, 500, 3000]) if self._rnd.random() < 0.5 else None for _ in made]
            times = [None if ms is None else self._clock.now_ms + ms for ms in ahead]
            for (put, _), at in zip(made, times, strict=True):
                put.due_ms = at if at is not None and at > self._clock.now_ms else None
        puts = [put for put, _ in made]
        done = self._store.put_many(
            puts[0].topic,
            [put.body for put in puts],
            queue_id=puts[0].queue_id,
            keys=[list(put.keys) for put in puts],
            tags=[put.tags for put in puts],
            properties=[properties for _, properties in made],
            deliver_at=times,
        )
        self._is_put(puts, done)

    def _put_batch(self) -> None:
        made = self._made.several(self._rnd.choice([1, 4]))
        rows = []
        for put, properties in made:
            # 4.9.3 puts a batch to no further queues.
            put.light = ()
            own = properties | ({"KEYS": " ".join(put.keys)} if put.keys else {})
            rows.append((put.body, 0, own | ({} if put.tags is None else {"TAGS": put.tags})))
        topic, queue_id = made[0][0].queue
        batch = mqstore.MessageExtBatch(
            topic=topic, queue_id=queue_id, messages=rows, born_timestamp=self._clock.now_ms
        )
        self._is_put([put for put, _ in made], self._store.put_messages(batch))

    def _import(self) -> None:
        """Messages of another store that has them in queues of the same names."""
        folder = self._next_folder()
        with mqstore.open(folder, "rw", clock=self._clock, **(_SMALL | _LIGHT)) as other:
            puts = []
            for put, properties in self._made.several(self._rnd.choice([1, 5])):
                other.put(put.topic, put.body, **arguments_of(put, properties))
                puts.append(put)
            done = self._store.append_records(list(other.select(TOPICS)))
        self._is_put(puts, done)
        shutil.rmtree(folder)

    def _is_put(self, puts: list[Put], done: mqstore.PutMessageResult) -> None:
        assert done.is_ok, done
        assert done.store_timestamp is not None
        for put, offset, place in zip(puts, done.logics_offsets, done.wrote_offsets, strict=True):
            put.place = place
            if put.due_ms is None:
                self._expected.see(put, offset, place, done.store_timestamp)

    # ---- transactions ---------------------------------------------------------------------------

    def _prepare(self) -> None:
        transaction, puts = self._store.transaction("producers"), []
        for _ in range(self._rnd.choice([1, 2])):
            put, properties = self._made.one()
            put.half = transaction.put(
                put.topic,
                put.body,
                **arguments_of(put, properties),
                born_timestamp=self._clock.now_ms,
            )
            put.state = State.PREPARED
            puts.append(put)
        self._transactions.append((transaction, puts))
        if self._rnd.random() < 0.5:
            self._end_transaction()

    def _end_transaction(self) -> None:
        if not self._transactions:
            return
        transaction, puts = self._transactions.pop(self._rnd.randrange(len(self._transactions)))
        is_commit = self._rnd.random() < 0.6
        wanted, other = (State.COMMITTED, State.ROLLED_BACK)[:: 1 if is_commit else -1]
        first = self._store.get_min_phy_offset()
        expired = [put for put in puts if put.half is not None and put.half.commit_log_offset < first]
        decided = [put for put in puts if put.state == other]
        try:
            (transaction.commit if is_commit else transaction.rollback)()
        except mqstore.MQStoreError:
            assert decided or expired
        else:
            assert not decided
        for put in puts:
            if put.state == State.PREPARED and put in expired:
                put.state = State.EXPIRED
            if put.state == State.EXPIRED:
                break
            if put.state != other:
                # One that was decided otherwise is told, and the others end all the same.
                put.state = wanted
        self._see_new()

    def _check_transactions(self) -> None:
        def decide(half: mqstore.Message) -> mqstore.LocalTransactionState:
            put = self._expected.of(half)
            assert put.state == State.PREPARED, put
            assert put.half is not None
            # It was put behind the others before it was asked for: it goes with the log's part that it is in now.
            put.half = replace(put.half, commit_log_offset=half.commit_log_offset)
            decision = self._rnd.choice(list(mqstore.LocalTransactionState))
            if decision is mqstore.LocalTransactionState.COMMIT_MESSAGE:
                put.state = State.COMMITTED
            elif decision is mqstore.LocalTransactionState.ROLLBACK_MESSAGE:
                put.state = State.ROLLED_BACK
            return decision

        self._store.check_transactions(decide)
        self._see_new()

    # ---- time -----------------------------------------------------------------------------------

    def _let_time_pass(self) -> None:
        self._clock.now_ms += self._rnd.choice([1, 1, 10, 1000, 7000, 61_000])

    def _dispatch(self) -> None:
        if "transientStorePoolEnable" in self._options:
            self._store.flush()
        self._store._reput()

    def _deliver(self) -> None:
        self._dispatch()
        for _ in range(_PASSES):
            if self._schedule.deliver() != 0:
                break
        for _ in range(_PASSES):
            if self._store._engine.deliver_timed(_PASSES)[0] == 0:
                break
        self._see_new()
        self._expected.delivered(self._clock.now_ms)

    def _see_new(self) -> None:
        """Takes over what the store itself has put to the topics."""
        self._dispatch()
        for topic in TOPICS:
            for queue_id in range(QUEUE_COUNT):
                rows = self._expected.queues[topic, queue_id]
                end = self._store.get_max_offset_in_queue(topic, queue_id)
                first = max(rows) + 1 if rows else self._store.get_min_offset_in_queue(topic, queue_id)
                for message in self._store.select(topic, queue_id=queue_id, offsets=(first, end)):
                    self._expected.see_stored(message, self._clock.now_ms)
                assert not rows or end == max(rows) + 1
        committed = [put for put in self._expected.puts.values() if put.state == State.COMMITTED]
        assert [put for put in committed if put.seen_count != 1] == []

    def _write_down(self) -> None:
        self._schedule.persist()
        assert self._store._engine.persist_timed() is None
        self._expected.written_down()

    def _flush(self) -> None:
        self._store.flush()

    # ---- what goes ------------------------------------------------------------------------------

    def _expire(self) -> None:
        # What is older than an hour goes.
        self._clock.now_ms += self._rnd.choice([0, _HOUR_MS // 2, _HOUR_MS + 1])
        if self._store.execute_delete_files_manually():
            went = self._expected.expired(self._store.get_min_phy_offset())
            read = self._groups.given("g1", "a")
            kept = {name for name in went if self._expected.puts[name].topic == "a"} if self._kept_for else set()
            assert kept <= read
            # A slave does not delete with its master.
            self._drop_copy()

    def _remove_topics(self) -> None:
        kept = {topic for topic in TOPICS if self._rnd.random() < 0.7}
        self._store.clean_unused_topic(kept)
        self._drop_copy()
        for topic in set(TOPICS) - kept:
            for queue_id in range(QUEUE_COUNT):
                if self._store.get_max_offset_in_queue(topic, queue_id) == 0:
                    self._expected.removed((topic, queue_id))

    # ---- repairs, and changes of role -----------------------------------------------------------

    def _verify(self) -> None:
        assert [
            found for found in verify(self._path, **self._options_in(self._path))[1] if found.kind != "offset_gap"
        ] == []

    def _repair(self) -> None:
        self._close_store()
        self._close_reader()
        to = self._next_folder() if self._rnd.random() < 0.5 else None
        done = repair(self._path, to, **self._options_in(self._path))
        assert (done.lost, done.holes) == ((), ())
        if to is not None:
            self._move_to(to)
            self._log_folders = ["commitlog"]
            self._drop_copy()
        self._open()
        self._see_new()

    def _drop_copy(self) -> None:
        if self._old is not None:
            shutil.rmtree(self._old[0])
            self._old = None

    def _keep_copy(self) -> None:
        """Keeps the store as it is now, to be a slave later."""
        if self._old is None:
            self._write_down()
            self._dispatch()
            self._store.flush()
            self._old = copy_store(self._path, self._folder / "old"), self._store.get_max_phy_offset()

    def _fail_over(self) -> None:
        """The copy gets what the store has got since, as its slave, and goes on in its place."""
        if self._old is None or self._store.get_min_phy_offset() >= self._old[1]:
            return
        self._close_store()
        given, of_slave = (
            {name: value for name, value in self._options_in(path).items() if name not in _POOL} | FAST
            for path in (self._path, self._old[0])
        )
        master = mqstore.open(self._path, "rw", clock=self._clock, **given)
        of_slave |= {"brokerRole": "SLAVE", "haMasterAddress": str(master.replication.listen_address)}
        slave = mqstore.open(self._old[0], "rw", clock=self._clock, **of_slave)
        wait_equal(master, slave)
        for store in (master, slave):
            self._expected.compare(store, self._rnd)
        master.close()
        slave.close()
        to = self._next_folder()
        self._old[0].rename(to)
        self._old = None
        self._move_to(to)
        for put in self._expected.puts.values():
            # How far the levels are is the copy's.
            put.may_come_again = put.may_come_again or (put.is_of_level and put.seen_count > 0)
        self._open()
        self._see_new()

    # ---- reading --------------------------------------------------------------------------------

    def _consume(self) -> None:
        self._groups.consume(self._store)

    def _look(self) -> None:
        """The writer, a reader that is opened now, and one that has been open for long have the same."""
        self._dispatch()
        self._expected.compare(self._store, self._rnd)
        if self._rnd.random() < 0.3:
            with mqstore.open(self._path, clock=self._clock, **self._options_in(self._path)) as fresh:
                self._expected.compare(fresh, self._rnd)
        if self._rnd.random() < 0.1:
            self._close_reader()
        if self._reader is None:
            is_pread = self._rnd.random() < 0.5
            options = self._options_in(self._path)
            self._reader = mqstore.open(self._path, clock=self._clock, pread=is_pread, **options)
        self._reader.refresh()
        self._expected.compare(self._reader, self._rnd)
