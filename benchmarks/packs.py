"""Token packs' figures: text to labelled ids, packing and sharing, each beside its peer in the same run.

``FT_REAL_DATA`` names the shared data (real tokenizers, GSM8K, dolly, P3); without it everything is generated.
"""

import os

from benchmarks import packing, public_templates, shared_pack, tokenizing
from benchmarks.table import Figure


def measure() -> list[Figure]:
    """Run everything; a few minutes, most of them for TRL's preparation."""
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    figures = tokenizing.figures(tokenizing.measure())
    figures += packing.figures(packing.measure())
    figures += shared_pack.figures(shared_pack.measure())
    return figures + public_templates.measure()
