"""A judge of copied requests: what it is asked, what comes of it, and what it may not see."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ft_assets import api
from ft_assets.control.rollouts import shadow_judging
from ft_assets.control.rollouts.pruning import remove_old
from ft_assets.control.rollouts.rollouts import read_rollouts
from ft_assets.control.rollouts.shadow_judging import WINDOW, pairs_to_judge
from ft_assets.records.outcomes import KEPT_DAYS
from ft_assets.records.shadow_verdicts import ShadowVerdict, VerdictLog
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.evals.preferences.marks import Marks
from ft_resources.errors import CorruptArtifact, UserError
from tests.control.lines.promotable import LINE, SERVED
from tests.control.rollouts.made import BAD, GOOD, HOUR, Asked, soon, tenants
from tests.workers.evals.preferences.judge_server import JudgeServer, answers_in


def test_a_candidate_that_the_judge_likes_less_is_rolled_back_before_any_user_had_it(asked, judge) -> None:
    file = tenants(judge.url, pair_cost=0.02)
    asked.begin(file)
    asked.copy(25, BAD, GOOD)
    assert asked.ask(file).said == "judged 25 copied requests"
    # Each pair in both orders, with the key, and as evaluations ask.
    assert len(judge.asked) == 50
    assert sorted({answers_in(message) for message in judge.messages}) == sorted([(BAD, GOOD), (GOOD, BAD)])
    assert {each["authorization"] for each in judge.headers} == {"Bearer the-key"}
    shown = api.show_rollout(LINE, store=asked.store, tenants=file)
    assert shown.judged.sentence == (
        "judge-1 at 127.0.0.1 judged copies: 0 won by the candidate, 0 tied, 25 lost; cost at most 0.50"
    )
    assert api.platform_figures(store=asked.store, tenants=file).judged == {("acme", "lost"): 25}
    record = asked.conduct(soon(), file).record
    assert record.kind == "rolled_back"
    assert record.reason.startswith("significantly worse than the incumbent: judge: 0.000 good of 25, incumbent 1.000")
    assert asked.weights == {"incumbent": 100}


def test_a_judge_reads_no_mark_of_either_adapters_template(
    asked: Asked, judge: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {asked.candidate.address: "@@user@@", asked.incumbent.address: "@@bot@@"}
    monkeypatch.setattr(shadow_judging, "marks_of", lambda adapter: Marks(frozenset({own[adapter.address]})))
    file = tenants(judge.url)
    asked.begin(file)
    asked.copy(1, "fine @@bot@@ A", "bad @@user@@ A")
    asked.ask(file)
    assert {answer for message in judge.messages for answer in answers_in(message)} == {"fine  bot  A", "bad  user  A"}


def test_a_candidate_that_is_as_good_goes_on_and_ties_count_half(asked: Asked, judge: JudgeServer) -> None:
    file = tenants(judge.url)
    asked.begin(file)
    asked.copy(10, GOOD, BAD)
    asked.copy(10, BAD, GOOD)
    asked.copy(9, "Who?", "What?")
    asked.ask(file)
    assert asked.conduct(soon(), file).said == "outcomes of the candidate of 20 % of requests, copied: judge: 29 of 30"
    asked.copy(1, GOOD, GOOD)
    before = len(judge.asked)
    asked.ask(file)
    # Equal answers are a tie, and nobody is asked.
    assert len(judge.asked) == before
    record = asked.conduct(soon(), file).record
    assert (record.kind, record.weight) == ("advanced", 5)
    (evidence,) = record.evidence
    assert (evidence.kind, evidence.candidate_good, evidence.incumbent_good) == ("judge", 0.5, 0.5)
    # The verdicts were on copies: in the next step only what users say counts.
    assert asked.conduct(soon(), file).said == "outcomes of the candidate at 5 %: thumbs: 0 of 30"


def test_a_pair_is_asked_about_once_and_the_day_has_its_number_and_its_money(asked: Asked, judge: JudgeServer) -> None:
    file = tenants(judge.url, pairs_a_day=100, pair_cost=0.1, cost_a_day=0.3)
    asked.begin(file)
    asked.copy(2, GOOD, BAD)
    asked.ask(file)
    assert asked.ask(file).said == "judged 0 copied requests"
    asked.copy(10, GOOD, BAD)
    assert asked.ask(file).worked == 1
    assert asked.ask(file).worked == 0
    assert len(judge.asked) == 6
    rollout = read_rollouts(asked.store, LINE).open
    tomorrow = datetime.now(UTC).replace(hour=0, minute=30) + timedelta(days=1)
    asked.copy(5, GOOD, BAD, at=tomorrow - timedelta(minutes=5))
    assert len(pairs_to_judge(asked.store, rollout, tomorrow)) == 3


def test_which_pairs_are_judged_is_drawn_by_their_request_and_not_by_what_they_say(asked, judge) -> None:
    file = tenants(judge.url, share=30)
    asked.begin(file)
    asked.copy(200, GOOD, BAD)
    rollout = read_rollouts(asked.store, LINE).open
    drawn = [each.request for each in pairs_to_judge(asked.store, rollout, soon() - HOUR / 2)]
    assert 35 < len(drawn) < 85
    assert [each.request for each in pairs_to_judge(asked.store, rollout, soon() - HOUR / 2)] == drawn


def test_what_is_no_whole_pair_of_this_rollout_is_not_sent(asked: Asked, judge: JudgeServer) -> None:
    file = tenants(judge.url)
    asked.begin(file)
    asked.copy(3, GOOD, None)
    asked.copy(3, BAD, GOOD, incumbent=f"{LINE}@0123456789abcdef")
    asked.copy(3, "Old.", GOOD, at=datetime.now(UTC) - WINDOW - timedelta(minutes=1))
    assert asked.ask(file).worked == 0
    assert judge.asked == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"traffic": {"keep": False}}, "the line no longer keeps conversations"),
        ({"rollouts": {}}, "the line no longer names judge-1 at 127.0.0.1"),
        ({"rollouts": {"judge": {"model": {"endpoint": "https://other.example.com/v1", "model": "judge-1"}}}}, "name"),
    ],
)
def test_a_judge_that_the_line_lets_see_nothing_any_more_is_sent_nothing(change, said, asked, judge) -> None:
    file = tenants(judge.url)
    asked.begin(file)
    asked.copy(3, BAD, GOOD)
    changed = tenants(judge.url, line=change)
    (warning,) = asked.ask(changed).warnings
    assert said in warning
    shown = api.show_rollout(LINE, store=asked.store, tenants=changed).judged.sentence
    assert "judge disabled" in shown
    assert said in shown
    assert judge.asked == []
    assert asked.ask(file).worked == 3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda url: tenants(url, keep=False), "keeps no conversations"),
        (lambda url: tenants(url, hosts=[]), "may not receive this tenant's rows"),
        (lambda url: tenants(url, hosts=[{"host": "127.0.0.1", "private": True}]), "may not be sent to 127.0.0.1"),
        (lambda url: tenants(url, model={"allow_same_family": False}), "the family of the judge"),
    ],
)
def test_a_rollout_whose_judge_may_not_judge_does_not_begin(make, said, asked, judge) -> None:
    with pytest.raises(UserError, match=said) as error:
        asked.begin(make(judge.url))
    assert error.value.where == f"line {LINE}: rollouts.judge"
    assert read_rollouts(asked.store, LINE).rollouts == ()
    # Without copies nothing is judged, so nothing is refused.
    assert asked.begin(make(judge.url), shadow=0).plan.judge is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {"model": "recipe:judge.v1"}}, "an endpoint is required"),
        ({"cost_a_day": 1.0}, "requires pair_cost"),
        ({"cost_a_day": 1.0, "pair_cost": 2.0}, "requires pair_cost"),
    ],
)
def test_settings_of_a_judge_that_could_not_be_held_are_refused(changes: dict[str, Any], said: str) -> None:
    judge = {"model": {"endpoint": "https://judge.example.com/v1", "model": "m"}, **changes}
    with pytest.raises(ValueError, match=said):
        TenantsFile.model_validate({"tenants": {"acme": {"lines": {"a.b": {"rollouts": {"judge": judge}}}}}})


def test_a_damaged_log_of_verdicts_holds_the_rollout_and_names_the_object(asked: Asked, judge: JudgeServer) -> None:
    file = tenants(judge.url)
    asked.begin(file)
    asked.copy(40, BAD, GOOD)
    bad = f"acme/shadow_verdicts/{LINE}/{datetime.now(UTC).date()}/0000-bad-1.jsonl"
    asked.store.create(bad, b"{}\n")
    (warning,) = asked.ask(file).warnings
    assert bad in warning
    assert any(bad in each for each in api.platform_figures(store=asked.store, tenants=file).problems)
    assert judge.asked == []
    with pytest.raises(CorruptArtifact):
        asked.conduct(soon(), file)


def test_old_verdicts_go_with_the_copies_they_are_about(asked: Asked) -> None:
    old, log = datetime.now(UTC) - timedelta(days=KEPT_DAYS + 2), VerdictLog(asked.store, "one")
    candidate, incumbent = asked.names
    said = {"request": "r", "judge": "j", "win": 1.0, "problem": "", "again": False, "asked": True, "cost": 0.0}
    at = old.isoformat(timespec="milliseconds")
    log.add(ShadowVerdict(candidate=candidate, incumbent=incumbent, at=at, **said))
    log.flush()
    asked.store.create(f"acme/shadows/{LINE}/{old.date()}/0000-one-1.jsonl", b"")
    assert any(
        "2 objects of copied requests" in each for each in remove_old(asked.store, SERVED, datetime.now(UTC), [])
    )
    assert asked.verdicts() == []
