"""Stores that do not lie on this machine's disks: the same messages, few bytes, one clear error."""

import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fsspec
import pytest
from click.testing import CliRunner, Result
from pyarrow import fs

import mqstore
from mqstore import _native
from mqstore.cli.main import main
from mqstore.errors import MQStoreError, OptionError, StoreIOError, StoreNotFoundError
from mqstore.store import byte_ranges
from mqstore.verify.verify import verify
from tests.elsewhere import KEY, SECRET, Asked, S3Server, elsewhere, s3_server

SIZES: dict[str, Any] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 20_000,
}
COUNT = 6000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a closed store of 6 log files in it."""
    root = tmp_path_factory.mktemp("made")
    with mqstore.open(root / "store", "rw", **SIZES) as store:
        for number in range(COUNT):
            topic = "rare" if number % 1000 == 0 else f"topic-{number % 3}"
            store.put(topic, b"%06d" % number * 150, keys=f"key-{number}", queue_id=number % 2)
    return root


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """A server."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def uploaded(made: Path, s3: S3Server) -> str:
    """The store's URI there, with the keys in it."""
    s3.upload(made / "store", "bucket/a folder/store")
    return byte_ranges.with_parameters(s3.uri("bucket/a%20folder/store"), {"access_key": KEY, "secret_key": SECRET})


def contents(store: mqstore.MessageStore) -> list[tuple[object, ...]]:
    """What a store holds."""
    return [(m.topic, m.queue_id, m.queue_offset, m.commit_log_offset, *m.keys, bytes(m.body)) for m in store.select()]


def queues(store: mqstore.MessageStore) -> list[Any]:
    """Its queues."""
    return sorted(row[:4] for row in store._queues())


def asserts_same(store: mqstore.MessageStore, local: mqstore.MessageStore) -> None:
    """A store answers as the local one does."""
    assert queues(store) == queues(local)
    assert contents(store) == contents(local)
    found = [m.commit_log_offset for m in store.select("topic-1", key="key-4")]
    assert found == [m.commit_log_offset for m in local.select("topic-1", key="key-4")] != []
    time = local.get_message_store_time_stamp("topic-2", 0, 100)
    at = local.get_offset_in_queue_by_time("topic-2", 0, time, "lower")
    assert store.get_offset_in_queue_by_time("topic-2", 0, time, "lower") == at
    assert store.report().is_whole


def test_a_store_on_any_file_system_of_pyarrow(made: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(made / "store"), "/stores/one", recursive=True)
    mock = fs._MockFileSystem()
    fs.copy_files(str(made / "store"), "stores/one", destination_filesystem=mock)
    systems = {
        "store": fs.SubTreeFileSystem(str(made), fs.LocalFileSystem()),
        "stores/one": mock,
        "/stores/one": fs.PyFileSystem(fs.FSSpecHandler(memory)),
    }
    with mqstore.open(made / "store") as local:
        for path, system in systems.items():
            with mqstore.open(path, filesystem=system) as store:
                asserts_same(store, local)
        with mqstore.open("fsspec+memory:///stores/one") as store:
            asserts_same(store, local)
        with mqstore.open((made / "store").as_uri()) as store:
            assert store.path == made / "store"
            asserts_same(store, local)


def test_a_store_on_s3(made: Path, uploaded: str) -> None:
    with mqstore.open(made / "store") as local, mqstore.open(uploaded) as store:
        asserts_same(store, local)
        assert repr(store).startswith("<MessageStore s3://bucket/a%20folder/store")


def test_wildcards_name_stores(uploaded: str) -> None:
    for pattern in ("bucket/*/store", "bucket/a%20f*/s[tu]ore", "bucket/a%20folder/*"):
        assert byte_ranges.expand(uploaded.replace("bucket/a%20folder/store", pattern)) == [uploaded]
    assert byte_ranges.expand(uploaded) == [uploaded]
    with pytest.raises(OptionError, match=r"option path=s3://bucket/b\*: it names no folder with a commitlog"):
        byte_ranges.expand(uploaded.replace("bucket/a%20folder/store", "bucket/b*"))


