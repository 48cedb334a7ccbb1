"""``mqstore recover``: a store that is there."""

from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

import mqstore
from mqstore.cli.main import main

SMALL: dict[str, Any] = {"maxHashSlotNum": 97, "maxIndexNum": 400}


def recover(store: Path, **options: object) -> Result:
    given = [part for name, value in (SMALL | options).items() for part in ("-o", f"{name}={value}")]
    return CliRunner().invoke(main, ["recover", str(store), *given])


def test_where_there_is_no_store_none_is_made(tmp_path: Path) -> None:
    """Of a name that is mistyped a store that is empty would say that all went well."""
    done = recover(tmp_path / "typo")
    assert done.exit_code == 1
    assert done.output == f"Error: no store at {tmp_path}/typo: the folder does not exist\n"
    (tmp_path / "other").mkdir()
    done = recover(tmp_path / "other")
    assert done.exit_code == 1
    assert done.output == f"Error: no store at {tmp_path}/other: there is no folder commitlog in it\n"
    assert list(tmp_path.rglob("*")) == [tmp_path / "other"]


def test_a_log_may_lie_elsewhere(tmp_path: Path) -> None:
    elsewhere: dict[str, Any] = {"storePathCommitLog": str(tmp_path / "log")}
    mqstore.open(tmp_path / "store", "rw", **SMALL, **elsewhere).close()
    done = recover(tmp_path / "store", **elsewhere)
    assert done.exit_code == 0, done.output
    done = recover(tmp_path / "store")
    assert done.exit_code == 1
    assert "there is no folder commitlog in it" in done.output
    done = recover(tmp_path / "store", storePathCommitLog=tmp_path / "typo")
    assert done.exit_code == 1
    assert f"there is no folder {tmp_path}/typo, where storePathCommitLog has its log" in done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "store"]
