"""Tables of many rows."""

import re
from collections.abc import Iterator

import pytest

from mqstore.cli.tables import print_rows


@pytest.mark.parametrize("columns", ["200", "20"])
def test_rows_are_shown_before_all_are_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown: list[str] = []

    def rows() -> Iterator[dict[str, object]]:
        for number in range(2500):
            yield {"name": f"row-{number}", "number": number * 1_000_000_000, "more": number * 1_000_000_000}
            shown.append(capsys.readouterr().out)

    assert print_rows(rows(), "title") == 2500
    assert "row-999" in "".join(shown[:1001])
    everything = "".join(shown) + capsys.readouterr().out
    assert re.findall(r"row-(\d+)\b", everything) == [str(number) for number in range(2500)]
    assert everything.count("title") == 1


def test_without_rows_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_rows([], "title") == 0
    assert capsys.readouterr().out == ""
