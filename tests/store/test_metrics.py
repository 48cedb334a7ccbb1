"""A store's figures as Prometheus gets them."""

import contextlib
import json
import logging
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import mqstore
from mqstore.metrics import serve
from tests.command import MQSTORE
from tests.store.conftest import Opener

Samples = dict[tuple[str, tuple[str, ...]], float]
IGNORED = ("cluster", "broker")


def scrape(port: int) -> Samples:
    """The samples by name and labels, those of the broker left out."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {
        (sample.name, tuple(value for name, value in sample.labels.items() if name not in IGNORED)): sample.value
        for sample in samples
    }


@contextlib.contextmanager
def served(store: mqstore.MessageStore) -> Iterator[int]:
    """The port where a store's figures are served meanwhile."""
    server, thread = serve(store, 0, cluster="c", broker="b")
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def port(store: mqstore.MessageStore) -> Iterator[int]:
    """Where a store's figures are served."""
    with served(store) as number:
        yield number


def test_a_writers_figures(store: mqstore.MessageStore, port: int) -> None:
    for number in range(10):
        store.put("orders", b"%d" % number, queue_id=number % 2)
    with store.consumer("g", "orders", timeout=0.05) as consumer:
        for message in consumer:
            if message.logics_offset == 3 and message.queue_id == 0:
                consumer.reconsume_later(message, -1)
    store.put("orders", b"behind", queue_id=0)
    found = scrape(port)
    assert found["rocketmq_producer_offset", ("orders",)] == 11
    assert found["mqstore_queue_depth", ("0", "orders")] == 6
    assert found["rocketmq_consumer_offset", ("g", "orders")] == 10
    assert found["rocketmq_group_diff", ("g", "orders")] == 1
    assert ("rocketmq_group_diff", ("g", "%RETRY%g")) not in found
    assert found["rocketmq_group_retrydiff", ("g", "%RETRY%g")] == 0
    assert found["rocketmq_group_dlqdiff", ("g", "%DLQ%g")] == 1
    assert found["rocketmq_group_get_latency_by_storetime", ("g", "orders")] >= 0
    assert found["rocketmq_consumer_get_nums_total", ("g", "orders")] == 10
    assert found["rocketmq_send_back_nums_total", ("g", "orders")] == 1
    assert found["rocketmq_brokeruntime_putmessage_times_total", ()] == 12
    assert found["rocketmq_brokeruntime_put_message_size_total", ()] == store.get_max_phy_offset()
    assert found["rocketmq_brokeruntime_commitlog_maxoffset", ()] == store.get_max_phy_offset()
    assert sum(value for (name, _), value in found.items() if "pmdt_" in name) == 12
    assert ("rocketmq_broker_tps", ()) not in found
    store.put("orders", b"later", queue_id=0)
    found = scrape(port)
    assert found["rocketmq_broker_tps", ()] > 0
    assert found["rocketmq_producer_tps", ("orders",)] > 0
    assert found["mqstore_queue_tps", ("1", "orders")] == 0


