import pytest

from ft_assets.workers.suites import patterns
from ft_assets.workers.suites.patterns import TimedPatterns, check_pattern


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
        (r"(a)\1", "back-reference"),
        ("(", "not a regular expression"),
        ("(" * 400, "not a regular expression"),
        ("a" * 501, "longer than 500"),
    ],
)
def test_patterns_that_may_run_for_ever_are_refused(pattern: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        check_pattern(pattern)


def test_a_pattern_that_takes_too_long_on_an_answer_is_an_error_and_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    # A model that lost its way repeats one character; the time of what is allowed still grows with its third power.
    monkeypatch.setattr(patterns, "MOST_S", 0.2)
    slow = check_pattern("a*[ab]*a*c[de]")
    answer = "a" * 20_000 + "cf"
    with pytest.raises(TimeoutError):
        TimedPatterns().compile(slow).search(answer)
    with pytest.raises(TimeoutError):
        TimedPatterns().sub(slow, "", answer)


def test_patterns_in_time_find_what_those_of_python_do() -> None:
    timed = TimedPatterns()
    assert timed.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)").findall("4 and 5.5") == [("", "4"), ("5.5", "")]
    assert timed.sub("(?s).*#### ", "", "1\n#### 2") == "2"
    assert timed.compile("yes", timed.IGNORECASE).search("YES")
    assert timed.escape("a.b") == r"a\.b"
