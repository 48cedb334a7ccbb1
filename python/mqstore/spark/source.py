"""The data source ``mqstore``: what Spark asks first, and whom it is passed on to."""

from pyspark.sql.datasource import DataSource

__all__ = ["MQStoreDataSource"]


class MQStoreDataSource(DataSource):
    """Stores of RocketMQ 4.9.3 as tables."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "mqstore"
