"""A store's figures for Prometheus, under the names of RocketMQ's exporter where it has them.

Needs the extra ``metrics``. What the exporter does not have begins with ``mqstore_``.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from mqstore.consumer.settings import DLQ_GROUP_TOPIC_PREFIX, RETRY_GROUP_TOPIC_PREFIX
from mqstore.errors import MQStoreError
from mqstore.store.arguments import check_store, checked_integer, checked_text
from mqstore.store.figures import StoreFigures, StoreRates

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import Metric

    from mqstore.consumer.manager import ConsumeStats
    from mqstore.store.message_store import MessageStore

__all__ = ["StoreCollector", "serve"]

_log = logging.getLogger("mqstore")
_MAX_PORT = 65_535

_PUT_TIME_NAMES = (
    "0ms",
    "0to10ms",
    "10to50ms",
    "50to100ms",
    "100to200ms",
    "200to500ms",
    "500to1s",
    "1to2s",
    "2to3s",
    "3to4s",
    "4to5s",
    "5to10s",
    "10stomore",
)
_RUNTIME = "rocketmq_brokeruntime_"
_AT_MIDNIGHT = {
    "msgPutTotalYesterdayMorning": "msg_puttotal_yesterdaymorning",
    "msgPutTotalTodayMorning": "msg_puttotal_todaymorning",
    "msgGetTotalYesterdayMorning": "msg_gettotal_yesterdaymorning",
    "msgGetTotalTodayMorning": "msg_gettotal_todaymorning",
}
_Labels = tuple[str, ...]
_Values = dict[_Labels, float]


class _Told:
    """Why something has no figures, so that it is told once and not at each scrape."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None

    def is_new(self, reason: str | None) -> bool:
        """Whether it has none for a reason, and had some or another reason before."""
        with self._lock:
            before, self._reason = self._reason, reason
        return reason not in {None, before}