def test_few_bytes_are_read(made: Path) -> None:
    system, asked = elsewhere(made)
    with mqstore.open("store", filesystem=system) as store:
        log_size = store.get_max_phy_offset()
        assert asked.size_of("commitlog") < log_size / 3, "its end is found from the queues"
        assert asked.size < log_size / 2
        del asked.ranges[:]
        assert [m.keys for m in store.select("topic-1", key="key-100")] == [("key-100",)]
        assert asked.size < 100_000, "a slot, an entry, a record"
        del asked.ranges[:]
        assert store.select("rare").count() == 6
        assert sum(1 for _ in store.select("rare")) == 6
        assert asked.size_of("commitlog") <= 6 * 32_768
        del asked.ranges[:]
        assert store.select().count() == COUNT
        assert asked.size_of("commitlog") < log_size * 1.02, "a walk reads each byte once"
        assert len(asked.ranges) < 30, "and many with each request"
        before = _native.read_bytes()
        store.get_commit_log_data(0)
        assert _native.read_bytes() > before


def test_a_listing_is_taken_once(made: Path) -> None:
    system, asked = elsewhere(made)
    with mqstore.open("store", filesystem=system) as store:
        folders = {name: asked.listed.count(name) for name in asked.listed}
        assert max(folders.values()) <= 2, folders
        assert len(folders) <= 8, "queues are listed with those beside them"
        del asked.listed[:]
        assert store.refresh() == 0
        assert contents(store)
        assert asked.listed == []


def test_what_was_not_closed_is_read_as_on_a_disk(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "store", tmp_path / "store")
    (tmp_path / "store" / "abort").touch()
    shutil.rmtree(tmp_path / "store" / "consumequeue" / "topic-1")
    last = max((tmp_path / "store" / "commitlog").iterdir())
    with mqstore.open(tmp_path / "store") as local:
        end = local.get_max_phy_offset() - int(last.name)
    with last.open("r+b") as file:
        file.seek(end - 100)
        file.write(b"\0" * 100)
    # A torn record, where none was known to be on the disk.
    (tmp_path / "store" / "mqstore" / "positions").unlink()
    system, _ = elsewhere(tmp_path)
    with mqstore.open(tmp_path / "store") as local, mqstore.open("store", filesystem=system) as store:
        asserts_same(store, local)


def test_verifying(made: Path, uploaded: str) -> None:
    local, _ = verify(made / "store", **SIZES)
    audit, findings = verify(uploaded, **SIZES)
    assert audit.is_whole
    assert findings == []
    counts = ("record_count", "unit_count", "entry_count", "queue_count")
    assert [getattr(audit, name) for name in counts] == [getattr(local, name) for name in counts]
    assert audit.store == "s3://bucket/a%20folder/store"


def run(*arguments: str) -> Result:
    """Calls the command."""
    return CliRunner().invoke(main, arguments)


def sizes(path: str) -> dict[str, int]:
    """What the parts of a store take."""
    lines = map(json.loads, run("du", path, "--json").stdout.splitlines())
    return {row["part"]: row["size"] for row in lines if row["size"]}


def test_commands(made: Path, uploaded: str) -> None:
    assert run("ls", uploaded).stdout == run("ls", str(made / "store")).stdout
    found = run("find", uploaded, "topic-1", "key-4")
    assert found.exit_code == 0
    assert "key-4" in found.stdout
    assert sizes(uploaded) == sizes(str(made / "store")) != {}
    refused = run("groups", uploaded)
    assert refused.exit_code == 1
    assert "s3://bucket/a%20folder/store is not local" in refused.stderr
    assert SECRET not in refused.stderr


