"""What the messages of a transaction are to the store."""

import pytest

from mqstore.store.half_messages import number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("9223372036854775807", 2**63 - 1),
        (None, 5),
        ("", 5),
        (" 1", 5),
        ("1\n", 5),
        ("1_0", 5),
        ("\u0661", 5),
        ("1.0", 5),
        ("9" * 5000, 5),
    ],
)
def test_a_property_is_a_number_where_java_reads_one(text: str | None, expected: int) -> None:
    assert number(text, 5) == expected
