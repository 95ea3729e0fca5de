"""Agreement of two raters on the same items, beyond chance."""

from collections import Counter
from collections.abc import Hashable, Sequence

from pydantic import Field

from ft_resources.strict_model import StrictModel


class Agreement(StrictModel):
    """``share`` of the ``n`` items that two raters judged alike, and Cohen's ``kappa``: 1 for full agreement, 0 for
    chance level, None if both always gave one and the same rating, as chance would do no worse."""

    n: int = Field(ge=1)
    share: float = Field(ge=0.0, le=1.0)
    kappa: float | None = Field(ge=-1.0, le=1.0)


def agreement(first: Sequence[Hashable], second: Sequence[Hashable]) -> Agreement | None:
    """The agreement of two raters on the same items, None without items (Cohen 1960, Educational and Psychological
    Measurement 20, 37-46)."""
    n = len(first)
    if not n:
        return None
    same = sum(one == other for one, other in zip(first, second, strict=True))
    ours, theirs = Counter(first), Counter(second)
    # In whole numbers, to distinguish certain agreement from nearly certain.
    by_chance = sum(count * theirs[what] for what, count in ours.items())
    kappa = None if by_chance == n * n else (same * n - by_chance) / (n * n - by_chance)
    return Agreement(n=n, share=same / n, kappa=None if kappa is None else max(-1.0, kappa))


def in_words(found: Agreement) -> str:
    """Such as ``92.0% of 50 (kappa 0.81)``."""
    kappa = "kappa undefined" if found.kappa is None else f"kappa {found.kappa:.2f}"
    return f"{found.share:.1%} of {found.n} ({kappa})"
