"""Which documents share a window, decided from lengths alone; and the handling of documents longer than a window."""

from ft_assets.workers.packs.packing.buckets import one_by_one
from ft_assets.workers.packs.packing.overlong import pieces, shorten
from ft_assets.workers.packs.packing.windows import pack

__all__ = ["one_by_one", "pack", "pieces", "shorten"]
