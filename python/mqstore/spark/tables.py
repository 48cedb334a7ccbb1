"""Tables that are kept up to date from stores: dispatch of messages into Parquet, by topic and day."""

import json
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from mqstore.option_error import bad_argument
from mqstore.spark.columns import BAD_RANGE, COLUMNS, RAW, schema
from mqstore.spark.moving import by_day
from mqstore.spark.piece import DataLossError
from mqstore.spark.read_options import names_option
from mqstore.spark.session import spark_session

__all__ = ["dispatch"]

_CHECKPOINT = "_checkpoint"
"""Below the tables' folder; Spark's readers pass over such a name."""
_LOST = re.compile(rf"{DataLossError.__name__}: (.*?) \(failOnDataLoss=false ")
"""What a stream says that messages are gone: the option that it names is not given here."""
_LONGEST_INTERVAL_S = 1_000_000_000


def dispatch(
    stores: str | Iterable[str],
    out: str,
    *,
    topics: Iterable[str] = (),
    where: str | None = None,
    follow_interval_s: float | None = None,
    skip_lost: bool = False,
    spark: SparkSession | None = None,
) -> None:
    """Writes messages that are not in the tables yet to Parquet, in folders by topic and day (UTC).

    What is in the tables is known by a checkpoint beside them: called again, this goes on where it
    was, and each message is there once, whenever it was stopped.

    Args:
        stores: Folders of stores, or globs of them; always the same for the same tables.
        out: The folder of the tables.
        topics: Only messages of these topics; of all where none is given.
        where: A SQL expression over the source's columns that holds.
        follow_interval_s: Goes on until it is stopped, and looks for new messages so often; by default
            it ends with what there is.
        skip_lost: Goes on with what is left where messages are gone that are not in the tables yet: retention has
            removed them, or a store was made anew; an error by default.
        spark: The session; :func:`mqstore.spark.spark_session` by default.

    Raises:
        DataLossError: messages are gone, and ``skip_lost`` is off.
        OptionError: ``follow_interval_s`` is no time to wait.
    """
    if follow_interval_s is not None and not 0 <= follow_interval_s <= _LONGEST_INTERVAL_S:
        reason = f"expected a number of seconds from 0 to {_LONGEST_INTERVAL_S}"
        raise bad_argument("follow_interval_s", follow_interval_s, reason)
    session = spark or spark_session()
    names = [name for name in COLUMNS if name not in {*RAW, BAD_RANGE}]
    reader = session.readStream.format("mqstore").schema(schema(*names)).option("startingOffsets", "earliest")
    if (wanted := names_option("topics", topics)) is not None:
        reader = reader.option("subscribe", wanted)
    reader = reader.option("failOnDataLoss", not skip_lost)
    # A stream's reader takes one path: they go in as an option.
    messages = reader.option("paths", json.dumps([stores] if isinstance(stores, str) else list(stores))).load()
    if where is not None:
        messages = messages.where(where)
    writer = by_day(messages).writeStream.format("parquet").partitionBy("topic", "day").outputMode("append")
    writer = writer.option("path", out).option("checkpointLocation", str(PurePosixPath(out, _CHECKPOINT)))
    if follow_interval_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(follow_interval_s * 1000)} milliseconds")
    query = writer.start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if (lost := _LOST.search(str(error))) is not None:
            hint = "skip_lost, or --skip-lost, goes on with what is left"
            raise DataLossError(f"{lost[1]} ({hint})") from error
        raise
    finally:
        query.stop()
