"""How far two who judge the same agree, beyond chance."""

from collections import Counter
from collections.abc import Hashable, Sequence

from pydantic import BaseModel, ConfigDict, Field


class Agreement(BaseModel):
    """``share`` of ``n`` on which two said the same, and Cohen's ``kappa``: 1 in full, 0 as by chance; None where
    both always said one and the same thing, as chance would do no worse."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    n: int = Field(ge=1)
    share: float = Field(ge=0.0, le=1.0)
    kappa: float | None = Field(ge=-1.0, le=1.0)


def agreement(first: Sequence[Hashable], second: Sequence[Hashable]) -> Agreement | None:
    """The agreement of two on the same items, None where there are none (Cohen 1960, Educational and Psychological
    Measurement 20, 37-46)."""
    n = len(first)
    if not n:
        return None
    same = sum(one == other for one, other in zip(first, second, strict=True))
    ours, theirs = Counter(first), Counter(second)
    # In whole numbers, so that certain agreement is told from nearly certain.
    by_chance = sum(count * theirs[what] for what, count in ours.items())
    kappa = None if by_chance == n * n else (same * n - by_chance) / (n * n - by_chance)
    return Agreement(n=n, share=same / n, kappa=None if kappa is None else max(-1.0, kappa))


def in_words(found: Agreement) -> str:
    """Such as ``92.0% of 50 (kappa 0.81)``."""
    kappa = "kappa not defined" if found.kappa is None else f"kappa {found.kappa:.2f}"
    return f"{found.share:.1%} of {found.n} ({kappa})"
