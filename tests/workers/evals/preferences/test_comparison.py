"""From a judge's replies to the gate's evidence, and again from the samples."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ft_assets.settings.catalogue.gates.judge import JudgeGate
from ft_assets.workers.evals.agreement import agreement
from ft_assets.workers.evals.evidence import JudgeEvidence
from ft_assets.workers.evals.gate_rates import judge_preference
from ft_assets.workers.evals.preferences.judge import TIMED_OUT, Judgement, Keep
from ft_assets.workers.evals.preferences.judged_pairs import Contest, Preferences, agreement_of, judge_contests
from ft_assets.workers.evals.preferences.page import judges_section
from ft_assets.workers.evals.preferences.remeasured import judge_evidence, require_stated
from ft_assets.workers.evals.preferences.saved import SavedJudgements
from ft_assets.workers.evals.samples import parse_samples
from tests.workers.evals.preferences.judge_server import answers_in
from tests.workers.evals.world import World

Say = Callable[[str], Judgement]


class FakeJudge:
    """A judge that replies by a function; ``asked`` are all messages."""

    def __init__(self, say: Say) -> None:
        self.say, self.asked = say, list[str]()

    def ask(self, messages: Sequence[str], keep: Keep) -> None:
        for place, message in reversed(list(enumerate(messages))):
            self.asked.append(message)
            keep(place, self.say(message))


def contests(count: int, *, won: int = 0, alike: int = 0) -> list[Contest]:
    """Prompts with a good answer and a bad one; the candidate's is good in the first ``won``, ``alike`` have one."""
    return [
        Contest(
            id=f"row-{n}",
            conversation=(("user", f"question {n}"),),
            base="good" if n >= won else "bad",
            candidate="good" if n < won or n >= count - alike else "bad",
        )
        for n in range(count)
    ]


def fair(message: str) -> Judgement:
    first, _ = answers_in(message)
    return Judgement(text=f"VERDICT: {'A' if first == 'good' else 'B'}")


def first_is_best(message: str) -> Judgement:
    return Judgement(text="VERDICT: A")


def judged(world: World, say: Say, found: list[Contest]) -> Preferences:
    request = world.request("eval_report", params={"n": world.contexts})
    saved = SavedJudgements(world.context(request), {"judge": "fake"})
    return judge_contests("fake", FakeJudge(say), found, saved, seed=1, report=lambda done, total: None)


def measured(preferences: Preferences, folder: Path) -> JudgeEvidence:
    """Through the file, as the gate gets it; what the report says is what the file gives."""
    preferences.write(folder / "judge.parquet")
    columns = parse_samples((folder / "judge.parquet").read_bytes(), "judge")
    require_stated(columns, preferences.evidence())
    return judge_evidence(columns, seed=1)


def outcome(found: JudgeEvidence) -> tuple[str, str]:
    verdict = judge_preference(found, JudgeGate())
    return verdict.outcome, verdict.reason


def test_a_fair_judge_lets_the_better_through_and_blocks_the_worse(world: World, tmp_path: Path) -> None:
    better = measured(judged(world, fair, contests(100, won=80)), tmp_path)
    assert (better.value, better.n, better.agreement) == (0.8, 100, 1.0)
    assert outcome(better)[0] == "pass"
    worse = measured(judged(world, fair, contests(100, won=20)), tmp_path)
    assert outcome(worse)[0] == "fail"


def test_a_judge_that_flips_with_position_says_nothing(world: World, tmp_path: Path) -> None:
    preferences = judged(world, first_is_best, contests(100, won=80))
    found = measured(preferences, tmp_path)
    assert (found.value, found.agreement) == (0.5, 0.0)
    assert preferences.evidence().contradictions == 100
    assert outcome(found)[0] == "inconclusive"
    assert "choose another judge" in outcome(found)[1]


