"""One Spark for all tests: starting it takes longer than most of them."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from mqstore.spark import spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores with little memory. Settings that a test changes it sets back."""
    folder = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "mqstore tests",
        master="local[2]",
        conf={
            # What it leaves behind is nobody's else.
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
            "spark.driver.memory": "768m",
            "spark.local.dir": str(folder / "local"),
            "spark.log.level": "ERROR",
            "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.enabled": "false",
        },
    )
    yield session
    session.stop()
