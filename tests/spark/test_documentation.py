"""The examples of docs/spark.md run, one after another, in a process of their own."""

import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_examples_run(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert len(examples) > 3
    script = tmp_path / "examples.py"
    script.write_text("\n".join(examples), encoding="utf-8")
    ended = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert "|orders|" in ended.stdout
