"""The length histogram as a picture for Dagster's pages, drawn by hand: run pods draw it, and plotting libraries would
be a tenth of their image."""

import base64
from collections.abc import Mapping, Sequence
from itertools import pairwise

_WIDTH, _HEIGHT = 640, 240
_TOP, _BOTTOM, _SIDE = 24, 44, 12
_LABELS = 9
_STYLE = "font: 11px sans-serif; fill: #5c6777"


def length_picture(name: str, histogram: Mapping[str, Sequence[int]], unit: str) -> str:
    """Markdown with an inline SVG: a bar for each ``edges[i] <= length < edges[i + 1]``, ``counts[i]`` high."""
    edges, counts = histogram["edges"], histogram["counts"]
    step, tall = (_WIDTH - 2 * _SIDE) / max(len(counts), 1), _HEIGHT - _TOP - _BOTTOM
    # Only every few bars have labels, as there is room for _LABELS of them.
    every = -(-len(counts) // _LABELS)
    shapes = []
    for at, ((low, high), count) in enumerate(zip(pairwise(edges), counts, strict=True)):
        left, up = _SIDE + at * step, tall * count / max(*counts, 1)
        shapes.append(f'<rect x="{left:.1f}" y="{_TOP + tall - up:.1f}" width="{step * 0.9:.1f}" height="{up:.1f}"/>')
        if at % every == 0:
            shapes.append(_text(left + step * 0.45, _HEIGHT - _BOTTOM + 16, f"{low:,}–{high - 1:,}"))
            shapes.append(_text(left + step * 0.45, _TOP + tall - up - 4, f"{count:,}"))
    shapes.append(_text(_WIDTH / 2, _HEIGHT - 8, unit))
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    drawn = f'<svg xmlns="http://www.w3.org/2000/svg" {size} fill="#3b6fd4">{"".join(shapes)}</svg>'
    return f"![{name}](data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()})"


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" style="{_STYLE}">{words}</text>'
