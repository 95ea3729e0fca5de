"""Gates by what a model is for: a profile is a name for thresholds, which a recipe states in their place."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

ProfileName = Literal["chat", "code", "extraction", "classification", "none"]

_NO_LOSS = {"max_drop_points": 2.0, "margin_points": 1.0}
PROFILES: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        # Of two good answers hardly one is a copy of the other, so likelihoods tell. Much of how an answer is worded
        # stays open, whoever writes it: a small fall is a gain.
        "chat": {"benchmark_regression": _NO_LOSS, "task_gain": {"metric": "perplexity", "min_relative": 0.02}},
        # Programs leave less open than conversations.
        "code": {"benchmark_regression": _NO_LOSS, "task_gain": {"metric": "perplexity", "min_relative": 0.05}},
        # One answer is right, to the letter.
        "extraction": {"benchmark_regression": _NO_LOSS, "task_gain": {"metric": "exact_match", "min_relative": 0.05}},
        # Rare labels count as much as common ones.
        "classification": {"benchmark_regression": _NO_LOSS, "task_gain": {"metric": "macro_f1", "min_relative": 0.05}},
    }
)
"""Sections of ``gates`` with every threshold. A change here changes no registered recipe: recipes store thresholds."""


def profile_of(gates: Any) -> str | None:
    """The name that ``gates``, as written, have for their profile; None for anything else."""
    name = gates.get("profile") if isinstance(gates, dict) else None
    return name if isinstance(name, str) else None


def stated(gates: Mapping[str, Any]) -> dict[str, Any]:
    """``gates`` with the thresholds of its profile in the place of the name; what is written beside it wins."""
    written = {name: value for name, value in gates.items() if name != "profile"}
    for name, section in PROFILES[gates["profile"]].items():
        own = written.get(name, {})
        written[name] = {**section, **own} if isinstance(own, Mapping) else own
    return written
