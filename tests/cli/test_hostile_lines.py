"""JSON lines that hold anything: the commands print, or say which line is wrong."""

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mqstore
from mqstore.cli.json_lines import answer_lines, put_lines
from mqstore.cli.main import main
from mqstore.cli.store_call import BAD_LINE
from tests.command import mqstore_command
from tests.store.conftest import SMALL

NAMES = [
    "topic", "queueId", "body", "properties", "tags", "keys", "batch", "flag", "sysFlag", "bornTimestamp", "bornHost",
    "storeHost", "reconsumeTimes", "preparedTransactionOffset", "delayTimeLevel", "deliverAt", "waitStoreMsgOK", "op",
    "offset", "maxNum", "timestamp", "key", "begin", "end", "get", "byKey", "byTime", "byOffset", "bounds",
    "maxMsgNums", "subscription",
]  # fmt: skip
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["t", "YQ==", "127.0.0.1:1", "[::1]:2", *NAMES])
    | st.text(max_size=5)
)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))
objects = st.dictionaries(st.sampled_from(NAMES), values, max_size=8) | st.fixed_dictionaries(
    {"topic": st.just("t")}, optional={name: values for name in NAMES if name != "topic"}
)
lines = objects.map(json.dumps) | values.map(json.dumps) | st.text(max_size=20)

Command = Callable[[mqstore.MessageStore, Iterable[str]], Iterator[str]]


@pytest.fixture(scope="module")
def open_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mqstore.MessageStore]:
    with mqstore.open(tmp_path_factory.mktemp("hostile") / "store", "rw", **SMALL) as store:
        store.put("t", b"1", keys="k")
        yield store


@pytest.mark.parametrize("command", [put_lines, answer_lines])
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(line=lines)
def test_a_line_is_answered_or_refused(open_for_all: mqstore.MessageStore, command: Command, line: str) -> None:
    try:
        for answer in command(open_for_all, [line]):
            json.loads(answer)
    except (*BAD_LINE, mqstore.MQStoreError):
        return


@pytest.mark.parametrize("command", ["put", "query"])
@pytest.mark.parametrize(
    "line",
    [
        # The title of the terminal's window: colours click itself leaves out where it writes to no terminal.
        r'{"\u001b]0;title\u0007": 1}',
        r'{"topic": "t", "op": "bounds", "queueId": "\u009d0;title\u0007"}',
        json.dumps({"x" * 3_000_000: 1}),
        json.dumps("x" * 3_000_000),
    ],
    ids=["name", "value", "long name", "long text"],
)
def test_an_error_is_a_short_line_without_commands(tmp_path: Path, command: str, line: str) -> None:
    mqstore.open(tmp_path / "store", "rw", **SMALL).close()
    result = CliRunner().invoke(main, [command, str(tmp_path / "store")], input=f"{line}\n")
    assert result.exit_code == 2
    assert "line 1 of standard input: " in result.stderr
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.stderr)
    assert len(result.stderr) < 5000


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"topic": "t", "queueId": 1e400}',
        '{"topic": "t", "queueId": 99999999999999}',
        '{"sleep": 1e300}',
    ],
    ids=["deep", "infinite", "large", "sleep"],
)
def test_the_command_names_the_line(tmp_path: Path, line: str) -> None:
    done = subprocess.run(
        mqstore_command("put", tmp_path / "store", SMALL),
        input=f'{{"topic": "t"}}\n{line}\n',
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "line 2 of standard input" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["status"] == "PUT_OK"
    # What was put before it is there.
    with mqstore.open(tmp_path / "store", **SMALL) as store:
        assert store.get_max_offset_in_queue("t", 0) == 1


@pytest.mark.parametrize(
    ("command", "line", "told"),
    [
        (
            put_lines,
            {"topic": "t", "queueId": 1 << 31},
            "queueId: expected a whole number from -2147483648 to 2147483647",
        ),
        (put_lines, {"topic": "t", "bornTimestamp": 10**30}, "bornTimestamp: .* to 9223372036854775807, found 10{30}"),
        (put_lines, {"topic": "t", "batch": [{"flag": -1 - (1 << 31)}]}, "flag: .*, found -2147483649"),
        (
            answer_lines,
            {"op": "get", "topic": "t", "offset": 1 << 63, "maxMsgNums": 1},
            "offset: .*, found 9223372036854775808",
        ),
    ],
)
def test_a_number_out_of_bounds_is_told_with_them(
    open_for_all: mqstore.MessageStore, command: Command, line: object, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        list(command(open_for_all, [json.dumps(line)]))


def test_a_batch_of_properties_that_are_too_long_is_refused_as_other_messages_are(
    open_for_all: mqstore.MessageStore,
) -> None:
    long = {"topic": "t", "batch": [{"properties": {"p": "x" * 40_000}}]}
    answers = put_lines(open_for_all, [json.dumps(long), json.dumps({"topic": "t"})])
    assert [json.loads(answer)["status"] for answer in answers] == ["MESSAGE_ILLEGAL", "PUT_OK"]
    with pytest.raises(mqstore.MessageIllegalError, match=r"option properties=40007 bytes: .* at most 32767 bytes"):
        open_for_all.put_messages(mqstore.MessageExtBatch(topic="t", messages=[(b"", 0, {"long": "x" * 40_002})]))


@pytest.mark.parametrize("subscription", [5, True, ["TagA"], {"tags": "TagA"}])
def test_a_subscription_that_is_no_text_is_told_as_what_it_is(tmp_path: Path, subscription: object) -> None:
    with mqstore.open(tmp_path / "store", "rw", **SMALL) as store:
        store.put("t", b"1", tags="TagA")
    query = {"op": "get", "topic": "t", "offset": 0, "maxMsgNums": 1}
    lines = [json.dumps(query | {"subscription": given}) for given in ("TagA", None, subscription)]
    done = CliRunner().invoke(main, ["query", str(tmp_path / "store")], input="\n".join(lines))
    assert [len(json.loads(line)["messages"]) for line in done.stdout.splitlines()] == [1, 1]
    expected = json.dumps(subscription, separators=(",", ":"))
    assert f"line 3 of standard input: subscription: expected text, found {expected}" in done.stderr
    assert done.exit_code == 2
