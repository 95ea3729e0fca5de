"""Metrics of answers, scores of the majority answer and of memory, and the pairing of suites."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.evals.answers import TrainingAnswers, exact_match, f1
from ft_assets.workers.evals.holdout import HoldoutScore
from ft_assets.workers.evals.holdout_rows import HoldoutRow, choose
from ft_assets.workers.evals.page import MAX_EXAMPLES, evaluation_page, flipped
from ft_assets.workers.evals.paired_comparison import HoldoutComparison, compare_suite
from ft_assets.workers.evals.suite_comparison import compare_suites, write_base
from ft_assets.workers.suites.score import SuiteScore
from ft_resources.errors import UserError
from tests.workers.evals.results import make_evidence
from tests.workers.evals.world import rows

words = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6).map(" ".join)


def row(number: int, target: str, *, kind: str = "", question: str = "why?") -> HoldoutRow:
    encoded = {"ids": [1], "learned": [True], "answers": [True], "prompt": [1]}
    return HoldoutRow(id=str(number), kind=kind, question=question, target=target, **encoded)


def score(answer: str, nll: float = 2.0) -> HoldoutScore:
    return HoldoutScore(nll_sum=nll, tokens=2, all_nll_sum=nll, all_tokens=2, answer=answer)


def compare(*cases: tuple[str, str, str]) -> HoldoutComparison:
    """From (target, base's answer, candidate's answer)."""
    return HoldoutComparison(
        rows=[row(number, target) for number, (target, _, _) in enumerate(cases)],
        base=[score(base, 3.0 + number % 2) for number, (_, base, _) in enumerate(cases)],
        candidate=[score(candidate) for _, _, candidate in cases],
    )


def test_exact_match_trims_and_nothing_else() -> None:
    assert exact_match(" None\n", "None") == 1.0
    assert exact_match("none", "None") == 0.0
    assert exact_match("None.", "None") == 0.0


@given(words, words)
def test_f1_is_symmetric_one_for_the_same_words_and_zero_without_common_ones(left: str, right: str) -> None:
    value = f1(left, right)
    assert 0 <= value <= 1
    assert value == f1(right, left)
    assert (value == 1.0) == (sorted(left.split()) == sorted(right.split()))
    if not set(left.split()) & set(right.split()) and (left or right):
        assert value == 0.0


def test_the_majority_is_that_of_the_rows_kind_and_ties_go_by_the_alphabet() -> None:
    training = TrainingAnswers.of(
        {"kind": kind, "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": answer}]}
        for kind, answer in [("x", "b"), ("x", "a"), ("x", "a "), ("y", "d"), ("y", "c")]
    )
    assert [training.commonest(kind) for kind in ("x", "y", "z")] == ["a", "c", None]
    assert training.seen("d")
    assert not training.seen("e")
    comparison = HoldoutComparison(
        rows=[row(0, "a", kind="x"), row(1, "c", kind="y"), row(2, "new", kind="x"), row(3, "a", kind="z")],
        base=[score("")] * 4,
        candidate=[score("a"), score("c"), score("new"), score("a")],
    )
    assert comparison.majority_rate(training) == 0.5
    rate, never_seen = comparison.never_seen(training)
    assert rate == 0.25
    assert never_seen is not None
    assert (never_seen.n, never_seen.base, never_seen.candidate) == (1, 0.0, 1.0)


def test_metrics_are_paired_and_perplexity_weighs_tokens() -> None:
    metrics = compare(*[("x", "y", "x")] * 20, *[("x", "x", "x")] * 20).metrics(seed=1)
    match = metrics["exact_match"]
    assert (match.base, match.candidate, match.improvement) == (0.5, 1.0, 0.5)
    assert match.interval[0] > 0.3
    assert match.p_value < 1e-5
    perplexity = metrics["perplexity"]
    assert perplexity.base == pytest.approx(2.718281828 ** (3.5 / 2))
    assert perplexity.candidate == pytest.approx(2.718281828)
    assert perplexity.interval[0] < perplexity.improvement < perplexity.interval[1]
    assert metrics == compare(*[("x", "y", "x")] * 20, *[("x", "x", "x")] * 20).metrics(seed=1)


@pytest.mark.parametrize("nll", [float("nan"), float("inf"), 1e6])
def test_a_likelihood_that_has_no_perplexity_is_an_error_and_no_score(nll: float) -> None:
    broken = HoldoutComparison(rows=[row(0, "a")], base=[score("")], candidate=[score("", nll)])
    with pytest.raises(UserError, match="the candidate's likelihood of an answer gives no finite perplexity"):
        broken.metrics(seed=1)


def test_suites_are_paired_by_item_and_never_by_chance() -> None:
    same = compare_suite("s.v1", "acc", (["a", "b"], [1.0, 0.0]), (["a", "b"], [1.0, 1.0]), seed=1)
    assert (same.base, same.candidate, same.difference_points) == (0.5, 1.0, 50.0)
    for ids in (["b", "a"], ["a"], ["a", "c"]):
        with pytest.raises(UserError, match="different items"):
            compare_suite("s.v1", "acc", (["a", "b"], [1.0, 0.0]), (ids, [1.0] * len(ids)), seed=1)


@given(st.permutations(rows(30)), st.integers(1, 30), st.integers(0, 5))
def test_rows_are_chosen_by_their_ids_and_not_by_their_place(
    shuffled: list[dict[str, object]], count: int, seed: int
) -> None:
    chosen = choose(iter(shuffled), count, seed)
    assert chosen == choose(iter(rows(30)), count, seed)
    assert chosen == choose(iter(shuffled), 30, seed)[:count]


def test_the_page_escapes_row_text_and_shows_at_most_fifty_flips_of_both_directions() -> None:
    evil = "<script>alert(1)</script>"
    cases = [(evil, "base says", evil)] * 70 + [("right", "right", evil)] * 30
    comparison = compare(*cases)
    page = evaluation_page(label="acme.things.v1|tiny.v1", evidence=make_evidence(), comparison=comparison)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert len(flipped(comparison)) == 100
    assert page.count('<td class="question">') == MAX_EXAMPLES
    assert "Rows that only the base answers correctly (30, 25 shown)" in page
    assert "http" not in page


def test_the_page_says_which_pair_it_was_made_for_and_that_others_may_have_it_too() -> None:
    """A pair that reused another pair's evaluation showed a report titled with the other pair."""
    page = evaluation_page(
        label="acme.things.v1|tiny.v1", evidence=make_evidence(), comparison=compare(("a", "b", "a"))
    )
    assert page.count("Evaluation of acme.things.v1|tiny.v1") == 2
    assert "shared by all pairs with the same weights, base and measurements" in page


