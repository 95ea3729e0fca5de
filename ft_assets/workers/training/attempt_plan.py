"""What one attempt at a training does, from its spec and the pack it learns from."""

from dataclasses import dataclass
from typing import Any

from ft_assets.checkpoints.configuration.settled import SettledLora, SettledTraining
from ft_assets.checkpoints.journal import Cadence
from ft_assets.checkpoints.methods import METHODS, Method
from ft_assets.checkpoints.sampler import Order
from ft_assets.checkpoints.variants import VARIANTS, Variant
from ft_assets.packs.format import Pack
from ft_resources.errors import BadData

_VALIDATIONS, _VALIDATION_SHARE, _SHORT_STEPS = 10, 0.05, 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """All that one attempt needs to know. ``micro_windows`` is the number of windows in a forward pass."""

    method: Method
    variant: Variant
    training: SettledTraining
    lora: SettledLora | None
    order: Order
    micro_windows: int
    device: str
    recompute: bool
    cadence: Cadence

    @property
    def full(self) -> bool:
        return not self.variant.adapters

    @property
    def rough(self) -> bool:
        """Whether sums may come out otherwise than they did before: in half precision, and on a GPU."""
        return self.device != "cpu" or self.training.precision != "fp32"


def make_plan(params: dict[str, Any], runtime: dict[str, Any], pack: Pack, validation: Pack) -> Plan:
    """What ``params`` and ``runtime`` mean for ``pack``. Raises BadData where there is nothing to learn."""
    if not len(pack) or not pack.learned_tokens:
        raise BadData(
            "the token pack has no training tokens to learn from",
            where="token_pack",
            remedy="Check the dataset's report: every row was dropped, or no assistant turn carries text.",
        )
    training = SettledTraining.model_validate(params["training"])
    variant = VARIANTS[params["variant"]]
    lora = SettledLora.model_validate(params["lora"]) if variant.adapters else None
    order = Order(
        windows=len(pack),
        global_batch=training.global_batch_size,
        epochs=training.epochs,
        seed=training.seed,
        max_steps=training.max_steps,
        block=pack.block,
    )
    micro_windows = max(1, training.micro_batch_size // int(runtime["micro_batch_divisor"]))
    cadence = Cadence(
        save_steps=int(runtime["checkpoint_every_steps"]),
        save_minutes=float(runtime["checkpoint_every_minutes"]),
        validate_steps=training.validate_every_steps or _validation_interval(order, len(validation)),
    )
    return Plan(
        method=METHODS[params["method"]],
        variant=variant,
        training=training,
        lora=lora,
        order=order,
        micro_windows=micro_windows,
        device=runtime["device"],
        recompute=bool(runtime.get("recompute", False)),
        cadence=cadence,
    )


def _validation_interval(order: Order, windows: int) -> int | None:
    """Optimizer steps between validations on ``windows`` windows where the recipe leaves that open: ten in a run, or as
    many as take a twentieth of it. None where that is one, or the run is short: then it validates at its end only."""
    if not windows or order.steps < _SHORT_STEPS:
        return None
    # A forward pass is about a third of a step.
    affordable = int(_VALIDATION_SHARE * 3 * order.steps * order.global_batch / windows)
    times = min(_VALIDATIONS, affordable)
    return -(-order.steps // times) if times > 1 else None
