import pytest

from ft_assets.evals.patterns import check_pattern


@pytest.mark.parametrize(
    "pattern",
    [r"#### (\-?[0-9\.\,]+)", r"(-?[$0-9.,]{2,})|(-?[0-9]+)", r"(?s).*#### ", r"(?i)\byes\b", r"(\d{3},)+", "yes|no"],
)
def test_the_patterns_of_benchmarks_are_taken(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("(a+)+$", "repeats something that varies"),
        ("(?:a|ab)*c", "repeats something that varies or chooses"),
        ("(a?a?)+$", "repeats something that varies"),
        ("(?:a?){30}a{30}", "repeats something that varies"),
        ("a?" * 30 + "a" * 30, "more than 3 repetitions or 8 optional parts"),
        ("a*a*a*a*b", "more than 3 repetitions"),
        (r"(a)\1", "refers back"),
        ("(", "no regular expression"),
        ("(" * 400, "no regular expression"),
        ("a" * 501, "longer than 500"),
    ],
)
def test_patterns_that_may_run_for_ever_are_refused(pattern: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        check_pattern(pattern)
