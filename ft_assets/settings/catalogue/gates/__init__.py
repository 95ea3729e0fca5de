"""The gates: one file each, and a line in ``GATES``."""

from collections.abc import Mapping
from types import MappingProxyType

from ft_assets.settings.catalogue.gate import Gate
from ft_assets.settings.catalogue.gates.judge import JUDGE
from ft_assets.settings.catalogue.gates.regression import REGRESSION
from ft_assets.settings.catalogue.gates.safety import SAFETY
from ft_assets.settings.catalogue.gates.scores import SCORES
from ft_assets.settings.catalogue.gates.task_gain import TASK_GAIN

GATES: Mapping[str, Gate] = MappingProxyType(
    {gate.name: gate for gate in (REGRESSION, TASK_GAIN, SAFETY, JUDGE, SCORES)}
)
"""Every gate by its name, in the order of the verdicts."""

WAIVABLE = frozenset(name for name, gate in GATES.items() if gate.waivable)
