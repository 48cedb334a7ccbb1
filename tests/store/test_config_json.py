"""fastjson's form of the configuration files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mqstore
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


def test_a_damaged_file_gives_way_to_its_backup(tmp_path: Path) -> None:
    path, backup = tmp_path / "c.json", tmp_path / "c.json.bak"
    assert config_json.load(path) is None
    backup.write_text('{"a":1}')
    assert config_json.load(path) == {"a": 1}
    path.write_text('{"a":2')
    assert config_json.load(path) == {"a": 1}
    path.write_text("")
    assert config_json.load(path) == {"a": 1}
    backup.write_text("[")
    path.write_text("{")
    with pytest.raises(mqstore.MQStoreError, match=r"c\.json: .*c\.json\.bak: "):
        config_json.load(path)
