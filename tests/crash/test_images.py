"""The real store opens what power cuts leave, once mqstore has recovered it, and answers the same.

The stores are a sample of those that ``rust/core/tests/crash`` makes and looks at. ``MQSTORE_IMAGES_COUNT`` says how
many are wanted of each case.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.cli.json_lines import answer_lines, dump_lines
from tests.compat.java_store import JavaStore, is_java_required
from tests.compat.peer.queries import queries
from tests.store_files import copy_store

ROOT = Path(__file__).parents[2]
IMAGES = int(os.environ.get("MQSTORE_IMAGES_COUNT", "8"))
IMAGES_OF_RUN = 900
"""The least that a run of a case with one seed looks at."""
QUERIES = 40
AT_ONCE = 250
"""Stores that one JVM opens: it keeps what it has mapped until it ends."""
TIMEOUT_S = 600
CASES = {
    "anything": "power_cuts::what_was_flushed_is_there_after_a_power_cut",
    "index roll": "power_cuts::keys_are_found_after_a_power_cut_while_index_files_roll",
    "config write": "power_cuts::a_config_file_is_the_old_one_or_the_new_one_after_a_power_cut",
    "role change": "role_change::a_slave_that_becomes_a_master_and_a_slave_again_loses_nothing_it_had_flushed",
}
Line = dict[str, Any]


def make_images(folder: Path, seed: int) -> None:
    """Lets the engine's tests leave a sample of the images of all cases."""
    if shutil.which("cargo") is None and not is_java_required():
        pytest.skip("the images are made by the engine's tests, and cargo was not found")
    runs = -(-IMAGES // 100)
    environment = {
        "MQSTORE_IMAGES": str(folder),
        # Three times as many: none, or few, of some case are as good as impossible.
        "MQSTORE_IMAGES_ONE_IN": str(max(1, IMAGES_OF_RUN * runs // (3 * IMAGES))),
        "MQSTORE_SEED": str(seed),
        "MQSTORE_RUNS": str(runs),
    }
    command = ["cargo", "test", "--workspace", "--quiet", "--test", "crash", "--", "--exact", *CASES.values()]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"{len(CASES)} passed" in done.stdout


class Image:
    """A store that a crash left, as both see it."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Recovers it, and reads it."""
        self.folder = folder
        told = json.loads((folder / "image.json").read_text())
        self._options = told["options"]
        self._recovered = copy_store(folder / "store", folder / "recovered")
        mqstore.open(self._recovered, "rw", **self._options).close()
        with mqstore.open(self._recovered, compat=True, **self._options) as reader:
            self.dump = [json.loads(line) for line in dump_lines(reader)]
            lines = [json.dumps(line) for line in self.dump]
            has_any = any(line["kind"] == "record" and line["msgSize"] > 0 for line in self.dump)
            asked = map(json.loads, queries(seed, QUERIES, lines) if has_any else [])
            self._asked = [query for query in asked if not self._asks_for_the_logs_start(query)]
            self._answers = [json.loads(line) for line in answer_lines(reader, map(json.dumps, self._asked))]

    def _asks_for_the_logs_start(self, query: Line) -> bool:
        """Whether what is asked for begins with the log's first message, and that is deleted.

        4.9.3 answers with bytes of another one: see ``test_the_logs_first_message_is_not_another_one``.
        """
        if query["op"] != "get" or self.dump[0]["minPhyOffset"] == 0:
            return False
        queues = {(line["topic"], line["queueId"]): line for line in self.dump if line["kind"] == "queue"}
        queue = queues[query["topic"], query["queueId"]]
        first = next((offset for offset, _, _ in queue["entries"]), None)
        return first == 0 and query["offset"] == queue["minOffset"]

    def for_java(self, root: Path) -> str:
        """What the real store is asked."""
        store = copy_store(self._recovered, self.folder / "java")
        return json.dumps({"store": str(store.relative_to(root)), "options": self._options, "queries": self._asked})

    def check(self, java: Line) -> None:
        """It is opened, and the same is in it and answered."""
        assert "refused" not in java, java
        assert java["dump"] == self.dump
        answers = zip(self._asked, java["answers"], strict=True)
        assert list(answers) == list(zip(self._asked, self._answers, strict=True))


def sample(folder: Path, seed: int) -> dict[str, list[Image]]:
    """As many images of each case as are wanted; some of each."""
    images: dict[str, list[Image]] = {case: [] for case in CASES}
    for path in sorted(folder.iterdir()):
        of_case = images[json.loads((path / "image.json").read_text())["case"]]
        if len(of_case) < IMAGES:
            of_case.append(Image(path, seed))
    assert all(images.values())
    return images


def ask_java(java: JavaStore, root: Path, asked: list[str]) -> Iterator[Line]:
    """What the real store says to each line."""
    for at in range(0, len(asked), AT_ONCE):
        run = java.start("each", root, {}, asked[at : at + AT_ONCE])
        yield from map(json.loads, run.lines(TIMEOUT_S))


# The engine's tests are compiled in it where nobody has yet, and all cases are made.
@pytest.mark.timeout(900)
def test_the_real_store_answers_the_same(java: JavaStore, tmp_path: Path, seed: int) -> None:
    make_images(tmp_path, seed)
    by_case = sample(tmp_path, seed)
    images = [image for of_case in by_case.values() for image in of_case]
    answers = ask_java(java, tmp_path, [image.for_java(tmp_path) for image in images])
    for image, answer in zip(images, answers, strict=True):
        image.check(answer)
    print({case: len(of_case) for case, of_case in by_case.items()})  # noqa: T201 - a run's totals
