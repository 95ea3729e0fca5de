"""A judge's preferences recomputed from its samples, and from its literal replies.

Columns: ``candidate_first`` and ``base_first`` are 1 if the candidate was preferred with that answer shown first, 0.5
for a tie, 0 if the base was, and null without a verdict. Optional: ``…_problem``, ``…_said`` (the judge's reply), and
``alike`` (both answers are the same, and the judge was not asked).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ft_assets.workers.evals.evidence import JudgedEvidence, JudgeEvidence
from ft_assets.workers.evals.preferences.judge import PROSE
from ft_assets.workers.evals.preferences.prompt import ORDERS, Order, preference
from ft_assets.workers.evals.statistics import Interval, studentized, wilson

Columns = Mapping[str, tuple[Any, ...]]
_ALLOWED = (None, 0, 0.5, 1)


def judge_evidence(columns: Columns, *, seed: int) -> JudgeEvidence:
    """The evidence for the gate. Raises ValueError with an explanation for samples that contradict themselves.

    The prompts without a verdict are left out of the win rate, but its interval covers their possible verdicts: its
    ends are those of the rates if the base, or the candidate, had won them all (worst-case bounds, Horowitz & Manski
    2000, Journal of the American Statistical Association 95, 77-84).
    """
    wins, alike = _wins(columns), _alike(columns)
    orders = [_order(columns, order) for order in ORDERS]
    known = [win for win in wins if win is not None]
    asked = [place for place, win in enumerate(wins) if win is not None and not alike[place]]
    same = sum(orders[0][place] == orders[1][place] for place in asked)
    ends = [_interval([worst if win is None else win for win in wins], seed) for worst in (0.0, 1.0)]
    value = float(np.mean(known)) if known else 0.5
    return JudgeEvidence(
        value=value,
        n=len(known),
        # Within [0, 1], and always including the rate.
        interval=(min(value, max(0.0, ends[0].low)), max(value, min(1.0, ends[1].high))),
        agreement=same / len(asked) if asked else float(bool(known)),
        alike=sum(alike),
        problems=_problems(columns, wins),
    )


def _interval(wins: Sequence[float], seed: int) -> Interval:
    """Of the mean win, by the studentised bootstrap.

    If all prompts had the same result, a bootstrap would claim certainty. Then as many further prompts as Wilson's
    interval leaves room for may all be lost, or won.
    """
    if len(set(wins)) > 1:
        return studentized(np.asarray(wins), np.ones(len(wins)), seed=seed)
    value, unseen = wins[0], 1 - wilson(len(wins), len(wins)).low
    return Interval(low=value * (1 - unseen), high=value + (1 - value) * unseen)


def require_stated(columns: Columns, stated: JudgedEvidence) -> None:
    """Raise ValueError if the samples, or the replies in them, do not give the report's figures."""
    alike = _alike(columns)
    for order, candidate in ORDERS.items():
        said = _texts(columns, f"{order}_said")
        for place, shown in enumerate(_order(columns, order)):
            meant = 0.5 if alike[place] else preference(said[place], candidate)
            if shown != meant:
                raise ValueError(f"{order} is {shown}, but the judge's text gives {meant}")
    found = count(stated.judge, columns)
    for name, value in found:
        if getattr(stated, name) != value:
            raise ValueError(
                f"the report has {name} {getattr(stated, name)} for {stated.judge}, but its samples give {value}"
            )


def count(judge: str, columns: Columns) -> JudgedEvidence:
    """What the samples of ``judge`` say, prompt by prompt."""
    wins = _wins(columns)
    orders = [_order(columns, order) for order in ORDERS]
    return JudgedEvidence(
        judge=judge,
        n=len(wins),
        wins=sum(win is not None and win > 0.5 for win in wins),
        ties=sum(win == 0.5 for win in wins),
        losses=sum(win is not None and win < 0.5 for win in wins),
        alike=sum(_alike(columns)),
        contradictions=sum(
            win is not None and first != second for win, first, second in zip(wins, *orders, strict=True)
        ),
        problems=_problems(columns, wins),
    )


def _order(columns: Columns, order: Order) -> tuple[float | None, ...]:
    values = columns.get(order)
    if values is None:
        raise ValueError(f"there is no column {order!r}")
    if not all(value in _ALLOWED for value in values):
        raise ValueError(f"{order} has values other than 0, 0.5, 1 and empty")
    return values


def _wins(columns: Columns) -> list[float | None]:
    pairs = zip(*(_order(columns, order) for order in ORDERS), strict=True)
    return [None if first is None or second is None else (first + second) / 2 for first, second in pairs]


def _alike(columns: Columns) -> Sequence[bool]:
    if "alike" not in columns:
        return [False] * len(next(iter(columns.values())))
    if "base_answer" in columns and "candidate_answer" in columns:
        same = [one == other for one, other in zip(columns["base_answer"], columns["candidate_answer"], strict=True)]
        if same != list(columns["alike"]):
            raise ValueError("alike contradicts the answers")
    return [bool(value) for value in columns["alike"]]


def _problems(columns: Columns, wins: Sequence[float | None]) -> dict[str, int]:
    """The reasons for a missing verdict, from the first order without one."""
    texts = [_texts(columns, f"{order}_problem", PROSE) for order in ORDERS]
    found = Counter(
        next(filter(None, (column[place] for column in texts)), PROSE) for place, win in enumerate(wins) if win is None
    )
    return dict(sorted(found.items()))


def _texts(columns: Columns, name: str, default: str = "") -> Sequence[str]:
    return columns[name] if name in columns else [default] * len(next(iter(columns.values())))
