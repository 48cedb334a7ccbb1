"""Stores of a process that may have few files open."""

from pathlib import Path

from tests.life.scenarios import assert_runs


def test_several_stores_share_few_open_files(tmp_path: Path) -> None:
    assert_runs("few_files", "several_stores", tmp_path)


def test_a_log_has_more_files_than_may_be_open(tmp_path: Path) -> None:
    assert_runs("few_files", "a_long_log", tmp_path)


def test_an_index_has_more_files_than_may_be_open(tmp_path: Path) -> None:
    assert_runs("few_files", "a_long_index", tmp_path)