class _Baseline:
    """A baseline's files in a folder, with the interface of an artifact."""

    def __init__(self, folder: Path, scores: dict[str, SuiteScore]) -> None:
        self.manifest, self._folder = SimpleNamespace(files={}), folder
        (folder / "report.json").write_text(json.dumps({"scores": write_base(folder, scores)}))

    def read_json(self, name: str) -> Any:
        return json.loads((self._folder / name).read_text())

    def path(self, name: str, scratch: Path) -> Path:
        return self._folder / name


@pytest.mark.parametrize(("before", "now"), [(True, True), (False, False), (True, False), (False, True)])
def test_scores_that_were_asked_differently_are_not_compared(tmp_path: Path, before: bool, now: bool) -> None:
    scores = {
        through: SuiteScore(
            metric="exact_match", value=1.0, n=1, correct=(1.0,), item_ids=("a",), through_template=through
        )
        for through in (True, False)
    }
    baseline: Any = _Baseline(tmp_path, {"s.v1": scores[before]})
    if before != now:
        with pytest.raises(UserError, match="only one of the baseline and the candidate was asked through the chat"):
            compare_suites(baseline, {"s.v1": scores[now]}, tmp_path, seed=1)
        return
    (compared,) = compare_suites(baseline, {"s.v1": scores[now]}, tmp_path, seed=1)
    assert compared.evidence is not None
    assert compared.evidence.through_template == now
