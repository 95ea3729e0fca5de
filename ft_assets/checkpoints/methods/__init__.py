"""What a training minimises: one small file a method."""

from ft_assets.checkpoints.methods.objective import Objective, Part, Whole
from ft_assets.checkpoints.methods.sft import Likelihood

__all__ = ["Likelihood", "Objective", "Part", "Whole"]
