"""Stores on Spark: the data source ``mqstore``, and a session to use it in.

Needs the extra ``spark``: ``pip install 'mqstore[spark]'``.
"""

from mqstore.spark.columns import schema
from mqstore.spark.java import use_java
from mqstore.spark.session import spark_session

__all__ = ["schema", "spark_session", "use_java"]
