"""An audit as one page: what there is, what is wrong, what it means. It needs no other file."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from mqstore.store.times import to_ms
from mqstore.verify.meanings import LOOK, MEANINGS, REBUILD, Meaning, meaning_beside

if TYPE_CHECKING:
    from mqstore.spark.audit import Audit
    from mqstore.verify.findings import Finding, StoreAudit

__all__ = ["audit_page", "audit_tables"]

_LOST = frozenset({"bad_record", "bad_body", "record_changed", "offset_gap", "end_lost"})
_NOTHING_MISSING = frozenset({"config_damaged", "record_odd", "time_backwards"})
"""Kinds of findings that no rebuild changes, and the messages are there."""
_MOST_BARS = 12
_MOST_EXAMPLES = 20
_MOST_HOURS = 24 * 14
_WIDTH = 640

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d1d9e0; --paper: #fff;
  --panel: #f6f8fa; --bar: #2f6fab; --good: #1a7f37; --bad: #c4320a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --paper: #0d1117;
  --panel: #151b23; --bar: #6aa5dd; --good: #4ac26b; --bad: #ff8a5c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; } a { color: inherit; }
p { margin: .25rem 0; } .soft { color: var(--soft); }
code { font: .87em ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.verdict { padding: .75rem 1rem; border-left: 5px solid; margin: 1rem 0; background: var(--panel); font-size: 1.05rem; }
.good { border-color: var(--good); } .bad { border-color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .75rem; margin: 1rem 0; }
.tile { border: 1px solid var(--line); border-radius: 6px; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.2rem; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)); gap: 1.5rem; }
figure { margin: 0; min-width: 0; } svg { width: 100%; height: auto; display: block; } svg text { fill: var(--ink); }
svg .soft { fill: var(--soft); } svg .bar { fill: var(--bar); } svg .axis { stroke: var(--line); }
table { border-collapse: collapse; width: 100%; font-size: .9em; } th, td { text-align: left; padding: .3rem .6rem;
  border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .6rem 0; padding: .6rem .8rem; }
summary { cursor: pointer; font-weight: 600; } .count { color: var(--bad); font-weight: 600; }
.none { color: var(--good); }
.scroll { overflow-x: auto; }
"""


def audit_page(audit: "Audit") -> str:
    """The page."""
    made = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    # What needs somebody comes first, and of many stores those that are whole are a line each.
    numbered = sorted(enumerate(audit.stores), key=lambda each: each[1].is_whole)
    sections = "".join(
        _store_section(
            store,
            [finding for finding in audit.findings if finding.store == store.store],
            anchor=f"store-{number}",
            is_folded=store.is_whole and len(audit.stores) > 1,
        )
        for number, store in numbered
    )
    many = _overview(audit.stores, is_linked=True) if len(audit.stores) > 1 else ""
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Audit of {len(audit.stores)} store{'s' * (len(audit.stores) != 1)}</title>"
        f"<style>{_STYLE}</style></head><body>"
        f'<h1>Audit of message stores</h1><p class="soft">made {made} by mqstore</p>{_verdict(audit)}{many}{sections}'
        "</body></html>\n"
    )


def audit_tables(audit: "Audit") -> str:
    """The verdict, the stores and the kinds of findings, as a part of another page."""
    rows = "".join(
        f"<tr><td><code>{escape(store.store)}</code></td><td>{escape(_meaning(kind).title)}</td>"
        f'<td class="number">{count:,}</td></tr>'
        for store in audit.stores
        for kind, count in store.counts.items()
    )
    head = '<tr><th>store</th><th>what is wrong</th><th class="number">findings</th></tr>'
    findings = f"<table>{head}{rows}</table>" if rows else ""
    return f"<div>{_verdict(audit)}{_overview(audit.stores, is_linked=False)}{findings}</div>"


def _meaning(kind: str) -> Meaning:
    return MEANINGS.get(kind, Meaning(kind, "", LOOK))


def _verdict(audit: "Audit") -> str:
    messages = sum(store.record_count for store in audit.stores)
    if audit.is_whole:
        text = f"All is well: {messages:,} messages, their queues and their index agree."
        return f'<p class="verdict good">{text}</p>'
    total = sum(count for store in audit.stores for count in store.wrong.values())
    broken = [store for store in audit.stores if not store.is_whole]
    where = "" if len(audit.stores) == 1 else f" in {len(broken)} of {len(audit.stores)} stores"
    worst = _worst({kind for store in broken for kind in store.wrong})
    return f'<p class="verdict bad">{total:,} findings{where} over {messages:,} messages. {worst}</p>'


def _worst(kinds: AbstractSet[str]) -> str:
    """What the kinds of findings mean for the messages; a kind of which that is not known may be a loss."""
    not_rebuilt = {kind for kind in kinds if _meaning(kind).to_do != REBUILD}
    if kinds & _LOST:
        return "Messages are damaged or missing."
    if not_rebuilt - _NOTHING_MISSING:
        return "Messages may be missing."
    if not_rebuilt:
        return "No message is missing, but not all of this can be rebuilt."
    return "No message is lost: what is wrong can be rebuilt."


