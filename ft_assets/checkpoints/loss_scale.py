"""fp16 with loss scaling (Micikevicius et al. 2018, https://arxiv.org/abs/1710.03740), for GPUs without bf16.

The loss is multiplied by a scale, so that small gradients do not become 0 in fp16. Where the scale is too large,
gradients overflow; the update of that step is left out then and the scale halved, which says nothing of the training.
"""

from typing import Any

_SMALLEST = 1.0


class LossScale:
    """``scaler`` is PyTorch's GradScaler, None where the arithmetic needs none."""

    def __init__(self, scaler: Any) -> None:
        self._scaler = scaler

    def leaves_out(self, grad_norm: float) -> bool:
        """Whether a gradient of this norm overflowed through the scale, so that its update is not made.

        At a scale of 1 a gradient that is no number is none without any scale.
        """
        return self._scaler is not None and not abs(grad_norm) < float("inf") and self._scaler.get_scale() > _SMALLEST


class Pace:
    """The learning rate's schedule and, under fp16, the loss's scale: what tells one step from the next beside weights
    and moments. Looks like a scheduler to whoever saves it."""

    def __init__(self, schedule: Any, scaler: Any) -> None:
        self._schedule, self._scaler = schedule, scaler

    def state_dict(self) -> dict[str, Any]:
        """JSON values."""
        state = dict(self._schedule.state_dict())
        return state if self._scaler is None else state | {"loss_scale": self._scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        rest = dict(state)
        scale = rest.pop("loss_scale", None)
        self._schedule.load_state_dict(rest)
        if self._scaler is not None and scale is not None:
            self._scaler.load_state_dict(scale)
