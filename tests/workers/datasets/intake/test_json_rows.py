"""Elements of JSON arrays, found in blocks of any size, against Python's own parser."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.datasets.intake.json_scan import JsonScanner

_TEXT = st.text(alphabet=st.sampled_from(['"', "\\", "{", "}", "[", "]", ",", "\n", "a", "é"]), max_size=12)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


def elements(data: bytes, block: int) -> list[Any]:
    """The elements of the array ``data``, cut at the commas that the scanner finds in blocks of ``block`` bytes."""
    scanner, cuts = JsonScanner(), []
    for at in range(0, len(data), block):
        part = np.frombuffer(data[at : at + block], np.uint8)
        marks, depths, quotes = scanner.scan(part)
        cuts += [
            at + int(mark) for mark in marks[(depths == 1) & (part[marks] != ord("]")) & (part[marks] != ord("}"))]
        ]
        scanner.advance(depths, quotes)
    assert scanner.depth == 0
    assert not scanner.in_string
    return [json.loads(data[a + 1 : b]) for a, b in zip(cuts, [*cuts[1:], len(data) - 1], strict=True)]


@pytest.mark.statistics
@given(st.lists(_VALUES, min_size=1, max_size=6), st.integers(1, 40), st.booleans(), st.sampled_from([None, 1]))
def test_elements_are_found_wherever_blocks_are_cut(
    values: list[Any], block: int, escaped: bool, indent: int | None
) -> None:
    data = json.dumps(values, ensure_ascii=escaped, indent=indent).encode()
    assert elements(data, block) == values
