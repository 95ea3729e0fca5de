"""Gates by the model's purpose: a profile is a name that a recipe may give instead of thresholds."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

ProfileName = Literal["chat", "code", "extraction", "classification", "none"]

_NO_LOSS = {"max_drop_points": 2.0, "margin_points": 1.0}
PROFILES: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        # Two good answers are hardly ever equal, so likelihoods are compared. Any answer may be worded in many ways: a
        # small fall is a gain.
        "chat": {"benchmark_regression": _NO_LOSS, "task_gain": {"metric": "perplexity", "min_relative": 0.02}},
        # Programs can be written in fewer ways than conversations.
        "code": {"benchmark_regression": _NO_LOSS, "task_gain": {"metric": "perplexity", "min_relative": 0.05}},
        # One answer is right, character by character.
        "extraction": {"benchmark_regression": _NO_LOSS, "task_gain": {"metric": "exact_match", "min_relative": 0.05}},
        # Rare labels count as much as common ones.
        "classification": {"benchmark_regression": _NO_LOSS, "task_gain": {"metric": "macro_f1", "min_relative": 0.05}},
    }
)
"""Sections of ``gates`` with every threshold. A change here changes no registered recipe: recipes store thresholds."""


def profile_of(gates: Any) -> str | None:
    """The profile that ``gates``, as written, name; None if they name none."""
    name = gates.get("profile") if isinstance(gates, dict) else None
    return name if isinstance(name, str) else None


def stated(gates: Mapping[str, Any]) -> dict[str, Any]:
    """``gates`` with its profile replaced by that profile's thresholds; thresholds that are also written win."""
    written = {name: value for name, value in gates.items() if name != "profile"}
    for name, section in PROFILES[gates["profile"]].items():
        own = written.get(name, {})
        written[name] = {**section, **own} if isinstance(own, Mapping) else own
    return written
