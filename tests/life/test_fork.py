"""A process is forked while a store is open."""

import subprocess
import threading
from pathlib import Path

import pytest

from tests.life.scenarios import assert_runs
from tests.store.conftest import open_rw


@pytest.mark.parametrize(
    "scenario",
    [
        "children_touch_nothing",
        "a_living_child_holds_nothing",
        "a_slave_sees_the_end_of_a_master_that_was_killed",
        "a_child_of_a_process_that_was_killed_holds_nothing",
        "forks_beside_busy_threads",
    ],
)
def test_fork(scenario: str, tmp_path: Path) -> None:
    assert_runs("forking", scenario, tmp_path)


@pytest.mark.parametrize("round_number", range(12))
def test_a_new_process_is_forked(tmp_path: Path, round_number: int) -> None:  # noqa: ARG001 - each is another chance
    assert_runs("forking", "the_first_use_of_all_there_is", tmp_path)


def test_a_store_is_opened_again_beside_processes_that_are_started(tmp_path: Path) -> None:
    """Each has all open files for a moment, until it is another program."""
    ending = threading.Event()

    def start() -> None:
        while not ending.is_set():
            subprocess.run(["/bin/true"], check=True)

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            open_rw(tmp_path / "store").close()
    finally:
        ending.set()
        for thread in threads:
            thread.join()
