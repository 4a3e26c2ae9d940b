#!/usr/bin/python3
"""Draws how the start of a fleet grows, from what `./dev bench scale/STORE/growth --json FILE` has written.

    bench/plot.py FILE... > docs/scale.svg

The left picture has 10,000 targets and more and more instances, the right one 10 instances and more and more targets.
Both axes are logarithmic.
"""
import json
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, GAP = 380, 280, 60, 40, 70
COLOURS = ["#0b6e4f", "#c1121f", "#1d3557", "#e09f3e", "#6a4c93", "#2a9d8f", "#8d6e63", "#d62296", "#607d8b"]


def read(paths):
    """store -> {(instances, targets): seconds from the last start until settled}"""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        for row in rows:
            parts = row["name"].split("/")
            if parts[-1] == "doubles" and "settled_ms" in row:
                store, size = parts[1], parts[2]
                instances, targets = (int(part) for part in size.split("x"))
                if row["settled_ms"] >= 0:
                    took = (row["settled_ms"] - row["last_start_ms"]) / 1000
                    found.setdefault(store, {})[instances, targets] = max(took, 0.01)
    return found


def place(value, low, high, size):
    return (math.log10(value) - math.log10(low)) / (math.log10(high) - math.log10(low)) * size


def ticks(low, high):
    value = 10 ** math.floor(math.log10(low))
    while value <= high:
        if value >= low:
            yield value
        value *= 10


def picture(out, left, title, label, lines, low_x, high_x, low_y, high_y, unit="s"):
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
        path = " ".join(
            f"{place(x, low_x, high_x, WIDTH):.1f},{HEIGHT - place(y, low_y, high_y, HEIGHT):.1f}" for x, y in points
        )
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in points:
            out.append(
                f'<circle cx="{place(x, low_x, high_x, WIDTH):.1f}" '
                f'cy="{HEIGHT - place(y, low_y, high_y, HEIGHT):.1f}" r="3" fill="{colour}"/>'
            )
        out.append(f'<text x="10" y="{18 + 16 * number}" fill="{colour}">{store}</text>')
    out.append("</g>")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = read(sys.argv[1:])
    if not found:
        sys.exit("plot.py: there are no rows of scale/STORE/growth in these files")
    by_instances, by_targets = [], []
    for store, points in sorted(found.items()):
        by_instances.append((store, sorted((i, took) for (i, t), took in points.items() if t == 10000)))
        by_targets.append((store, sorted((t, took) for (i, t), took in points.items() if i == 10)))
    times = [took for points in found.values() for took in points.values()]
    low_y, high_y = 10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times)) + 0.01)
    total_width = 2 * (LEFT + WIDTH) + GAP
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width}" height="{TOP + HEIGHT + 50}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    picture(out, LEFT, "Settled after, with 10,000 targets", "instances", by_instances, 1, 100, low_y, high_y)
    picture(
        out, 2 * LEFT + WIDTH + GAP // 2, "Settled after, with 10 instances", "targets", by_targets, 1000, 1000000,
        low_y, high_y
    )
    out.append("</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
