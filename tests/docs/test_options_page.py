"""The page of options has each of them, by both names, with its default, and says which ones have no effect."""

import dataclasses
import re
from pathlib import Path

import mqstore
from mqstore.options import EngineOptions, StoreOptions, snake_case

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
PACKAGE = Path(mqstore.__file__).parent
OPTIONS = {option.name: option for option in dataclasses.fields(StoreOptions)}
OWN = "disk_space_warning_level_ratio"
"""The first of mqstore's own: these are the last ones."""
ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \| (?:`([^`]+)` )?\|(?: \S.* \|)?$")


def rows() -> list[tuple[str, str, str, str]]:
    """Of each option the heading that it stands under, RocketMQ's name, Python's, and the default as text."""
    found = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, *lines = section.splitlines()
        for line in [line for line in lines if line.startswith("| `")]:
            row = ROW.match(line)
            assert row is not None, line
            found.append((heading, row[1], row[2], row[3] or ""))
    return found


def test_each_option_is_there_once_by_both_its_names() -> None:
    names = [name for _, _, name, _ in rows()]
    assert sorted(names) == sorted(OPTIONS)
    assert [snake_case(name) for _, name, _, _ in rows()] == names


def test_either_name_is_taken_with_the_default_that_the_page_says() -> None:
    path = "/store"
    defaults = StoreOptions.of(path, {})
    for _, *names, default in rows():
        if default:
            assert [StoreOptions.of(path, {name: default}) for name in names] == [defaults, defaults], names
        else:
            option = OPTIONS[names[1]]
            assert option.default is None or option.default is dataclasses.MISSING, names


def test_each_stands_where_it_belongs() -> None:
    own = list(OPTIONS)[list(OPTIONS).index(OWN) :]
    for heading, _, name, _ in rows():
        if heading != "Without effect":
            is_brokers = "broker" in OPTIONS[name].metadata
            assert (heading == "Of `BrokerConfig`") == is_brokers, name
            assert (heading == "mqstore's own") == (name in own), name


def test_what_has_no_effect_is_asked_for_by_nobody() -> None:
    """Neither is it one of the engine's options."""
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    asked = {name for text in sources.values() for name in re.findall(r"options\.(\w+)", text)}
    asked |= set(re.findall(r"self\.(\w+)", sources[PACKAGE / "options.py"]))
    asked |= {option.name for option in dataclasses.fields(EngineOptions)}
    assert {name for heading, _, name, _ in rows() if heading == "Without effect"} == set(OPTIONS) - asked
