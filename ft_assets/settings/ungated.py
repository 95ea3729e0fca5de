"""Results that no gate judges: what ``gates: none`` in a recipe gives."""

from collections.abc import Mapping
from typing import Any, Literal

NoGates = Literal["none"]
NO_GATES: NoGates = "none"
UNGATED = "ungated"
"""The asset in the address of such a result. It differs from ``adapter``, so that an ungated result is never mistaken
for an accepted adapter."""
NOT_JUDGED = "the recipe has no gates: its results are not judged and cannot be promoted"
ADD_GATES = (
    "Register the recipe's next version with gates and run it on the same dataset: the training is reused, "
    "only the evaluation is new."
)


def without_gates(params: Mapping[str, Any]) -> bool:
    """Whether the params of an adapter or ungated result say that no gate judges it."""
    return bool(params.get("gates") == NO_GATES)
