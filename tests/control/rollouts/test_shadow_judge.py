"""A judge of copied requests: what it is asked, what comes of it, and what it may not see."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ft_assets import api
from ft_assets.control.rollouts.pruning import remove_old
from ft_assets.control.rollouts.rollouts import RolloutPlan, RolloutRecord, read_rollouts
from ft_assets.control.rollouts.shadow_judging import PAUSE, WINDOW, pairs_to_judge
from ft_assets.records.conversations import Conversation, ConversationLog, OtherAnswer
from ft_assets.records.outcomes import KEPT_DAYS
from ft_assets.records.shadow_verdicts import ShadowVerdict, VerdictLog, read_verdicts
from ft_assets.records.shadows import CONVERSATIONS
from ft_assets.settings.tenants import TenantsFile
from ft_resources.errors import CorruptArtifact, UserError
from tests.control.lines.promotable import LINE, SERVED, Promotable
from tests.control.rollouts.test_rollouts import HOUR, Rolled
from tests.workers.evals.preferences.judge_server import Answer, JudgeServer, answers_in, judge_server, prefer

GOOD, BAD = "Restart the router.", "No idea."
ASKED = [{"role": "user", "content": "my line is down"}]
KEY = "FT_JUDGE_KEY_TEST"


def tenants(
    url: str,
    *,
    keep: bool = True,
    hosts: list[dict[str, Any]] | None = None,
    model: dict[str, Any] | None = None,
    line: dict[str, Any] | None = None,
    **judge: Any,
) -> TenantsFile:
    asked = {"endpoint": url, "model": "judge-1", "allow_same_family": True, "key": KEY, **(model or {})}
    of_line = {
        "rollouts": {"judge": {"model": asked, "share": 100, **judge}},
        "traffic": {"keep": keep},
        **(line or {}),
    }
    allowed = [{"host": "127.0.0.1", "keys": [KEY], "private": True}]
    return SERVED.model_validate(
        {
            **SERVED.model_dump(mode="json"),
            "judge_hosts": allowed if hosts is None else hosts,
            "tenants": {"acme": {"lines": {LINE.partition(".")[2]: of_line}}},
        }
    )


class Asked(Rolled):
    """A line whose rollouts copy requests; ``judging`` is what its judge does."""

    def begin(self, file: TenantsFile, **changes: object) -> RolloutRecord:
        return self.start(tenants=file, **{"shadow": 20, "minimum": 30, **changes})

    def copy(
        self, number: int, ours: str, theirs: str | None, *, at: datetime | None = None, incumbent: str = ""
    ) -> None:
        """So many copied requests whose texts may be kept, as a server writes them."""
        when = at or datetime.now(UTC)
        log, first = ConversationLog(self.store, f"s{when.timestamp()}-{ours[:2]}", folder=CONVERSATIONS), self.names
        for place in range(number):
            production = OtherAnswer(model=incumbent or first[1], answer=theirs) if theirs is not None else None
            log.add(
                Conversation(
                    model=first[0],
                    request=f"r{when.timestamp()}-{ours[:2]}-{place}",
                    messages=ASKED,
                    answer=ours,
                    production=production,
                    at=when.isoformat(timespec="milliseconds"),
                )
            )
        log.flush(when + HOUR)

    @property
    def names(self) -> tuple[str, str]:
        return f"{LINE}@{self.candidate.digest[:16]}", f"{LINE}@{self.incumbent.digest[:16]}"

    def ask(self, file: TenantsFile) -> api.Step:
        return api.judge_copies(store=self.store, tenants=file)

    def verdicts(self) -> list[ShadowVerdict]:
        return list(read_verdicts(self.store, LINE, "2000", "3000"))


@pytest.fixture
def rolled(line: Promotable, monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setenv(KEY, "the-key")
    return Asked(line)


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """A fair judge, who likes help."""
    with judge_server(prefer(lambda answer: answer == GOOD)) as server:
        yield server


def soon() -> datetime:
    return datetime.now(UTC) + HOUR


def test_a_candidate_that_the_judge_likes_less_is_rolled_back_before_any_user_had_it(
    rolled: Asked, judge: JudgeServer
) -> None:
    file = tenants(judge.url, pair_cost=0.02)
    rolled.begin(file)
    rolled.copy(25, BAD, GOOD)
    assert rolled.ask(file).said == "asked judges about 25 copied requests"
    # Each pair in both orders, with the key, and as evaluations ask.
    assert len(judge.asked) == 50
    assert sorted({answers_in(message) for message in judge.messages}) == sorted([(BAD, GOOD), (GOOD, BAD)])
    assert {each["authorization"] for each in judge.headers} == {"Bearer the-key"}
    shown = api.show_rollout(LINE, store=rolled.store)
    assert shown.judged.sentence == (
        "judge-1 at 127.0.0.1 judged copies: 0 won by the candidate, 0 tied, 25 lost; cost at most 0.50"
    )
    assert api.platform_figures(store=rolled.store, tenants=file).judged == {("acme", "lost"): 25}
    record = rolled.conduct(soon(), file).record
    assert record.kind == "rolled_back"
    assert record.reason.startswith("shown to be worse than the incumbent: judge: 0.000 good of 25, incumbent 1.000")
    assert rolled.weights == {"incumbent": 100}


def test_a_candidate_that_is_as_good_goes_on_and_ties_count_half(rolled: Asked, judge: JudgeServer) -> None:
    file = tenants(judge.url)
    rolled.begin(file)
    rolled.copy(10, GOOD, BAD)
    rolled.copy(10, BAD, GOOD)
    rolled.copy(9, "Who?", "What?")
    rolled.ask(file)
    assert rolled.conduct(soon(), file).said == "outcomes of the candidate of 20 % of requests, copied: judge: 29 of 30"
    rolled.copy(1, GOOD, GOOD)
    before = len(judge.asked)
    rolled.ask(file)
    # Equal answers are a tie, and nobody is asked.
    assert len(judge.asked) == before
    record = rolled.conduct(soon(), file).record
    assert (record.kind, record.weight) == ("advanced", 5)
    (evidence,) = record.evidence
    assert (evidence.kind, evidence.candidate_good, evidence.incumbent_good) == ("judge", 0.5, 0.5)
    # The verdicts were on copies: in the next step only what users say counts.
    assert rolled.conduct(soon(), file).said == "outcomes of the candidate at 5 %: thumbs: 0 of 30"


def test_a_pair_is_asked_about_once_and_the_day_has_its_number_and_its_money(rolled: Asked, judge: JudgeServer) -> None:
    file = tenants(judge.url, pairs_a_day=100, pair_cost=0.1, cost_a_day=0.3)
    rolled.begin(file)
    rolled.copy(2, GOOD, BAD)
    rolled.ask(file)
    assert rolled.ask(file).said == "asked judges about 0 copied requests"
    rolled.copy(10, GOOD, BAD)
    assert rolled.ask(file).worked == 1
    assert rolled.ask(file).worked == 0
    assert len(judge.asked) == 6
    rollout = read_rollouts(rolled.store, LINE).open
    tomorrow = datetime.now(UTC).replace(hour=0, minute=30) + timedelta(days=1)
    rolled.copy(5, GOOD, BAD, at=tomorrow - timedelta(minutes=5))
    assert len(pairs_to_judge(rolled.store, rollout, tomorrow)) == 3


def test_which_pairs_are_judged_is_drawn_by_their_request_and_not_by_what_they_say(
    rolled: Asked, judge: JudgeServer
) -> None:
    file = tenants(judge.url, share=30)
    rolled.begin(file)
    rolled.copy(200, GOOD, BAD)
    rollout = read_rollouts(rolled.store, LINE).open
    drawn = [each.request for each in pairs_to_judge(rolled.store, rollout, soon() - HOUR / 2)]
    assert 35 < len(drawn) < 85
    assert [each.request for each in pairs_to_judge(rolled.store, rollout, soon() - HOUR / 2)] == drawn


def test_what_is_no_whole_pair_of_this_rollout_is_not_sent(rolled: Asked, judge: JudgeServer) -> None:
    file = tenants(judge.url)
    rolled.begin(file)
    rolled.copy(3, GOOD, None)
    rolled.copy(3, BAD, GOOD, incumbent=f"{LINE}@0123456789abcdef")
    rolled.copy(3, "Old.", GOOD, at=datetime.now(UTC) - WINDOW - timedelta(minutes=1))
    assert rolled.ask(file).worked == 0
    assert judge.asked == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"traffic": {"keep": False}}, "the line keeps no conversations any more"),
        ({"rollouts": {}}, "the line does not name judge-1 at 127.0.0.1 any more"),
        ({"rollouts": {"judge": {"model": {"endpoint": "https://other.example.com/v1", "model": "judge-1"}}}}, "name"),
    ],
)
def test_a_judge_that_the_line_lets_see_nothing_any_more_is_sent_nothing(
    change: dict[str, Any], said: str, rolled: Asked, judge: JudgeServer
) -> None:
    file = tenants(judge.url)
    rolled.begin(file)
    rolled.copy(3, BAD, GOOD)
    (warning,) = rolled.ask(tenants(judge.url, line=change)).warnings
    assert said in warning
    assert judge.asked == []
    assert rolled.ask(file).worked == 3


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
        "key": f"the worker has no key {KEY}",
        "host": "may not receive this tenant's rows",
    }[fault]
    (warning,) = step.warnings
    assert said in warning
    shown = api.show_rollout(LINE, store=rolled.store)
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
    shown = api.show_rollout(LINE, store=rolled.store)
    assert f"0 lost, 2 without a verdict ({problem}: 2); cost at most 0.02" in shown.judged.sentence
    assert [each.candidate for each in shown.evidence] == [0]


def test_a_text_that_the_endpoint_refuses_as_it_does_a_wrong_key_holds_up_no_other(rolled: Asked) -> None:
    def moderated(message: str) -> Answer:
        return Answer(status=403, delay_s=0.5) if "Damn." in message else Answer(text="VERDICT: TIE")

    with judge_server(moderated) as server:
        file = tenants(server.url, pair_cost=0.1)
        rolled.begin(file)
        rolled.copy(1, "Damn.", GOOD, at=datetime.now(UTC) - timedelta(seconds=5))
        rolled.copy(4, BAD, GOOD)
        (warning,) = rolled.ask(file).warnings
        assert "answers 403" in warning
    # What was answered beside it was paid for.
    assert [(each.result, each.cost) for each in rolled.verdicts()] == [("unreached", 0.1)] * 2
    later = datetime.now(UTC) + PAUSE + timedelta(seconds=5)
    left = pairs_to_judge(rolled.store, read_rollouts(rolled.store, LINE).open, later)
    assert [each.answer for each in left] == [BAD, BAD, BAD, "Damn.", BAD]


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


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda url: tenants(url, keep=False), "keeps no conversations"),
        (lambda url: tenants(url, hosts=[]), "may not receive this tenant's rows"),
        (lambda url: tenants(url, hosts=[{"host": "127.0.0.1", "private": True}]), "may not be sent to 127.0.0.1"),
        (lambda url: tenants(url, model={"allow_same_family": False}), "nobody here knows the family"),
    ],
)
def test_a_rollout_whose_judge_may_not_judge_does_not_begin(
    make: Callable[[str], TenantsFile], said: str, rolled: Asked, judge: JudgeServer
) -> None:
    with pytest.raises(UserError, match=said) as error:
        rolled.begin(make(judge.url))
    assert error.value.where == f"line {LINE}: rollouts.judge"
    assert read_rollouts(rolled.store, LINE).rollouts == ()
    # Without copies nothing is judged, so nothing is refused.
    assert rolled.begin(make(judge.url), shadow=0).plan.judge is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {"model": "recipe:judge.v1"}}, "name an endpoint"),
        ({"cost_a_day": 1.0}, "say what a pair costs"),
        ({"cost_a_day": 1.0, "pair_cost": 2.0}, "at most as much"),
    ],
)
def test_settings_of_a_judge_that_could_not_be_held_are_refused(changes: dict[str, Any], said: str) -> None:
    judge = {"model": {"endpoint": "https://judge.example.com/v1", "model": "m"}, **changes}
    with pytest.raises(ValueError, match=said):
        TenantsFile.model_validate({"tenants": {"acme": {"lines": {"a.b": {"rollouts": {"judge": judge}}}}}})


def test_a_damaged_log_of_verdicts_holds_the_rollout_and_names_the_object(rolled: Asked, judge: JudgeServer) -> None:
    file = tenants(judge.url)
    rolled.begin(file)
    rolled.copy(40, BAD, GOOD)
    bad = f"acme/shadow_verdicts/{LINE}/{datetime.now(UTC).date()}/0000-bad-1.jsonl"
    rolled.store.create(bad, b"{}\n")
    (warning,) = rolled.ask(file).warnings
    assert bad in warning
    assert any(bad in each for each in api.platform_figures(store=rolled.store, tenants=file).problems)
    assert judge.asked == []
    with pytest.raises(CorruptArtifact):
        rolled.conduct(soon(), file)


def test_old_verdicts_go_with_the_copies_they_are_about(rolled: Asked) -> None:
    old, log = datetime.now(UTC) - timedelta(days=KEPT_DAYS + 2), VerdictLog(rolled.store, "one")
    candidate, incumbent = rolled.names
    log.add(
        ShadowVerdict(
            candidate=candidate,
            incumbent=incumbent,
            request="r",
            judge="j",
            win=1.0,
            problem="",
            again=False,
            asked=True,
            cost=0.0,
            at=old.isoformat(timespec="milliseconds"),
        )
    )
    log.flush()
    rolled.store.create(f"acme/shadows/{LINE}/{old.date()}/0000-one-1.jsonl", b"")
    assert any(
        "2 objects of copied requests" in each for each in remove_old(rolled.store, SERVED, datetime.now(UTC), [])
    )
    assert rolled.verdicts() == []


def test_a_plan_without_a_judge_keeps_its_bytes() -> None:
    plan = {
        "steps": [5, 100],
        "minimum": 1,
        "margins": {"latency": 0.05},
        "latency_limit_s": 1.0,
        "waive_incumbent": False,
        "made_by": "",
        "shadow": 20,
    }
    assert RolloutPlan.model_validate(plan).model_dump(mode="json") == plan