def _overview(stores: Sequence["StoreAudit"], *, is_linked: bool) -> str:
    def name(number: int, store: "StoreAudit") -> str:
        text = f"<code>{escape(store.store)}</code>"
        return f'<a href="#store-{number}">{text}</a>' if is_linked else text

    rows = "".join(
        f"<tr><td>{name(number, store)}</td>"
        + "".join(f'<td class="number">{value:,}</td>' for value in (store.record_count, store.queue_count))
        + f'<td class="number">{_finding_count(store)}</td></tr>'
        for number, store in enumerate(stores)
    )
    head = '<tr><th>store</th><th class="number">messages</th><th class="number">queues</th>'
    return f'<div class="scroll"><table>{head}<th class="number">findings</th></tr>{rows}</table></div>'


def _finding_count(store: "StoreAudit") -> str:
    count = sum(store.wrong.values())
    return f'<span class="{"count" if count else "none"}">{count:,}</span>'


def _store_section(store: "StoreAudit", findings: Sequence["Finding"], *, anchor: str, is_folded: bool) -> str:
    times = [time.strftime("%Y-%m-%d %H:%M:%S") if time else "none" for time in _times(store)]
    tiles = {
        "messages": f"{store.record_count:,}",
        "log": _bytes(store.end - store.begin),
        "queues": f"{store.queue_count:,}",
        "places in queues": f"{store.unit_count:,}",
        "index entries": f"{store.entry_count:,}",
        "findings": _finding_count(store),
    }
    tiles_html = "".join(f'<div class="tile">{escape(name)}<b>{value}</b></div>' for name, value in tiles.items())
    content = (
        f'<p class="soft">messages stored from {times[0]} to {times[1]} (UTC); log from {store.begin:,} to '
        f"{store.end:,}</p>"
        f'<div class="tiles">{tiles_html}</div>'
        f"{_findings(store, findings)}"
        f'<div class="charts">{_charts(store)}</div>'
    )
    name = f"<code>{escape(store.store)}</code>"
    if is_folded:
        return f'<details id="{anchor}"><summary>{name} is whole</summary>{content}</details>'
    return f'<h2 id="{anchor}">{name}</h2>{content}'


def _times(store: "StoreAudit") -> Iterable[dt.datetime | None]:
    return (store.first_store_time, store.last_store_time)


def _findings(store: "StoreAudit", findings: Sequence["Finding"]) -> str:
    """A line for each kind of finding with what it means and what to do; then where they are, to be unfolded."""
    if not store.counts:
        return ""
    by_kind = {
        kind: list(each)
        for kind, each in groupby(sorted(findings, key=lambda each: each.kind), key=lambda each: each.kind)
    }
    order = [*MEANINGS]
    kinds = sorted(store.counts, key=lambda kind: order.index(kind) if kind in order else len(order))
    rows = "".join(
        f'<tr><td><b>{escape(_meaning(kind).title)}</b></td><td class="number count">{store.counts[kind]:,}</td>'
        f"<td>{escape(_meaning(kind).means)}</td><td>{escape(meaning_beside(kind, store.counts).to_do)}</td></tr>"
        for kind in kinds
    )
    head = '<tr><th>what is wrong</th><th class="number">findings</th><th>what it means</th><th>what to do</th></tr>'
    examples = "".join(
        f"<details><summary>{escape(_meaning(kind).title)}: {_told(store.counts[kind], by_kind[kind])}</summary>"
        f"{_places(by_kind[kind])}{_examples(by_kind[kind])}</details>"
        for kind in kinds
        if kind in by_kind
    )
    return f'<div class="scroll"><table>{head}{rows}</table></div><h3>Where</h3>{examples}'


def _told(count: int, examples: Sequence["Finding"]) -> str:
    shown = min(len(examples), _MOST_EXAMPLES)
    return f"{count:,}" if shown == count else f"the first {shown} of {count:,}"


def _places(findings: Sequence["Finding"]) -> str:
    """Which queues they are in."""
    queues = sorted({(each.topic, each.queue_id) for each in findings if each.topic is not None})
    if not queues:
        return ""
    shown = ", ".join(f"{topic}/{queue_id}" for topic, queue_id in queues[:_MOST_BARS])
    more = f" and {len(queues) - _MOST_BARS} more" if len(queues) > _MOST_BARS else ""
    return f'<p class="soft">in queues <code>{escape(shown)}</code>{more}</p>'


def _examples(findings: Sequence["Finding"]) -> str:
    rows = "".join(
        f"<tr><td>{escape(each.topic or '')}</td>"
        + "".join(
            f'<td class="number">{"" if value is None else f"{value:,}"}</td>'
            for value in (each.queue_id, each.queue_offset, each.phy_offset)
        )
        + f"<td>{escape(each.detail)}<br><code class='soft'>{escape(each.path)}</code></td></tr>"
        for each in findings[:_MOST_EXAMPLES]
    )
    head = "".join(f'<th class="number">{name}</th>' for name in ("queue", "offset", "log offset"))
    return f'<div class="scroll"><table><tr><th>topic</th>{head}<th>expected and found</th></tr>{rows}</table></div>'


