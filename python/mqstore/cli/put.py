"""``mqstore put``."""

import click

from mqstore.cli.json_lines import put_lines
from mqstore.cli.store_call import StoreCall, end_without_closing, input_lines, print_lines, store_call

__all__ = ["put"]


_FIELDS = """\b
A message, of which the topic alone is needed; the body is in base64:
  {"topic": "orders", "body": "aGVsbG8=", "keys": "k1 k2", "tags": "new"}
Other fields:
  queueId, properties (an object of text), delayTimeLevel, deliverAt, flag,
  sysFlag, bornTimestamp, bornHost, storeHost, reconsumeTimes,
  preparedTransactionOffset, waitStoreMsgOK
A batch, whose messages have body, keys, tags, properties, flag:
  {"topic": "orders", "queueId": 0, "batch": [{"body": "aGVsbG8="}]}
A pause, in milliseconds:
  {"sleep": 100}
"""


@click.command(epilog=_FIELDS)
@store_call
def put(call: StoreCall) -> None:
    """Put messages that standard input has, one a line.

    Each put's result is printed as soon as it is known. What the store refuses is a result too, as
    MESSAGE_ILLEGAL: the next line is put all the same, and the command ends with 0.
    """
    with call.open("rw") as store:
        print_lines(input_lines(lambda lines: put_lines(store, lines)), each_at_once=True)
        if call.crash:
            end_without_closing()
