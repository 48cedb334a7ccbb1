"""What ``-o`` takes: RocketMQ's options, and what of ``mqstore.open`` can be said as text."""

import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import mqstore
from mqstore.cli.main import main
from mqstore.cli.store_call import StoreCall

SMALL = ["-o", "maxHashSlotNum=97", "-o", "max_index_num=400"]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("name", ["retention", "schedule_messages", "replication"])
@pytest.mark.parametrize("value", ["true", "False"])
def test_a_service_is_asked_for_by_true_alone(tmp_path: Path, name: str, value: str) -> None:
    # A folder that is read has no services: they are refused where they are asked for.
    StoreCall.parse(str(tmp_path / "s"), SMALL[1::2]).open("rw").close()
    result = run("dump", tmp_path / "s", *SMALL, "-o", f"{name}={value}")
    assert result.exit_code == (1 if value == "true" else 0), result.output
    with StoreCall.parse(str(tmp_path / "s"), [*SMALL[1::2], f"{name}={value}", "haListenPort=0"]).open("rw") as store:
        services = {type(service).__name__ for service in store._services}
    asked = {
        "retention": "CleanFilesService",
        "schedule_messages": "ScheduleMessageService",
        "replication": "HAService",
    }
    assert (asked[name] in services) == (value == "true")


@pytest.mark.parametrize("name", ["retention", "schedule_messages", "replication", "pread", "compat", "crash"])
def test_a_switch_is_true_or_false(name: str) -> None:
    with pytest.raises(click.BadParameter, match=f"{name}='no': expected true or false"):
        StoreCall.parse("s", [f"{name}=no"])


@pytest.mark.parametrize("name", ["mode", "path", "filesystem", "conf", "clock", "check_transactions", "staging"])
def test_what_only_programs_can_give_is_no_option(tmp_path: Path, name: str) -> None:
    result = run("recover", tmp_path / "s", "-o", f"{name}=r")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: option {name}=r: there is no such option")
    assert list(tmp_path.iterdir()) == []


def test_words_of_open_are_taken(tmp_path: Path) -> None:
    given = [*SMALL[1::2], "on_damage=truncate", "born_host=10.0.0.1:7", "store_host=10.0.0.2:8", "pread=true"]
    with StoreCall.parse(str(tmp_path / "s"), given).open("rw") as store:
        store.put("t", b"1", queue_id=0)
        (message,) = store.topic("t")
        assert (message.born_host, message.store_host) == ("10.0.0.1:7", "10.0.0.2:8")
    with pytest.raises(mqstore.OptionError, match="on_damage='ignore'"):
        StoreCall.parse(str(tmp_path / "s"), ["on_damage=ignore"]).open("rw")


def test_options_of_a_broker_are_passed_over_where_they_are_no_stores() -> None:
    call = StoreCall.parse("s", ["broker.brokerClusterName=c", "broker.brokerIP1=10.0.0.1", "broker.retention=true"])
    assert call.options == {"brokerIP1": "10.0.0.1"}


@pytest.mark.parametrize("command", ["put", "recover", "ls", "verify", "repair"])
def test_an_empty_folder_name_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(command, "", *(["--in-place"] if command == "repair" else []))
    assert result.exit_code == 1
    assert result.stderr == "Error: option path=: it names no folder; the current one is .\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (["ls", "DIR", "-o", "crash=true"], "option crash=true: there is no such option"),
        (["ls", "DIR", "-o", "bench.messages=1"], "option bench.messages=1: there is no such option"),
        (["repair", "DIR", "--in-place", "-o", "compat=true"], "compat=true: a repair has no answer"),
        (["spark", "import", "DIR", "--to", "x", "-o", "compat=true"], "option compat=true: there is no such option"),
        (["metrics", "DIR", "--json"], "No such option"),
        (["bench", "DIR", "-o", "bench.messages=many"], "bench.messages='many': expected a number of at least 1"),
        (["bench", "DIR", "-o", "bench.queues=0"], "bench.queues='0': expected a number of at least 1"),
    ],
)
def test_what_a_command_does_not_go_by_is_refused(tmp_path: Path, call: list[str], expected: str) -> None:
    with mqstore.open(tmp_path / "s", "rw", max_hash_slot_num=97, max_index_num=400) as store:
        store.put("t", b"")
    result = run(*(tmp_path / "s" if each == "DIR" else each for each in call))
    assert result.exit_code in {1, 2}
    assert expected in result.stderr


