"""Options: names and values."""

import re
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.options import StoreOptions, parse_delay_levels, snake_case
from tests.store.conftest import SMALL


@pytest.mark.parametrize(
    ("java", "python"),
    [
        ("mappedFileSizeCommitLog", "mapped_file_size_commit_log"),
        ("checkCRCOnRecover", "check_crc_on_recover"),
        ("haListenPort", "ha_listen_port"),
        ("brokerIP1", "broker_ip1"),
        ("enableLmq", "enable_lmq"),
        ("scheduleAsyncDeliverMaxResendNum2Blocked", "schedule_async_deliver_max_resend_num2_blocked"),
        ("enableDLegerCommitLog", "enable_d_leger_commit_log"),
        ("already_so", "already_so"),
    ],
)
def test_both_spellings_of_an_option(java: str, python: str) -> None:
    assert snake_case(java) == python


def test_values_come_as_text_or_typed() -> None:
    options = StoreOptions.of("p", {"maxMessageSize": "1024", "message_index_enable": "false", "enableLmq": True})
    assert (options.max_message_size, options.message_index_enable, options.enable_lmq) == (1024, False, True)
    assert options.commit_log_paths() == [f"{Path.cwd()}/p/commitlog"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mapedFileSizeCommitLog": 1}, "mapped_file_size_commit_log"),
        ({"maxMessageSize": "much"}, "expected an integer"),
        ({"flushDiskType": "SYNC_FLUSH", "flush_disk_type": "ASYNC_FLUSH"}, "given under its other spelling"),
        ({"messageIndexEnable": "no"}, "expected true or false, found str"),
        ({"maxMessageSize": True}, "expected an integer"),
        ({"maxMessageSize": -1}, "expected an integer from 0"),
        ({"flushDiskType": "SOMETIMES"}, "ASYNC_FLUSH, SYNC_FLUSH"),
        ({"brokerRole": "MASTER"}, "SLAVE"),
        ({"enableDLegerCommitLog": "true"}, "DLedger"),
        ({"messageDelayLevel": "1s soon"}, "'soon'"),
        ({"transientStorePoolEnable": True, "flushDiskType": "SYNC_FLUSH"}, "ASYNC_FLUSH alone"),
        ({"accessMessageInMemoryMaxRatio": 101}, "percentage"),
    ],
)
def test_a_bad_option_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(mqstore.OptionError, match=message) as raised:
        StoreOptions.of("p", given)
    assert raised.value.option
    assert raised.value.value is not None


SMALL_INDEX: dict[str, Any] = {"maxHashSlotNum": 9, "maxIndexNum": 9}


