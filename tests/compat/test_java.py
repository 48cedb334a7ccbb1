"""mqstore and the real 4.9.3 store over the same directories."""

import json
import random
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

import mqstore
from tests.command import put_and_kill, run_mqstore
from tests.compat.goldens import GOLDENS
from tests.compat.java_store import JavaStore
from tests.compat.naive_model import NaiveModel
from tests.compat.peer.messages import messages
from tests.compat.peer.queries import queries
from tests.compat.replay import put_at_times
from tests.compat.streams import FEATURES, options_for
from tests.compat.test_golden import OTHER_FILE_TIMES, recorded_answers
from tests.store_files import copy_store, index_contents, log_contents, queue_contents

MESSAGES = 250
QUERIES = 250
LAST = '{"topic": "last", "bornTimestamp": 1}'
"""What a life ends with: a last message in no queue would be indexed again in 4.9.3's next life."""
STREAMS = ["plain", *((feature,) for feature in FEATURES), FEATURES, "mixed", "mixed again"]
"""What the streams have; the mixed ones any features together."""


def features_of(stream: str | tuple[str, ...], seed: int) -> AbstractSet[str]:
    """The features of a stream."""
    if stream == "plain":
        return set()
    if isinstance(stream, str):
        rnd = random.Random(seed)
        return {feature for feature in FEATURES if rnd.random() < 0.5}
    return set(stream)


def without_time(results: Iterable[str]) -> list[dict[str, Any]]:
    """Results of puts; when they came is nobody's choice."""
    found = [json.loads(result) for result in results]
    for result in found:
        result.pop("storeTimestamp", None)
    return found


class BothRead:
    """A closed store as both see it, each on copies of its own."""

    def __init__(self, java: JavaStore, store: Path, options: dict[str, Any], seed: int) -> None:
        """Lets mqstore read it, and the real store begin to."""
        copies = store.with_name(f"{store.name} copies")
        self._options = options
        self._ours = copy_store(store, copies / "ours")
        self._java_dump = java.start("dump", copy_store(store, copies / "dump"), options)
        self.dump = run_mqstore("dump", self._ours, options)
        self._asked = list(queries(seed, QUERIES, self.dump))
        self._java_answers = java.start("query", copy_store(store, copies / "query"), options, self._asked)
        self._answers = run_mqstore("query", self._ours, options, self._asked)

    def check(self) -> None:
        """Both give the same, and what mqstore gives of its own is right."""
        check_right_answers(self._ours, self._options, self.dump, self._asked)
        assert self._java_dump.lines() == self.dump
        answers = zip(self._asked, self._java_answers.lines(), strict=True)
        assert list(answers) == list(zip(self._asked, self._answers, strict=True))


def check_right_answers(store: Path, options: dict[str, Any], dump: list[str], asked: list[str]) -> None:
    """Look-ups by key and time give what looking at everything gives."""
    model = NaiveModel.of(dump)
    with mqstore.open(store, "r", **options) as opened:
        for query in map(json.loads, asked):
            if query["op"] == "byKey":
                key = (query["topic"], query["key"], query["maxNum"], query["begin"], query["end"])
                found = [message.commit_log_offset for message in opened.query_message(*key)]
                assert found == model.by_key(*key), key
            elif query["op"] == "byTime":
                for boundary in ("nearest", "lower", "upper"):
                    time = (query["topic"], query["queueId"], query["timestamp"], boundary)
                    assert opened.get_offset_in_queue_by_time(*time) == model.by_time(*time), time


@pytest.mark.parametrize(
    "stream", STREAMS, ids=lambda stream: stream if isinstance(stream, str) else "+".join(stream) or "plain"
)
def test_each_reads_what_either_wrote(
    java: JavaStore, tmp_path: Path, seed: int, stream: str | tuple[str, ...]
) -> None:
    features = features_of(stream, seed)
    options, lines = options_for(features), [*messages(seed, MESSAGES, features), LAST]
    java_puts = java.start("put", tmp_path / "java", options, lines)
    our_results = run_mqstore("put", tmp_path / "ours", options, lines)
    our_store = BothRead(java, tmp_path / "ours", options, seed)
    java_results = java_puts.lines()
    assert without_time(our_results) == without_time(java_results)
    java_store = BothRead(java, tmp_path / "java", options, seed)
    # At the same times the same puts give the same bytes.
    assert put_at_times(tmp_path / "again", options, lines, java_results) == java_results
    assert log_contents(tmp_path / "again") == log_contents(tmp_path / "java")
    assert queue_contents(tmp_path / "again") == queue_contents(tmp_path / "java")
    assert index_contents(tmp_path / "again") == index_contents(tmp_path / "java")
    our_store.check()
    java_store.check()


