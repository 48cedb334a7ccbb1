"""Whole stores live random lives: nothing that was acknowledged is lost, invented, out of place or there twice.

``MQSTORE_LIVES`` says how many lives there are, ``MQSTORE_STEPS`` how long they are.
"""

import os
import shutil
from pathlib import Path

from tests.lives.life import Life

LIVES = int(os.environ.get("MQSTORE_LIVES", "10"))
STEPS = int(os.environ.get("MQSTORE_STEPS", "120"))


def test_a_store_has_what_was_put_whatever_it_lives_through(tmp_path: Path, seed: int) -> None:
    for number in range(LIVES):
        folder = tmp_path / str(number)
        folder.mkdir()
        life = Life(folder, seed + number)
        try:
            life.run(STEPS)
        except BaseException as error:
            error.add_note(f"life {seed + number}")
            raise
        finally:
            life.close()
        shutil.rmtree(folder)
