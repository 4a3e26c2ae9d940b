"""Draws a run as SVG: a row for each target, in it who held it (pale) and polled it (full), a colour for each host; above them
a row for each host, the store and the operators, with what was done to them and for how long. Called by report.py."""
from xml.sax.saxutils import escape

COLOURS = ["#2c6fbb", "#d98324", "#3a9a5b", "#9457a8", "#b5523b", "#7a7a2a"]
WRONG = "#e00000"
LEFT, TOP, ROW, GAP, RIGHT = 118, 58, 22, 10, 20
WIDTH_MAX, SECOND_MAX = 9000, 44
FONT = 'font-family="DejaVu Sans, Verdana, sans-serif"'


class Drawing:
    def __init__(self, begin_us, end_us, rows):
        self.begin_us, self.seconds = begin_us, (end_us - begin_us) / 1e6
        self.scale = min(SECOND_MAX, WIDTH_MAX / self.seconds)
        self.width = LEFT + self.seconds * self.scale + RIGHT
        self.height = TOP + rows * ROW + 3 * GAP + 24
        self.parts = []

    def x(self, at_us):
        return LEFT + max(0.0, min(self.seconds, (at_us - self.begin_us) / 1e6)) * self.scale

    def box(self, begin_us, end_us, y, height, colour, opacity=1.0, title=""):
        left = self.x(begin_us)
        width = max(1.2, self.x(end_us) - left)
        self.parts.append(f'<rect x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{colour}" '
                          f'fill-opacity="{opacity}"><title>{escape(title)}</title></rect>')

    def line(self, at_us, top, bottom, colour, dashes=""):
        x = self.x(at_us)
        more = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"{more}/>')

    def text(self, x, y, text, size=11, colour="#222", anchor="start"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
                          f'{FONT}>{escape(text)}</text>')

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{self.height:.0f}">\n'
                f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def name_of(instance):
    return instance.rsplit("-", 2)[0]


def stretches(polls):
    """One for each token: who had it, from the first sign of it to the last."""
    found = {}
    for poll in polls:
        known = found.setdefault((poll.token, poll.instance), [poll.start, poll.last])
        known[0], known[1] = min(known[0], poll.start), max(known[1], poll.last)
    return [(instance, token, begin, end) for (token, instance), (begin, end) in found.items()]


def draw_axis(drawing, bottom):
    step = next((each for each in (1, 2, 5, 10, 30, 60, 300) if each * drawing.scale > 34), 600)
    for second in range(0, int(drawing.seconds) + 1, step):
        at_us = drawing.begin_us + second * 1_000_000
        drawing.line(at_us, TOP - 6, bottom, "#e4e4e4")
        drawing.text(drawing.x(at_us), bottom + 16, f"{second} s", 10, "#666", "middle")


def draw_faults(drawing, rows, fired, y_of, bottom):
    ends = {}
    for fault in sorted(fired, key=lambda each: each.at_us):
        row = fault.who if fault.lane == "host" else fault.lane
        y = y_of[row]
        colour = {"host": "#555", "store": "#b00020", "operator": "#33691e"}[fault.lane]
        end_us = fault.end_us or fault.at_us
        drawing.line(fault.at_us, y, bottom, colour, "2 4")
        label = f"{fault.kind} {fault.who}" if fault.lane == "operator" else fault.kind
        drawing.box(fault.at_us, end_us, y + 2, ROW - 5, colour, 0.25, f"{label} at {(fault.at_us - drawing.begin_us) / 1e6:.2f} s")
        x = max(drawing.x(fault.at_us) + 2, ends.get(row, 0))
        if x < drawing.x(fault.at_us) + 60:  # else there is no room
            drawing.text(x, y + 14, label, 9, colour)
            ends[row] = x + 5.4 * len(label)
    for row in rows:
        drawing.text(LEFT - 8, y_of[row] + 14, {"store": "store", "operator": "operators"}.get(row, f"host {row}"), 11,
                     "#222", "end")


def draw_target(drawing, target, polls, y, colours):
    drawing.text(LEFT - 8, y + 14, target, 11, "#222", "end")
    for instance, token, begin, end in stretches(polls):
        drawing.box(begin, end, y + 4, ROW - 8, colours.get(name_of(instance), "#999"), 0.3, f"{instance}, token {token}")
    last = None
    for poll in polls:
        drawing.box(poll.start, poll.last, y + 7, ROW - 14, colours.get(name_of(poll.instance), "#999"), 1.0,
                    f"{poll.instance}, token {poll.token}" + ("" if poll.ended else ", cut short"))
        if last and poll.start < last.last:
            drawing.box(poll.start, min(poll.last, last.last), y + 1, ROW - 2, WRONG, 0.9, "polled twice")
        if not last or poll.last > last.last:
            last = poll


def draw(title, hosts, by_target, fired, begin_us, end_us):
    targets = sorted(by_target, key=lambda name: (name.split("-")[0] != "t", name))
    rows = [*hosts, "store", "operator"]
    drawing = Drawing(begin_us, end_us, len(rows) + len(targets))
    colours = dict(zip(hosts, COLOURS))
    y_of = {row: TOP + number * ROW for number, row in enumerate(rows)}
    bottom = TOP + (len(rows) + len(targets)) * ROW + GAP
    drawing.text(12, 22, title, 14)
    for number, host in enumerate(hosts):
        x = 14 + number * 150
        drawing.parts.append(f'<rect x="{x}" y="32" width="12" height="12" fill="{colours[host]}"/>')
        drawing.text(x + 17, 42, f"held, polled by {host}", 10)
    draw_axis(drawing, bottom)
    draw_faults(drawing, rows, fired, y_of, bottom)
    for number, target in enumerate(targets):
        draw_target(drawing, target, by_target[target], TOP + (len(rows) + number) * ROW + GAP, colours)
    return drawing.svg()
