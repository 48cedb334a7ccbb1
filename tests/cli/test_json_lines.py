"""JSON lines: what a dump says of a store with holes, and what is taken of a line."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import mqstore
from mqstore.cli.json_lines import answer_lines, dump_lines, put_lines
from mqstore.cli.main import main
from tests.command import mqstore_command
from tests.expiring import expire
from tests.store.conftest import SMALL

FILE_SIZE = SMALL["mappedFileSizeCommitLog"]
OPTIONS = [part for name, value in SMALL.items() for part in ("-o", f"{name}={value}")]


# ---- dump --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A store of five log files and several queue files, and where its messages stand in the log."""
    path = tmp_path_factory.mktemp("dump") / "store"
    with mqstore.open(path, "rw", **SMALL) as store:
        return path, [store.put("t", bytes(1000), queue_id=0).wrote_offset or 0 for _ in range(250)]


def dumped(path: Path, *options: str) -> tuple[Result, list[dict[str, Any]]]:
    result = CliRunner().invoke(main, ["dump", str(path), *OPTIONS, *options])
    return result, [json.loads(line) for line in result.stdout.splitlines()]


def record_places(lines: list[dict[str, Any]]) -> list[int]:
    return [line["commitLogOffset"] for line in lines if line["kind"] == "record" and line["msgSize"] > 0]


