"""The columns that messages have in Spark.

| column | type | |
|--------|------|-|
| `store` | string | the store's folder |
| `topic` | string | |
| `queue_id` | int | |
| `queue_offset` | bigint | |
| `commit_log_offset` | bigint | |
| `store_size` | int | bytes of the record |
| `body_crc` | int | |
| `flag` | int | the user's |
| `sys_flag` | int | |
| `born_timestamp` | timestamp | |
| `born_host` | string | |
| `store_timestamp` | timestamp | |
| `store_host` | string | |
| `reconsume_times` | int | |
| `prepared_transaction_offset` | bigint | |
| `msg_id` | string | |
| `unique_key` | string | |
| `tags` | string | |
| `keys` | array of string | without the unique key |
| `properties` | map of string to string | all of them |
| `raw_properties` | binary | as they are stored |
| `body` | binary | inflated where a client compressed it |
| `raw_body` | binary | as it is stored |
| `bad_range` | struct of begin, end, reason | of a part of the log that gave no message; else null |
"""

from collections.abc import Iterable

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mqstore.option_error import bad_option

__all__ = [
    "BAD_RANGE",
    "BAD_RANGE_TYPE",
    "COLUMNS",
    "RAW",
    "REPLACEMENT",
    "STORE",
    "check_schema",
    "has_bodies",
    "schema",
    "schema_of",
]

STORE = "store"
BAD_RANGE = "bad_range"
REPLACEMENT = "\ufffd"
"""What a text has where its bytes are no UTF-8."""
RAW = frozenset({"raw_properties", "raw_body"})
"""What others have in the form that is mostly wanted: only who names it gets it."""
BAD_RANGE_TYPE = StructType(
    [StructField("begin", LongType()), StructField("end", LongType()), StructField("reason", StringType())]
)
_INTEGERS = ("queue_id", "store_size", "body_crc", "flag", "sys_flag", "reconsume_times")
_LONGS = ("queue_offset", "commit_log_offset", "prepared_transaction_offset")
_TYPES: dict[str, DataType] = {
    **dict.fromkeys(_INTEGERS, IntegerType()),
    **dict.fromkeys(_LONGS, LongType()),
    **dict.fromkeys(("born_timestamp", "store_timestamp"), TimestampType()),
    **dict.fromkeys(("raw_properties", "body", "raw_body"), BinaryType()),
    "keys": ArrayType(StringType()),
    "properties": MapType(StringType(), StringType()),
    BAD_RANGE: BAD_RANGE_TYPE,
}
_ORDER = (
    "store topic queue_id queue_offset commit_log_offset store_size body_crc flag sys_flag born_timestamp born_host "
    "store_timestamp store_host reconsume_times prepared_transaction_offset msg_id unique_key tags keys properties "
    "raw_properties body raw_body bad_range"
)
COLUMNS: dict[str, DataType] = {name: _TYPES.get(name, StringType()) for name in _ORDER.split()}
"""Every column's type, in the order of the table."""


def schema(*names: str) -> StructType:
    """The schema of some columns, for ``spark.read.schema``: what is not in it is not read.

    Args:
        names: The columns' names, in their order; all but the raw ones by default.

    Raises:
        ValueError: there is no such column.
    """
    return schema_of(names or (name for name in COLUMNS if name not in RAW))


def schema_of(names: Iterable[str]) -> StructType:
    """As :func:`schema`."""
    fields = []
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"there is no column {name!r}; the columns are {', '.join(COLUMNS)}")
        fields.append(StructField(name, COLUMNS[name]))
    return StructType(fields)


def has_bodies(given: StructType) -> bool:
    """Whether bodies are read for a schema."""
    return not {"body", "raw_body"}.isdisjoint(given.fieldNames())


def check_schema(given: StructType) -> None:
    """Refuses a schema without columns, one that names none of messages', or gives one another type.

    Raises:
        OptionError: as said; it names the column.
    """
    if not given.fields:
        # Arrow says of a batch without columns that it has no rows.
        raise bad_option("schema", "", "it has no column: name one or more, queue_id costs least")
    for field in given.fields:
        if field.name not in COLUMNS:
            raise bad_option("schema", field.name, f"the columns are {', '.join(COLUMNS)}")
        if field.dataType != COLUMNS[field.name]:
            value = f"{field.name} {field.dataType.simpleString()}"
            raise bad_option("schema", value, f"the column's type is {COLUMNS[field.name].simpleString()}")
    names = given.fieldNames()
    if len(set(names)) < len(names):
        raise bad_option("schema", ", ".join(names), "a column is in it twice")
