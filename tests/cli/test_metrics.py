"""What the metrics command listens on, and what it says of that."""

import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import mqstore
from mqstore.cli.main import main
from tests.command import mqstore_command

SMALL: dict[str, Any] = {"maxHashSlotNum": 97, "maxIndexNum": 400}


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("address", ["a" * 300, "a..b", "\x1b[31m" + "a" * 300], ids=["long", "empty label", "escape"])
def test_an_address_that_none_can_have_is_told_in_one_line(tmp_path: Path, address: str) -> None:
    mqstore.open(tmp_path, "rw", **SMALL).close()
    result = CliRunner().invoke(main, ["metrics", str(tmp_path), "--port", "0", "--address", address])
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Error: {address}:0: ".replace("\x1b", r"\x1b"))


def test_signals_are_their_owner_s_again_once_it_has_ended(tmp_path: Path) -> None:
    mqstore.open(tmp_path, "rw", **SMALL).close()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    CliRunner().invoke(main, ["metrics", str(tmp_path), "--port", "0", "--address", "a..b"])
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_an_ipv6_address_stands_in_brackets(tmp_path: Path) -> None:
    mqstore.open(tmp_path, "rw", **SMALL).close()
    command = [*mqstore_command("metrics", tmp_path, SMALL), "--port", "0", "--address", "::1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            process.send_signal(signal.SIGINT)
            process.wait()
        finally:
            process.kill()
    assert told.startswith("http://[::1]:")
    assert process.returncode == 0
