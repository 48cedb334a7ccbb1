"""The same work on a small store and on a large one: what a message costs must not grow with the store.

``mqstore bench`` fills each store and reads it, and the store is left as after a crash and opened again. Three
comparisons: messages of 100 bytes, messages of 1 KiB, and look-ups by key in an index file as full as 4.9.3 makes it,
with 20,000,000 keys.

    python benches/scale/sizes.py [--only PART] [--factor 1] [--folder FOLDER]
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from parts import mqstore_command, table

KIB = 1024
FIGURES = {
    "put and dispatch, thousand a second": ("put_and_dispatch_per_s", 1e-3),
    "get of 32, thousand a second": ("get_per_s", 1e-3),
    "get decoded, thousand a second": ("get_decoded_per_s", 1e-3),
    "get to Arrow, thousand a second": ("get_arrow_per_s", 1e-3),
    "query by key, thousand a second": ("query_by_key_per_s", 1e-3),
    "query by keys, in one call, thousand a second": ("query_by_keys_per_s", 1e-3),
    "offset by time, thousand a second": ("offset_by_time_per_s", 1e-3),
    "offset by times, in one call, thousand a second": ("offset_by_times_per_s", 1e-3),
    "memory that is no file's, MiB": ("resident_anonymous_bytes", 1 / 2**20),
    "open after a crash, µs a message": ("open_us_a_message", 1),
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A small store and a large one."""

    name: str
    body_size: int
    small_count: int
    large_count: int
    batch_count: int = 1


COMPARISONS = [
    Comparison(name="ten million messages of 100 B", body_size=100, small_count=1_000_000, large_count=10_000_000),
    Comparison(
        name="an index file of 20 million keys",
        body_size=100,
        small_count=2_000_000,
        # With the 50,000 that warm the bench up, it is the first file's last key but a few.
        large_count=19_940_000,
        batch_count=1000,
    ),
    Comparison(name="20 GiB of 1 KiB", body_size=KIB, small_count=875_000, large_count=17_500_000, batch_count=1000),
]


def figures_of(of: Comparison, count: int, folder: Path) -> dict[str, float]:
    """What a store of so many messages does."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        store = Path(scratch, "store")
        options = {"bench.messages": count, "bench.body": of.body_size, "bench.batch": of.batch_count}
        figures = mqstore_command("bench", store, crash="true", **options)
        assert figures["query_by_key_found"] > 0, "the look-ups found nothing"
        opened = mqstore_command("recover", store)
        return figures | {"open_us_a_message": opened["open_s"] / count * 1e6}


def main() -> None:
    """Compares sizes and prints a table for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of the comparisons to make")
    parser.add_argument("--factor", type=float, default=1.0, help="of all counts of messages")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    chosen = [of for of in COMPARISONS if given.only in of.name]
    if not chosen:
        parser.error(f"--only {given.only!r}: no comparison has that in its name")
    for of in chosen:
        counts = [int(count * given.factor) for count in (of.small_count, of.large_count)]
        small, large = (figures_of(of, count, given.folder) for count in counts)
        rows = [
            [name, f"{small[figure] * unit:.2f}", f"{large[figure] * unit:.2f}", f"{large[figure] / small[figure]:.2f}"]
            for name, (figure, unit) in FIGURES.items()
        ]
        print(table([of.name, *(f"{count:,}" for count in counts), "large / small"], rows), flush=True)
        print()


if __name__ == "__main__":
    main()