@pytest.mark.parametrize("name", ["storePathRootDir", "store_path_root_dir"])
def test_a_folder_is_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("store")
    others = (f"file://{tmp_path}", f"file://other{tmp_path}/store", f"s3:{tmp_path}/store", "s3://store")
    for elsewhere in ("other", str(tmp_path), "", *others):
        given: dict[str, Any] = {name: elsewhere, **SMALL_INDEX}
        with pytest.raises(mqstore.OptionError, match=f"^option {name}={elsewhere}: expected .*store, which is given"):
            mqstore.open("store", "rw", **given)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
    uris = (f"file://{tmp_path}/store", f"file:{tmp_path}/st%6Fre/", f"FILE://localhost{tmp_path}/link")
    for same in ("store", tmp_path / "store", f"{tmp_path}/../{tmp_path.name}/store/", "link", *uris):
        given = {name: same, **SMALL_INDEX}
        mqstore.open("store", "rw", **given).close()
    conf = tmp_path / "broker.conf"
    conf.write_text("storePathRootDir=/nowhere\n")
    with mqstore.open("store", "r", conf=conf, **SMALL_INDEX) as store:
        assert store.path.resolve() == tmp_path / "store"
    given = {name: "/nowhere", **SMALL_INDEX}
    with pytest.raises(mqstore.OptionError, match="option store"):
        mqstore.open("store", "r", conf=conf, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"mappedFileSizeCommitLog": 10},
        {"mappedFileSizeCommitLog": 3 << 30},
        {"maxHashSlotNum": 0},
        {"maxIndexNum": 1},
        {"maxIndexNum": 200_000_000},
        {"mappedFileSizeConsumeQueue": 0},
    ],
)
def test_values_that_would_break_the_files_are_refused_before_anything_is_made(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    with pytest.raises(mqstore.OptionError, match=next(iter(given))):
        mqstore.open(tmp_path / "store", "rw", **given)
    assert list(tmp_path.iterdir()) == []


def test_queue_files_hold_whole_units(tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "s", "rw", mappedFileSizeConsumeQueue=999, maxHashSlotNum=9, maxIndexNum=9) as store:
        store.put("t", b"")
    (file,) = (tmp_path / "s" / "consumequeue" / "t").glob("*/*")
    assert file.stat().st_size == 1000


def test_modes_and_damage_are_words(tmp_path: Path) -> None:
    with pytest.raises(mqstore.OptionError, match="mode"):
        mqstore.open(tmp_path, "w")
    with pytest.raises(mqstore.OptionError, match="on_damage"):
        mqstore.open(tmp_path, "rw", on_damage="ignore")


def test_delay_levels() -> None:
    assert parse_delay_levels("1s 2m 3h 4d") == [1000, 120_000, 10_800_000, 345_600_000]


@pytest.mark.parametrize("name", ["compat", "pread", "schedule_messages", "replication", "retention"])
@pytest.mark.parametrize("value", ["false", "true", 0, 1])
def test_a_switch_is_no_text_and_no_number(tmp_path: Path, name: str, value: object) -> None:
    given: dict[str, Any] = {name: value}
    expected = "True, False or a mqstore.Retention" if name == "retention" else "True or False"
    with pytest.raises(mqstore.OptionError, match=f"option {name}={value!r}: expected {expected}$") as raised:
        mqstore.open(tmp_path / "store", "rw", **given)
    assert (raised.value.option, raised.value.value) == (name, str(value))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mappedFileSizeCommitLog", "99999999999999999999"),
        ("maxHashSlotNum", 2**32),
        ("osPageCacheBusyTimeOutMills", 2**63),
        ("maxDeliverDistanceMs", 2**63),
        ("flushIntervalCommitLog", 10**30),
        ("flushIntervalCommitLog", "9" * 5000),
        ("transactionCheckInterval", 2**63),
        ("messageDelayLevel", "²s"),
        ("messageDelayLevel", "99999999999999999999d"),
        ("messageDelayLevel", "9223372036854775807s"),
        ("maxMessageSize", "٣"),
        ("listenPort", 99_999),
        ("brokerIP1", "foo"),
        ("born_host", "foo"),
        ("born_host", "127.0.0.1:99999"),
        ("store_host", "::1:5"),
        ("store_host", "[fe80::1%1]:5"),
        ("born_host", 5),
        ("born_host", b"1.2.3.4:5"),
    ],
)
def test_values_that_the_engine_does_not_take_are_refused_by_name(tmp_path: Path, name: str, value: object) -> None:
    given: dict[str, Any] = {name: value}
    with pytest.raises(mqstore.OptionError) as raised:
        mqstore.open(tmp_path / "store", "rw", **given)
    assert snake_case(raised.value.option) == snake_case(name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [10**30, -1, 1e400, "1e400", "9" * 30, "0.9", 0.9, "", "-5"])
@pytest.mark.parametrize(("name", "most"), [("maxMessageSize", 2**31 - 1), ("transactionTimeOut", 2**63 - 1)])
def test_a_number_out_of_bounds_is_told_with_them(name: str, most: int, value: object) -> None:
    with pytest.raises(mqstore.OptionError) as raised:
        StoreOptions.of("p", {name: value})
    name, given, told = re.fullmatch(r"option (\w+)=(.*): (.*)", str(raised.value)).groups()  # type: ignore[union-attr]
    assert (snake_case(name), given) == (snake_case(name), str(value))
    assert "from 0" in told
    assert str(most) in told


def test_a_broker_of_which_only_the_name_is_known_can_be_told_the_address(tmp_path: Path) -> None:
    small: dict[str, Any] = {"maxHashSlotNum": 9, "maxIndexNum": 9, "brokerIP1": "broker.example"}
    with pytest.raises(mqstore.OptionError, match=r"option brokerIP1='broker.example': .* store_host= says") as raised:
        mqstore.open(tmp_path / "store", "rw", **small)
    assert raised.value.value == "broker.example"
    mqstore.open(tmp_path / "store", "rw", store_host="10.0.0.1:5", **small).close()


def test_a_clock_is_a_function(tmp_path: Path) -> None:
    clock: Any = 5
    with pytest.raises(TypeError, match="clock=5: expected a function that gives milliseconds"):
        mqstore.open(tmp_path / "store", "rw", clock=clock)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("now", "error"), [(1.5, TypeError), (None, TypeError), (1 << 63, ValueError)])
