"""Queues and index from the log alone: what Spark makes equals what the engine makes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import mqstore
from mqstore import _native
from mqstore.cli.main import main
from mqstore.errors import OptionError, StoreLayoutError, StoreNotFoundError
from mqstore.spark import rebuild as rebuild_module
from mqstore.spark.rebuild import _begin, rebuild
from mqstore.spark.tasks import run_tasks
from tests.compat.goldens import GOLDENS, Golden
from tests.expiring import expire
from tests.spark.made import fill
from tests.store_files import copy_store, forget_derived, index_contents, queue_contents
from tests.verify.damage import QUEUE_OFFSET_AT
from tests.waiting import wait_until

SMALL: dict[str, Any] = {
    "mappedFileSizeCommitLog": 64 << 10,
    "mappedFileSizeConsumeQueue": 20 * 100,
    "maxHashSlotNum": 50,
    "maxIndexNum": 300,
}


def rebuilt_by_engine(store: Path, to: Path, options: dict[str, Any], *, compat: bool = False) -> Path:
    """What one dispatch over the log gives."""
    copy_store(store, to)
    forget_derived(to, clean=True)
    mqstore.open(to, "rw", compat=compat, **options).close()
    return to


def assert_same(found: Path, expected: Path) -> None:
    assert queue_contents(found) == queue_contents(expected)
    assert index_contents(found) == index_contents(expected)


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_golden_stores_are_rebuilt_as_the_engine_does(spark: SparkSession, golden: Golden, tmp_path: Path) -> None:
    store = golden.unpack(tmp_path)
    expected = rebuilt_by_engine(store, tmp_path / "expected", golden.options, compat=True)
    done = rebuild(store, tmp_path / "out", spark=spark, compat=True, range_size=256 << 10, **golden.options)
    assert_same(tmp_path / "out", expected)
    assert done.queue_count == len({path.rsplit("/", 1)[0] for path in queue_contents(expected) if "_ext" not in path})
    assert done.gaps == ()


def make_store(path: Path, count: int = 3000, **options: Any) -> Path:
    """Topics, queues, keys and sizes of many kinds, over several files of each sort."""
    with mqstore.open(path, "rw", **SMALL, **options) as store:
        for number in range(count):
            keys = [f"k{number % 97}", f"n{number}"] if number % 3 else None
            body = bytes([number % 251]) * (number % 300)
            store.put(f"topic-{number % 5}", body, queue_id=number % 3, tags=f"t{number % 7}", keys=keys)
    return path


@pytest.mark.parametrize("enable_ext", [False, True])
def test_many_files_and_ranges(spark: SparkSession, tmp_path: Path, *, enable_ext: bool) -> None:
    extra: dict[str, Any] = {"enableConsumeQueueExt": enable_ext, "mappedFileSizeConsumeQueueExt": 1000}
    store = make_store(tmp_path / "store", **extra)
    expected = rebuilt_by_engine(store, tmp_path / "expected", SMALL | extra)
    done = rebuild(store, tmp_path / "out", spark=spark, range_size=20_000, **SMALL, **extra)
    assert_same(tmp_path / "out", expected)
    assert len(index_contents(expected)) == done.index_file_count > 3
    assert done.record_count == done.unit_count == 3000
    assert not (tmp_path / "out" / "mqstore" / "rebuild").exists()


def test_sizes_are_those_that_the_store_has(spark: SparkSession, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", count=500)
    expected = rebuilt_by_engine(store, tmp_path / "expected", SMALL)
    rebuild(store, tmp_path / "out", spark=spark)
    assert_same(tmp_path / "out", expected)


@pytest.mark.parametrize("in_last_record", [False, True])
def test_an_index_file_that_is_full_at_the_end(spark: SparkSession, tmp_path: Path, *, in_last_record: bool) -> None:
    """Dispatch makes the next file at the next record, whether that has keys or not."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        for number in range(299):
            store.put("t", b"x", properties={"KEYS": f"k{number}"})
        if not in_last_record:
            store.put("t", b"without a key")
    expected = rebuilt_by_engine(path, tmp_path / "expected", SMALL)
    rebuild(path, tmp_path / "out", spark=spark, range_size=5000, **SMALL)
    assert_same(tmp_path / "out", expected)