class StoreCollector(Collector):
    """Gives a store's figures each time it is asked; rates are those since the time before."""

    def __init__(self, store: "MessageStore", *, cluster: str = "DefaultCluster", broker: str | None = None) -> None:
        """Figures of a store, under the names of a cluster and a broker.

        A store that is open to read has figures of its log, its queues and its groups; what its writer
        has counted is the writer's to say.

        Raises:
            TypeError: the store is none, or a name no string.
        """
        check_store(store)
        checked_text("cluster", cluster)
        if broker is not None:
            checked_text("broker", broker)
        self._store = store
        self._names = (cluster, broker or f"{store.options.broker_ip1}:{store.options.listen_port}")
        self._lock = threading.Lock()
        self._before: StoreFigures | None = None
        self._told_of_groups = _Told()

    def collect(self) -> Iterator["Metric"]:
        """The figures now; those of groups are left out where a file of their offsets is damaged."""
        store = self._store
        with self._lock:
            if store.mode == "r":
                store.refresh()
            figures = StoreFigures.of(store)
            before, self._before = self._before, figures
        rates = None if before is None or before.taken_at >= figures.taken_at else figures.rates_since(before)
        yield from self._of_queues(figures, rates)
        stats = self._stats_of_groups()
        if stats is not None:
            yield from self._of_groups(stats)
        yield from self._of_consumers()
        yield from self._of_log(figures)
        if store.mode == "rw":
            yield from self._of_writer(figures, rates)

    def _gauge(self, name: str, text: str, labels: _Labels, values: _Values) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, text, labels=("cluster", "broker", *labels))
        for given, value in values.items():
            family.add_metric((*self._names, *given), value)
        return family

    def _one(self, name: str, text: str, value: float) -> GaugeMetricFamily:
        return self._gauge(name, text, (), {(): value})

    def _count(self, name: str, text: str, value: float) -> CounterMetricFamily:
        family = CounterMetricFamily(name, text, labels=("cluster", "broker"))
        family.add_metric(self._names, value)
        return family

    def _of_queues(self, figures: StoreFigures, rates: StoreRates | None) -> Iterator["Metric"]:
        depths: _Values = {(queue.topic, str(queue.queue_id)): queue.depth for queue in figures.queues}
        yield self._gauge("mqstore_queue_depth", "messages of a queue", ("topic", "queue"), depths)
        ends: _Values = defaultdict(float)
        for queue in figures.queues:
            ends[queue.topic,] += queue.max_offset
        yield self._gauge("rocketmq_producer_offset", "TopicPutOffset", ("topic",), ends)
        if rates is None:
            return
        by_queue: _Values = {(topic, str(queue_id)): rate.messages for (topic, queue_id), rate in rates.queues.items()}
        yield self._gauge("mqstore_queue_tps", "messages that came to a queue a second", ("topic", "queue"), by_queue)
        tps: _Values = defaultdict(float)
        sizes: _Values = defaultdict(float)
        for (topic, _), rate in rates.queues.items():
            tps[topic,] += rate.messages
            sizes[topic,] += rate.bytes
        yield self._gauge("rocketmq_producer_tps", "TopicPutNums", ("topic",), tps)
        yield self._gauge("rocketmq_producer_message_size", "TopicPutMessageSize", ("topic",), sizes)

    def _stats_of_groups(self) -> "Mapping[str, Sequence[ConsumeStats]] | None":
        """How far groups are; ``None``, which is told once, where nobody can say that before a file is restored."""
        reason = stats = None
        try:
            stats = self._store.consumers.consume_stats_of_groups()
        except MQStoreError as error:
            # A damaged file has no class of its own; what has one is of the store, or of the system.
            if type(error) is not MQStoreError:
                raise
            reason = str(error)
        if self._told_of_groups.is_new(reason):
            _log.warning("%s: groups have no figures: %s", self._store.path, reason)
        return stats

    def _of_groups(self, stats_of_groups: "Mapping[str, Sequence[ConsumeStats]]") -> Iterator["Metric"]:
        store, now_ms = self._store, self._store.now()
        offsets: _Values = defaultdict(float)
        diffs: _Values = defaultdict(float)
        retries: _Values = defaultdict(float)
        latencies: _Values = defaultdict(float)
        dead: _Values = {}
        for name, of_group in stats_of_groups.items():
            # As the command line shows one that is no text: what is served is.
            group = name.encode(errors="backslashreplace").decode()
            for stats in of_group:
                of = (group, stats.topic)
                offsets[of] += stats.consumer_offset
                if stats.topic.startswith(RETRY_GROUP_TOPIC_PREFIX):
                    retries[of] += stats.diff
                    continue
                diffs[of] += stats.diff
                if stats.diff:
                    stored = store.get_message_store_time_stamp(stats.topic, stats.queue_id, stats.consumer_offset)
                    latencies[of] = max(latencies[of], now_ms - stored if stored >= 0 else 0)
                else:
                    latencies[of] = max(latencies[of], 0)
            topic = DLQ_GROUP_TOPIC_PREFIX + group
            dead[group, topic] = sum(
                store.get_message_total_in_queue(topic, queue_id) for queue_id in store._queue_ids(topic)
            )
        labels = ("group", "topic")
        yield self._gauge("rocketmq_consumer_offset", "GroupBrokerTotalOffset", labels, offsets)
        yield self._gauge("rocketmq_group_diff", "GroupDiff", labels, diffs)
        yield self._gauge("rocketmq_group_retrydiff", "GroupRetryDiff", labels, retries)
        yield self._gauge("rocketmq_group_dlqdiff", "GroupDLQDiff", labels, dead)
        yield self._gauge("rocketmq_group_get_latency_by_storetime", "GroupGetLatencyByStoreTime", labels, latencies)

    def _of_consumers(self) -> Iterator["Metric"]:
        figures = self._store.consumers.figures.items()
        yield self._consumed("rocketmq_consumer_get_nums", ((name, one.get_nums) for name, one in figures))
        yield self._consumed("rocketmq_consumer_get_size", ((name, one.get_size) for name, one in figures))
        yield self._consumed("rocketmq_send_back_nums", ((name, one.send_back_nums) for name, one in figures))

    def _consumed(self, name: str, values: Iterable[tuple[tuple[str, str], int]]) -> CounterMetricFamily:
        family = CounterMetricFamily(
            name, "of consumers in this process", labels=("cluster", "broker", "group", "topic")
        )
        for given, value in list(values):
            family.add_metric((*self._names, *given), value)
        return family

    def _of_log(self, figures: StoreFigures) -> Iterator["Metric"]:
        for name, text, value in (
            ("commitlog_minoffset", "the log's first offset", figures.commit_log_min_offset),
            ("commitlog_maxoffset", "the log's end", figures.commit_log_max_offset),
            ("commitlog_disk_ratio", "how much of the log's emptiest disk is used, from 0 to 1", figures.disk_ratio),
            ("earliest_message_timestamp", "when the first message was stored, ms", figures.earliest_message_time_ms),
            ("dispatch_behind_bytes", "bytes that are in no queue yet", figures.dispatch_behind_bytes),
        ):
            yield self._one(_RUNTIME + name, text, value)
        yield self._one("mqstore_dispatch_behind_ms", "store time that is in no queue yet", figures.dispatch_behind_ms)

    def _of_writer(self, figures: StoreFigures, rates: StoreRates | None) -> Iterator["Metric"]:
        for name, times in zip(_PUT_TIME_NAMES, figures.put_message_distribute_time.values(), strict=True):
            yield self._one(f"{_RUNTIME}pmdt_{name}", f"puts that took {name}", times)
        puts, size = figures.put_message_times_total, figures.put_message_size_total
        yield self._count(f"{_RUNTIME}putmessage_times", "messages put", puts)
        yield self._count(f"{_RUNTIME}put_message_size", "bytes put", size)
        yield self._count("mqstore_put_failed", "puts that stored nothing", figures.put_message_failed_times)
        yield self._count("mqstore_get_found", "gets that found messages", figures.get_message_times_total_found)
        yield self._count("mqstore_get_miss", "gets that found none", figures.get_message_times_total_miss)
        yield self._count("mqstore_get_messages", "messages that gets gave", figures.get_message_transfered_msg_count)
        for name, text, value in (
            ("put_message_average_size", "bytes of a message put", size / puts if puts else 0),
            ("putmessage_entire_time_max", "the longest put, ms", figures.put_message_entire_time_max_us / 1000),
            ("getmessage_entire_time_max", "the longest get, ms", figures.get_message_entire_time_max_us / 1000),
            ("remain_howmanydata_toflush", "bytes not on the disk yet", figures.remain_how_many_data_to_flush),
            ("remain_transientstore_buffer_numbs", "free buffers", figures.remain_transient_store_buffer_numbs),
            ("pagecache_lock_time_mills", "how long the append under way takes", figures.lock_time_mills),
        ):
            yield self._one(_RUNTIME + name, text, value)
        if figures.timed_waiting is not None:
            yield self._one("mqstore_timed_waiting", "messages that wait for their deliver_at", figures.timed_waiting)
        for name, total in figures.totals_at_midnight.items():
            yield self._one(_RUNTIME + _AT_MIDNIGHT[name], name, total)
        yield self._one(f"{_RUNTIME}msg_put_total_today_now", "messages put", puts)
        got = figures.get_message_transfered_msg_count
        yield self._one(f"{_RUNTIME}msg_gettotal_today_now", "messages that gets gave", got)
        busy = int(figures.is_os_page_cache_busy)
        yield self._one("mqstore_os_page_cache_busy", "1 while an append takes too long", busy)
        if rates is not None:
            yield self._one("rocketmq_broker_tps", "BrokerPutNums", rates.put_tps)
            yield self._one("rocketmq_broker_qps", "BrokerGetNums", rates.get_transfered_tps)


