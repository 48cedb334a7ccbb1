"""fastjson's form of the configuration files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store import config_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_round_trip(value: object) -> None:
    assert config_json.loads(config_json.dumps(value)) == value


def test_the_form_is_fastjsons() -> None:
    assert config_json.dumps({"offsetTable": {}}) == '{\n\t"offsetTable":{}\n}'
    assert config_json.dumps({"a": [1, {"b": "值"}]}) == '{\n\t"a":[\n\t\t1,\n\t\t{\n\t\t\t"b":"值"\n\t\t}\n\t]\n}'


def test_keys_that_are_numbers_need_no_quotes() -> None:
    assert config_json.loads('{"t":{0:5,-1: 6},"text":"{1:2}"}') == {"t": {"0": 5, "-1": 6}, "text": "{1:2}"}


def test_keys_that_are_numbers_are_written_without_quotes_on_one_line() -> None:
    assert config_json.dumps({"t": {0: 5, 3: 6}, "b": (3, 96)}) == '{\n\t"t":{0:5,3:6\n\t},\n\t"b":[3,96]\n}'


@pytest.mark.parametrize("text", ["", "{", '{"a":NaN}', "[" * 100_000, '{"a":1}}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        config_json.loads(text)


@pytest.mark.parametrize("end", ["", "\\", "\n"])
def test_a_string_without_an_end_is_looked_at_once(end: str) -> None:
    """Were the end looked for behind each of its quotes, this would take hours."""
    with pytest.raises(ValueError, match=r"line 1 column|control character"):
        config_json.loads('{"a":"' + '\\"' * 1_000_000 + end)


def test_numbers_of_a_file_are_kept_as_they_stand() -> None:
    assert config_json.dumps(config_json.loads('{"a":1e999,"b":1.50}')) == '{\n\t"a":1e999,\n\t"b":1.50\n}'
