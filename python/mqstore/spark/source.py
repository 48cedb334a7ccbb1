"""The data source ``mqstore``: what Spark asks first, and whom it is passed on to."""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from mqstore.option_error import bad_option
from mqstore.spark.columns import BAD_RANGE, COLUMNS, RAW, check_schema, has_bodies, schema_of
from mqstore.spark.narrowing import Narrowing
from mqstore.spark.piece import Piece, read_piece
from mqstore.spark.planning import plan
from mqstore.spark.read_options import ReadOptions
from mqstore.spark.sink import MessageStreamWriter, MessageWriter
from mqstore.spark.stream import MessageStreamReader
from mqstore.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MQStoreDataSource"]

_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""What Spark runs to ask a reader where filters may be pushed down."""


class MQStoreDataSource(DataSource):
    """Stores of RocketMQ 4.9.3 as tables."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "mqstore"

    def schema(self) -> StructType:
        """Every column but the raw ones, ``properties`` and ``bad_range`` where the options want them."""
        options = ReadOptions.of(self.options)
        left_out = set(RAW)
        if not options.include_properties:
            left_out.add("properties")
        if options.mode != "PERMISSIVE":
            left_out.add(BAD_RANGE)
        return schema_of(name for name in COLUMNS if name not in left_out)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of what the options say, checked here, on the driver."""
        options = _checked(self.options, schema)
        # A reader that takes filters is refused while Spark's setting is off, and the setting itself is
        # not told: but then it is another worker that asks. And Spark 4.3.0 keeps what was planned for
        # one filter for whatever is done with the same DataFrame next, which then lacks rows: so filters
        # are taken only where the user says that a DataFrame is used once.
        kind = PushingReader if options.filter_pushdown and _asks_for_filters() else MessageReader
        return kind(schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader of what comes in."""
        options = _checked(self.options, schema)
        options.check_for_stream(self.options)
        return MessageStreamReader(schema, options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """A writer of a DataFrame's rows."""
        return MessageWriter(schema, WriteOptions.of(self.options, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - as above
        """A writer of a stream's batches."""
        return MessageStreamWriter(schema, WriteOptions.of(self.options, overwrite=overwrite))


def _checked(given: Mapping[str, str], schema: StructType) -> ReadOptions:
    options = ReadOptions.of(given)
    check_schema(schema)
    if not options.include_properties and "properties" in schema.fieldNames():
        raise bad_option("includeProperties", "false", "it contradicts the schema, which has the column properties")
    return options


def _asks_for_filters() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING_WORKER in sys.modules or (main is not None and main.name == _PUSHING_WORKER)


class MessageReader(DataSourceReader):
    """Reads what the options say."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        """A reader of a schema's columns."""
        self._schema, self._options = schema, options
        self._narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        """The pieces."""
        return list(plan(self._options, self._narrowing, has_bodies=has_bodies(self._schema)))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The messages of a piece; none where there was none to plan."""
        if isinstance(partition, Piece):
            yield from read_piece(partition, self._schema, self._options)


class PushingReader(MessageReader):
    """Reads what the options and the filters say."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Reads less where filters allow it; Spark applies them all the same."""
        self._narrowing = Narrowing.of(filters)
        return filters