def test_a_removed_queue_stays_away(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        store.put_many("t", [b"old"] * 30, queue_id=0)
        store.put_many("u", [b"stays"] * 30, queue_id=0)
        assert store.clean_unused_topic({"u"}) == 1
        store.put_many("t", [b"new"] * 20, queue_id=0)
        assert [bytes(message.body) for message in store.topic("t")] == [b"new"] * 20
    rebuild(path, tmp_path / "out", spark=spark, range_size=2000, **SMALL)
    assert_same(tmp_path / "out", path)


def test_a_removed_queue_stays_away_though_its_last_message_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        old = [store.put("t", b"old", queue_id=0).wrote_offset or 0 for _ in range(30)]
        store.put("u", b"stays", queue_id=0)
        assert store.clean_unused_topic({"u"}) == 1
        store.put_many("t", [b"new"] * 40, queue_id=0)
    with (path / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(old[-1] + 4)
        log.write(b"\xff" * 30)
    done = rebuild(path, tmp_path / "out", spark=spark, range_size=2000, **SMALL)
    assert len(done.gaps) == 1
    assert queue_contents(tmp_path / "out") == queue_contents(path)


def test_a_record_that_names_a_queue_twice(spark: SparkSession, tmp_path: Path) -> None:
    options = SMALL | {"enableMultiDispatch": True, "enableLmq": True}
    with mqstore.open(tmp_path / "store", "rw", **options) as store:
        for number in range(6):
            twice = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%a"} if number in {0, 3} else {}
            store.put("%LMQ%a", b"x", queue_id=0, properties=twice)
    expected = rebuilt_by_engine(tmp_path / "store", tmp_path / "expected", options)
    rebuild(tmp_path / "store", tmp_path / "out", spark=spark, **options)
    assert_same(tmp_path / "out", expected)


def test_only_some_topics(spark: SparkSession, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", count=600)
    expected = queue_contents(rebuilt_by_engine(store, tmp_path / "expected", SMALL))
    rebuild(store, tmp_path / "out", spark=spark, topics=["topic-1", "topic-4"], range_size=20_000)
    wanted = {name: data for name, data in expected.items() if name.split("/")[1] in {"topic-1", "topic-4"}}
    assert queue_contents(tmp_path / "out") == wanted
    assert index_contents(tmp_path / "out") == []


def test_only_a_range_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """It gives what dispatch gives over a log that begins there."""
    store = make_store(tmp_path / "store")
    second_file = 2 * SMALL["mappedFileSizeCommitLog"]
    expected = copy_store(store, tmp_path / "expected")
    for name in ("00000000000000000000", f"{second_file // 2:020}"):
        (expected / "commitlog" / name).unlink()
    forget_derived(expected, clean=True)
    mqstore.open(expected, "rw", **SMALL).close()
    done = rebuild(store, tmp_path / "out", spark=spark, begin=second_file - 20, range_size=20_000)
    assert done.begin == second_file
    assert queue_contents(tmp_path / "out") == queue_contents(expected)


def forged_record(real: bytes, at: int) -> bytes:
    """A whole record that says that it stands at an offset."""
    return real[:28] + at.to_bytes(8, "big") + real[36:]


def test_a_record_that_is_forged_in_a_body_is_found_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        first = store.put("topic-0", b"a model for forgeries", queue_id=0)
        real = bytes(store.get_commit_log_data(0))[: first.wrote_bytes]
        for _ in range(20):
            end = store.get_max_phy_offset()
            forged_at = end + 88 + 400  # a body begins 88 bytes behind its record
            store.put("topic-0", b"." * 400 + forged_record(real, forged_at) + b"." * 100, queue_id=0)
    expected = rebuilt_by_engine(path, tmp_path / "expected", SMALL)
    folds: list[object] = []
    fold = _native.rebuild_fold

    def counted(*given: Any) -> Any:
        folds.append(fold(*given))
        return folds[-1]

    monkeypatch.setattr(_native, "rebuild_fold", counted)
    done = rebuild(path, tmp_path / "out", spark=spark, range_size=350)
    assert_same(tmp_path / "out", expected)
    assert done.record_count == 21
    assert len(folds) > 1, "no range began in a body: the test shows nothing"


def test_damage_is_passed_over_as_dispatch_does(spark: SparkSession, tmp_path: Path) -> None:
    path = make_store(tmp_path / "store", count=1000)
    log = path / "commitlog" / "00000000000000000000"
    with log.open("r+b") as file:
        for at in (9000, 30_000, 30_300):
            file.seek(at)
            file.write(b"\xff" * 200)
    live = copy_store(path, tmp_path / "live")
    forget_derived(live, clean=True)
    with mqstore.open(live, "r", **SMALL) as store:
        queues = {(topic, queue): store._units(topic, queue, 0, 100) for topic, queue, *_ in store._queues()}
        gaps = [(gap.begin_offset, gap.end_offset) for gap in store.report().gaps]
    done = rebuild(path, tmp_path / "out", spark=spark, range_size=5000)
    assert sorted(done.gaps) == sorted(set(gaps))
    copied = copy_store(path, tmp_path / "copied")
    forget_derived(copied, clean=True)
    for name in ("consumequeue", "index"):
        (tmp_path / "out" / name).rename(copied / name)
    with mqstore.open(copied, "r", **SMALL) as store:
        assert queues == {(t, q): store._units(t, q, 0, 100) for t, q, *_ in store._queues()}


@pytest.mark.parametrize("number", [0, 4, 300])
@pytest.mark.parametrize("mask", [1 << 8, 1 << 5, 1])
def test_a_changed_queue_offset_costs_one_message_as_with_a_slave(
    spark: SparkSession, tmp_path: Path, number: int, mask: int
) -> None:
    path = tmp_path / "store"
    options = SMALL | {"mappedFileSizeCommitLog": 1 << 20}
    with mqstore.open(path, "rw", **options) as store:
        puts = [store.put("t", bytes(20), queue_id=n % 2, keys=f"k{n}").wrote_offset or 0 for n in range(900)]
        end = store.get_max_phy_offset()
    log = path / "commitlog" / "00000000000000000000"
    changed = puts[number]
    with log.open("r+b") as file:
        file.seek(changed + QUEUE_OFFSET_AT)
        offset = int.from_bytes(file.read(8))
        file.seek(changed + QUEUE_OFFSET_AT)
        file.write((offset ^ mask).to_bytes(8))
    with mqstore.open(tmp_path / "slave", "rw", brokerRole="SLAVE", **options) as slave:
        slave.append_to_commit_log(0, log.read_bytes()[:end])
        wait_until(lambda: slave.dispatch_behind_bytes() == 0)
        assert [sum(1 for _ in slave.topic("t").queue(n)[:]) for n in range(2)] == [449, 450]
    for name, range_size in (("whole", 1 << 20), ("parts", 5000)):
        done = rebuild(path, tmp_path / name, spark=spark, range_size=range_size, **options)
        assert (done.record_count, done.unit_count) == (900, 899)
        assert done.gaps == ((changed, puts[number + 1]),)
        assert_same(tmp_path / name, tmp_path / "slave")


def test_a_queue_offset_that_no_queue_reaches_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        puts = [store.put("t", bytes(20), queue_id=0).wrote_offset or 0 for _ in range(30)]
    with (path / "commitlog" / "00000000000000000000").open("r+b") as file:
        file.seek(puts[10] + QUEUE_OFFSET_AT)
        file.write((10 + (1 << 40)).to_bytes(8))
    done = rebuild(path, tmp_path / "out", spark=spark, **SMALL)
    # As dispatch does, it has the next unit. Who reads it is told that it is damaged.
    assert (done.unit_count, done.gaps) == (30, ((puts[10], puts[11]),))


@pytest.mark.parametrize("staged_count", [0, 2])
def test_retention_removes_files_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, staged_count: int
) -> None:
    """It gives what dispatch gives over the log that is left."""
    path, out = tmp_path / "store", tmp_path / "out"
    with mqstore.open(make_store(path), "rw", **SMALL) as store:

        def expiring(session: SparkSession, task: Any, items: Any, *, name: str) -> list[Any]:
            monkeypatch.setattr(rebuild_module, "run_tasks", run_tasks)
            run_tasks(session, task, items[:staged_count], name=name)
            expire(store, 2)
            return run_tasks(session, task, items, name=name)

        monkeypatch.setattr(rebuild_module, "run_tasks", expiring)
        done = rebuild(path, out, spark=spark, range_size=20_000, **SMALL)
        assert (done.begin, done.end) == (2 * SMALL["mappedFileSizeCommitLog"], store.get_max_phy_offset())
        assert done.gaps == ()
    expected = rebuilt_by_engine(path, tmp_path / "expected", SMALL)
    assert_same(out, expected)
    assert done.record_count == done.unit_count < 3000


def test_a_rebuild_of_nothing(spark: SparkSession, tmp_path: Path) -> None:
    mqstore.open(tmp_path / "empty", "rw", **SMALL).close()
    store = make_store(tmp_path / "store", count=10)
    with mqstore.open(store, **SMALL) as opened:
        end = opened.get_max_phy_offset()
    cases: list[tuple[Path, dict[str, Any]]] = [
        (tmp_path / "empty", {}),
        (store, {"begin": 100, "end": 100}),
        (store, {"begin": end + 100}),
    ]
    for number, (path, given) in enumerate(cases):
        out = tmp_path / f"out-{number}"
        done = rebuild(path, out, spark=spark, **given)
        assert (done.record_count, done.unit_count, done.index_file_count, done.gaps) == (0, 0, 0, ())
        assert done.begin == done.end
        assert not list((out / "mqstore").iterdir())


def test_a_range_that_ends_before_it_begins_leaves_nothing(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", count=10)
    with pytest.raises(OptionError, match=r"^option begin=500: expected an offset of at most the end, 100"):
        rebuild(store, tmp_path / "out", begin=500, end=100)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["store/new", "store/consumequeue/new", "log", "log/new", "old/new", "link/new"])
def test_a_place_in_the_store_is_refused(tmp_path: Path, place: str) -> None:
    paths: dict[str, Any] = {
        "storePathCommitLog": str(tmp_path / "log"),
        "readOnlyCommitLogStorePaths": str(tmp_path / "old"),
    }
    (tmp_path / "old").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "log")
    store = make_store(tmp_path / "store", count=10, **paths)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OptionError, match=r"^option out=.*: expected a folder outside of "):
        rebuild(store, tmp_path / place, **SMALL, **paths)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_cannot_be_rebuilt_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="does not exist"):
        rebuild(tmp_path / "nowhere", tmp_path / "out", spark=spark)
    store = make_store(tmp_path / "store", count=10)
    with pytest.raises(StoreLayoutError, match="commitlog"):
        rebuild(store, store, spark=spark)
    work = tmp_path / "broken" / "mqstore" / "rebuild"
    work.mkdir(parents=True)
    (work / "asked.json").write_text(json.dumps({}))
    (work / "plan.json").write_text("{")
    with pytest.raises(StoreLayoutError, match="remove the folder"):
        rebuild(store, tmp_path / "broken", spark=spark)


