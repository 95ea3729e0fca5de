"""What one attempt at a training does, derived from its spec and its token pack."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ft_assets.settings.catalogue.method import Method
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.training import VALIDATIONS, SettledLora, SettledTraining
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.sampler import Order
from ft_assets.workers.training.journal import Cadence
from ft_assets.workers.training.variants import VARIANTS, Variant
from ft_resources.errors import BadData

_VALIDATION_SHARE, _SHORT_STEPS = 0.05, 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Settings of one attempt. ``micro_windows`` is the number of windows in a forward pass."""

    method: Method
    variant: Variant
    training: SettledTraining
    lora: SettledLora | None
    order: Order
    micro_windows: int
    device: str
    recompute: int
    offload: bool
    compile: bool
    cadence: Cadence

    @property
    def full(self) -> bool:
        return not self.variant.adapters

    @property
    def rough(self) -> bool:
        """Whether sums are not reproducible to the bit: in half precision, on GPUs, and by compiled layers."""
        return self.device != "cpu" or self.training.precision != "fp32" or self.compile

    @property
    def starts_apart(self) -> bool:
        """Whether the first step's policy differs from the reference although nothing was learned: dropout changes the
        output of an adapter that is continued. That of a new adapter is zero."""
        return self.training.warm_start is not None and self.lora is not None and self.lora.dropout > 0


def make_plan(params: dict[str, Any], runtime: dict[str, Any], pack: Pack, validation: Pack) -> Plan:
    """Resolve ``params`` and ``runtime`` for ``pack``. Raises BadData if there is nothing to learn."""
    if not len(pack) or not pack.index.learned_tokens:
        raise BadData(
            "the token pack has no training tokens to learn from",
            where="token_pack",
            remedy="Check the dataset's report: every row was dropped, or no assistant turn carries text.",
        )
    training = SettledTraining.model_validate(params["training"])
    if training.early_stopping and not validation.index.learned_tokens:
        raise BadData(
            "training.early_stopping needs validation loss, and there are no validation rows to measure it on",
            where="token_pack",
            remedy="Raise split.validation in dataset.yaml or add rows, or leave early_stopping out.",
        )
    variant = VARIANTS[params["variant"]]
    lora = SettledLora.model_validate(params["lora"]) if variant.adapters else None
    order = order_of(params["training"], pack)
    micro_windows = max(1, training.micro_batch_size // int(runtime["micro_batch_divisor"]))
    cadence = Cadence(
        save_steps=int(runtime["checkpoint_every_steps"]),
        save_minutes=float(runtime["checkpoint_every_minutes"]),
        validate_steps=_validation_interval(training, order, len(validation)),
    )
    return Plan(
        method=METHODS[params["method"]],
        variant=variant,
        training=training,
        lora=lora,
        order=order,
        micro_windows=micro_windows,
        device=runtime["device"],
        recompute=int(runtime.get("recompute", 0)),
        offload=bool(runtime.get("offload", False)),
        compile=bool(runtime.get("compile", False)),
        cadence=cadence,
    )


def order_of(training: Mapping[str, Any], pack: Pack) -> Order:
    """The order in which a training with these settings reads ``pack``."""
    return Order(
        windows=len(pack),
        global_batch=training["global_batch_size"],
        epochs=training["epochs"],
        seed=training["seed"],
        max_steps=training["max_steps"],
        block=pack.block,
    )


def _validation_interval(training: SettledTraining, order: Order, windows: int) -> int | None:
    """Optimizer steps between validations on ``windows`` windows.

    If the recipe leaves that open, there are ten in a run, or without early stopping as many as take a twentieth of the
    run's time. None if that is one, or if the run is short: then it validates at its end only.
    """
    if training.validate_every_steps or training.early_stopping:
        return training.validate_every_steps or -(-order.steps // VALIDATIONS)
    if not windows or order.steps < _SHORT_STEPS:
        return None
    # A forward pass is about a third of a step.
    affordable = int(_VALIDATION_SHARE * 3 * order.steps * order.global_batch / windows)
    times = min(VALIDATIONS, affordable)
    return -(-order.steps // times) if times > 1 else None