class _Answers:
    """The figures as a server gives them: an error where they can't be read, which is told once, not at each scrape."""

    def __init__(self, figures: "WSGIApplication", path: Path) -> None:
        self._figures, self._path, self._told = figures, path, _Told()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        reason, answer = None, None
        try:
            answer = self._figures(environ, start_response)
        except (MQStoreError, OSError) as error:
            reason = str(error)
        if self._told.is_new(reason):
            _log.error("%s: there are no figures: %s", self._path, reason)
        if answer is not None:
            return answer
        start_response("500 Internal Server Error", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"the store cannot be read: the server's log says why\n"]


def serve(
    store: "MessageStore",
    port: int,
    *,
    address: str = "127.0.0.1",
    cluster: str = "DefaultCluster",
    broker: str | None = None,
) -> tuple["WSGIServer", threading.Thread]:
    """Serves a store's figures over HTTP, from a thread of its own.

    Where the store can't be read, as one that was closed, the answer is an error of the server, and a line of logging
    says so once.

    Args:
        store: The store.
        port: The port; 0 for any that is free.
        address: The address that it listens on.
        cluster: The cluster's name.
        broker: The broker's name: its address by default.

    Returns:
        The server, whose ``shutdown()`` ends it and whose ``server_port`` is its port, and its thread.

    Raises:
        OSError: it cannot listen there.
        TypeError: the store is none, the port no integer, or the address or a name no string.
        ValueError: it is no port.
    """
    collector = StoreCollector(store, cluster=cluster, broker=broker)
    checked_integer("port", port, 0, _MAX_PORT)
    checked_text("address", address)
    registry = CollectorRegistry()
    registry.register(collector)
    server, thread = start_http_server(port, address, registry)
    server.set_app(_Answers(make_wsgi_app(registry), store.path))
    return server, thread