@pytest.mark.parametrize(
    ("given", "ours_alone"),
    [
        ({"enableConsumeQueueExt": "true", "mappedFileSizeConsumeQueueExt": "4096"}, {}),
        ({"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": "60000"}, {}),
        ({}, {"transientStorePoolEnable": "true"}),
    ],
    ids=["extension", "synchronous flush", "transient store pool"],
)
def test_options_change_nothing_in_that(
    java: JavaStore, tmp_path: Path, seed: int, given: dict[str, str], ours_alone: dict[str, str]
) -> None:
    features = set(FEATURES)
    options, lines = options_for(features) | given, [*messages(seed, MESSAGES, features), LAST]
    java_puts = java.start("put", tmp_path / "java", options, lines)
    our_results = run_mqstore("put", tmp_path / "ours", options | ours_alone, lines)
    our_store = BothRead(java, tmp_path / "ours", options, seed)
    java_results = java_puts.lines()
    assert without_time(our_results) == without_time(java_results)
    java_store = BothRead(java, tmp_path / "java", options, seed)
    our_store.check()
    java_store.check()


# ---- stores that lived in both worlds ------------------------------------------------------------


def put_in_rounds(java: JavaStore, store: Path, options: dict[str, Any], seed: int, ends: Sequence[str]) -> list[str]:
    """Lets both put in turns into one store; ``ends`` says how each turn ends. Gives all results."""
    rnd = random.Random(seed)
    features = set(FEATURES) - {"lmq"}  # 4.9.3 begins light queues at 0 again when it opens a store
    if "crash" in ends:
        # 4.9.3 forgets when those are due that it dispatches again, and delivers them where it lives for a second.
        features -= {"delay"}
    results: list[str] = []
    for turn, end in enumerate(ends):
        lines = [*messages(rnd.randrange(1 << 32), rnd.randrange(20, 80), features), LAST]
        crash = {"crash": "true"} if end == "crash" else {}
        if turn % 2:
            results += java.run("put", store, options | crash, lines)
        elif crash:
            results += put_and_kill(store, options, lines)
        else:
            results += run_mqstore("put", store, options, lines)
    return results


def check_acknowledged(dump: list[str], results: list[str]) -> None:
    """Everything that a put said is stored is there, where the put said, and nothing else."""
    model = NaiveModel.of(dump)
    records = iter(sorted(model.records))
    for result in map(json.loads, results):
        assert result["status"] == "PUT_OK"
        offsets = [next(records) for _ in range(result["msgNum"])]
        first = model.records[offsets[0]]
        assert offsets[0] == result["wroteOffset"]
        assert sum(model.records[offset]["msgSize"] for offset in offsets) == result["wroteBytes"]
        assert (first["storeTimestamp"], first["consumeQueueOffset"]) == (
            result["storeTimestamp"],
            result["logicsOffset"],
        )
        if model.enters_queue(offsets[0]):
            queue = model.messages_of(first["topic"], first["queueId"])
            assert [queue[first["consumeQueueOffset"] + number] for number in range(len(offsets))] == offsets
    assert next(records, None) is None


EXTENSION = {"enableConsumeQueueExt": "true", "mappedFileSizeConsumeQueueExt": "4096"}


