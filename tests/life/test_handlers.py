"""A signal's handler runs in the middle of a call or a wait: it may use the store, and what is under way goes on."""

from pathlib import Path

import pytest

from tests.life.scenarios import assert_runs


@pytest.mark.parametrize(
    "scenario",
    [
        "uses_the_store_that_is_at_work",
        "closes_the_store_that_is_at_work",
        "breaks_nothing_off",
        "ends_an_opening",
        "closes_the_store_anywhere_in_a_wait",
        "leaves_nothing_of_a_wait",
    ],
)
def test_handlers(scenario: str, tmp_path: Path) -> None:
    assert_runs("handling", scenario, tmp_path)
