#!/usr/bin/env python3
"""Draws docs/peers-*.svg from what `./dev bench peers` has measured.

  bench/plots.py [bench/results.json [docs]]

A bar a client, on a logarithmic scale, ours in another colour than the rest. Nothing but Python is needed.
"""
import json
import math
import sys
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW, BAR = 760, 210, 100, 22, 14
OURS, OTHERS, WORSE = "#1f6f8b", "#b8b8b8", "#c0392b"
LABELS = {
    "api-redis": "tenure, C API, Redis", "api-sqlite": "tenure, C API, SQLite",
    "elect-redis": "tenure elect, Redis", "elect-sqlite": "tenure elect, SQLite",
    "api-etcd": "tenure, C API, etcd", "elect-etcd": "tenure elect, etcd", "batch-etcd": "tenure, a fleet's batch, etcd",
    "batch-redis": "tenure, a fleet's batch, Redis", "batch-sqlite": "tenure, a fleet's batch, SQLite",
    "redis-py": "redis-py Lock", "redlock": "node-redlock", "set-nx-loop": "SET NX loop in C", "flock": "flock(2), one host",
    "etcdctl-lock": "etcdctl lock", "etcdctl-elect": "etcdctl elect", "flock-command": "flock(1), one host",
}
OWN = ("api-", "elect-", "batch-")


def figures(rows, job, ours, theirs):
    """Of each client in the rows of that job: {name: value}. The keys are those of the row for either side."""
    found = {}
    for row in rows:
        if row["name"].split("/")[:2] != ["peers", job] or row["against"].startswith("NOT MEASURED"):
            continue
        found[row["ours_is"]] = row[ours]
        found[row["peer_is"]] = row[theirs]
    return found


def short(value):
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    if value >= 1e4:
        return f"{value / 1e3:.3g} k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def panel(out, top, title, values, unit, worse=()):
    """A title and its bars; returns where the next begins."""
    out.append(f'<text x="12" y="{top + 16}" class="title">{escape(title)}</text>')
    top += 28
    shown = {name: value for name, value in values.items() if value > 0}
    low = math.floor(math.log10(min(shown.values()))) if shown else 0
    high = math.log10(max(shown.values())) if shown else 1
    for name, value in sorted(values.items(), key=lambda item: item[1]):
        part = (math.log10(value) - low) / max(high - low, 0.1) if value > 0 else 0
        colour = WORSE if name in worse else OURS if name.startswith(OWN) else OTHERS
        length = max(2, part * (WIDTH - LEFT - RIGHT))
        out.append(f'<text x="{LEFT - 8}" y="{top + 12}" class="name">{escape(LABELS.get(name, name))}</text>')
        out.append(f'<rect x="{LEFT}" y="{top + 1}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>')
        out.append(f'<text x="{LEFT + length + 6:.1f}" y="{top + 12}" class="value">{escape(short(value) + unit)}</text>')
        top += ROW
    return top + 14


def write(path, panels, note):
    out, top = [], 8
    for title, values, unit, worse in panels:
        top = panel(out, top, title, values, unit, worse)
    out.append(f'<text x="12" y="{top + 8}" class="note">{escape(note)}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top + 20}" '
                   f'viewBox="0 0 {WIDTH} {top + 20}" role="img">\n'
                   '<style>text { font-family: sans-serif; font-size: 12px; fill: #222 } .title { font-size: 14px; '
                   'font-weight: bold } .name { text-anchor: end } .note { fill: #666; font-size: 11px }</style>\n'
                   f'<rect width="{WIDTH}" height="{top + 20}" fill="white"/>\n' + "\n".join(out) + "\n</svg>\n")
    print(path)


def main():
    source = sys.argv[1] if len(sys.argv) > 1 else "bench/results.json"
    directory = sys.argv[2] if len(sys.argv) > 2 else "docs"
    with open(source, encoding="utf-8") as file:
        report = json.load(file)
    rows = report["rows"]
    note = f"logarithmic scales; {report['machine']}"
    rates = ("ours", "reference")
    write(f"{directory}/peers-rates.svg", [
        ("Acquire + release, one after the other, a second", figures(rows, "pairs", *rates), "/s", ()),
        ("The same as a command that runs `true`, a second", figures(rows, "commands", *rates), "/s", ()),
        ("Renewals, one after the other, a second", figures(rows, "renew", *rates), "/s", ()),
        ("Renewals, as many at once as it can, a second", figures(rows, "renew-many", *rates), "/s", ()),
        ("The same, a second of the client's processor time", figures(rows, "renew-cpu", *rates), "/s", ()),
    ], note)
    middle = ("p50_ms", "peer_p50_ms")
    paused = figures(rows, "paused", "two_at_a_time", "peer_two_at_a_time")
    rounds = max(figures(rows, "paused", "rounds", "peer_rounds").values(), default=0)
    write(f"{directory}/peers-takeover.svg", [
        ("The holder stops in order: until another works, median (TTL 10 s)", figures(rows, "handover", *middle), " ms", ()),
        ("The holder is killed: until another works, median (TTL 2 s)", figures(rows, "killed", *middle), " ms", ()),
        (f"The holder is paused for 5 s (TTL 2 s): rounds, of {rounds}, in which two worked at a time", paused, "",
         [name for name, count in paused.items() if count]),
    ], note)


main()
