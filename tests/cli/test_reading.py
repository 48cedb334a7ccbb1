"""ls, get, find, seek, tail, du: what people type."""

import datetime as dt
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import mqstore
from mqstore.cli.main import main
from mqstore.cli.reader_call import TIME
from mqstore.cli.shown import message_rows, time_text

SMALL = ["-o", "maxHashSlotNum=97", "-o", "maxIndexNum=400"]
OPTIONS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 1000,
    "maxHashSlotNum": 97,
    "maxIndexNum": 400,
}
START = 1_700_000_000_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of forty messages, a second apart."""
    now = {"ms": START}
    path = tmp_path_factory.mktemp("cli") / "store"
    with mqstore.open(path, "rw", clock=lambda: now["ms"], **OPTIONS) as store:
        for number in range(40):
            now["ms"] = START + 1000 * number
            topic = "主题" if number % 4 == 3 else "orders"
            store.put(topic, b"body %d" % number, keys=f"k{number}", tags="AB"[number % 2], queue_id=number % 2)
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    result = run(*arguments, *SMALL)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_ls_lists_topics_and_queues(path: Path) -> None:
    assert [(row["topic"], row["queues"], row["messages"]) for row in rows("ls", path)] == [
        ("orders", 2, 30),
        ("主题", 1, 10),
    ]
    queues = rows("ls", path, "orders")
    assert [(row["queue"], row["min"], row["max"]) for row in queues] == [(0, 0, 20), (1, 0, 10)]


def test_get_selects(path: Path) -> None:
    found = rows("get", path, "orders", "--queue", "0", "--offset", "18")
    assert [row["queueOffset"] for row in found] == [18, 19]
    assert [row["topic"] for row in rows("get", path, "orders", "--limit", "3")] == ["orders"] * 3
    assert {row["properties"]["TAGS"] for row in rows("get", path, "orders", "--tags", "B")} == {"B"}
    assert {row["properties"]["TAGS"] for row in rows("get", path, "orders", "--sql", "TAGS <> 'B'")} == {"A"}
    begin = dt.datetime.fromtimestamp(START / 1000 + 35, dt.UTC).isoformat()
    late = rows("get", path, "orders", "--begin", begin)
    assert [row["storeTimestamp"] for row in late] == [START + 36_000, START + 38_000, START + 37_000]
    assert (
        rows("get", path, "orders", "--begin", str(START + 35_500), "--end", str(START + 36_000))[0]["queueOffset"]
        == 18
    )


def test_find_looks_in_one_topic_or_all(path: Path) -> None:
    assert [row["storeTimestamp"] for row in rows("find", path, "orders", "k8", "k9", "k11")] == [
        START + 8000,
        START + 9000,
    ]
    assert len(rows("find", path, "*", "k8", "k11")) == 2
    assert len(rows("find", path, "*", "k8", "k11", "--limit", "1")) == 1


def test_seek_gives_offsets(path: Path) -> None:
    found = rows("seek", path, "orders", str(START + 4500))
    assert [(row["queue"], row["offset"]) for row in found] == [(0, 3), (1, 1)]
    upper = rows("seek", path, "orders", str(START + 4500), "--boundary", "upper")
    assert [(row["queue"], row["offset"]) for row in upper] == [(0, 2), (1, 0)]


def test_tail_shows_the_newest_in_order(path: Path) -> None:
    newest = rows("tail", path, "orders", "-n", "3", "--no-follow")
    assert [row["storeTimestamp"] for row in newest] == [START + 36_000, START + 37_000, START + 38_000]


def test_du_shows_parts_and_topics(path: Path) -> None:
    parts = {row["part"]: row for row in rows("du", path)}
    assert parts["commitlog"]["size"] == 65_536
    assert parts["consumequeue"]["files"] == 3
    topics = {row["topic"]: row["messages"] for row in rows("du", path, "--topics")}
    assert topics == {"orders": 30, "主题": 10}
    with mqstore.open(path, **OPTIONS) as store:
        sizes = {topic: sum(message.store_size for message in store.select(topic)) for topic in topics}
    assert [(row["topic"], row["size"]) for row in rows("du", path, "--topics")] == list(sizes.items())


def test_du_shows_each_folder_of_the_log(tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "store", "rw", **OPTIONS) as store:
        store.put("t", b"body")
    (tmp_path / "disk").mkdir()
    (tmp_path / "store/commitlog").rename(tmp_path / "old")
    folders = f"storePathCommitLog={tmp_path / 'disk'}", f"readOnlyCommitLogStorePaths={tmp_path / 'old'}"
    parts = {row["part"]: row for row in rows("du", tmp_path / "store", "-o", folders[0], "-o", folders[1])}
    assert parts[str(tmp_path / "disk")]["files"] == 0
    assert parts[str(tmp_path / "old")]["size"] == 65_536


def test_what_topics_take_is_found_without_the_log(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of terabytes would take hours to read."""
    monkeypatch.setattr(mqstore.MessageStore, "select", None)
    assert {row["topic"]: row["messages"] for row in rows("du", path, "--topics")} == {"orders": 30, "主题": 10}
    mqstore.open(tmp_path / "empty", "rw", **OPTIONS).close()
    assert run("du", tmp_path / "empty", "--topics", *SMALL).exit_code == 3


