"""What ``help()`` says of the engine's classes is what the stub says, which editors show."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqstore
from mqstore import _native

STUB = ast.parse(Path(mqstore.__file__).with_name("_native.pyi").read_text(encoding="utf-8"))
PUBLIC = {*mqstore.__all__, "Store"}
"""The store too: what it has is what :class:`mqstore.MessageStore` inherits."""


def documented() -> Iterator[tuple[str, str, str]]:
    for found in STUB.body:
        if isinstance(found, ast.ClassDef) and found.name in PUBLIC:
            for member in found.body:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                    yield found.name, member.name, ast.get_docstring(member) or ""


@pytest.mark.parametrize(("owner", "name", "text"), list(documented()), ids=lambda given: given[:40])
def test_help_says_what_the_stub_says(owner: str, name: str, text: str) -> None:
    assert text
    assert inspect.getdoc(getattr(getattr(_native, owner), name)) == text
