"""Refusing updates that would spoil the weights: numbers that are none, and a loss that explodes."""

from ft_assets.checkpoints.sampler import Step
from ft_assets.packs.format import Pack
from ft_assets.worker import Diverged

_NAMED = 20


class Watch:
    """Looks at each step's loss and gradient before the optimizer uses them."""

    def __init__(self, pack: Pack, steps: int) -> None:
        self._pack, self._steps = pack, steps

    def require_sound(self, step: Step, loss: float, grad_norm: float) -> None:
        """Raises Diverged, which is never retried by itself, and names what the step has read."""
        if finite(loss) and finite(grad_norm):
            return
        ids = [self._pack.example_id(index) for index in self._pack.examples_of(step.windows.tolist())]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        raise Diverged(
            f"the loss is {loss} and the gradient's norm {grad_norm} at step {step.number} of {self._steps}; "
            f"the step read examples {', '.join(ids[:_NAMED])}{more}",
            where=f"step {step.number}",
            remedy="Lower training.learning_rate (a tenth is a good try) or raise training.warmup_ratio in a new "
            "recipe version; if it fails at this step again, look at these examples.",
        )


def finite(value: float) -> bool:
    return abs(value) < float("inf")