def test_prose_and_time_outs_are_counted_and_too_many_conclude_nothing(world: World, tmp_path: Path) -> None:
    def moody(share: int) -> Say:
        said = {n: Judgement(text="Well, both.") if n % 2 else Judgement(problem=TIMED_OUT) for n in range(share)}

        def say(message: str) -> Judgement:
            number = int(message.partition("question ")[2].split()[0])
            return said.get(number) or fair(message)

        return say

    few = measured(judged(world, moody(10), contests(100, won=90)), tmp_path)
    assert (few.n, few.no_verdict) == (90, 10)
    assert few.problems == {"no verdict in the text": 5, TIMED_OUT: 5}
    assert outcome(few)[0] == "pass"
    many = measured(judged(world, moody(11), contests(100, won=90)), tmp_path)
    assert outcome(many)[0] == "inconclusive"
    assert "11 more have no verdict (no verdict in the text 5, timed out 6)" in outcome(many)[1]
    assert "more than the 10.0% allowed" in outcome(many)[1]


def test_a_judge_that_never_says_anything_is_no_pass(world: World, tmp_path: Path) -> None:
    silent = measured(judged(world, lambda message: Judgement(text="I like both."), contests(30)), tmp_path)
    assert (silent.n, silent.no_verdict) == (0, 30)
    assert outcome(silent)[0] == "inconclusive"


def test_the_interval_holds_what_prompts_without_a_verdict_could_have_said(world: World, tmp_path: Path) -> None:
    """A candidate gains nothing by making the judge answer without a verdict where it would lose."""

    def silenced(message: str) -> Judgement:
        number = int(message.partition("question ")[2].split()[0])
        return Judgement(text="prose") if number >= 380 else fair(message)

    whole = measured(judged(world, fair, contests(400, won=200)), tmp_path)
    part = measured(judged(world, silenced, contests(400, won=200)), tmp_path)
    assert part.value > whole.value
    assert part.interval[0] == pytest.approx(whole.interval[0], abs=0.01)
    assert part.interval[1] > whole.interval[1]


def test_equal_answers_are_ties_that_nobody_is_asked_about(world: World, tmp_path: Path) -> None:
    found = contests(40, won=20, alike=10)
    judge = FakeJudge(first_is_best)
    saved = SavedJudgements(world.context(world.request("eval_report")), {})
    preferences = judge_contests("fake", judge, found, saved, seed=1, report=lambda done, total: None)
    assert len(judge.asked) == 2 * 30
    evidence = measured(preferences, tmp_path)
    # They say nothing about whether the judge contradicts itself.
    assert (evidence.alike, evidence.agreement) == (10, 0.0)
    same = measured(judged(world, first_is_best, contests(40, alike=40)), tmp_path)
    assert (same.value, same.agreement) == (0.5, 1.0)
    assert outcome(same)[0] == "pass"


def test_samples_that_the_judges_words_do_not_give_are_no_evidence(world: World, tmp_path: Path) -> None:
    preferences = judged(world, fair, contests(20, won=5, alike=2))
    preferences.write(tmp_path / "judge.parquet")
    columns = parse_samples((tmp_path / "judge.parquet").read_bytes(), "judge")
    stated = preferences.evidence()
    require_stated(columns, stated)
    raised = {**columns, "candidate_first": (1.0,) * 20}
    with pytest.raises(ValueError, match=r"candidate_first is 1\.0, but the judge's text gives 0\.0"):
        require_stated(raised, stated)
    with pytest.raises(ValueError, match="the report has wins 6 for fake"):
        require_stated(columns, stated.model_copy(update={"wins": 6}))
    with pytest.raises(ValueError, match="alike contradicts the answers"):
        judge_evidence({**columns, "alike": (True,) * 20}, seed=1)
    for wrong in (2.0, float("nan"), "1"):
        with pytest.raises(ValueError, match="values other than 0"):
            judge_evidence({**columns, "base_first": (wrong,) * 20}, seed=1)
    with pytest.raises(ValueError, match="no column 'base_first'"):
        judge_evidence({name: column for name, column in columns.items() if name != "base_first"}, seed=1)


