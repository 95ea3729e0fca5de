"""The header by which any server asks for patience."""

import pytest

from ft_resources.retry_after import retry_after


@pytest.mark.parametrize(
    ("said", "wanted_s"),
    [
        (None, 0.0),
        ("", 0.0),
        ("7", 7.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("1e9", 60.0),
        ("inf", 60.0),
        ("nan", 0.0),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:05 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 60.0),
        ("in a minute", 0.0),
    ],
)
def test_a_wish_in_seconds_or_as_a_date_is_kept_within_bounds(said: str | None, wanted_s: float) -> None:
    assert retry_after(said, 60.0, clock=lambda: 10.0) == wanted_s
