"""The options of writing, and the columns that a sink takes."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from mqstore.option_error import bad_option
from mqstore.options import EngineOptions, StoreOptions
from mqstore.store.byte_ranges import local_path, refuse_remote

__all__ = ["WriteOptions", "check_columns"]

Partitioner = Literal["turns", "keys"]
_PARTITIONERS: tuple[Partitioner, ...] = get_args(Partitioner)
_KNOWN = frozenset(("path", "topic", "partitioner", "sinkid", "checkpointlocation", "queryname"))
_TYPES: dict[str, tuple[str, tuple[type[DataType], ...]]] = {
    "topic": ("string", (StringType,)),
    "body": ("binary or string", (BinaryType, StringType)),
    "keys": ("string or array of string", (StringType, ArrayType)),
    "tags": ("string", (StringType,)),
    "properties": ("map of string to string", (MapType,)),
    "queue_id": ("int", (IntegerType, ShortType)),
}


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Where rows go, and how; checked."""

    path: str
    topic: str | None
    """The topic of all rows; else the column ``topic`` says it."""
    partitioner: Partitioner
    """Which queue a row without ``queue_id`` goes to: the queues take turns, or keys decide."""
    given_sink_id: str | None
    checkpoint: str | None
    store_options: dict[str, Any] = field(default_factory=dict)
    """Options that the store is opened with."""

    @property
    def folder(self) -> Path:
        """Where rows are staged: beside what is RocketMQ's, seen by every task that sees the store."""
        return Path(self.path) / "mqstore" / "spark"

    def engine(self) -> EngineOptions:
        """What the engine goes by where rows are put.

        Raises:
            OptionError: an option of the store does not work.
        """
        return StoreOptions.of(self.path, self.store_options).engine(
            compat=False, truncate_on_damage=False, pread=False
        )

    def sink_id(self) -> str:
        """What a stream's batches are known by: the option, else the id in the query's checkpoint.

        Raises:
            OptionError: there is neither.
        """
        if self.given_sink_id is not None:
            return self.given_sink_id
        if self.checkpoint is None:
            raise bad_option("sinkId", "", "a stream needs it, or checkpointLocation as an option of the query")
        try:
            metadata = Path(local_path(self.checkpoint)) / "metadata"
            return str(json.loads(metadata.read_text(encoding="utf-8"))["id"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"no query id was found in its file metadata ({error}); give sinkId"
            raise bad_option("checkpointLocation", self.checkpoint, reason) from error

    @classmethod
    def of(cls, given: Mapping[str, str], *, overwrite: bool) -> Self:
        """Options as Spark passes them on.

        Raises:
            OptionError: there is no such option, or its value does not work.
        """
        if overwrite:
            raise bad_option("mode", "overwrite", "a store is only appended to")
        values = {name.lower(): value for name, value in given.items()}
        path = values.get("path", "")
        refuse_remote("path", path)
        store_options = {}
        for name, value in given.items():
            if name.lower() not in _KNOWN:
                if not name.lower().startswith("store."):
                    raise bad_option(name, value, "there is no such option of mqstore's sink")
                store_options[_spelling(name[len("store.") :], value)] = value
        if not path:
            raise bad_option("path", path, "say which store, as in save(path)")
        path = local_path(path)
        asked = values.get("partitioner", "turns")
        partitioner = next((each for each in _PARTITIONERS if each == asked), None)
        if partitioner is None:
            raise bad_option("partitioner", asked, f"expected one of {', '.join(_PARTITIONERS)}")
        sink_id = values.get("sinkid")
        if sink_id is not None and (re.fullmatch(r"[\w.-]+", sink_id) is None or sink_id in {".", ".."}):
            raise bad_option("sinkId", sink_id, "expected letters, digits, - _ and . since it names a folder")
        options = cls(
            path=str(Path(path).resolve()),
            topic=values.get("topic"),
            partitioner=partitioner,
            given_sink_id=sink_id,
            checkpoint=values.get("checkpointlocation"),
            store_options=store_options,
        )
        # A value that does not work is told by who asks for the writer.
        options.engine()
        return options


def _spelling(name: str, value: str) -> str:
    """A store option's name: Spark may have made it lower case."""
    names = {option.replace("_", ""): option for option in StoreOptions.__dataclass_fields__}
    found = names.get(name.replace("_", "").lower())
    if found is None:
        raise bad_option(f"store.{name}", value, "there is no such option of a store")
    return found


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Refuses columns that a sink can't take, before anything is staged.

    Raises:
        OptionError: as said; it names the column.
    """
    for column in schema.fields:
        if column.name not in _TYPES:
            raise bad_option("schema", column.name, f"a sink takes the columns {', '.join(_TYPES)}")
        expected, types = _TYPES[column.name]
        parts = {
            ArrayType: lambda kind: [kind.elementType],
            MapType: lambda kind: [kind.keyType, kind.valueType],
        }.get(type(column.dataType), lambda _: [])(column.dataType)
        if not isinstance(column.dataType, types) or not all(isinstance(part, StringType) for part in parts):
            value = f"{column.name} {column.dataType.simpleString()}"
            raise bad_option("schema", value, f"the column's type is {expected}")
    names = schema.fieldNames()
    if "body" not in names:
        raise bad_option("schema", ", ".join(names), "a sink needs the column body")
    if "topic" in names and options.topic is not None:
        raise bad_option("topic", options.topic, "it contradicts the column topic")
    if "topic" not in names and options.topic is None:
        raise bad_option("topic", "", "it is needed where there is no column topic")
