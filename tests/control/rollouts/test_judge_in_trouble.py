"""A judge of copied requests that fails, is slow, or answers without a verdict."""

from datetime import UTC, datetime, timedelta

import pytest

from ft_assets import api
from ft_assets.control.rollouts.rollouts import read_rollouts
from ft_assets.control.rollouts.shadow_judging import PAUSE, pairs_to_judge
from tests.control.lines.promotable import LINE
from tests.control.rollouts.judged_rollout import BAD, GOOD, KEY, Asked, tenants
from tests.workers.evals.preferences.judge_server import Answer, JudgeServer, judge_server


@pytest.mark.parametrize("fault", ["status", "refused", "key", "host"])
def test_a_judge_that_cannot_be_asked_decides_nothing_and_is_told(
    fault: str, rolled: Asked, judge: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tenants(judge.url)
    rolled.begin(file)
    rolled.copy(40, BAD, GOOD)
    with judge_server(lambda message: Answer(status=503 if fault == "status" else 401)) as broken:
        monkeypatch.setattr(judge, "url", broken.url)
        if fault == "key":
            monkeypatch.delenv(KEY)
        log = read_rollouts(rolled.store, LINE).open.started
        told = tenants(broken.url, hosts=[] if fault == "host" else None)
        moved = log.model_copy(
            update={"plan": log.plan.model_copy(update={"judge": told.settings_of(LINE).rollouts.judge}), "seal": ""}
        )
        rolled.store.put(log.path, moved.data())
        step = rolled.ask(told)
        asked = len(broken.asked)
        # It is left alone for a while.
        assert rolled.ask(told).said == "asked judges about 0 copied requests"
        assert len(broken.asked) == asked <= 8
    said = {
        "status": "not available",
        "refused": "it does not accept the key",
        "key": f"there is no usable key {KEY}",
        "host": "may not receive this tenant's rows",
    }[fault]
    (warning,) = step.warnings
    assert said in warning
    shown = api.show_rollout(LINE, store=rolled.store, tenants=told)
    assert said in shown.judged.sentence
    assert "not reached at 20" in shown.judged.sentence
    assert shown.next == "wait: outcomes of the candidate of 20 % of requests, copied: judge: 0 of 30"
    # None of the pairs is lost.
    later = datetime.now(UTC) + PAUSE + timedelta(seconds=5)
    assert len(pairs_to_judge(rolled.store, read_rollouts(rolled.store, LINE).open, later)) == 40
    assert rolled.conduct(later, file).record is None


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(text="Both have their merits."), "no verdict in the text"),
        (Answer(status=400), "declined by the endpoint"),
        (Answer(finish_reason="length"), "cut short"),
        (Answer(delay_s=2.0), "timed out"),
    ],
)
def test_a_judge_without_a_verdict_says_nothing_is_counted_and_not_asked_again(
    answer: Answer, problem: str, rolled: Asked
) -> None:
    with judge_server(lambda message: answer) as server:
        file = tenants(server.url, pair_cost=0.01, model={"timeout_s": 0.5})
        rolled.begin(file)
        rolled.copy(2, GOOD, BAD)
        rolled.ask(file)
        assert rolled.ask(file).worked == 0
        assert len(server.asked) == 4
    shown = api.show_rollout(LINE, store=rolled.store, tenants=file)
    assert f"0 lost, 2 without a verdict ({problem}: 2); cost at most 0.02" in shown.judged.sentence
    assert [each.candidate for each in shown.evidence] == [0]


def test_a_text_that_the_endpoint_does_not_permit_is_told_and_left_out_and_holds_up_no_other(rolled: Asked) -> None:
    def moderated(message: str) -> Answer:
        return Answer(status=403, delay_s=0.5) if "Damn." in message else Answer(text="VERDICT: TIE")

    with judge_server(moderated) as server:
        file = tenants(server.url, pair_cost=0.1)
        rolled.begin(file)
        rolled.copy(1, "Damn.", GOOD, at=datetime.now(UTC) - timedelta(seconds=5))
        rolled.copy(4, BAD, GOOD)
        assert rolled.ask(file).warnings == (f"{LINE}: its judge answers 403 on 1 copied requests, which are left out",)
        # Never again, while the others go on at the next tick.
        assert rolled.ask(file).warnings == ()
        assert sum("Damn." in each for each in server.messages) == 2
    assert sorted(each.result for each in rolled.verdicts()) == ["none", *["tied"] * 4]
    shown = api.show_rollout(LINE, store=rolled.store, tenants=file)
    assert "1 without a verdict (not permitted by the endpoint: 1)" in shown.judged.sentence


@pytest.mark.parametrize("concurrency", [4, 32])
def test_what_takes_a_judge_too_long_counts_as_paid_for(concurrency: int, rolled: Asked) -> None:
    with judge_server(lambda message: Answer(delay_s=2.0)) as server:
        limits = {"pairs_a_day": 4, "pair_cost": 0.1, "model": {"timeout_s": 0.3, "concurrency": concurrency}}
        file = tenants(server.url, **limits)
        rolled.begin(file)
        rolled.copy(20, GOOD, BAD)
        rolled.ask(file)
        later = datetime.now(UTC) + PAUSE + timedelta(seconds=5)
        assert pairs_to_judge(rolled.store, read_rollouts(rolled.store, LINE).open, later) == []
        assert len(server.asked) == 8
    assert [(each.problem, each.cost) for each in rolled.verdicts()] == [("timed out", 0.1)] * 4


def test_a_judge_that_always_prefers_the_first_answer_has_said_nothing(rolled: Asked) -> None:
    with judge_server(lambda message: Answer(text="VERDICT: A")) as server:
        file = tenants(server.url)
        rolled.begin(file)
        rolled.copy(8, BAD, GOOD)
        rolled.ask(file)
    assert {each.win for each in rolled.verdicts()} == {0.5}


def test_verdicts_hold_no_text(rolled: Asked, judge: JudgeServer) -> None:
    file = tenants(judge.url)
    rolled.begin(file)
    rolled.copy(4, BAD, GOOD)
    rolled.ask(file)
    objects = [rolled.store.get(entry.path) for entry in rolled.store.entries(f"acme/shadow_verdicts/{LINE}")]
    assert objects
    assert not any(word in each for each in objects for word in (b"router", b"idea", b"line is down", b"Because"))


def test_a_slow_judge_keeps_no_tick_longer_than_it_may(rolled: Asked) -> None:
    with judge_server(lambda message: Answer(delay_s=0.3)) as server:
        file = tenants(server.url)
        rolled.begin(file)
        rolled.copy(20, BAD, GOOD)
        step = api.judge_copies(store=rolled.store, tenants=file, begin_for_s=0.1)
        assert 0 < step.worked < 20
        assert len(rolled.verdicts()) == step.worked
