"""The training methods: one file each, and a line in ``METHODS``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from ft_assets.settings.catalogue.method import Method
from ft_assets.settings.catalogue.methods.cpt import CPT
from ft_assets.settings.catalogue.methods.dpo import DPO
from ft_assets.settings.catalogue.methods.kto import KTO
from ft_assets.settings.catalogue.methods.orpo import ORPO
from ft_assets.settings.catalogue.methods.sft import SFT
from ft_assets.settings.catalogue.methods.simpo import SIMPO
from ft_resources.settings import Settings

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in (SFT, CPT, DPO, ORPO, SIMPO, KTO)})
"""Every training method by its name."""

SECTIONS: Mapping[str, type[Settings]] = MappingProxyType(
    {method.section: method.settings for method in METHODS.values() if method.settings is not None}
)
"""The recipe's sections with settings of losses, and the type of each."""

if TYPE_CHECKING:
    MethodName = str
else:
    MethodName = Literal[tuple(METHODS)]
