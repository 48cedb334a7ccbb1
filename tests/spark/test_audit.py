"""What is wrong with a store is found, what is right is not told."""

import errno
import json
import re
import struct
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import mqstore
from mqstore.cli.main import main
from mqstore.errors import OptionError, StoreNotFoundError
from mqstore.spark.audit import Audit, StoreAudit, audit
from mqstore.verify.meanings import MEANINGS
from tests.compat.goldens import GOLDENS, Golden
from tests.spark.test_rebuild import SMALL, forged_record, make_store
from tests.store_files import copy_store

UNIT = 20
INDEX_BEGIN = 40 + SMALL["maxHashSlotNum"] * 4
"""Where entry 0 of an index file stands."""
MOST_FROM_ONE_DAMAGE = 3
"""One bad field is told where it is, and does not make everything behind it look wrong."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("whole") / "store", count=900)


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_a_store_that_java_wrote_is_whole(spark: SparkSession, golden: Golden, tmp_path: Path) -> None:
    store = golden.unpack(tmp_path)
    done = audit(store, spark=spark, compat=True, **golden.options)
    with mqstore.open(store, compat=True, **golden.options) as opened:
        assert done.stores[0].record_count == opened.select().count()
    # What a crash leaves undispatched, and what several lives wrote twice, is told; nothing else is.
    expected = {"crashed": {"unit_missing", "key_missing"}, "lives": {"entry_wrong", "unit_missing", "key_missing"}}
    assert set(done.stores[0].counts) <= expected.get(golden.name, set()), done.findings[:5]


def test_totals(spark: SparkSession, whole: Path) -> None:
    done = audit(whole, spark=spark, range_size=20_000, **SMALL)
    assert done.is_whole, done.findings
    (store,) = done.stores
    with mqstore.open(whole, **SMALL) as opened:
        messages = list(opened.select())
        keys = sum(len(message.keys) + bool(message.msg_id) for message in messages)
    assert store.record_count == store.unit_count == len(messages)
    assert store.key_count == store.entry_count == keys
    by_topic = Counter(message.topic for message in messages)
    assert {topic: count for topic, (count, _) in store.totals["topic"].items()} == by_topic
    for sums in store.totals.values():
        assert sum(count for count, _ in sums.values()) == len(messages)
        assert sum(size for _, size in sums.values()) == sum(message.store_size for message in messages)
    frame = done.totals_frame(spark)
    assert {
        row.value: row["count"]
        for row in frame.where("dimension = 'topic'").selectExpr("value", "message_count as count").collect()
    } == by_topic


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        assert file.read(len(data)) != data, "nothing would change"
        file.seek(at)
        file.write(data)


def log_file(store: Path) -> Path:
    return store / "commitlog" / f"{0:020}"


def queue_file(store: Path) -> Path:
    return store / "consumequeue" / "topic-1" / "1" / f"{0:020}"


def index_file(store: Path) -> Path:
    return sorted((store / "index").iterdir())[1]


def unit_of(store: Path, number: int) -> tuple[int, int, int]:
    data = queue_file(store).read_bytes()[number * UNIT : (number + 1) * UNIT]
    phy_offset, size, tags_code = struct.unpack(">qiq", data)
    return phy_offset, size, tags_code


def set_unit(store: Path, number: int, phy_offset: int, size: int, tags_code: int) -> None:
    overwrite(queue_file(store), number * UNIT, struct.pack(">qiq", phy_offset, size, tags_code))


def flip_body(store: Path) -> None:
    phy_offset, _, _ = unit_of(store, 5)
    overwrite(log_file(store), phy_offset + 90, b"\xfe")


def break_record(store: Path) -> None:
    phy_offset, _, _ = unit_of(store, 5)
    overwrite(log_file(store), phy_offset + 4, b"\0\0\0\0")


def change_queue_offset(store: Path) -> None:
    phy_offset, _, _ = unit_of(store, 5)
    overwrite(log_file(store), phy_offset + 20, struct.pack(">q", 3))


def clear_unit(store: Path) -> None:
    overwrite(queue_file(store), 5 * UNIT, bytes(UNIT))


def repeat_unit(store: Path) -> None:
    set_unit(store, 5, *unit_of(store, 4))


def swap_units(store: Path) -> None:
    first, second = unit_of(store, 5), unit_of(store, 6)
    set_unit(store, 5, *second)
    set_unit(store, 6, *first)


def dangle_unit(store: Path) -> None:
    set_unit(store, 5, 1 << 40, *unit_of(store, 5)[1:])


def change_tags_code(store: Path) -> None:
    set_unit(store, 5, *unit_of(store, 5)[:2], 12345)


def change_entry(store: Path) -> None:
    overwrite(index_file(store), INDEX_BEGIN + 20 * UNIT + 4, struct.pack(">q", 1))


def change_entry_to_far_ahead(store: Path) -> None:
    overwrite(index_file(store), INDEX_BEGIN + 20 * UNIT + 4, struct.pack(">q", 1 << 40))


def change_hash(store: Path) -> None:
    overwrite(index_file(store), INDEX_BEGIN + 20 * UNIT, struct.pack(">i", 77))


def change_slot(store: Path) -> None:
    for slot in range(SMALL["maxHashSlotNum"]):
        at = 40 + slot * 4
        if any(index_file(store).read_bytes()[at : at + 4]):
            overwrite(index_file(store), at, bytes(4))
            return


def change_header(store: Path) -> None:
    overwrite(index_file(store), 32, struct.pack(">i", 1))


def forget_index(store: Path) -> None:
    for path in (store / "index").iterdir():
        path.unlink()


def cut_queue_file(store: Path) -> None:
    with queue_file(store).open("r+b") as file:
        file.truncate(100)


def damage_offsets(store: Path) -> None:
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "consumerOffset.json").write_text("{damaged")


DAMAGES: dict[Callable[[Path], None], set[str]] = {
    flip_body: {"bad_body"},
    break_record: {"bad_record", "offset_gap", "unit_wrong", "entry_wrong"},
    change_queue_offset: {"offset_repeated", "offset_gap", "unit_wrong", "unit_missing"},
    clear_unit: {"unit_missing", "unit_stray"},
    repeat_unit: {"unit_missing", "unit_wrong", "unit_repeated"},
    swap_units: {"unit_missing", "unit_wrong", "unit_order"},
    dangle_unit: {"unit_missing", "unit_dangling", "unit_order"},
    change_tags_code: {"unit_missing", "unit_wrong"},
    change_entry: {"entry_wrong", "key_missing", "index_chain"},
    change_entry_to_far_ahead: {"entry_wrong", "key_missing", "index_chain"},
    change_hash: {"entry_wrong", "key_missing", "index_chain"},
    change_slot: {"index_chain"},
    change_header: {"index_header"},
    forget_index: {"key_missing"},
    cut_queue_file: {"unit_missing", "stray"},
    damage_offsets: {"config_damaged"},
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_found(spark: SparkSession, whole: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = copy_store(whole, tmp_path / "store")
    damage(store)
    done = audit(store, spark=spark, **SMALL)
    assert set(done.stores[0].counts) == DAMAGES[damage]
    assert {finding.kind for finding in done.findings} == DAMAGES[damage]
    assert not done.is_whole
    spreading: dict[Callable[[Path], None], str] = {
        forget_index: "key_missing",
        clear_unit: "unit_stray",
        cut_queue_file: "unit_missing",
    }
    for kind, count in done.stores[0].counts.items():
        assert count <= MOST_FROM_ONE_DAMAGE or spreading.get(damage) == kind, (kind, count)
    assert DAMAGES[damage] <= set(MEANINGS)


def test_what_lies_between_two_ranges_is_found(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    """A message that is taken out of the log leaves a gap in its queue wherever the ranges begin."""
    store = copy_store(whole, tmp_path / "store")
    break_record(store)
    for range_size in (2000, 5000):
        done = audit(store, spark=spark, range_size=range_size, **SMALL)
        assert done.stores[0].counts["offset_gap"] == 1
        assert done.stores[0].record_count == 899


def test_a_forged_record_is_no_message(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        first = store.put("topic-0", b"a model for forgeries", queue_id=0)
        real = bytes(store.get_commit_log_data(0))[: first.wrote_bytes]
        for _ in range(10):
            forged_at = store.get_max_phy_offset() + 88 + 400
            store.put("topic-0", b"." * 400 + forged_record(real, forged_at) + b"." * 100, queue_id=0)
    done = audit(path, spark=spark, range_size=350, **SMALL)
    assert done.is_whole, done.findings
    assert done.stores[0].record_count == 11


def test_several_stores_in_every_form(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    broken = copy_store(whole, tmp_path / "<b>broken")
    clear_unit(broken)
    by_glob = audit(f"{tmp_path}/*", spark=spark, **SMALL)
    assert [store.store for store in by_glob.stores] == [str(broken)]
    with pytest.raises(OptionError, match="it names no folder with a commitlog in it"):
        audit(f"{tmp_path}/none*", spark=spark)
    done = audit([whole, broken], spark=spark, **SMALL)
    assert [store.is_whole for store in done.stores] == [True, False]
    rows = done.findings_frame(spark).collect()
    assert {(row.store, row.kind) for row in rows} == {(str(broken), "unit_missing"), (str(broken), "unit_stray")}
    loaded = json.loads(done.to_json())
    # Queue 1 of topic-1 has 60 messages: of those behind the hole none is reached.
    assert loaded["stores"][1]["counts"] == {"unit_missing": 1, "unit_stray": 54}
    page = done.to_html()
    assert "&lt;b&gt;broken" in page
    assert "<b>broken" not in page
    assert page.index('id="store-1"') < page.index('id="store-0"'), "what is broken comes first"
    assert f'<details id="store-0"><summary><code>{whole}</code> is whole' in page
    assert ">54</td>" in page
    assert "the first 20 of 54" in page
    assert "http" not in page.replace("http-equiv", ""), "it needs no other file"


def test_the_command(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    del spark  # the command's own session is this one
    options = [part for name, value in SMALL.items() for part in ("-o", f"{name}={value}")]
    page = tmp_path / "report.html"
    call = CliRunner().invoke(main, ["spark", "audit", str(whole), "--html", str(page), "--json", *options])
    assert call.exit_code == 0, call.output
    assert json.loads(call.stdout)["stores"][0]["record_count"] == 900
    assert page.read_text().startswith("<!doctype html>")
    broken = copy_store(whole, tmp_path / "broken")
    clear_unit(broken)
    call = CliRunner().invoke(main, ["spark", "audit", str(whole), str(broken), *options, "--table"])
    assert call.exit_code == 1
    assert "unit_missing" in call.output
    _, told = call.stdout.split(f"\n{broken}\n")
    assert f"\n{MEANINGS['unit_missing'].title}: 1\n" in told
    assert re.search(r"^    \S+, queue [0-9]+, offset [0-9]+; log at [0-9]+: there is no unit$", told, re.MULTILINE)
    assert f"\n{whole}\n" not in call.stdout


def test_the_page_is_refused_before_anything_is_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys.modules["mqstore.spark.audit"], "audit", None)
    (tmp_path / "file").touch()
    for page in (tmp_path / "nowhere" / "report.html", tmp_path / "file" / "report.html", ""):
        call = CliRunner().invoke(main, ["spark", "audit", str(tmp_path), "--html", str(page)])
        assert call.exit_code == 2, call.exception
        assert "a file that can be written" in call.output
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("form", ["--json", "--table"])
def test_what_was_found_is_told_where_the_page_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str
) -> None:
    done = Audit(stores=(StoreAudit(store="s", begin=0, end=9, counts={"unit_missing": 7}),), findings=())
    monkeypatch.setattr(sys.modules["mqstore.spark.audit"], "audit", lambda *_, **__: done)
    page = tmp_path / "report.html"

    def fail(self: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", fail)
    call = CliRunner().invoke(main, ["spark", "audit", str(tmp_path), "--html", str(page), form])
    assert call.exit_code == 1
    assert "unit_missing" in call.stdout
    assert f"{page}: No space left on device" in call.output


def test_a_store_that_does_not_exist(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="nowhere"):
        audit(tmp_path / "nowhere", spark=spark)


def test_a_folder_may_have_brackets_in_its_name(spark: SparkSession, tmp_path: Path) -> None:
    """It is no glob where it is there."""
    path = tmp_path / "of [1] 'x'"
    with mqstore.open(path, "rw", **SMALL) as store:
        store.put("t", b"message", queue_id=0)
    done = audit(path, spark=spark, **SMALL)
    assert [(store.store, store.record_count, store.is_whole) for store in done.stores] == [(str(path), 1, True)]
    assert spark.read.format("mqstore").load(str(path)).count() == 1
    assert [store.store for store in audit(f"{tmp_path}/of ?1] *", spark=spark, **SMALL).stores] == [str(path)]