def test_the_command(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # the command's own session is this one
    store = make_store(tmp_path / "store", count=100)
    expected = rebuilt_by_engine(store, tmp_path / "expected", SMALL)
    call = CliRunner().invoke(main, ["spark", "rebuild", str(store), "--out", str(tmp_path / "out"), "--json"])
    assert call.exit_code == 0, call.output
    assert json.loads(call.stdout)["unit_count"] == 100
    assert_same(tmp_path / "out", expected)
    again = CliRunner().invoke(main, ["spark", "rebuild", str(store), "--out", str(tmp_path / "out")])
    assert again.exit_code == 1
    assert "one with consumequeue" in again.output


def test_an_end_inside_a_record_leaves_no_gap(tmp_path: Path) -> None:
    known = [row["commit_log_offset"] for row in fill(tmp_path / "store", 60)]
    asked: dict[str, Any] = {"store": str(tmp_path / "store"), "options": {}, "compat": False, "topics": None}
    for end, expected in [(known[20] + 30, known[21]), (known[20], known[20]), (1 << 40, None)]:
        plan = _begin(
            str(tmp_path / "store"), tmp_path / "out", asked | {"begin": None, "end": end, "range_size": 9999}
        )
        if expected is not None:
            assert plan.end == expected
    begin = _begin(
        str(tmp_path / "store"), tmp_path / "out", asked | {"begin": known[20] + 30, "end": None, "range_size": 9999}
    )
    assert begin.begin == known[21], "each record is in one of two rebuilds that meet there"


def test_the_root_of_all_folders_is_not_filled(tmp_path: Path) -> None:
    for root in ("/", "file:///"):
        with pytest.raises(OptionError, match=r"^option out=/: expected a folder in another one"):
            rebuild(tmp_path / "no store", root)