def test_groups_of_a_store_elsewhere_are_refused_before_it_is_looked_for() -> None:
    refused = run("groups", "gopher://host/store")
    assert refused.exit_code == 1
    assert refused.stderr == "Error: gopher://host/store is not local: this needs a store on this machine's disks\n"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("file:/srv/a%20store", "/srv/a store"),
        ("FILE:/srv/store", "/srv/store"),
        ("file:///srv/a%20store%23%3F", "/srv/a store#?"),
        ("file:///srv/a#store?z", "/srv/a#store?z"),
        ("file://localhost/srv/store", "/srv/store"),
        ("/srv/a%20store#?", "/srv/a%20store#?"),
        ("a/b:/c", "a/b:/c"),
        ("./dbfs:/mnt/x", "./dbfs:/mnt/x"),
        ("a:b", "a:b"),
    ],
)
def test_what_a_path_names_on_this_machine(given: str, path: str) -> None:
    assert byte_ranges.local_path(given) == path
    assert not byte_ranges.is_remote(given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("dbfs:/mnt/x", r"another file system has // behind its scheme.*/dbfs:/mnt/x$"),
        ("s3:/bucket/store", r"another file system has // behind its scheme.*/s3:/bucket/store$"),
        ("file:data/x", "begins with file:/"),
        ("file:", "names no folder"),
        ("file://localhost", "names no folder"),
        ("file://elsewhere/store", "the machine elsewhere"),
    ],
)
def test_what_is_no_path_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=f"option path={given}: .*{reason}"):
        mqstore.open(given, "rw")
    assert not list(tmp_path.iterdir())
    if given == "dbfs:/mnt/x":
        Path(given).mkdir(parents=True)
        assert byte_ranges.local_path(given) == given


# ---- what goes wrong


def test_what_can_not_be_opened(made: Path, s3: S3Server) -> None:
    system, _ = elsewhere(made)
    with pytest.raises(StoreNotFoundError, match="elsewhere://none"):
        mqstore.open("none", filesystem=system)
    with pytest.raises(OptionError, match=r"option mode='rw'.*is not local") as refused:
        mqstore.open("store", "rw", filesystem=system)
    assert refused.value.option == "mode"
    with pytest.raises(OptionError, match="option path=gopher://host/store"):
        mqstore.open("gopher://host/store")
    with pytest.raises(OptionError, match="file:///"):
        mqstore.open("file://elsewhere/store")
    for uri in ("s3://", "s3://?region=eu-west-1", "hdfs://"):
        with pytest.raises(OptionError, match=r"^option path=(s3|hdfs)://: it names no folder$"):
            mqstore.open(uri)
    wrong = byte_ranges.with_parameters(s3.uri("nothing/store"), {"access_key": KEY, "secret_key": SECRET})
    with pytest.raises(MQStoreError, match="s3://nothing/store") as missing:
        mqstore.open(wrong)
    assert SECRET not in str(missing.value)
    with pytest.raises(OptionError, match=r"option path=s3://bucket/store: .*secret_kye") as bad:
        mqstore.open(f"s3://{KEY}:hidden@bucket/store?secret_kye=concealed")
    assert "hidden" not in str(bad.value)
    assert "concealed" not in str(bad.value)
    with pytest.raises(OptionError, match="only read"):
        byte_ranges.refuse_remote("to", wrong)


