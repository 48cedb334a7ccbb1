"""``mqstore query``."""

import click

from mqstore.cli.json_lines import answer_lines
from mqstore.cli.store_call import StoreCall, end_without_closing, input_lines, print_lines, store_call

__all__ = ["query"]


_QUERIES = """\b
Queries, with times in milliseconds:
  {"op": "get", "topic": "orders", "queueId": 0, "offset": 0, "maxMsgNums": 32}
      and where tags are wanted "subscription": "A || B"
  {"op": "byKey", "topic": "orders", "key": "k1", "maxNum": 32,
      "begin": 0, "end": 1795254109346}
  {"op": "byTime", "topic": "orders", "queueId": 0, "timestamp": 1795254109346}
  {"op": "byOffset", "commitLogOffset": 0}
  {"op": "bounds", "topic": "orders", "queueId": 0}
  {"op": "messageStoreTimeStamp", "topic": "orders", "queueId": 0, "offset": 0}
"""


@click.command(epilog=_QUERIES)
@store_call
def query(call: StoreCall) -> None:
    """Answer queries that standard input has, one a line.

    Standard output has an answer a line. The store is opened to read: nothing in it changes.
    """
    with call.open("r") as store:
        print_lines(input_lines(lambda lines: answer_lines(store, lines)), each_at_once=True)
        if call.crash:
            end_without_closing()
