"""Verdicts as the console's table shows them."""

import pytest

from ft_assets.api import Verdict
from ft_assets.server.console.verdicts import rows_of


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("perplexity 19.5 → 11.6 on 400 rows", "Perplexity 19.5 → 11.6 on 400 rows"),
        ("colours.v1: acc 50% → 41%", "colours.v1: acc 50% → 41%"),
        ("no judge was asked", "No judge was asked"),
    ],
)
def test_a_reason_begins_with_a_capital_unless_with_the_key_of_a_suite(reason: str, shown: str) -> None:
    (row,) = rows_of([Verdict(gate="task_gain", outcome="fail", reason=reason)])
    assert (row.name, row.reason) == ("Task gain", shown)
