"""The files of a token pack: sharded, memory-mapped, fetched shard by shard (see ``docs/packs.md``)."""

from ft_assets.packs.format.cache import CachedFiles
from ft_assets.packs.format.layout import SPLITS, TRAIN, VALIDATION, Layout
from ft_assets.packs.format.pack import Pack, Window
from ft_assets.packs.format.spool import Spool
from ft_assets.packs.format.writer import PackWriter

__all__ = ["SPLITS", "TRAIN", "VALIDATION", "CachedFiles", "Layout", "Pack", "PackWriter", "Spool", "Window"]
