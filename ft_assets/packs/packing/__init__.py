"""Which documents share a window, decided from lengths alone; what happens to documents longer than one."""

from ft_assets.packs.packing.buckets import one_by_one
from ft_assets.packs.packing.overlong import pieces, shorten
from ft_assets.packs.packing.windows import pack

__all__ = ["one_by_one", "pack", "pieces", "shorten"]
