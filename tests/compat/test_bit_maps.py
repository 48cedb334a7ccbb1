"""The bit maps of filters in a queue's extension, beside the broker's own dispatcher."""

import json
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import mqstore
from mqstore.cli.json_lines import put_lines
from tests.compat.java_store import JavaStore
from tests.compat.streams import SMALL_FILES

OPTIONS: dict[str, Any] = SMALL_FILES | {"enableConsumeQueueExt": "true", "mappedFileSizeConsumeQueueExt": "65536"}
OURS: dict[str, Any] = OPTIONS | {"enableCalcFilterBitMap": True}
QUEUE = ("orders", 0)
FILTERS = [
    ("orders", "cheap", "price < 50"),
    ("orders", "german", "region = 'de' AND price IS NOT NULL"),
    ("orders", "all", "TRUE"),
    ("orders", "none", "region = 5"),
    ("others", "elsewhere", "TRUE"),
    ("orders", "cheap", "price < 20"),
]


def steps(seed: int) -> list[dict[str, Any]]:
    """Messages, and filters that are registered between them."""
    rnd = random.Random(seed)
    found: list[dict[str, Any]] = []
    for version, (topic, group, expression) in enumerate(FILTERS, 1):
        for topic_of in ("orders", "others", "without"):
            for _ in range(8):
                properties = {"price": str(rnd.randrange(100)), "region": rnd.choice(["de", "fr"])}
                chosen = dict(rnd.sample(list(properties.items()), rnd.randrange(3)))
                found.append({"topic": topic_of, "bornTimestamp": 1, "properties": chosen, "tags": "T"})
        found.append({"filter": {"topic": topic, "group": group, "expression": expression, "version": version}})
    return [*found, *found[:24]]


def units(store: Path) -> dict[str, list[tuple[int, int, bytes]]]:
    """Of each topic what the extension has of its messages: tags code, bytes of the map, the map."""
    with mqstore.open(store, **OPTIONS) as opened:
        return {
            topic: [(code, len(bit_map), bit_map) for code, _, bit_map in opened._ext_units(topic, 0, 0, 1000)]
            for topic in ("orders", "others", "without")
        }


def test_maps_are_those_of_the_brokers_dispatcher(java: JavaStore, tmp_path: Path, seed: int) -> None:
    given = steps(seed)
    java.run("bit-maps", tmp_path / "java", OPTIONS, [json.dumps(step) for step in given])
    with mqstore.open(tmp_path / "ours", "rw", **OURS) as ours:
        for step in given:
            if "filter" in step:
                ours._reput()
                wanted = step["filter"]
                ours.consumers.register_filter(
                    wanted["topic"], wanted["group"], wanted["expression"], wanted["version"]
                )
            else:
                list(put_lines(ours, [json.dumps(step)]))
    found = units(tmp_path / "ours")
    assert found == units(tmp_path / "java")
    assert {size for _, size, _ in found["orders"]} == {0, 14}
    assert {size for _, size, _ in found["without"]} == {0}
    assert len({bit_map for _, _, bit_map in found["orders"]}) > 4


def test_filters_of_the_broker_count_from_the_first_dispatch_on(java: JavaStore, tmp_path: Path, seed: int) -> None:
    filters = [step for step in steps(seed) if "filter" in step]
    messages = [step for step in steps(seed) if "filter" not in step]
    java.run("bit-maps", tmp_path / "java", OPTIONS, [json.dumps(step) for step in [*filters, *messages]])
    shutil.copytree(tmp_path / "java", tmp_path / "ours")
    for derived in ("consumequeue", "consumequeue_ext", "index", "checkpoint"):
        path = tmp_path / "ours" / derived
        path.rename(tmp_path / derived)
    # Opening dispatches everything anew, with the filters that the broker has written.
    with mqstore.open(tmp_path / "ours", "rw", **OURS):
        pass
    assert units(tmp_path / "ours") == units(tmp_path / "java")


def test_a_message_behind_a_filters_birth_is_marked(tmp_path: Path) -> None:
    time_ms = 1_700_000_000_000
    registers = threading.local()

    def clock() -> int:
        nonlocal time_ms
        time_ms += 1
        now = time_ms
        if getattr(registers, "is_under_way", False):
            # Somebody puts, and dispatch comes to it, whenever the clock was looked at.
            registers.is_under_way = False
            ours.put("orders", b"", queue_id=0, properties={"price": "5"})
            ours._reput()
            registers.is_under_way = True
        return now

    with mqstore.open(tmp_path / "ours", "rw", clock=clock, **OURS) as ours:
        ours.consumers.register_filter("orders", "all", "TRUE", 1)
        registers.is_under_way = True
        ours.consumers.register_filter("orders", "cheap", "price < 50", 1)
        registers.is_under_way = False
        kept = ours.consumers.filters.get("orders", "cheap")
        assert kept is not None
        behind = [
            bit_map for _, stored_ms, bit_map in ours._ext_units("orders", 0, 0, 1000) if stored_ms > kept.born_time
        ]
        assert behind
        for bit_map in behind:
            assert all(bit_map[at // 8] >> at % 8 & 1 for at in kept.bit_pos)