def test_tables_are_for_people(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    calls: list[list[str | Path]] = [
        ["ls", path],
        ["get", path, "orders"],
        ["seek", path, "orders", str(START)],
        ["du", path],
    ]
    for arguments in calls:
        result = run(*arguments, "--table", *SMALL)
        assert result.exit_code == 0, result.output
        assert "┃" in result.stdout
    assert "body 0" in run("get", path, "orders", "--table", *SMALL).stdout


def test_exit_codes_mean_something(path: Path, tmp_path: Path) -> None:
    nothing = run("find", path, "orders", "absent", *SMALL)
    assert (nothing.exit_code, nothing.stderr) == (3, "nothing found\n")
    missing = run("ls", tmp_path / "absent")
    assert missing.exit_code == 1
    assert missing.stderr.startswith("Error: no store at ")
    assert run("ls").exit_code == 2
    assert run("get", path, "orders", "--begin", "yesterday").exit_code == 2
    assert run("ls", path, "-o", "maxIndexNumber=1").exit_code == 1


def test_damage_is_told_beside_what_is_found(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    (log,) = (copy / "commitlog").iterdir()
    content = bytearray(log.read_bytes())
    content[content.index(b"body 20")] ^= 0x20
    log.write_bytes(content)
    result = run("ls", copy, *SMALL)
    assert result.exit_code == 0
    assert "the log has no records from" in result.stderr
    assert sum(json.loads(line)["messages"] for line in result.stdout.splitlines()) == 40


def test_a_message_that_is_damaged_is_told_where_its_key_is_asked_for(tmp_path: Path) -> None:
    with mqstore.open(tmp_path, "rw", **OPTIONS) as store:
        first = store.put("t", b"body", keys="first").wrote_offset
        # Opening goes over the last three files alone.
        while len(store._log_files()) < 5:
            store.put("t", bytes(1000))
    log = min((tmp_path / "commitlog").iterdir())
    content = bytearray(log.read_bytes())
    content[content.index(b"body")] ^= 0x20
    log.write_bytes(content)
    result = run("find", tmp_path, "t", "first", *SMALL)
    assert re.search(f"the log has no records from {first} to [0-9]+: expected body CRC", result.stderr)


def test_tail_follows_until_it_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as store:
        store.put("other", b"", queue_id=0)
        store.put("t", b"first", queue_id=0)
        command = [sys.executable, "-m", "mqstore", "tail", str(path), "t", "--json", *SMALL]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert json.loads(process.stdout.readline())["queueOffset"] == 0
                store.put("t", b"second", queue_id=1)
                assert json.loads(process.stdout.readline())["queueId"] == 1
                # Removed, and filled again as far as it was and further.
                assert store.clean_unused_topic(["other"]) == 2
                store.put_many("t", [b"new", b"newer"], queue_id=0)
                assert [json.loads(process.stdout.readline())["queueOffset"] for _ in range(2)] == [0, 1]
                process.send_signal(signal.SIGINT)
                assert process.wait() == 0
            finally:
                process.kill()


def test_what_a_message_says_is_no_markup_and_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with mqstore.open(tmp_path / "s", "rw", **OPTIONS) as store:
        store.put("orders", b"1", keys="[/x]", tags="[red]a\x1b[31m\x07", queue_id=0)
    for command in (["get"], ["tail", "-F"]):
        result = run(command[0], tmp_path / "s", "orders", *command[1:], "--table", *SMALL)
        assert result.exit_code == 0, result.output
        assert "[/x]" in result.stdout
        assert r"[red]a\x1b[31m\x07" in result.stdout
        assert "\x1b" not in result.stdout


def test_tail_ends_when_nobody_reads_it_any_more(path: Path) -> None:
    """Without waiting for a message to come, which a store that nobody writes to never has."""
    command = [sys.executable, "-m", "mqstore", "tail", str(path), "orders", "-n", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["topic"] == "orders"
        process.stdout.close()
        try:
            assert process.wait() == 1
        finally:
            process.kill()


@pytest.mark.parametrize("command", [["get"], ["tail", "-F", "-n", "40"]])
def test_what_was_passed_over_is_told_once(tmp_path: Path, command: list[str]) -> None:
    """Opening looks at the last files alone: what is wrong before them is found when it is read."""
    path = tmp_path / "store"
    with mqstore.open(path, "rw", **OPTIONS) as store:
        for number in range(40):
            store.put("orders", b"%06d" % number * 1500, keys=f"k{number}", queue_id=0)
    first = min((path / "commitlog").iterdir())
    content = bytearray(first.read_bytes())
    content[content.index(b"000002" * 2)] ^= 0x01
    first.write_bytes(content)
    result = run(command[0], path, "orders", *command[1:], *SMALL)
    assert result.exit_code == 0
    assert 2 not in [json.loads(line)["queueOffset"] for line in result.stdout.splitlines()]
    assert result.stderr.count("orders-0 at 2, log offset") == 1
    assert "body CRC" in result.stderr


@pytest.mark.parametrize(
    "given",
    [
        ["get", "--queue", "5000000000"],
        ["get", "--offset", "9" * 20],
        ["get", "--limit", "9" * 20],
        ["get", "--begin", "9" * 20],
        ["get", "--begin", "-99999999999999d"],
        ["get", "--end", "-" + "9" * 5000 + "d"],
        ["get", "--begin", "0001-01-01"],
        ["get", "--begin", "20261123"],
        ["get", "--begin", "123456789"],
        ["find", "--begin", "9" * 20, "k1"],
        ["find", "--limit", "9" * 20, "k1"],
        ["seek", "0001-01-01"],
        ["seek", "9" * 20],
        ["tail", "-F", "--queue", "5000000000"],
        ["tail", "-F", "-n", "9" * 20],
    ],
    ids=lambda given: " ".join(given)[:40],
)
def test_numbers_and_times_that_cannot_be_are_wrong_calls(path: Path, given: list[str]) -> None:
    result = run(given[0], path, "orders", *given[1:], *SMALL)
    assert result.exit_code == 2, result.output
    assert result.stderr.splitlines()[-1].startswith("Error: Invalid value for ")


def test_a_queue_of_messages_without_a_delay_level_can_be_asked_for(path: Path) -> None:
    """4.9.3 gives it the number -1."""
    for command in (["get"], ["tail", "-F"]):
        result = run(command[0], path, "orders", *command[1:], "--queue", "-1", *SMALL)
        told = "nothing found: orders has messages in queues from 0 to 1, and none in queue -1\n"
        assert (result.exit_code, result.stderr) == (3, told)


def test_what_is_nowhere_is_told_apart_from_what_no_message_fits(path: Path) -> None:
    for call in (["get", "nope"], ["tail", "nope", "-F"], ["find", "nope", "k"], ["seek", "nope", "-1h"]):
        result = run(call[0], path, *call[1:], *SMALL)
        assert (result.exit_code, result.stderr) == (3, "nothing found: the store has no message of topic nope\n"), call
    for call in (["get", "orders", "--tags", "nope"], ["find", "orders", "nope"], ["find", "*", "nope"]):
        result = run(call[0], path, *call[1:], *SMALL)
        assert (result.exit_code, result.stderr) == (3, "nothing found\n"), call


@pytest.mark.parametrize("seconds", ["1795860418", "20231114"])
def test_a_number_that_is_no_milliseconds_is_refused(path: Path, seconds: str) -> None:
    assert "12 digits or more" in run("seek", path, "orders", seconds, *SMALL).stderr


def test_a_date_is_written_with_hyphens(path: Path) -> None:
    assert len(rows("get", path, "orders", "--begin", "2023-11-14")) == 30
    assert len(rows("get", path, "orders", "--begin", "20231114T000000Z")) == 30
    assert len(rows("get", path, "orders", "--begin", "-99999999999d")) == 30
    refused = run("get", path, "orders", "--begin", "20231114").stderr
    assert "like 2026-11-23, milliseconds since 1970 of 12 digits or more" in refused


@pytest.mark.parametrize("width", [100, 80, 60, 30])
def test_numbers_and_times_are_never_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Where a table has no room for them each value has a line."""
    monkeypatch.setenv("COLUMNS", str(width))
    with mqstore.open(tmp_path / "store", "rw", clock=lambda: START, **OPTIONS) as store:
        store.put_many("orders", [b""] * 1234, queue_id=0)
    shown = run("ls", tmp_path / "store", "orders", "--table", *SMALL).stdout
    assert max(map(len, shown.splitlines())) <= width
    assert re.findall("[0-9][0-9,]{4,}", shown) == ["1,234"] * 2
    day, time = time_text(START).split()
    for part in (day, time):
        assert len(re.findall(rf"(?<![0-9]){part}(?![0-9])", shown)) + shown.count(part[:6] + "\n") == 2
    assert ("│" in shown) == (width >= 80)


@pytest.mark.parametrize("width", [80, 140])
def test_a_message_of_a_few_short_keys_takes_two_lines_of_a_table_at_most(
    path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with_body = [line for line in table_lines("get", path, "orders", "--queue", "0") if "body" in line]
    assert len(with_body) == 1 + 20
    assert len(table_lines("get", path, "orders", "--queue", "0")) <= 4 + 2 * 20


def table_lines(*arguments: str | Path) -> list[str]:
    return run(*arguments, "--table", *SMALL).stdout.splitlines()


def test_programs_are_given_times_in_milliseconds(path: Path) -> None:
    first, second = rows("ls", path, "orders")
    assert (first["first stored"], first["last stored"]) == (START, START + 38_000)
    assert rows("seek", path, "orders", str(START + 4500))[0]["stored"] == START + 6000
    assert second["first stored"] == START + 1000


@pytest.mark.parametrize("output", ["--json", "--table"])
def test_a_get_says_that_there_are_more_than_it_shows(tmp_path: Path, output: str) -> None:
    with mqstore.open(tmp_path / "store", "rw", **OPTIONS) as store:
        store.put_many("orders", [b"in"] * 32, queue_id=0)
        store.put_many("orders", [b"out"], queue_id=1)
    cut = run("get", tmp_path / "store", "orders", output, *SMALL)
    assert (cut.exit_code, cut.stderr) == (0, "there are more than these 32: --limit says how many are wanted\n")
    assert "out" not in cut.stdout.replace("b3V0", "out")
    for options in (["--queue", "0"], ["--limit", "32"], ["--limit", "33"]):
        assert run("get", tmp_path / "store", "orders", output, *options, *SMALL).stderr == ""


def test_an_age_needs_no_mark_before_it(path: Path) -> None:
    for call in (["orders", "-1h"], ["orders", "-1h", "--boundary", "lower"], ["--", "orders", "-1h"]):
        found = run("seek", *SMALL, path, *call)
        assert [json.loads(line)["offset"] for line in found.stdout.splitlines()] == [20, 10], call
    assert "No such option" in run("seek", path, "orders", "-1x", *SMALL).stderr


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"\xa8", "a8"),
        ("本".encode()[:2], "e6 9c"),
        ("本".encode() * 50, "本" * 40 + "…"),
        (b"a\xff" * 3, "61 ff 61 ff 61 ff"),
        (b"two\nlines", "two lines"),
    ],
)
def test_a_body_is_shown_as_text_where_it_is_text(tmp_path: Path, body: bytes, shown: str) -> None:
    with mqstore.open(tmp_path / "store", "rw", **OPTIONS) as store:
        store.put("t", body, queue_id=0)
        (row,) = message_rows(store.select("t"), as_json=False)
    assert row["body"] == shown


def test_du_passes_over_files_that_go_meanwhile(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    whole = rows("du", copy)
    walk = os.walk

    def with_one_that_has_gone(folder: Path) -> list[tuple[str, list[str], list[str]]]:
        return [(root, folders, [*names, "gone"]) for root, folders, names in walk(folder)]

    monkeypatch.setattr("mqstore.cli.du.os.walk", with_one_that_has_gone)
    assert rows("du", copy) == whole


def test_du_has_a_log_that_lies_elsewhere(tmp_path: Path) -> None:
    elsewhere: dict[str, Any] = {"storePathCommitLog": str(tmp_path / "log")}
    with mqstore.open(tmp_path / "store", "rw", **OPTIONS, **elsewhere) as store:
        store.put("t", b"")
    option = f"storePathCommitLog={tmp_path}/log"
    parts = {row["part"]: row["size"] for row in rows("du", tmp_path / "store", "-o", option)}
    assert parts[str(tmp_path / "log")] == 65_536


@pytest.mark.parametrize(
    "call",
    [
        ["ls", "DIR", "\udcff"],
        ["get", "DIR", "\udcff"],
        ["get", "DIR", "t", "--tags", "\udcff"],
        ["get", "DIR", "t", "--sql", "\udcff"],
        ["find", "DIR", "t", "\udcff"],
        ["seek", "DIR", "\udcff", "-1h"],
        ["tail", "DIR", "\udcff"],
    ],
)
def test_an_argument_that_is_no_text_is_told(path: Path, call: list[str]) -> None:
    result = run(*(path if each == "DIR" else each for each in call), *SMALL)
    assert result.exit_code == 2
    assert "'\\udcff': expected UTF-8" in result.stderr


def test_a_filter_that_is_none_is_a_wrong_call(path: Path) -> None:
    result = run("get", path, "orders", "--sql", "TAGS >", *SMALL)
    assert result.exit_code == 2
    assert "Invalid value for --sql: option sql=TAGS >: expected a property" in result.stderr
    # 4.9.3 reads past what is behind a filter's end.
    assert run("get", path, "orders", "--sql", "TAGS = 'A' b", *SMALL).exit_code == 2
    assert run("get", path, "orders", "--sql", "TAGS = 'A' b", "-o", "compat=true", *SMALL).exit_code == 0


def test_a_filter_is_compiled_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compiles(expression: str, *, compat: bool = False) -> mqstore.SqlFilter:
        compiled.append(expression)
        return mqstore.SqlFilter(expression, compat=compat)

    monkeypatch.setattr(sys.modules["mqstore.store.arguments"], "SqlFilter", compiles)
    assert rows("get", path, "orders", "--sql", "TAGS = 'A'", "--limit", "3")
    assert compiled == ["TAGS = 'A'"]


@pytest.mark.parametrize("topic", ["", "..", "a/b", "主" * 86])
def test_a_topic_that_no_store_can_have_is_not_waited_for(path: Path, topic: str) -> None:
    for command, *others in (["ls"], ["seek", "-1h"], ["tail"]):
        result = run(command, path, topic, *others, *SMALL)
        assert result.exit_code == 2
        assert f"{topic!r}: expected a topic" in result.stderr
    assert run("tail", "-F", path, "主" * 85, *SMALL).exit_code == 3


@pytest.mark.parametrize("time_ms", [2_183_226_373_411, START + 7, 1_000_000_000_001])
def test_a_time_is_exact_to_the_millisecond(time_ms: int) -> None:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=time_ms)
    assert TIME.convert(moment.isoformat(), None, None) == time_ms
