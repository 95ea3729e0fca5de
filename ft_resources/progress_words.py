"""A worker's progress in words, as logs and commands tell it."""

from collections.abc import Mapping
from typing import Any


def describe_progress(progress: Mapping[str, Any]) -> str:
    """One line such as ``training 40/120, loss 1.230, 5,400 tokens/s, 12 s left``; what is not known is left out."""
    text = str(progress.get("phase", ""))
    if progress.get("total"):
        text = f"{text} {progress.get('done', 0)}/{progress['total']}".strip()
    parts = [text] if text else []
    if progress.get("loss") is not None:
        parts.append(f"loss {progress['loss']:.3f}")
    if progress.get("validation_loss") is not None:
        parts.append(f"validation loss {progress['validation_loss']:.3f}")
    if progress.get("tokens_per_s"):
        parts.append(f"{progress['tokens_per_s']:,.0f} tokens/s")
    if progress.get("eta_s") is not None:
        parts.append(f"{seconds(progress['eta_s'])} left")
    return ", ".join(parts)


def seconds(value: float) -> str:
    """A duration in words: ``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    total = round(value)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60} s"
    return f"{total // 3600} h {total % 3600 // 60} min"
