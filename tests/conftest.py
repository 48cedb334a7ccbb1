"""What tests of several folders need."""

import logging
import os
import random
import signal
from collections.abc import Iterator

import hypothesis
import pytest

from tests.compat.java_store import JavaStore, is_java_required, missing_tools

# Nothing depends on how fast something is.
hypothesis.settings.register_profile("mqstore", deadline=None)
hypothesis.settings.load_profile("mqstore")

# A shell that runs them in its background has them ignore Ctrl-C, which what they start would take over.
signal.signal(signal.SIGINT, signal.default_int_handler)

_SEED = int(os.environ.get("MQSTORE_SEED", random.randrange(1 << 32)))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A fresh seed for what a test makes up. What fails can be repeated with it."""
    print(f"repeat with MQSTORE_SEED={_SEED}")  # noqa: T201 - pytest shows it where the test fails
    return random.Random(f"{_SEED} {request.node.nodeid}").randrange(1 << 32)


_NEVER_EXPECTED = ("could not be reserved ahead", " failed: ")
"""What services log that only tests bring about which look at it, with `caplog`."""


class _Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture(autouse=True)
def no_service_fails_unnoticed(request: pytest.FixtureRequest) -> Iterator[None]:
    """What goes wrong in the background is only logged: a test that does not look at that fails by it."""
    kept, logger = _Kept(), logging.getLogger("mqstore")
    logger.addHandler(kept)
    yield
    logger.removeHandler(kept)
    if "caplog" not in request.fixturenames:
        assert [message for message in kept.messages if any(text in message for text in _NEVER_EXPECTED)] == []


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaStore]:
    """The real store."""
    if missing := missing_tools():
        message = f"the real 4.9.3 store cannot be run: {', '.join(missing)} not found"
        if is_java_required():
            pytest.fail(message)
        pytest.skip(message)
    store = JavaStore(tmp_path_factory.mktemp("java"))
    yield store
    store.close()
