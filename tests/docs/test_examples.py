"""The examples of the documentation run, and say what they say."""

import itertools
import re
import shlex
from pathlib import Path

import click
import pytest

from mqstore.cli.main import main

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "docs/api.md", "docs/replication.md"]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_examples_run(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a document run one after another, in one folder and with the same names."""
    monkeypatch.chdir(tmp_path)
    examples = EXAMPLE.findall((ROOT / document).read_text(encoding="utf-8"))
    assert examples
    names: dict[str, object] = {}
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"{document}, example {number}", "exec"), names)  # noqa: S102 (the documentation's)


@pytest.mark.parametrize("document", ["README.md", "docs/command-line.md"])
def test_calls_of_the_command_can_be_made(document: str) -> None:
    """The command takes each call that a document shows; nothing is run."""
    calls = re.findall(r"^ {4}(?:.*\| )?mqstore (.*)$", (ROOT / document).read_text(encoding="utf-8"), re.MULTILINE)
    assert len(calls) >= 10
    for call in calls:
        name, *arguments = itertools.takewhile(lambda word: word != "|", shlex.split(call, comments=True))
        command = main.get_command(click.Context(main), name)
        assert command is not None, call
        command.make_context(name, arguments)


def test_every_link_leads_somewhere() -> None:
    """Links between the documents lead to files that are there."""
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


TABLES = {"docs/compat.md": "# Where mqstore differs", "docs/durability.md": "## Fault by fault"}


@pytest.mark.parametrize("document", TABLES)
def test_every_row_names_tests_that_are_there(document: str) -> None:
    """Each row of the tables of differences and of faults names tests: functions, files or folders."""
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    tests += "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "rust").rglob("*.rs"))
    _, section = (ROOT / document).read_text(encoding="utf-8").split(TABLES[document])
    table = section.split("\n## ")[0].splitlines()
    rows = [line.strip("|").split("|") for line in table if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        named = re.findall(r"`([\w./]+)`", row[-1])
        assert named, f"{row[0]}: no test"
        for name in named:
            is_there = (ROOT / name).exists() if "/" in name else re.search(rf"\b(def|fn) {name}\b", tests)
            assert is_there, f"{row[0]}: {name} is not there"
