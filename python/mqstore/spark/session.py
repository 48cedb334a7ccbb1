"""A Spark session that has what mqstore needs."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from mqstore.spark.java import use_java

__all__ = ["spark_session"]

_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""A session on one machine is nobody else's business."""


def _defaults() -> dict[str, str | int | bool]:
    """A bar on a terminal, tables in a notebook."""
    return {
        "spark.ui.showConsoleProgress": sys.stderr.isatty(),
        "spark.sql.repl.eagerEval.enabled": _is_notebook(),
    }


def _is_notebook() -> bool:
    """Whether what a cell ends with is shown by a kernel, which asks it for HTML."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def spark_session(
    app_name: str = "mqstore", *, master: str | None = None, conf: Mapping[str, str | int | bool] | None = None
) -> SparkSession:
    """The process's Spark session, made where there is none.

    Any other session will do as well: the format ``mqstore`` is found without being registered.

    On a terminal Spark shows a bar of what is done; in a notebook a DataFrame that a cell ends with is shown as
    a table.

    A Java is found as :func:`mqstore.spark.java.use_java` says, and the workers run this Python. A
    session that is there already is given as it is, with ``conf`` set on it.

    Args:
        app_name: The application's name.
        master: Where to run; all cores of this machine by default, or what ``spark-submit`` was given.
        conf: Settings by Spark's names; they go before the ones that are made here.

    Raises:
        ModuleNotFoundError: there is no Java.
    """
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName(app_name)
    if not is_submitted:
        use_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = master or "local[*]"
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = builder.config(map=dict(_LOCAL))
    settings: dict[str, Any] = {**_defaults(), **(conf or {})}
    return builder.config(map=settings).getOrCreate()
