#!/usr/bin/python3
"""Draws what leases cost at rest, from what `./dev bench held/STORE --json FILE` has written.

    bench/plot_held.py FILE... > docs/held.svg

The left picture has the processor time of the store in a renewal interval, the right one the bytes that it writes. Both
axes are logarithmic. A store on which nothing was measured in one of the modes has no line for it.
"""
import json
import math
import sys

from plot import GAP, HEIGHT, LEFT, TOP, WIDTH, picture


LEAST = 0.1  # ms or bytes: less cannot be told from an idle server


def read(paths, store_key, client_key):
    """(store and mode) -> [(leases, value)]. On SQLite the client is the store, and its value counts."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        for row in rows:
            if "written_bytes" in row:
                value = row[client_key if row["store"] == "sqlite" else store_key]
                line = found.setdefault(f"{row['store']}, {row['mode']}", [])
                line.append((row["leases"], max(value, LEAST)))
    return [(name, sorted(points)) for name, points in sorted(found.items())]


def bounds(lines):
    values = [value for _, points in lines for _, value in points]
    return 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)) + 0.01)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    times = read(sys.argv[1:], "store_ms", "client_ms")
    sizes = read(sys.argv[1:], "written_bytes", "written_bytes")
    if not times:
        sys.exit("plot_held.py: there are no rows of held/STORE in these files")
    total_width = 2 * (LEFT + WIDTH) + GAP + 85
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width}" height="{TOP + HEIGHT + 50}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    picture(out, LEFT + 25, "Processor time of the store in an interval", "leases", times, 1000, 1000000, *bounds(times),
            "ms")
    picture(out, 2 * LEFT + WIDTH + GAP // 2 + 80, "Bytes written in an interval", "leases", sizes, 1000, 1000000,
            *bounds(sizes), "B")
    out.append("</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
