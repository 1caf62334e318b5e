"""Draws a small graph of Mermaid's, "graph BT" with arrows alone, as SVG: pages need no script to show it."""

import html
import re

_WIDTH, _HEIGHT, _ACROSS, _UP = 92, 30, 18, 48  # of a box, and between boxes
_TIP = 7  # of an arrow
_ARROW = (
    f'<defs><marker id="arrow" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="{_TIP}" markerHeight="{_TIP}" '
    'orient="auto-start-reverse"><path class="tip" d="M0,0 L8,4 L0,8 Z"/></marker></defs>'
)


def _edges(text):
    return [(user, used, dots) for user, dots, used in re.findall(r"^ *(\w+) -(-|\.-)> (\w+)$", text, re.M)]


def _layers(edges):
    """Each node one layer above the highest that it uses; an edge over several layers passes through a point in each."""
    below = {}
    for user, used, _ in edges:
        below.setdefault(user, []).append(used)
        below.setdefault(used, [])
    depth = {}

    def of(node):
        if node not in depth:
            depth[node] = 1 + max((of(used) for used in below[node]), default=-1)
        return depth[node]

    layers = [[] for _ in range(1 + max(map(of, below)))]
    for node in below:
        layers[depth[node]].append(node)
    paths = []
    for user, used, dots in edges:
        points = [(user, used, level) for level in range(depth[used] + 1, depth[user])]
        for point in points:
            layers[point[2]].append(point)
        paths.append(([used, *points, user], dots))
    return layers, paths


def _order(layers, paths):
    """Neighbours below and above pull each node towards their middle, a few times over: few lines cross."""
    beside = {}
    for path, _ in paths:
        for lower, upper in zip(path, path[1:]):
            beside.setdefault(lower, []).append(upper)
            beside.setdefault(upper, []).append(lower)
    for _ in range(12):
        for layer in layers:
            place = {node: (i + 0.5) / len(other) for other in layers for i, node in enumerate(other)}
            layer.sort(key=lambda node: sum(place[other] for other in beside[node]) / len(beside[node]))


def _width(node):
    return _WIDTH if isinstance(node, str) else _WIDTH // 4


def svg(text):
    """The drawing, with the names as text. Raises ValueError for what is not such a graph."""
    edges = _edges(text)
    if not text.startswith("graph BT\n") or len(edges) != len(text.strip().splitlines()) - 1:
        raise ValueError("only `graph BT` with lines `A --> B` can be drawn")
    layers, paths = _layers(edges)
    _order(layers, paths)
    widths = [sum(map(_width, layer)) + _ACROSS * (len(layer) - 1) for layer in layers]
    whole = max(widths)
    at = {}
    for level, (layer, width) in enumerate(zip(layers, widths)):
        x, y = (whole - width) / 2, (len(layers) - 1 - level) * (_HEIGHT + _UP)
        for node in layer:
            at[node] = (x + _width(node) / 2, y)
            x += _width(node) + _ACROSS
    parts = []
    for path, dots in paths:
        x, y = at[path[0]]
        curve = f"M{x:.0f},{y - _TIP:.0f}"
        for node in path[1:]:
            (low_x, low_y), (x, y) = (x, y), at[node]
            middle = (low_y + y + _HEIGHT) / 2
            curve += f" C{low_x:.0f},{middle:.0f} {x:.0f},{middle:.0f} {x:.0f},{y + _HEIGHT:.0f}"
            if not isinstance(node, str):
                curve += f" V{y:.0f}"
        dashes = ' stroke-dasharray="4 3"' if dots != "-" else ""
        parts.append(f'<path d="{curve}" marker-start="url(#arrow)"{dashes}/>')
    for node, (x, y) in at.items():
        if isinstance(node, str):
            box = f'x="{x - _WIDTH / 2:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"'
            parts.append(f'<rect {box}/><text x="{x:.0f}" y="{y + _HEIGHT / 2:.0f}">{html.escape(node)}</text>')
    size = f"{-1} {-1} {whole + 2} {len(layers) * (_HEIGHT + _UP) - _UP + 2}"
    label = "; ".join(f"{user} uses {used}" for user, used, _ in edges)
    return (
        f'<figure class="rooms"><svg viewBox="{size}" width="{whole + 2}" role="img" aria-label="{label}">'
        + _ARROW
        + "".join(parts)
        + "</svg></figure>\n"
    )