def test_the_command_follows_a_writer(open_store: Opener) -> None:
    store = open_store()
    store.put("orders", b"0", queue_id=0)
    process = subprocess.Popen(
        [str(MQSTORE), "metrics", str(store.path), "--port", "0"], stdout=subprocess.PIPE, encoding="utf-8"
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().removesuffix("/metrics\n").rsplit(":", 1)[1])
        assert scrape(port)["rocketmq_producer_offset", ("orders",)] == 1
        store.put("orders", b"1", queue_id=0)
        found = scrape(port)
        assert found["rocketmq_producer_offset", ("orders",)] == 2
        assert found["rocketmq_producer_tps", ("orders",)] > 0
        # What the writer counts is not this process's to say.
        assert ("rocketmq_brokeruntime_putmessage_times_total", ()) not in found
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def command(*arguments: str) -> list[dict[str, object]]:
    """What a command prints as JSON lines."""
    done = subprocess.run([str(MQSTORE), *arguments], capture_output=True, encoding="utf-8", check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_command_prints_them_once(store: mqstore.MessageStore, tmp_path: Path) -> None:
    store.put("orders", b"0", queue_id=0)
    (figures,) = command("metrics", str(tmp_path / "store"), "--once")
    assert figures["commit_log_max_offset"] == store.get_max_phy_offset()


def test_groups_and_how_far_they_are(store: mqstore.MessageStore, tmp_path: Path) -> None:
    for number in range(4):
        store.put("orders", b"%d" % number, queue_id=number % 2)
    assert len(list(store.consumer("g", "orders", timeout=0.05))) == 4
    store.put("orders", b"4", queue_id=1)
    rows = command("groups", str(tmp_path / "store"))
    assert {"group": "g", "topic": "orders", "queues": 8, "consumed": 4, "behind": 1} in rows
    assert {"topic": "orders", "queue": 1, "offset": 2, "max": 3, "behind": 1} in command(
        "groups", str(tmp_path / "store"), "g"
    )


def test_a_group_or_topic_that_is_no_text_keeps_no_other_from_being_served(open_store: Opener) -> None:
    store = open_store()
    store.put("t", b"x", queue_id=0)
    store.close()
    path = store.path / "config" / "consumerOffset.json"
    path.write_text('{"offsetTable":{"t@g\\ud800":{0:1},"t\\udfff@h":{0:0},"t@good":{0:0}}}')
    with served(open_store(mode="r")) as port:
        found = {labels: value for (name, labels), value in scrape(port).items() if "group_diff" in name}
    assert found == {("g\\ud800", "t"): 0, ("good", "t"): 1}


def of_groups(samples: Samples) -> set[str]:
    return {name for name, _ in samples if name.startswith("rocketmq_group_") or name == "rocketmq_consumer_offset"}


@pytest.mark.parametrize("name", ["config/consumerOffset.json", "mqstore/consumers/shared/consumerOffset.json"])
@pytest.mark.parametrize("mode", ["r", "rw"])
def test_without_what_groups_have_read_all_else_is_served(
    open_store: Opener, caplog: pytest.LogCaptureFixture, mode: str, name: str
) -> None:
    store = open_store()
    store.put("t", b"x", queue_id=0)
    store.consumers.reset_offset("g", {("t", 0): 1})
    store.close()
    path = store.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for damaged in (path, path.with_name(f"{path.name}.bak")):
        damaged.write_text("{damaged")
    caplog.set_level(logging.WARNING, "mqstore")
    with served(open_store(mode=mode)) as port:
        for _ in range(3):
            found = scrape(port)
            assert found["rocketmq_producer_offset", ("t",)] == 1
            assert found["rocketmq_brokeruntime_commitlog_maxoffset", ()] > 0
            assert not of_groups(found)
        (told,) = [record.getMessage() for record in caplog.records if "no figures" in record.getMessage()]
        assert told.startswith(f"{store.path}: groups have no figures: {path}: expected JSON as RocketMQ writes it")


def test_groups_have_figures_again_once_their_file_is_restored(
    open_store: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    store.put("t", b"x", queue_id=0)
    path = store.path / "config" / "consumerOffset.json"
    with served(open_store(mode="r")) as port:
        for number in range(1, 3):
            path.write_text("{damaged")
            assert not of_groups(scrape(port))
            assert sum("no figures" in record.getMessage() for record in caplog.records) == number
            path.write_text('{"offsetTable":{"t@g":{0:0}}}')
            assert scrape(port)["rocketmq_group_diff", ("g", "t")] == 1


def test_another_failure_stays_one_and_is_told_once(
    open_store: Opener, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """What the system refuses to read is no damage, and may be there again at the next scrape."""
    store = open_store()
    store.put("t", b"x", queue_id=0)
    offsets = store.path / "config" / "consumerOffset.json"
    with served(open_store(mode="r")) as port:
        for number in range(1, 3):
            offsets.mkdir()
            for _ in range(2):
                with pytest.raises(urllib.error.HTTPError, match="500"):
                    scrape(port)
            told = [record.getMessage() for record in caplog.records]
            assert len(told) == number
            assert told[-1].startswith(f"{store.path}: there are no figures: ")
            assert str(offsets) in told[-1]
            offsets.rmdir()
            assert scrape(port)["rocketmq_producer_offset", ("t",)] == 1
    assert "Traceback" not in capfd.readouterr().err


def test_a_store_that_is_closed_has_no_figures(
    store: mqstore.MessageStore, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with served(store) as port:
        store.close()
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError, match="500"):
                scrape(port)
    (told,) = [record.getMessage() for record in caplog.records if "no figures" in record.getMessage()]
    assert told.endswith("the store is closed")
    assert "Traceback" not in capfd.readouterr().err


def test_the_command_tells_once_that_groups_have_no_figures(open_store: Opener) -> None:
    store = open_store()
    store.put("t", b"x", queue_id=0)
    (store.path / "config" / "consumerOffset.json").write_text("{damaged")
    process = subprocess.Popen(
        [str(MQSTORE), "metrics", str(store.path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().removesuffix("/metrics\n").rsplit(":", 1)[1])
        for _ in range(2):
            assert scrape(port)["rocketmq_producer_offset", ("t",)] == 1
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=20)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
    (line,) = told.splitlines()
    assert line.startswith(f"{store.path}: groups have no figures: ")
