"""A log whose oldest files are gone since it was closed: a remark, for somebody may have made room."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import mqstore
from mqstore.cli.main import main
from mqstore.verify import verify
from mqstore.verify.meanings import MEANINGS
from tests.compat.streams import SMALL_FILES
from tests.lost_ends import log_files, make


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store of several log files."""
    path = tmp_path / "store"
    make(path)
    return path


def test_it_is_told_where_it_began(path: Path) -> None:
    assert verify(path, **SMALL_FILES)[0].counts == {}
    first, second, *_ = log_files(path)
    first.unlink()
    audit, found = verify(path, **SMALL_FILES)
    assert (audit.counts, audit.is_whole) == ({"begin_gone": 1}, True)
    (finding,) = found
    assert (finding.phy_offset, finding.path) == (0, str(path / "commitlog"))
    assert finding.detail == f"it begins at {int(second.name)} now"
    told = CliRunner().invoke(main, ["verify", str(path), "--table"])
    assert told.exit_code == 0
    assert MEANINGS["begin_gone"].title in told.stdout


def test_it_is_not_told_once_somebody_has_opened_the_store(path: Path) -> None:
    """Whoever goes on has seen what there is, and may expire files himself."""
    log_files(path)[0].unlink()
    mqstore.open(path, "rw", **SMALL_FILES).close()
    assert verify(path, **SMALL_FILES)[0].counts == {}


def test_what_retention_removes_is_not_told(path: Path) -> None:
    with mqstore.open(path, "rw", fileReservedTime=0, **SMALL_FILES) as store:
        assert store.execute_delete_files_manually() > 0
    assert verify(path, **SMALL_FILES)[0].counts == {}