def test_a_brokers_own_file_gives_options(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "brokerName=broker-a\nstorePathRootDir=/nowhere\nmaxHashSlotNum=97\nmaxIndexNum=400\nflushDiskType=SYNC_FLUSH\n"
    )
    call = StoreCall.parse(str(tmp_path / "s"), ["max_index_num=500"], conf=str(conf))
    with call.open("rw") as store:
        assert Path(store.path) == tmp_path / "s"
        assert store.options.is_sync_flush
        assert (store.options.max_hash_slot_num, store.options.max_index_num) == (97, 500)


@pytest.mark.parametrize("command", [["ls"], ["verify"], ["du"], ["repair", "--in-place"]])
def test_another_folder_than_the_one_that_is_given_is_refused(tmp_path: Path, command: list[str]) -> None:
    mqstore.open(tmp_path / "s", "rw", maxHashSlotNum=97, maxIndexNum=400).close()
    result = run(*command, tmp_path / "s", *SMALL, "-o", f"storePathRootDir={tmp_path}/other")
    assert result.exit_code == 1
    assert f"{tmp_path}/other: expected {tmp_path}/s, which is given" in result.stderr
    assert run("ls", tmp_path / "s", *SMALL, "-o", f"storePathRootDir={tmp_path}/s/").exit_code == 3


@pytest.mark.parametrize("command", ["ls", "verify", "dump", "du", "groups"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, command: str) -> None:
    mqstore.open(tmp_path / "s", "rw", maxHashSlotNum=97, maxIndexNum=400).close()
    result = run(command, tmp_path / "s", "-c", tmp_path / "absent.conf")
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: option conf={tmp_path}/absent.conf: No such file or directory\n",
    )


@pytest.mark.parametrize("command", ["verify", "repair", "recover", "ls"])
def test_the_log_of_the_original_is_not_taken_for_a_copys(tmp_path: Path, command: str) -> None:
    # A copy's files take all of their size.
    small = [*SMALL, "-o", "mappedFileSizeCommitLog=65536"]
    with StoreCall.parse(str(tmp_path / "original"), small[1::2]).open("rw") as store:
        store.put("t", b"")
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathCommitLog={tmp_path}/original/commitlog\n")
    how = ["--in-place"] if command == "repair" else []
    result = run(command, tmp_path / "copy", "-c", conf, *how, *small)
    assert result.exit_code == 1
    assert f"option storePathCommitLog={tmp_path}/original/commitlog: by {conf} it lies elsewhere" in result.stderr
    own = f"storePathCommitLog={tmp_path}/copy/commitlog"
    assert run(command, tmp_path / "copy", "-c", conf, *how, *small, "-o", own).exit_code == 0
    assert run(command, tmp_path / "original", "-c", conf, *how, *small).exit_code == 0


def test_a_check_goes_by_the_brokers_delay_levels(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("messageDelayLevel=7h 8h\n")
    with mqstore.open(tmp_path / "s", "rw", messageDelayLevel="7h 8h", maxHashSlotNum=97, maxIndexNum=400) as store:
        store.put("t", b"", delay_time_level=1)
    without = run("verify", tmp_path / "s", "--table", *SMALL)
    assert without.exit_code == 1
    assert "a messageDelayLevel of its own" in without.stdout
    assert run("verify", tmp_path / "s", "--table", "-c", conf, *SMALL).exit_code == 0
