#!/usr/bin/python3
"""Draws the pictures of docs/BENCHMARKS.md from what `./dev bench NAME --json FILE` has written. Scales are logarithmic.

    bench/plot.py scale FILE... > docs/scale.svg    of scale/STORE/growth: how the start of a fleet grows
    bench/plot.py held FILE... > docs/held.svg      of held/STORE: what leases cost at rest
    bench/plot.py peers FILE [docs]                 of peers: docs/peers-rates.svg and docs/peers-takeover.svg
"""
import json
import math
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, GAP = 380, 280, 60, 40, 70
COLOURS = ["#0b6e4f", "#c1121f", "#1d3557", "#e09f3e", "#6a4c93", "#2a9d8f", "#8d6e63", "#d62296", "#607d8b"]
LEAST = 0.1  # ms or bytes: less cannot be told from an idle server


def read_rows(paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows += json.load(file)["rows"]
    return rows


# ---- lines: two pictures beside each other


def place(value, low, high, size):
    return (math.log10(value) - math.log10(low)) / (math.log10(high) - math.log10(low)) * size


def bounds(lines):
    values = [value for _, points in lines for _, value in points]
    return 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)) + 0.01)


def ticks(low, high):
    value = 10 ** math.floor(math.log10(low))
    while value <= high:
        if value >= low:
            yield value
        value *= 10


def picture(out, left, title, label, lines, low_x, high_x, low_y, high_y, unit):
    out.append(f'<g transform="translate({left},{TOP})">')
    out.append(f'<text x="0" y="-16" font-weight="bold">{title}</text>')
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>')
    for value in ticks(low_y, high_y):
        number = f"{value:,.0f}" if value >= 1 else f"{value:g}"
        at = HEIGHT - place(value, low_y, high_y, HEIGHT)
        out.append(f'<line x1="0" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="-8" y="{at + 4:.1f}" text-anchor="end">{number} {unit}</text>')
    for value in ticks(low_x, high_x):
        at = place(value, low_x, high_x, WIDTH)
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{HEIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{at:.1f}" y="{HEIGHT + 16}" text-anchor="middle">{value:,.0f}</text>')
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT + 34}" text-anchor="middle">{label}</text>')
    for number, (store, points) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        at = [(place(x, low_x, high_x, WIDTH), HEIGHT - place(y, low_y, high_y, HEIGHT)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
        out.append(f'<text x="10" y="{18 + 16 * number}" fill="{colour}">{store}</text>')
    out.append("</g>")


def draw_two(first, second, more=0):
    """Each: what picture() wants behind the place. `more`: room for wide numbers."""
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * (LEFT + WIDTH) + GAP + more}" '
        f'height="{TOP + HEIGHT + 50}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    picture(out, LEFT + (25 if more else 0), *first)
    picture(out, 2 * LEFT + WIDTH + GAP // 2 + (80 if more else 0), *second)
    out.append("</svg>")
    print("\n".join(out))


def scale(rows):
    found = {}  # store -> {(instances, targets): seconds from the last start until settled}
    for row in rows:
        parts = row["name"].split("/")
        if parts[-1] == "doubles" and row.get("settled_ms", -1) >= 0:
            size = tuple(int(part) for part in parts[2].split("x"))
            found.setdefault(parts[1], {})[size] = max((row["settled_ms"] - row["last_start_ms"]) / 1000, 0.01)
    if not found:
        sys.exit("plot.py: there are no rows of scale/STORE/growth in these files")
    by_instances = [(store, sorted((i, took) for (i, t), took in points.items() if t == 10000))
                    for store, points in sorted(found.items())]
    by_targets = [(store, sorted((t, took) for (i, t), took in points.items() if i == 10))
                  for store, points in sorted(found.items())]
    height = bounds(by_instances + by_targets)
    draw_two(("Settled after, with 10,000 targets", "instances", by_instances, 1, 100, *height, "s"),
             ("Settled after, with 10 instances", "targets", by_targets, 1000, 1000000, *height, "s"))


def held_lines(rows, store_key, client_key):
    """(store and mode) -> [(leases, value)]. On SQLite the client is the store, and its value counts."""
    found = {}
    for row in rows:
        if "written_bytes" in row:
            value = row[client_key if row["store"] == "sqlite" else store_key]
            found.setdefault(f"{row['store']}, {row['mode']}", []).append((row["leases"], max(value, LEAST)))
    return [(name, sorted(points)) for name, points in sorted(found.items())]


def held(rows):
    times = held_lines(rows, "store_ms", "client_ms")
    sizes = held_lines(rows, "written_bytes", "written_bytes")
    if not times:
        sys.exit("plot.py: there are no rows of held/STORE in these files")
    draw_two(("Processor time of the store in an interval", "leases", times, 1000, 1000000, *bounds(times), "ms"),
             ("Bytes written in an interval", "leases", sizes, 1000, 1000000, *bounds(sizes), "B"), 85)


# ---- bars: one a client, ours in another colour than the rest

BARS_WIDTH, NAMES, RIGHT, ROW, BAR = 760, 210, 100, 22, 14
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
        length = max(2, part * (BARS_WIDTH - NAMES - RIGHT))
        out.append(f'<text x="{NAMES - 8}" y="{top + 12}" class="name">{escape(LABELS.get(name, name))}</text>')
        out.append(f'<rect x="{NAMES}" y="{top + 1}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>')
        out.append(f'<text x="{NAMES + length + 6:.1f}" y="{top + 12}" class="value">{escape(short(value) + unit)}</text>')
        top += ROW
    return top + 14


def write(path, panels, note):
    out, top = [], 8
    for title, values, unit, worse in panels:
        top = panel(out, top, title, values, unit, worse)
    out.append(f'<text x="12" y="{top + 8}" class="note">{escape(note)}</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{BARS_WIDTH}" height="{top + 20}" '
                   f'viewBox="0 0 {BARS_WIDTH} {top + 20}" role="img">\n'
                   '<style>text { font-family: sans-serif; font-size: 12px; fill: #222 } .title { font-size: 14px; '
                   'font-weight: bold } .name { text-anchor: end } .note { fill: #666; font-size: 11px }</style>\n'
                   f'<rect width="{BARS_WIDTH}" height="{top + 20}" fill="white"/>\n' + "\n".join(out) + "\n</svg>\n")
    print(path)


def peers(source, directory="docs"):
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


def main():
    if len(sys.argv) > 2 and sys.argv[1] in ("scale", "held"):
        (scale if sys.argv[1] == "scale" else held)(read_rows(sys.argv[2:]))
    elif len(sys.argv) in (3, 4) and sys.argv[1] == "peers":
        peers(*sys.argv[2:])
    else:
        sys.exit(__doc__)


main()
