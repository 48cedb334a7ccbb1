"""Further interpreters in one process: the engine belongs to the first one."""

import subprocess
import sys

import pytest

_TIMEOUT_S = 60
_IN_ANOTHER = """
import mqstore._native
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
done = interpreters.run_string(interpreters.create(), '''
try:
    import mqstore._native
except ImportError as error:
    print(error)
else:
    print("imported")
''')
assert done is None, done
from mqstore._native import Store
print(Store.__name__)
"""


def test_the_engine_is_refused_in_a_second_interpreter() -> None:
    """It raises the classes of the interpreter that it was loaded in, which nobody else can catch."""
    found = pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-c", _IN_ANOTHER], capture_output=True, encoding="utf-8", timeout=_TIMEOUT_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "mqstore belongs to the first interpreter of a process that imports it, and cannot be used in another one",
        "Store",
    ]
