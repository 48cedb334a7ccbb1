"""What is in folders."""

import errno
from pathlib import Path

import pytest

import mqstore
from mqstore.store.listing import listed, listed_below
from tests.permissions import refuse_listing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with others, of which a link leads out of it."""
    for name in ("f/b/y", "f/a/x/z", "outside/one"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "f" / "link").symlink_to(tmp_path / "outside")
    return tmp_path / "f"


def test_what_is_in_a_folder_and_below_it(folder: Path) -> None:
    assert listed(folder) == [folder / "a", folder / "b", folder / "link"]
    below = ["a", "a/x", "a/x/z", "b", "b/y", "link"]
    assert sorted(str(path.relative_to(folder)) for path in listed_below(folder)) == below


def test_where_there_is_no_folder_there_is_nothing(folder: Path) -> None:
    for path in (folder / "none", folder / "b" / "y", folder / "b" / "y" / "none"):
        assert listed(path) == list(listed_below(path)) == []


def test_one_that_may_not_be_listed_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_listing(monkeypatch, folder / "a")
    with pytest.raises(mqstore.StoreIOError, match=f"^list the folder {folder}/a: Permission denied$") as refused:
        list(listed_below(folder))
    assert (refused.value.errno, refused.value.filename) == (errno.EACCES, str(folder / "a"))
