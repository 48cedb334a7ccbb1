"""Tasks that Spark itself runs a second time while the first attempt goes on: each row is put once."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import mqstore
from mqstore.spark.java import use_java
from tests.spark.made import fill
from tests.waiting import wait_until

_JOB = """
import sys
import time
from pathlib import Path
from pyspark import TaskContext
from mqstore.spark import spark_session
from tests.spark.made import QUICK, SMALL

master, folder = sys.argv[1], Path(sys.argv[2])
eager = {"interval": "100ms", "multiplier": "1.1", "quantile": "0.1", "minTaskRuntime": "100ms"}
spark = spark_session(master=master, conf={
    **QUICK,
    **{f"spark.speculation.{name}": value for name, value in eager.items()},
    "spark.speculation": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.extraJavaOptions": QUICK["spark.driver.extraJavaOptions"],
    "spark.executor.memory": "512m",
})
columns = "body string, topic string, queue_id int"


def waiting(name):
    done = str(folder / f"{name}-done")

    def run(batches):
        task = TaskContext.get()
        yield from batches
        if task.partitionId() == 1 and task.attemptNumber() == 0:
            while not Path(done).exists():
                time.sleep(0.01)
        elif task.partitionId() == 1:
            Path(done).touch()

    return run


options = {f"store.{name}": value for name, value in SMALL.items()}
rows = spark.range(0, 400, 1, 4).selectExpr("cast(id as string) body", "'t' topic", "0 queue_id")
batch = rows.mapInArrow(waiting("batch"), columns).write.format("mqstore").mode("append").options(**options)
batch.save(str(folder / "batch"))
source = spark.readStream.format("mqstore").options(startingOffsets="earliest", minPartitions=4)
rows = source.load(str(folder / "from")).selectExpr("properties['number'] body", "'t' topic", "0 queue_id")
rows = rows.mapInArrow(waiting("stream"), columns)
stream = rows.writeStream.format("mqstore").options(**options).option("checkpointLocation", str(folder / "checkpoint"))
stream.trigger(availableNow=True).start(str(folder / "stream")).awaitTermination()
spark.stop()
"""


@pytest.mark.timeout(600)
def test_the_rows_of_a_task_are_put_once_though_two_attempts_have_staged_them(tmp_path: Path) -> None:
    """The first attempt waits until a second one is done, so without one the job would not end."""
    fill(tmp_path / "from", 400)
    with cluster(tmp_path) as master:
        ended = subprocess.run(
            [sys.executable, "-c", _JOB, master, str(tmp_path)],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    for name in ("batch", "stream"):
        assert (tmp_path / f"{name}-done").exists()
        with mqstore.open(tmp_path / name) as store:
            assert [int(bytes(message.body)) for message in store.select()] == list(range(400))


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A cluster of two hosts: Spark runs a second attempt on another one than the first, and in local mode none."""
    use_java()
    home = Path(pyspark.__file__).parent
    small = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "200m", "SPARK_DAEMON_JAVA_OPTS": small}
    environment |= {"SPARK_LOCAL_DIRS": str(folder / "local"), "SPARK_WORKER_DIR": str(folder / "work")}
    daemons: list[subprocess.Popen[bytes]] = []

    def start(name: str, host: str, *arguments: str) -> Path:
        log = folder / f"{name}-{host}.log"
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", host]
        with log.open("wb") as told:
            daemon = subprocess.Popen(
                [*command, "--webui-port", "0", *arguments], env=environment, stdout=told, stderr=told
            )
        daemons.append(daemon)
        return log

    try:
        master = told(start("master.Master", "127.0.0.1", "--port", "0"), r"Starting Spark master at (spark://\S+)")
        for host in ("127.0.0.1", "127.0.0.2"):
            worker = start("worker.Worker", host, "--cores", "2", "--memory", "600m", master)
            told(worker, "(Successfully registered with master)")
        yield master
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait()


def told(log: Path, pattern: str) -> str:
    """What a daemon says in its log, once it does."""
    found: list[str] = []

    def is_there() -> bool:
        found.extend(re.findall(pattern, log.read_text(encoding="utf-8")))
        return bool(found)

    wait_until(is_there, timeout_s=120)
    return found[0]