def test_a_file_that_shrinks(made: Path) -> None:
    system, asked = elsewhere(made)
    with mqstore.open("store", filesystem=system) as store:
        asked.read = lambda name, _, found: found[: len(found) // 2] if "/commitlog/" in name else found
        with pytest.raises(
            StoreIOError, match=r"read elsewhere://store/commitlog/0+: bytes 0 to \d+: expected \d+ bytes"
        ):
            contents(store)


def test_a_file_that_vanishes(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "store", tmp_path / "store")
    system, _ = elsewhere(tmp_path)
    with mqstore.open("store", filesystem=system) as store:
        second = sorted((tmp_path / "store" / "commitlog").iterdir())[1]
        second.unlink()
        with pytest.raises(StoreIOError, match=f"elsewhere://store/commitlog/{second.name}: bytes 0 to"):
            contents(store)


def test_a_connection_that_fails_in_the_middle(made: Path) -> None:
    system, asked = elsewhere(made)

    def fail(name: str, offset: int, found: bytes) -> bytes:
        if "/commitlog/" in name and offset > 0:
            raise ConnectionResetError("the peer has gone\nand more lines")
        return found

    with mqstore.open("store", filesystem=system) as store:
        asked.read = fail
        cursor = iter(store.select("topic-0"))
        with pytest.raises(StoreIOError, match=r"commitlog/0+: bytes \d+ to \d+: the peer has gone$"):
            list(cursor)
        asked.read = Asked().read
        assert len(contents(store)) == COUNT, "the next one reads it"


_ASKED_WHILE_IT_READS = """
    import sys, threading
    from pathlib import Path
    import mqstore
    from tests.elsewhere import elsewhere

    system, asked = elsewhere(Path(sys.argv[1]))
    reads, calls = threading.Event(), threading.Event()

    def wait(name, _, found):
        if "/consumequeue_ext/" in name:
            reads.set()
            calls.wait()
        return found

    with mqstore.open("store", filesystem=system, enableConsumeQueueExt=True) as store:
        asked.read = wait
        read = threading.Thread(target=store.get_message, args=("t", 0, 10_000, 32, "tag"))
        read.start()
        reads.wait()
        calls.set()
        print(len(store._queues()), store.get_max_offset_in_queue("t", 0))
        read.join()
"""


def test_a_queue_that_is_asked_for_while_another_thread_reads_of_it(tmp_path: Path) -> None:
    sizes = SIZES | {"mappedFileSizeConsumeQueue": 400_000}
    with mqstore.open(tmp_path / "store", "rw", enableConsumeQueueExt=True, **sizes) as store:
        # More than opening reads of the extension.
        for _ in range(20_000):
            store.put("t", b"body", tags="tag", queue_id=0)
    # A process of its own: threads that wait for each other and for the interpreter end in no other way.
    command = [sys.executable, "-c", textwrap.dedent(_ASKED_WHILE_IT_READS), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.stdout, ended.returncode) == ("1 20000\n", 0), ended.stderr


def test_an_interrupt_stays_one(made: Path) -> None:
    system, asked = elsewhere(made)

    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    with mqstore.open("store", filesystem=system) as store:
        asked.read = interrupt
        with pytest.raises(KeyboardInterrupt):
            contents(store)


def test_no_error_shows_what_is_secret(made: Path) -> None:
    system, asked = elsewhere(made)
    uri = byte_ranges.with_parameters("elsewhere://host/store?sas_token=concealed&region=north", {"secret_key": SECRET})
    ranges = byte_ranges.ByteRanges(system, "store", name=byte_ranges.shown(uri), secrets=byte_ranges._secrets(uri))

    def fail(*_: object) -> bytes:
        raise OSError(f"GET {uri} as {SECRET} in the north: refused")

    asked.read = fail
    with pytest.raises(OSError, match="in the north: refused") as refused:
        ranges.open("checkpoint").read_at(8, 0)
    told = str(refused.value)
    assert not any(secret in told for secret in (SECRET, quote(SECRET, safe=""), "concealed")), told
    assert byte_ranges.shown(uri) == "elsewhere://host/store"


@pytest.mark.parametrize("lie", ["longer", "huge", "shorter", "outside", "beside", "gone", "folder"])
def test_a_listing_that_lies(made: Path, lie: str) -> None:
    system, asked = elsewhere(made)

    def say(info: fs.FileInfo) -> fs.FileInfo | None:
        if "/commitlog/" not in info.path or not info.path.endswith("5242880"):
            return info
        sizes = {"longer": info.size * 2, "huge": (1 << 63) - 1, "shorter": info.size // 2}
        if lie in sizes:
            return fs.FileInfo(info.path, type=fs.FileType.File, size=sizes[lie])
        if lie == "outside":
            return fs.FileInfo("store/commitlog/../../00000000000000000000", type=fs.FileType.File, size=5)
        if lie == "beside":
            return fs.FileInfo("another/commitlog/00000000000005242880", type=fs.FileType.File, size=info.size)
        return None if lie == "gone" else fs.FileInfo(info.path, type=fs.FileType.Directory)

    asked.say = say
    if lie in {"outside", "beside"}:
        with pytest.raises(StoreIOError, match="expected a listing of"):
            mqstore.open("store", filesystem=system)
        return
    with mqstore.open("store", filesystem=system) as store:
        assert not store.report().is_whole, "a person is told"
        assert (len(contents(store)) == COUNT) == (lie in {"longer", "huge"}), "what is there is read"
