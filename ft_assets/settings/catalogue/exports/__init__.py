"""The formats in which adapters leave the platform: one file each, and a line in ``EXPORTS``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ft_assets.settings.catalogue.export_format import ExportFormat
from ft_assets.settings.catalogue.exports.merged import MERGED

EXPORTS: Mapping[str, ExportFormat] = MappingProxyType({each.name: each for each in (MERGED,)})
"""Every export format by its name."""

if TYPE_CHECKING:
    ExportName = str
else:
    ExportName = Literal[tuple(EXPORTS)]
