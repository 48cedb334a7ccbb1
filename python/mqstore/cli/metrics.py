"""``mqstore metrics``."""

import contextlib
import dataclasses
import json
import signal
import threading
from collections.abc import Iterator

import click

from mqstore.cli.reader_call import ReaderCall, server_call
from mqstore.cli.shown import one_line, printable
from mqstore.cli.store_call import print_lines

__all__ = ["metrics"]

_EXPORTERS_PORT = 5557


@click.command
@server_call
@click.option("--port", type=click.IntRange(0, 65535), default=_EXPORTERS_PORT, show_default=True, help="0: any.")
@click.option("--address", default="127.0.0.1", show_default=True, help="What it listens on.")
@click.option("--cluster", default="DefaultCluster", show_default=True, help="The label of that name.")
@click.option("--broker", help="The label of that name; the broker's address by default.")
@click.option("--once", is_flag=True, help="Print the figures once, as JSON; does not need the extra.")
def metrics(call: ReaderCall, *, port: int, address: str, cluster: str, broker: str | None, once: bool) -> None:
    """Serve the store's figures to Prometheus until it is ended.

    A live writer is followed. The names are those of RocketMQ's exporter. Needs the extra "metrics".
    """
    if once:
        with call.open() as store:
            print_lines([json.dumps(dataclasses.asdict(store.figures()), ensure_ascii=False)])
        return
    try:
        from mqstore.metrics import serve  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise click.ClickException(f"pip install 'mqstore[metrics]' for this: {error}") from error
    host = f"[{address}]" if ":" in address else address
    # While it is opened signals end the command as they do any other: that can take long.
    with call.open() as store, _ended_by_signals() as ended:
        try:
            server, thread = serve(store, port, address=address, cluster=cluster, broker=broker)
        except (OSError, UnicodeError) as error:  # the latter of a name that no host can have
            reason = getattr(error, "strerror", None) or one_line(error)
            raise click.ClickException(f"{printable(host)}:{port}: {reason}") from error
        click.echo(f"http://{host}:{server.server_port}/metrics")
        ended.wait()
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[threading.Event]:
    """What Ctrl-C, or an end that is asked for, sets meanwhile."""
    ended = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: ended.set()) for number in numbers]
    try:
        yield ended
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
