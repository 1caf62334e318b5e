"""Line charts as SVG text: no library, no time stamp, the same bytes every time."""

import dataclasses
import math
from xml.sax.saxutils import escape

# Told apart by everyone, in print too (Okabe and Ito 2008).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#000000", "#6a3d9a")
WIDTH, HEIGHT = 300, 210  # of a panel, with its labels
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 26, 38


def number(value):
    return f"{value:.1f}"


def nice_ticks(low, high, most=5):
    """Round numbers within [low, high]."""
    step = 10 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round((first + i) * step, 10) for i in range(int((high - first * step) / step + 1e-9) + 1)]


@dataclasses.dataclass
class Line:
    name: str
    points: list  # of (x, y)
    colour: str
    ranges: list = dataclasses.field(default_factory=list)  # of (x, low, high)
    dashed: bool = False


@dataclasses.dataclass
class Panel:
    """`xs`: where the axis has its ticks, as (place, text); None: round numbers."""

    title: str
    x_label: str
    y_label: str
    lines: list
    xs: list = None
    x_range: tuple = None
    y_range: tuple = None

    def draw(self, left, top):
        points = [point for line in self.lines for point in line.points]
        points += [(x, y) for line in self.lines for x, low, high in line.ranges for y in (low, high)]
        if not points:
            return [text(left + WIDTH / 2, top + HEIGHT / 2, f"{self.title}: no runs yet", "middle")]
        x0, x1 = self.x_range or widened(x for x, _ in points)
        y0, y1 = self.y_range or widened(y for _, y in points)
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

        def place(x, y):
            return left + LEFT + (x - x0) / (x1 - x0) * wide, top + TOP + (1 - (y - y0) / (y1 - y0)) * high

        out = [text(left + LEFT, top + 16, self.title, bold=True)]
        for tick in nice_ticks(y0, y1):
            (xa, y), (xb, _) = place(x0, tick), place(x1, tick)
            out += [stroke(xa, y, xb, y, "#dddddd"), text(xa - 5, y + 4, f"{tick:g}", "end")]
        for tick, name in self.xs or [(tick, f"{tick:g}") for tick in nice_ticks(x0, x1)]:
            x, y = place(tick, y0)
            out += [stroke(x, y, x, y + 4, "#666666"), text(x, y + 16, name, "middle")]
        (xa, ya), (xb, yb) = place(x0, y0), place(x1, y1)
        out += [
            stroke(xa, ya, xb, ya, "#666666"),
            stroke(xa, ya, xa, yb, "#666666"),
            text((xa + xb) / 2, ya + 32, self.x_label, "middle"),
            f'<text transform="translate({number(left + 11)} {number((ya + yb) / 2)}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y_label)}</text>',
        ]
        return ["".join(out), *("".join(drawn(line, place)) for line in self.lines)]


def widened(values):
    values = list(values)
    low, high = min(values), max(values)
    room = (high - low) * 0.05 or 1.0
    return low - room, high + room


def drawn(line, place):
    out = []
    for x, low, high in line.ranges:
        (xa, ya), (xb, yb) = place(x, low), place(x, high)
        out.append(stroke(xa, ya, xb, yb, line.colour))
    places = [place(x, y) for x, y in line.points]
    dash = ' stroke-dasharray="5 3"' if line.dashed else ""
    path = " ".join(f"{number(x)},{number(y)}" for x, y in places)
    out.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="1.6"{dash}/>')
    out += [f'<circle cx="{number(x)}" cy="{number(y)}" r="2.2" fill="{line.colour}"/>' for x, y in places]
    return out


def text(x, y, words, anchor="start", bold=False):
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'


def stroke(xa, ya, xb, yb, colour):
    return f'<line x1="{number(xa)}" y1="{number(ya)}" x2="{number(xb)}" y2="{number(yb)}" stroke="{colour}"/>'


def chart(title, panels, columns):
    """Panels in rows, with one legend below the title."""
    columns = max(2, min(columns, len(panels)))
    in_row = columns * WIDTH // 200  # names of the legend
    legend = {line.name: line for panel in panels for line in panel.lines}
    rows = -(-len(panels) // columns)
    width, head = columns * WIDTH + 10, 30 + 18 * -(-len(legend) // in_row)
    height = head + rows * HEIGHT + 6
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        text(12, 18, title, bold=True),
    ]
    for place, line in enumerate(legend.values()):
        x, y = 14 + place % in_row * 200, 34 + 18 * (place // in_row)
        dash = ' stroke-dasharray="5 3"' if line.dashed else ""
        out += [
            f'<line x1="{number(x)}" y1="{y}" x2="{number(x + 22)}" y2="{y}" stroke="{line.colour}" '
            f'stroke-width="2"{dash}/>',
            text(x + 27, y + 4, line.name),
        ]
    for place, panel in enumerate(panels):
        out += panel.draw(place % columns * WIDTH, head + place // columns * HEIGHT)
    return "".join([*out, "</svg>"]) + "\n"
