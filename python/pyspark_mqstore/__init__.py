"""Where Spark finds the data source ``mqstore``: it looks through all modules named ``pyspark_*``.

Spark imports this in any session that uses a Python data source, so nothing but the class is here.
"""

from mqstore.spark.source import MQStoreDataSource as DefaultSource

__all__ = ["DefaultSource"]
