"""What every command does alike: its output, its input, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import mqstore
from mqstore.cli.main import main
from mqstore.cli.store_call import StoreCall
from tests.command import MQSTORE, mqstore_command

SMALL: dict[str, Any] = {"maxHashSlotNum": 97, "maxIndexNum": 400}
REFUSED_OUTPUT = [
    (">/dev/full", "Error: standard output: No space left on device\n"),
    (">&-", "Error: standard output is closed: send it to /dev/null where it is not wanted\n"),
    ("| true", ""),
]
"""Where the output goes, and what is told of that. The last one's exit code is the shell's of what reads it."""


@pytest.mark.parametrize("command", ["ls", "dump", "du"])
@pytest.mark.parametrize(("redirection", "expected"), REFUSED_OUTPUT)
def test_output_that_is_not_taken_is_one_line(tmp_path: Path, command: str, redirection: str, expected: str) -> None:
    with mqstore.open(tmp_path / "s", "rw", **SMALL) as store:
        store.put("t", b"1" * 100_000, queue_id=0)
    done = redirected(command, tmp_path / "s", redirection)
    assert done.stderr == expected
    assert done.returncode == (1 if expected else 0)


@pytest.mark.parametrize("arguments", ["--help", "--version", "ls --help", "spark --help"])
@pytest.mark.parametrize(("redirection", "expected"), REFUSED_OUTPUT)
def test_help_that_is_not_taken_is_one_line(arguments: str, redirection: str, expected: str) -> None:
    done = shell([str(MQSTORE), *arguments.split()], redirection)
    assert done.stderr == expected
    assert done.returncode == (1 if expected else 0)


@pytest.mark.parametrize("command", ["put", "query"])
@pytest.mark.parametrize(
    ("redirection", "expected"),
    [
        ("<&-", "Error: standard input is closed: the command takes its lines there\n"),
        ("0>/dev/null", "Error: standard input: Bad file descriptor\n"),
    ],
)
def test_input_that_cannot_be_read_is_one_line(tmp_path: Path, command: str, redirection: str, expected: str) -> None:
    mqstore.open(tmp_path / "s", "rw", **SMALL).close()
    done = redirected(command, tmp_path / "s", redirection)
    assert done.stderr == expected
    assert done.returncode == 1


@pytest.mark.parametrize("command", ["verify", "du --topics"])
def test_a_closed_standard_error_changes_nothing(tmp_path: Path, command: str) -> None:
    with mqstore.open(tmp_path / "s", "rw", **SMALL) as store:
        store.put("t", b"1", queue_id=0)
    name, *options = command.split()
    shown = redirected(name, tmp_path / "s", " ".join(options))
    assert shown.stdout
    closed = redirected(name, tmp_path / "s", " ".join([*options, "2>&-"]))
    assert (closed.returncode, closed.stdout) == (0, shown.stdout)


def test_what_goes_to_a_closed_standard_error_goes_into_no_file_of_the_store(tmp_path: Path) -> None:
    with mqstore.open(tmp_path / "s", "rw", **SMALL) as store:
        store.put("t", b"1", queue_id=0)
    command = ["/bin/sh", "-c", 'exec "$@" t --json 2>&-', "sh", *mqstore_command("tail", tmp_path / "s", SMALL)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            standard_error = Path(f"/proc/{process.pid}/fd/2").readlink()
            process.send_signal(signal.SIGINT)
            process.wait()
        finally:
            process.kill()
    assert json.loads(line)["topic"] == "t"
    assert standard_error == Path(os.devnull)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8:strict"])
@pytest.mark.parametrize(
    "command", ["ls --json", "ls --table", "get 日本 --table", "tail 日本 -F --json", "tail 日本 -F --table"]
)
def test_any_topic_is_shown_on_any_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, encoding: str
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    with mqstore.open(tmp_path / "s", "rw", **SMALL) as store:
        store.put("日本", "本".encode(), queue_id=0)
    name, *options = command.split()
    done = redirected(name, tmp_path / "s", " ".join(options))
    assert (done.returncode, done.stderr) == (0, "")
    if "--json" in options:
        assert json.loads(done.stdout)["topic"] == "日本"
    else:
        assert ("日本" if encoding == "utf-8:strict" else r"\u65e5\u672c") in done.stdout


def test_figures_are_shown_on_any_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    with mqstore.open(tmp_path / "s", "rw", **SMALL) as store:
        store.put("日本", b"", queue_id=0)
    done = redirected("metrics", tmp_path / "s", "--once")
    assert json.loads(done.stdout)["queues"][0]["topic"] == "日本"


@pytest.mark.parametrize("output", ["--json", "--table"])
def test_names_that_are_no_text_are_shown_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """As JSON has them: it is valid, and gives the name back."""
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")
    mqstore.open(tmp_path / "s", "rw", **SMALL).close()
    (tmp_path / "s" / os.fsdecode(b"file\xff")).touch()
    (tmp_path / "s" / "config").mkdir()
    (tmp_path / "s" / "config" / "consumerOffset.json").write_text(r'{"offsetTable":{"t@group\ud800":{0:0}}}')
    for command, name in (("du", "file\udcff"), ("groups", "group\ud800")):
        done = redirected(command, tmp_path / "s", output)
        assert (done.returncode, done.stderr) == (0, "")
        if output == "--json":
            assert name in [value for line in done.stdout.splitlines() for value in json.loads(line).values()]
        else:
            assert name.encode("ascii", "backslashreplace").decode() in done.stdout


def test_only_an_argument_that_is_no_text_is_a_wrong_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_call: StoreCall, _mode: str) -> None:
        "\ud800".encode()

    monkeypatch.setattr(StoreCall, "open", refuse)
    by_argument = CliRunner().invoke(main, ["find", str(tmp_path), "t", "k", "-o", "storePathCommitLog=a\ud800b"])
    assert by_argument.exit_code == 2
    assert by_argument.stderr.endswith("Error: '\\ud800': expected UTF-8\n")
    otherwise = CliRunner().invoke(main, ["find", str(tmp_path), "t", "k"])
    assert otherwise.exit_code == 1
    assert otherwise.stderr.startswith("Error: 'utf-8' codec can't encode character '\\ud800'")


def redirected(command: str, store: Path, redirection: str) -> subprocess.CompletedProcess[str]:
    return shell(mqstore_command(command, store, SMALL), redirection)


def shell(command: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    script = f'"$@" {redirection}'
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", *command],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def commands_of(group: click.Group, *names: str) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        assert command.name == name
        yield (*names, name)
        if isinstance(command, click.Group):
            yield from commands_of(command, *names, name)


@pytest.mark.parametrize("group", [[], ["spark"]])
def test_the_help_has_every_command_with_a_whole_sentence(group: list[str]) -> None:
    shown = CliRunner().invoke(main, [*group, "--help"], terminal_width=80).stdout
    listed = re.findall(r"^  ([a-z]+) +([A-Z].*)$", shown, re.MULTILINE)
    names = {path[-1] for path in commands_of(main) if list(path[:-1]) == group}
    assert sorted(name for name, _ in listed) == sorted(names)
    for name, sentence in listed:
        assert sentence.endswith("."), name
        assert not sentence.endswith("..."), name


def test_no_help_shows_the_largest_number_there_is() -> None:
    for path in commands_of(main):
        shown = CliRunner().invoke(main, [*path, "--help"]).stdout
        assert "9223372036854775807" not in shown.replace("\n", "").replace(" ", "")


def test_a_command_imports_no_other() -> None:
    code = "import sys, mqstore.cli.main as cli; cli.main(['ls', '--help'], standalone_mode=False); print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True).stdout
    imported = set(shown.split())
    assert "mqstore.cli.ls" in imported
    assert not {f"mqstore.cli.{name}" for name in ("bench", "repair", "spark", "verify")} & imported