@pytest.mark.parametrize("given", [{}, EXTENSION], ids=["plain", "extension"])
def test_the_same_lives_give_the_same_bytes(java: JavaStore, tmp_path: Path, seed: int, given: dict[str, str]) -> None:
    options = options_for(set(FEATURES)) | given
    features = set(FEATURES) - {"lmq"}  # 4.9.3 begins light queues at 0 again in the next life
    for life in range(3):
        lines = [*messages(seed + life, 60, features), LAST]
        results = java.run("put", tmp_path / "java", options, lines)
        assert put_at_times(tmp_path / "ours", options, lines, results) == results
    assert log_contents(tmp_path / "ours") == log_contents(tmp_path / "java")
    assert queue_contents(tmp_path / "ours") == queue_contents(tmp_path / "java")
    assert index_contents(tmp_path / "ours") == index_contents(tmp_path / "java")


@pytest.mark.parametrize("given", [{}, EXTENSION], ids=["plain", "extension"])
def test_a_store_that_both_closed(java: JavaStore, tmp_path: Path, seed: int, given: dict[str, str]) -> None:
    options = options_for(set(FEATURES)) | given
    results = put_in_rounds(java, tmp_path / "store", options, seed, ["close"] * 5)
    both = BothRead(java, tmp_path / "store", options, seed)
    check_acknowledged(both.dump, results)
    both.check()


@pytest.mark.parametrize("given", [{}, EXTENSION], ids=["plain", "extension"])
def test_a_store_that_crashed_in_both_worlds(java: JavaStore, tmp_path: Path, seed: int, given: dict[str, str]) -> None:
    options = options_for(set(FEATURES)) | given
    rnd = random.Random(seed)
    ends = [rnd.choice(["crash", "crash", "close"]) for _ in range(6)]
    results = put_in_rounds(java, tmp_path / "store", options, seed, ends)
    dump = run_mqstore("dump", tmp_path / "store", options)
    gets = [query for query in queries(seed, QUERIES, dump) if is_comparable(json.loads(query))]
    dumped = java.start("dump", copy_store(tmp_path / "store", tmp_path / "java dump"), options)
    answered = java.start("query", copy_store(tmp_path / "store", tmp_path / "java query"), options, gets)
    check_acknowledged(dump, results)
    run_mqstore("recover", tmp_path / "store", options)
    assert run_mqstore("dump", tmp_path / "store", options) == dump
    assert comparable(dumped.lines()) == comparable(dump)
    assert answered.lines() == run_mqstore("query", tmp_path / "store", options, gets)


def is_comparable(query: dict[str, Any]) -> bool:
    """Whether the answer does not hang on how often a store was recovered (see :func:`comparable`)."""
    is_by_due_time = query.get("topic") == "SCHEDULE_TOPIC_XXXX" and query.get("subscription")
    return query["op"] == "get" and not is_by_due_time


def comparable(dump: list[str]) -> list[Any]:
    """A dump without what hangs on how often a store was recovered.

    4.9.3 puts what it dispatches again into the extension again, and forgets when delayed messages are due
    (see ``test_right_where_java_is_wrong``).
    """
    items = [json.loads(line) for line in dump]
    for item in items:
        if item["kind"] == "queue":
            is_delayed = item["topic"] == "SCHEDULE_TOPIC_XXXX"
            for unit in item["entries"]:
                unit[2] = None if is_delayed or unit[2] < -(2**31) else unit[2]
    return items


def test_the_recorded_answers_that_hang_on_file_times(java: JavaStore, tmp_path: Path) -> None:
    (golden,) = [golden for golden in GOLDENS if golden.name in {name for name, _ in OTHER_FILE_TIMES}]
    store = golden.unpack(tmp_path)
    deliver_nothing(store, golden.options)
    assert java.run("query", store, golden.options, golden.lines("queries")) == recorded_answers(golden)


def deliver_nothing(store: Path, options: dict[str, Any]) -> None:
    """Says that all that is delayed is delivered: the real store delivers what is due once it lives for a second."""
    with mqstore.open(store, "r", **options) as reader:
        levels = range(1, reader.max_delay_level + 1)
        ends = {level: reader.get_max_offset_in_queue("SCHEDULE_TOPIC_XXXX", level - 1) for level in levels}
    assert any(ends.values())
    (store / "config" / "delayOffset.json").write_text(json.dumps({"offsetTable": ends}), encoding="utf-8")