def test_what_a_clock_gives_is_an_integer(tmp_path: Path, now: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"clock\(\)={now!r}: expected an integer from"):
        mqstore.open(tmp_path / "store", "rw", clock=lambda: now)
    assert list(tmp_path.iterdir()) == []


def test_a_clock_that_fails_is_told_and_its_last_time_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mqstore.open(tmp_path / "store", "rw", clock=fail)
    assert list(tmp_path.iterdir()) == []
    told: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failure: told.append(failure.exc_type))
    times = iter([1_780_000_000_000])
    with mqstore.open(tmp_path / "store", "rw", clock=lambda: next(times), maxHashSlotNum=9, maxIndexNum=9) as store:
        assert store.now() == 1_780_000_000_000
    assert set(told) == {StopIteration}


def test_ctrl_c_in_a_clock_is_not_lost(tmp_path: Path) -> None:
    presses = [False]

    def clock() -> int:
        if presses[0] and threading.current_thread() is threading.main_thread():
            presses[0] = False
            signal.raise_signal(signal.SIGINT)
        return 1_780_000_000_000

    with mqstore.open(tmp_path / "store", "rw", clock=clock, maxHashSlotNum=9, maxIndexNum=9) as store:
        store.put("t", b"first", queue_id=0)
        presses[0] = True
        with pytest.raises(KeyboardInterrupt):
            store.put("t", b"second", queue_id=0)
        assert len(store.topic("t").queue(0)) == 2


def _keep(_message: mqstore.Message) -> mqstore.LocalTransactionState:
    return mqstore.LocalTransactionState.UNKNOW


def test_the_longest_times_are_taken(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "osPageCacheBusyTimeOutMills": 2**63 - 1,
        "flushIntervalCommitLog": 2**31 - 1,
        "transactionCheckInterval": 2**63 - 1,
    }
    small: dict[str, Any] = {"maxHashSlotNum": 9, "maxIndexNum": 9, "messageDelayLevel": "1s 999999999d"}
    with mqstore.open(
        tmp_path / "store", "rw", born_host="[::1]:5", check_transactions=_keep, **given, **small
    ) as store:
        store.put("t", b"")
        assert [service.error for service in store._services] == [None] * len(store._services)


def test_a_conf_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(mqstore.OptionError, match=r"absent.conf: No such file"):
        mqstore.open(tmp_path / "store", "rw", conf=tmp_path / "absent.conf")
    (tmp_path / "latin.conf").write_bytes(b"brokerName=\xe9\n")
    with pytest.raises(mqstore.OptionError, match=r"latin.conf: at byte 11: expected UTF-8"):
        mqstore.open(tmp_path / "store", "rw", conf=tmp_path / "latin.conf")


@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("path", ["", "file://"])
def test_an_empty_path_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, mode: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mqstore.OptionError, match=f"option path={path}: it names no folder"):
        mqstore.open(path, mode)
    assert list(tmp_path.iterdir()) == []


def test_a_store_stays_where_it_is_wherever_the_process_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that become daemons go to another folder, where another store can lie."""
    options = SMALL | {"storePathCommitLog": "logs/here", "readOnlyCommitLogStorePaths": "logs/old"}
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with mqstore.open("store", "rw", **options) as store:
            store.put("t", name.encode(), queue_id=0, keys="k")
    monkeypatch.chdir(tmp_path / "one")
    with mqstore.open("store", "rw", **options) as writer, mqstore.open("store", **options) as reader:
        monkeypatch.chdir(tmp_path / "other")
        for number in range(20):
            writer.put("t", bytes(10_000), queue_id=0, keys=str(number))
        writer.put("new", b"n", queue_id=0)
        writer.flush()
        reader.refresh()
        assert reader.get_max_offset_in_queue("t", 0) == 21
        [found] = reader.query_message("t", "k")
        assert bytes(found.body) == b"one"
        monkeypatch.chdir("/")
        writer.put("newer", b"n", queue_id=0)
    for name, count in (("one", 23), ("other", 1)):
        monkeypatch.chdir(tmp_path / name)
        with mqstore.open("store", "rw", **options) as store:
            assert store.report().closed_cleanly
            assert store.select().count() == count


def test_a_path_that_begins_at_a_folder_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(mqstore.OptionError, match="option path=store: it begins at the current folder, which is gone"):
        mqstore.open("store")
