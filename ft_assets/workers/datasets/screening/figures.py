"""Figures in a row, such as ``250 300 1000``: groups of digits that are numbers of their own, not parts of one."""

import re
from itertools import pairwise

_GROUPS = re.compile(rb"[0-9]+")


def are_figures(text: bytes) -> bool:
    """Whether at least three groups of ``text`` are all round, or go up or down in equal steps or ratios.

    Groups of a phone or card number are that by chance once in some thousand; a leading zero says that they are no
    figures.
    """
    groups = _GROUPS.findall(text)
    if len(groups) < 3 or any(group[:1] == b"0" for group in groups):
        return False
    figures = [int(group) for group in groups]
    steps = {after - before for before, after in pairwise(figures)}
    in_ratio = all(one * three == two * two for one, two, three in zip(figures, figures[1:], figures[2:], strict=False))
    return steps != {0} and (all(figure % 10 == 0 for figure in figures) or len(steps) == 1 or in_ratio)