def _charts(store: "StoreAudit") -> str:
    totals = store.totals
    charts = [_hours(totals.get("hour", {}))]
    for name, title in (("topic", "Messages by topic"), ("host", "Messages by the host that sent them")):
        charts.append(_ranking(title, totals.get(name, {})))
    sizes = {f"{_bytes(int(size))} and more": sums for size, sums in totals.get("size", {}).items()}
    charts.append(_ranking("Messages by size of their record", sizes, keep_order=True))
    return "".join(f"<figure>{chart}</figure>" for chart in charts if chart)


def _ranking(title: str, totals: Mapping[str, tuple[int, int]], *, keep_order: bool = False) -> str:
    """Bars from the largest down, each with its number; what is left over is one bar."""
    if not totals:
        return ""
    items = list(totals.items())
    if not keep_order:
        items.sort(key=lambda item: -item[1][0])
    shown, rest = items[:_MOST_BARS], items[_MOST_BARS:]
    if rest:
        shown.append((f"{len(rest)} others", (sum(each[0] for _, each in rest), sum(each[1] for _, each in rest))))
    most = max(count for _, (count, _) in shown)
    height, label_width = 24, 200
    room = _WIDTH - label_width - 170
    rows = []
    for at, (name, (count, size)) in enumerate(shown):
        y = at * height
        width = max(1.0, room * count / most)
        short = name if len(name) <= 28 else f"{name[:27]}…"  # noqa: PLR2004 - what the label's width takes
        rows.append(
            f"<g><title>{escape(name)}: {count:,} messages, {_bytes(size)}</title>"
            f'<text x="{label_width - 8}" y="{y + 16}" text-anchor="end" font-size="13">{escape(short)}</text>'
            f'<rect class="bar" x="{label_width}" y="{y + 4}" width="{width:.1f}" height="{height - 8}" rx="2"/>'
            f'<text class="soft" x="{label_width + width + 6:.1f}" y="{y + 16}" font-size="12">{count:,} · '
            f"{_bytes(size)}</text></g>"
        )
    body = "".join(rows)
    return _svg(title, body, height * len(shown))


def _hours(totals: Mapping[str, tuple[int, int]]) -> str:
    """Messages over time, in hours or, where there are many, in days."""
    if not totals:
        return ""
    step, name = 3600, "hour"
    times = {_seconds(dt.datetime.fromisoformat(hour)): count for hour, (count, _) in totals.items()}
    first, last = min(times), max(times)
    while (last - first) // step >= _MOST_HOURS:
        step, name = (86_400, "day") if step == 3600 else (step * 10, f"{step * 10 // 86_400} days")  # noqa: PLR2004
    # A damaged store time can be the calendar's first hour, and a step that has it begin before.
    begin = max(first - first % step, _seconds(dt.datetime.min.replace(tzinfo=dt.UTC)))
    sums = [0] * ((last - begin) // step + 1)
    for time, count in times.items():
        sums[(time - begin) // step] += count
    most, height, left = max(sums), 150, 56
    width = (_WIDTH - left) / max(len(sums), 8)
    bars = []
    for at, count in enumerate(sums):
        size = height * count / most
        when = dt.datetime.fromtimestamp(begin + at * step, dt.UTC).strftime("%Y-%m-%d %H:%M")
        bars.append(
            f'<rect class="bar" x="{left + at * width:.2f}" y="{8 + height - size:.1f}" '
            f'width="{max(width - 1, 0.5):.2f}" height="{size:.1f}"><title>{when}: {count:,}</title></rect>'
        )
    ends = [dt.datetime.fromtimestamp(begin + at * step, dt.UTC) for at in (0, len(sums) - 1)]
    marks = (
        f'<line class="axis" x1="{left}" x2="{_WIDTH}" y1="{8 + height}" y2="{8 + height}"/>'
        f'<text class="soft" x="{left - 6}" y="18" text-anchor="end" font-size="12">{most:,}</text>'
        f'<text class="soft" x="{left - 6}" y="{8 + height}" text-anchor="end" font-size="12">0</text>'
        f'<text class="soft" x="{left}" y="{height + 26}" font-size="12">{ends[0]:%Y-%m-%d %H:%M}</text>'
    )
    if len(sums) > 1:
        x = min(left + len(sums) * width, _WIDTH)
        marks += (
            f'<text class="soft" x="{max(x, left + 260):.0f}" y="{height + 26}" text-anchor="end" font-size="12">'
            f"{ends[1]:%Y-%m-%d %H:%M}</text>"
        )
    return _svg(f"Messages stored per {name} (UTC)", "".join(bars) + marks, height + 32)


def _seconds(time: dt.datetime) -> int:
    """Seconds since 1970; those of a float would make the calendar's last time one that it has not."""
    return to_ms(time) // 1000


def _svg(title: str, body: str, height: int) -> str:
    return (
        f"<h3>{escape(title)}</h3>"
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">{body}</svg>'
    )


def _bytes(size: int) -> str:
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":  # noqa: PLR2004 - bytes go by 1024
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"  # noqa: PLR2004
        value /= 1024
    return ""
