"""What retention is asked to keep."""

from typing import Any

import pytest

from mqstore import OptionError, Retention


@pytest.mark.parametrize("given", ["billing", b"billing", 5, None, [5], ["a/../b"], ["billing", ""]])
def test_what_names_no_groups_is_refused_at_once(given: Any) -> None:
    with pytest.raises(OptionError):
        Retention(keep_unread_of=given)


def test_what_cannot_be_asked_how_full_a_disk_is_is_refused_at_once() -> None:
    usage: Any = 0.5
    with pytest.raises(TypeError, match="disk_usage"):
        Retention(disk_usage=usage)


def test_groups_are_kept_as_they_were_when_they_were_given() -> None:
    groups = ["billing", "%RETRY%billing"]
    retention = Retention(keep_unread_of=groups)
    groups.clear()
    assert list(retention.keep_unread_of) == ["billing", "%RETRY%billing"]
    assert list(Retention(keep_unread_of={"a": 1}.keys()).keep_unread_of) == ["a"]  # type: ignore[arg-type]
