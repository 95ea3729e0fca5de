"""An engine's requests in progress and totals, named as in vLLM's metrics."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Requests now, and tokens and requests since the start."""

    running: int
    waiting: int
    prompt_tokens: int
    generation_tokens: int
    ended: int
