"""The length histogram as a picture for Dagster's pages."""

import io
from collections.abc import Sequence
from itertools import pairwise


def length_histogram_png(edges: Sequence[int], counts: Sequence[int]) -> bytes:
    """A PNG of examples by length; ``counts[i]`` examples have ``edges[i] <= characters < edges[i + 1]``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.2), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    labels = [f"{low:,}–{high - 1:,}" for low, high in pairwise(edges)]
    bars = axes.bar(range(len(counts)), counts, width=0.9, color="#3b6fd4")
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], fontsize=8, color="#5c6777", padding=2)
    axes.set_xticks(range(len(counts)), labels, fontsize=8, rotation=20 if len(counts) > 8 else 0)
    axes.set_xlabel("characters")
    axes.set_ylabel("examples")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
