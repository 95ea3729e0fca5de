"""A judge of copied requests that fails, is slow, or answers without a verdict."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest

from ft_assets import api
from ft_assets.control.rollouts.rollouts import read_rollouts
from ft_assets.control.rollouts.shadow_judging import PAUSE, pairs_to_judge
from tests.clock import Clock
from tests.control.lines.promotable import LINE
from tests.control.rollouts.made import BAD, GOOD, KEY, Asked, tenants
from tests.workers.evals.preferences.judge_server import Answer, JudgeServer, judge_server

Judging = Callable[[str], Answer]


@pytest.fixture
def never() -> Iterator[Judging]:
    """A judge that answers nothing before the test is over."""
    over = Event()
    yield lambda message: Answer(status=200 if over.wait(600) else 500)
    over.set()


@pytest.mark.parametrize("fault", ["status", "refused", "key", "host"])
def test_a_judge_that_cannot_be_asked_decides_nothing_and_is_told(fault, asked, judge, monkeypatch) -> None:
    file = tenants(judge.url)
    asked.begin(file)
    asked.copy(40, BAD, GOOD)
    with judge_server(lambda message: Answer(status=503 if fault == "status" else 401)) as broken:
        monkeypatch.setattr(judge, "url", broken.url)
        if fault == "key":
            monkeypatch.delenv(KEY)
        log = read_rollouts(asked.store, LINE).open.started
        told = tenants(broken.url, hosts=[] if fault == "host" else None)
        moved = log.model_copy(
            update={"plan": log.plan.model_copy(update={"judge": told.settings_of(LINE).rollouts.judge}), "seal": ""}
        )
        asked.store.put(log.path, moved.data())
        step = asked.ask(told)
        number = len(broken.asked)
        # It is left alone for a while.
        assert asked.ask(told).said == "judged 0 copied requests"
        assert len(broken.asked) == number <= 8
    said = {
        "status": "not available",
        "refused": "the key was rejected",
        "key": f"the key {KEY} is missing or unusable",
        "host": "may not receive this tenant's rows",
    }[fault]
    (warning,) = step.warnings
    assert said in warning
    shown = api.show_rollout(LINE, store=asked.store, tenants=told)
    assert said in shown.judged.sentence
    assert "unreachable at 20" in shown.judged.sentence
    assert shown.next == "wait: outcomes of the candidate of 20 % of requests, copied: judge: 0 of 30"
    # None of the pairs is lost.
    later = datetime.now(UTC) + PAUSE + timedelta(seconds=5)
    assert len(pairs_to_judge(asked.store, read_rollouts(asked.store, LINE).open, later)) == 40
    assert asked.conduct(later, file).record is None


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(text="Both have their merits."), "no verdict in the text"),
        (Answer(status=400), "declined by the endpoint"),
        (Answer(finish_reason="length"), "cut short"),
        (None, "timed out"),
    ],
)
def test_a_judge_without_a_verdict_says_nothing_is_counted_and_not_asked_again(answer, problem, asked, never) -> None:
    with judge_server((lambda message: answer) if answer else never) as server:
        file = tenants(server.url, pair_cost=0.01, model={} if answer else {"timeout_s": 0.5})
        asked.begin(file)
        asked.copy(2, GOOD, BAD)
        asked.ask(file)
        assert asked.ask(file).worked == 0
        assert len(server.asked) == 4 or not answer
    shown = api.show_rollout(LINE, store=asked.store, tenants=file)
    assert f"0 lost, 2 without a verdict ({problem}: 2); cost at most 0.02" in shown.judged.sentence
    assert [each.candidate for each in shown.evidence] == [0]


def test_a_text_that_the_endpoint_does_not_permit_is_told_and_left_out_and_holds_up_no_other(asked: Asked) -> None:
    others = Event()

    def moderated(message: str) -> Answer:
        if "Damn." in message:
            others.wait(600)
            return Answer(status=403)
        others.set()
        return Answer(text="VERDICT: TIE")

    with judge_server(moderated) as server:
        file = tenants(server.url, pair_cost=0.1)
        asked.begin(file)
        asked.copy(1, "Damn.", GOOD, at=datetime.now(UTC) - timedelta(seconds=5))
        asked.copy(4, BAD, GOOD)
        assert asked.ask(file).warnings == (f"{LINE}: its judge returned 403 for 1 copied requests, which are skipped",)
        # Never again, while the others go on at the next tick.
        assert asked.ask(file).warnings == ()
        assert sum("Damn." in each for each in server.messages) == 2
    assert sorted(each.result for each in asked.verdicts()) == ["none", *["tied"] * 4]
    shown = api.show_rollout(LINE, store=asked.store, tenants=file)
    assert "1 without a verdict (not permitted by the endpoint: 1)" in shown.judged.sentence


@pytest.mark.parametrize("concurrency", [4, 32])
def test_what_takes_a_judge_too_long_counts_as_paid_for(concurrency: int, asked: Asked, never: Judging) -> None:
    with judge_server(never) as server:
        limits = {"pairs_a_day": 4, "pair_cost": 0.1, "model": {"timeout_s": 0.3, "concurrency": concurrency}}
        file = tenants(server.url, **limits)
        asked.begin(file)
        asked.copy(20, GOOD, BAD)
        asked.ask(file)
        later = datetime.now(UTC) + PAUSE + timedelta(seconds=5)
        assert pairs_to_judge(asked.store, read_rollouts(asked.store, LINE).open, later) == []
        # Each in both orders; one that a busy machine has not read yet was asked all the same.
        assert len(server.asked) <= 8
    assert [(each.problem, each.cost) for each in asked.verdicts()] == [("timed out", 0.1)] * 4


def test_a_judge_that_always_prefers_the_first_answer_has_said_nothing(asked: Asked) -> None:
    with judge_server(lambda message: Answer(text="VERDICT: A")) as server:
        file = tenants(server.url)
        asked.begin(file)
        asked.copy(8, BAD, GOOD)
        asked.ask(file)
    assert {each.win for each in asked.verdicts()} == {0.5}


def test_verdicts_hold_no_text(asked: Asked, judge: JudgeServer) -> None:
    file = tenants(judge.url)
    asked.begin(file)
    asked.copy(4, BAD, GOOD)
    asked.ask(file)
    objects = [asked.store.get(entry.path) for entry in asked.store.entries(f"acme/shadow_verdicts/{LINE}")]
    assert objects
    assert not any(word in each for each in objects for word in (b"router", b"idea", b"line is down", b"Because"))


def test_a_slow_judge_keeps_no_tick_longer_than_it_may(asked: Asked) -> None:
    clock = Clock()

    def slow(message: str) -> Answer:
        clock.advance(10.0)
        return Answer()

    with judge_server(slow) as server:
        file = tenants(server.url)
        asked.begin(file)
        asked.copy(20, BAD, GOOD)
        step = api.judge_copies(store=asked.store, tenants=file, clock=clock)
    assert 0 < step.worked < 20
    assert len(asked.verdicts()) == step.worked
