"""The files of a token pack: sharded, memory-mapped, fetched shard by shard (see ``docs/explanation/packs.md``)."""

from ft_assets.workers.packs.format.cache import CachedFiles
from ft_assets.workers.packs.format.layout import SPLITS, TRAIN, VALIDATION, Layout
from ft_assets.workers.packs.format.pack import Pack, Window
from ft_assets.workers.packs.format.spool import Spool
from ft_assets.workers.packs.format.writer import PackWriter

__all__ = ["SPLITS", "TRAIN", "VALIDATION", "CachedFiles", "Layout", "Pack", "PackWriter", "Spool", "Window"]