def test_what_was_judged_before_an_interruption_is_not_asked_again(world: World) -> None:
    class Killed(BaseException):
        pass

    def dying(message: str) -> Judgement:
        if len(judge.asked) > 25:
            raise Killed
        return fair(message)

    request, found = world.request("eval_report"), contests(20, won=9)
    judge = FakeJudge(dying)
    saved = SavedJudgements(world.context(request), {"judge": "one"})
    with pytest.raises(Killed):
        judge_contests("one", judge, found, saved, seed=1, report=lambda done, total: None)
    spec = world.context(request).spec.model_copy(update={"attempt": 2})
    context = world.context(request)
    context.spec = spec
    again, told = FakeJudge(fair), list[tuple[int, int]]()
    whole = judge_contests(
        "one", again, found, SavedJudgements(context, {"judge": "one"}), seed=1, report=lambda *call: told.append(call)
    )
    assert len(again.asked) == 40 - 25
    assert not {*again.asked} & {*judge.asked[:25]}
    assert (told[0], told[-1]) == ((26, 40), (40, 40))
    assert whole.evidence().wins == 9
    # Another judge has said none of it.
    other = FakeJudge(fair)
    judge_contests(
        "two", other, found, SavedJudgements(context, {"judge": "two"}), seed=1, report=lambda done, total: None
    )
    assert len(other.asked) == 40


def test_two_judges_agree_beyond_chance_or_they_do_not(world: World) -> None:
    found = contests(200, won=120)
    dice = random.Random(3)
    one, same = judged(world, fair, found), judged(world, fair, found)
    rolled = judged(world, lambda message: Judgement(text=f"VERDICT: {dice.choice(['A', 'B'])}"), found)
    assert agreement_of([one]) is None
    full = agreement_of([one, same])
    assert full is not None
    assert (full.n, full.share, full.kappa) == (200, 1.0, 1.0)
    chance = agreement_of([one, rolled])
    assert chance is not None
    assert chance.kappa is not None
    assert abs(chance.kappa) < 0.15
    page = str(judges_section([one, rolled], chance))
    assert "Prompts where the two judges disagree" in page
    assert "question 3" in page


def test_kappa_is_cohens_and_not_defined_where_nobody_ever_differs() -> None:
    # Cohen's own kind of table: 20 and 15 together, 5 and 10 apart; 0.7 observed, 0.5 by chance.
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    found = agreement(first, second)
    assert found is not None
    assert (found.share, found.kappa) == (0.7, pytest.approx(0.4))
    alone = agreement(["yes"] * 5, ["yes"] * 5)
    assert alone is not None
    assert alone.kappa is None
    assert agreement([], []) is None


def test_the_page_escapes_what_answers_hold(world: World) -> None:
    hostile = Contest(id="1", conversation=(("user", "<script>q"),), base="good", candidate="<img src=x onerror=a>")
    page = str(judges_section([judged(world, fair, [hostile])], None))
    assert "&lt;img src=x" in page
    assert "<script>q" not in page
    assert judges_section([], None) == ""


def test_a_dozen_ties_are_no_proof_of_parity_and_a_dozen_wins_no_certainty() -> None:
    """Where all prompts end alike a bootstrap finds an interval of no width."""

    def found(value: float, count: int) -> JudgeEvidence:
        columns = {"item_id": tuple(range(count)), "candidate_first": (value,) * count, "base_first": (value,) * count}
        return judge_evidence(columns, seed=1)

    low, high = found(0.5, 12).interval
    assert (low < 0.45, high > 0.55) == (True, True)
    assert outcome(found(0.5, 12))[0] == "inconclusive"
    assert outcome(found(0.5, 200))[0] == "pass"
    assert found(1.0, 12).interval == (pytest.approx(0.757, abs=1e-3), 1.0)
    assert outcome(found(1.0, 12))[0] == "pass"
    assert outcome(found(0.0, 12))[0] == "fail"