def test_a_dump_says_which_file_of_the_log_is_missing(places: tuple[Path, list[int]], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(places[0], tmp_path / "copy"))
    (copy / "commitlog" / f"{FILE_SIZE:020}").unlink()
    with mqstore.open(copy, **SMALL) as store:
        end = store.get_max_phy_offset()

    as_java, lines = dumped(copy)
    assert as_java.exit_code == 1
    assert as_java.stderr == (
        f"the log is printed up to {FILE_SIZE}, not to {end}: a file is missing; -o compat=false goes on behind that\n"
    )
    assert record_places(lines) == [place for place in places[1] if place < FILE_SIZE]

    all_there_is, lines = dumped(copy, "-o", "compat=false")
    assert all_there_is.exit_code == 1
    assert all_there_is.stderr == f"the log has no records from {FILE_SIZE} to {2 * FILE_SIZE}: a file is missing\n"
    assert record_places(lines) == [place for place in places[1] if place // FILE_SIZE != 1]


def test_a_dump_says_which_record_is_damaged(places: tuple[Path, list[int]], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(places[0], tmp_path / "copy"))
    damaged, behind = next(pair for pair in zip(places[1], places[1][1:], strict=False) if pair[0] > 2 * FILE_SIZE)
    log = copy / "commitlog" / f"{2 * FILE_SIZE:020}"
    content = bytearray(log.read_bytes())
    content[damaged % FILE_SIZE + 4] ^= 1  # its magic code
    log.write_bytes(content)

    as_java, lines = dumped(copy)
    assert as_java.exit_code == 1
    assert as_java.stderr.startswith(f"the log is printed up to {damaged}, not to ")
    assert "expected magic code" in as_java.stderr
    assert record_places(lines) == [place for place in places[1] if place < damaged]

    all_there_is, lines = dumped(copy, "-o", "compat=false")
    assert all_there_is.exit_code == 1
    assert all_there_is.stderr.startswith(f"the log has no records from {damaged} to {behind}: expected magic code")
    assert record_places(lines) == [place for place in places[1] if place != damaged]


def test_a_dump_says_which_queue_has_a_hole(places: tuple[Path, list[int]], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(places[0], tmp_path / "copy"))
    _, second, *_ = sorted((copy / "consumequeue" / "t" / "0").iterdir())
    second.unlink()
    result, lines = dumped(copy)
    assert result.exit_code == 1
    assert result.stderr == "t-0 is printed up to 50, not to 250: a file is missing\n"
    assert [len(line["entries"]) for line in lines if line.get("topic") == "t" and line["kind"] == "queue"] == [50]
    assert record_places(lines) == places[1]


def test_what_expires_while_a_store_is_dumped_is_no_hole_of_a_queue(
    places: tuple[Path, list[int]], tmp_path: Path
) -> None:
    told: list[str] = []
    copy = Path(shutil.copytree(places[0], tmp_path / "copy"))
    with mqstore.open(copy, "rw", **SMALL) as writer:
        with mqstore.open(copy, compat=True, **SMALL) as reader:
            lines = map(json.loads, dump_lines(reader, told.append))
            while next(lines).get("commitLogOffset") != places[1][-1]:
                pass
            expire(writer, 3)
            queue = next(line for line in lines if line["kind"] == "queue" and line["topic"] == "t")
        first = writer.get_min_offset_in_queue("t", 0)
    assert first > 150
    assert (queue["minOffset"], queue["maxOffset"]) == (first, 250)
    assert [place for place, *_ in queue["entries"]] == places[1][first:]
    assert told == []


def test_a_dump_that_ends_without_closing_says_so_too(places: tuple[Path, list[int]], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(places[0], tmp_path / "copy"))
    (copy / "commitlog" / f"{FILE_SIZE:020}").unlink()
    command = mqstore_command("dump", copy, SMALL | {"crash": "true"})
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == 1
    assert b"a file is missing" in done.stderr


def test_a_dump_of_a_whole_store_is_silent(places: tuple[Path, list[int]]) -> None:
    for option in ("compat=true", "compat=false"):
        result, lines = dumped(places[0], "-o", option)
        assert (result.exit_code, result.stderr) == (0, "")
        assert record_places(lines) == places[1]


# ---- put and query -----------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[mqstore.MessageStore]:
    with mqstore.open(tmp_path / "store", "rw", **SMALL) as store:
        yield store


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ('"properties": {"b": true}', "properties, b: expected text or a number, found true"),
        ('"properties": {"c": null}', "properties, c: expected text or a number, found null"),
        ('"properties": {"e": [1]}', "properties, e: expected text or a number, found [1]"),
        ('"properties": {"f": {"x": 1}}', 'properties, f: expected text or a number, found {"x":1}'),
        ('"properties": {"n": NaN}', "properties, n: expected text or a number, found NaN"),
        ('"properties": [["a", "b"]]', 'properties: expected an object, found [["a","b"]]'),
        ('"waitStoreMsgOK": "false"', 'waitStoreMsgOK: expected true or false, found "false"'),
        ('"waitStoreMsgOK": 0', "waitStoreMsgOK: expected true or false, found 0"),
        ('"queueId": true', "queueId: expected a whole number, found true"),
        ('"queueId": 1.0', "queueId: expected a whole number, found 1.0"),
        ('"delayTimeLevel": "x"', 'delayTimeLevel: expected a whole number, found "x"'),
        ('"deliverAt": null', "deliverAt: expected a whole number, found null"),
        ('"keys": ["a", "b"]', 'keys: expected text, found ["a","b"]'),
        ('"body": 5', "body: expected text, found 5"),
        ('"body": "!!!"', 'body: expected base64, found "!!!"'),
        ('"body": "aGVsbG8"', 'body: expected base64, found "aGVsbG8"'),
        ('"batch": {"body": ""}', 'batch: expected an array, found {"body":""}'),
        ('"batch": [5]', "batch: expected an object, found 5"),
        ('"batch": [{"flag": true}]', "flag: expected a whole number, found true"),
    ],
)
def test_a_value_of_another_type_is_refused(store: mqstore.MessageStore, fields: str, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        list(put_lines(store, [f'{{"topic": "t", {fields}}}']))
    assert store.get_max_phy_offset() == 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('{"op": "bounds", "topic": "t", "queueId": true}', "queueId: expected a whole number, found true"),
        ('{"op": "byOffset", "commitLogOffset": true}', "commitLogOffset: expected a whole number, found true"),
        ('{"op": 5}', "op: expected text, found 5"),
    ],
)
def test_a_query_of_another_type_is_refused(store: mqstore.MessageStore, query: str, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        list(answer_lines(store, [query]))


def test_a_number_is_a_property_as_it_is_written(store: mqstore.MessageStore) -> None:
    line = '{"topic": "t", "properties": {"int": 12, "minus": -3, "cents": 1.50, "small": 1e-7, "large": 1e400}}'
    (answer,) = put_lines(store, [line])
    assert json.loads(answer)["status"] == "PUT_OK"
    (message,) = store.topic("t")
    numbers = {"int": "12", "minus": "-3", "cents": "1.50", "small": "1e-7", "large": "1e400"}
    assert message.properties == numbers | {"WAIT": "true"}


def test_what_is_refused_is_an_answer_as_of_the_java_driver(tmp_path: Path) -> None:
    a_batch = json.dumps({"topic": "t", "batch": [{"properties": {"a": "\x02"}}]})
    lines = f'{{"topic": ""}}\n{a_batch}\n{{"topic": "t"}}\n'
    for compat, batch in (("true", "PUT_OK"), ("false", "MESSAGE_ILLEGAL")):
        put = ["put", str(tmp_path / compat), *OPTIONS, "-o", f"compat={compat}"]
        result = CliRunner().invoke(main, put, input=lines)
        assert result.exit_code == 0
        found = [json.loads(line)["status"] for line in result.stdout.splitlines()]
        assert found == ["MESSAGE_ILLEGAL", batch, "PUT_OK"]
    told = " ".join(CliRunner().invoke(main, ["put", "--help"]).stdout.split())
    assert "as MESSAGE_ILLEGAL: the next line is put all the same, and the command ends with 0" in told


# ---- help --------------------------------------------------------------------------------------


def test_what_the_help_says_can_be_put_and_asked(tmp_path: Path) -> None:
    puts, queries = lines_of_help("put"), lines_of_help("query")
    put = CliRunner().invoke(main, ["put", str(tmp_path), *OPTIONS], input=puts)
    assert [json.loads(line)["status"] for line in put.stdout.splitlines()] == ["PUT_OK"] * 2
    asked = CliRunner().invoke(main, ["query", str(tmp_path), *OPTIONS], input=queries)
    answers = [json.loads(line) for line in asked.stdout.splitlines()]
    assert len(answers) == 6
    assert [len(answer["messages"]) for answer in answers[:1]] == [2]


def lines_of_help(command: str) -> str:
    """The JSON objects that a command's help shows, a line each."""
    shown = CliRunner().invoke(main, [command, "--help"], terminal_width=80).stdout
    return "\n".join(line for line in re.sub(r",\n +", ", ", shown).splitlines() if line.startswith('    {"'))
