"""The shadow stage of a rollout, over copied requests that lie in a store."""

from datetime import datetime, timedelta

import pytest

from ft_assets import api
from ft_assets.control.notices.rollouts import rollout_event
from ft_assets.control.rollouts.asked import cancel
from ft_assets.control.rollouts.look import model_name
from ft_assets.control.rollouts.rollouts import RolloutRecord, read_rollouts
from ft_assets.control.rollouts.weights import traffic_of
from ft_assets.records.due_notices import Due
from ft_assets.records.outcomes import FAILED_S
from ft_assets.records.shadows import AnswerSeen, ShadowLog, ShadowPair
from ft_resources.artifacts import InputRef
from ft_resources.errors import UserError
from tests.control.lines.promotable import LINE, SERVED, Promotable
from tests.control.rollouts.made import BEGIN, HOUR, Rolled, leave_outcomes, traffic

FORMATTED = SERVED.model_validate(
    {
        **SERVED.model_dump(mode="json"),
        "tenants": {"acme": {"lines": {LINE.partition(".")[2]: {"format": {"regex": "^[{]"}}}}},
    }
)


def answer(*, valid: bool | None = True, seconds: float = 1.0, refused: bool | None = False) -> AnswerSeen:
    return AnswerSeen(seconds=seconds, refused=refused, valid=valid, characters=20, tokens=5)


FAILED = answer(valid=None, seconds=FAILED_S, refused=None)


def leave_pairs(
    rolled: Rolled,
    ours: list[AnswerSeen],
    theirs: AnswerSeen,
    *,
    begin: datetime = BEGIN,
    candidate: InputRef | None = None,
    server: str = "one",
) -> None:
    """Copied requests a second apart, as a server writes them that ends then."""
    log = ShadowLog(rolled.store, server)
    for number, seen in enumerate(ours):
        log.add(
            ShadowPair(
                candidate=model_name(LINE, candidate or rolled.candidate.ref),
                incumbent=model_name(LINE, rolled.incumbent.ref),
                request=f"{server}-{number}",
                candidate_answer=seen,
                incumbent_answer=theirs,
                at=(begin + timedelta(seconds=number)).isoformat(timespec="milliseconds"),
            )
        )
    log.flush(BEGIN + timedelta(days=900))


class Shadowed(Rolled):
    """A line whose rollouts begin with copied requests."""

    def begin(self, **changes: object) -> RolloutRecord:
        values = {
            "shadow": 20,
            "outcomes": ("thumbs", "latency", "format"),
            "margins": {"latency": 0.2, "format": 0.2},
            "latency_limit_s": 2.0,
            **changes,
        }
        return self.start(tenants=FORMATTED, **values)


@pytest.fixture
def rolled(line: Promotable) -> Shadowed:
    return Shadowed(line)


def test_in_the_shadow_stage_production_answers_all_and_a_share_is_copied_and_the_notice_says_so(rolled) -> None:
    started = rolled.begin()
    assert (started.weight, started.shadowing, started.share) == (0, True, "20 % copied")
    assert rolled.weights == {"candidate": 0, "incumbent": 100}
    assert traffic_of(rolled.store, LINE).shadow == 20
    waits = rolled.conduct(BEGIN + HOUR)
    assert waits.record is None
    # Users never see a copied answer, so they cannot rate it.
    said = "outcomes of the candidate of 20 % of requests, copied: format: 0 of 50, latency: 0 of 50"
    assert waits.said == said
    shown = api.show_rollout(LINE, store=rolled.store)
    assert (shown.shadow, shown.next) == (20, f"wait: {said}")
    event = rollout_event(rolled.store, Due(source="rollout", tenant="acme", path=started.path, at=BEGIN))
    assert event.title == f"{LINE}: a rollout started: 20 % of the requests are copied to its candidate"
    assert event.facts["weight"] == "20 % copied"


def test_a_candidate_whose_format_is_broken_is_rolled_back_before_any_user_had_it(rolled: Shadowed) -> None:
    rolled.begin()
    leave_pairs(rolled, [answer(valid=False)] * 40, answer())
    record = rolled.conduct(BEGIN + HOUR).record
    assert (record.kind, record.actor) == ("rolled_back", "auto")
    assert record.reason.startswith("significantly worse than the incumbent: format: 0.000 good of 40")
    assert rolled.weights == {"incumbent": 100}
    assert traffic_of(rolled.store, LINE).shadow == 0
    assert max(each.weight for each in read_rollouts(rolled.store, LINE).rollouts[-1].records) == 0


@pytest.mark.parametrize("bad", [FAILED, answer(seconds=3.0)])
def test_a_candidate_that_fails_or_is_slow_is_rolled_back(rolled: Shadowed, bad: AnswerSeen) -> None:
    rolled.begin()
    leave_pairs(rolled, [bad] * 40, answer())
    record = rolled.conduct(BEGIN + HOUR).record
    assert record.kind == "rolled_back"
    assert "latency: 0.000 good of 40" in record.reason


def test_a_candidate_that_answers_no_copy_is_rolled_back_though_no_kind_knows_anything_of_it(rolled: Shadowed) -> None:
    rolled.begin(outcomes=("thumbs", "format"), margins={"format": 0.2}, latency_limit_s=None)
    leave_pairs(rolled, [FAILED] * 49, answer())
    waits = rolled.conduct(BEGIN + HOUR)
    assert (waits.record, waits.said) == (
        None,
        "outcomes of the candidate of 20 % of requests, copied: format: 0 of 50",
    )
    leave_pairs(rolled, [FAILED], answer(), server="two")
    record = rolled.conduct(BEGIN + HOUR).record
    assert record.kind == "rolled_back"
    assert record.reason == "the candidate answered none of 50 copied requests, which production answered"


def test_one_answer_is_waited_for_however_many_fail(rolled: Shadowed) -> None:
    rolled.begin(outcomes=("thumbs", "format"), margins={"format": 0.2}, latency_limit_s=None)
    leave_pairs(rolled, [answer()] + [FAILED] * 60, answer())
    assert rolled.conduct(BEGIN + HOUR).record is None


def test_a_good_candidate_goes_on_to_its_first_weight_and_from_there_only_users_answers_count(rolled) -> None:
    rolled.begin(outcomes=("thumbs", "format"), margins={"thumbs": 0.2, "format": 0.2}, latency_limit_s=None)
    leave_pairs(rolled, [answer()] * 60, answer())
    # What users said meanwhile of production alone is nothing to compare the candidate with.
    earlier = traffic(rolled.candidate.ref, rolled.incumbent.ref, good=(0.0, 0.0), n=60, begin=BEGIN)
    leave_outcomes(rolled.store, [each for each in earlier if "@" + rolled.incumbent.digest[:16] in each.model], "old")
    record = rolled.conduct(BEGIN + HOUR).record
    assert (record.kind, record.weight) == ("advanced", 5)
    assert record.reason == "at least 50 outcomes of 20 % of requests, copied, none significantly worse"
    assert [each.kind for each in record.evidence] == ["format"]
    assert rolled.weights == {"candidate": 5, "incumbent": 95}
    assert traffic_of(rolled.store, LINE).shadow == 0
    waits = rolled.conduct(BEGIN + HOUR)
    assert waits.said == "outcomes of the candidate at 5 %: format: 0 of 50, thumbs: 0 of 50"
    # A damaged log of copies is not read any more.
    rolled.store.create(f"acme/shadows/{LINE}/{BEGIN.date()}/9999-bad-1.jsonl", b"{")
    for kind in ("thumbs", "format"):
        seen = traffic(rolled.candidate.ref, rolled.incumbent.ref, good=(0.9, 0.9), n=60, begin=BEGIN + HOUR, kind=kind)
        leave_outcomes(rolled.store, seen, kind)
    advanced = rolled.conduct(BEGIN + 2 * HOUR).record
    assert (advanced.kind, advanced.weight) == ("advanced", 25)
    assert [(each.kind, each.candidate, each.incumbent) for each in advanced.evidence] == [
        ("format", 60, 60),
        ("thumbs", 60, 60),
    ]


def test_what_is_not_known_of_both_answers_makes_no_pair_and_failures_of_both_say_nothing(rolled: Shadowed) -> None:
    rolled.begin()
    leave_pairs(rolled, [FAILED] * 60, FAILED)
    waits = rolled.conduct(BEGIN + HOUR)
    assert waits.said.endswith("format: 0 of 50")


def test_copies_to_another_candidate_or_before_the_rollout_do_not_count_and_one_request_counts_once(rolled) -> None:
    rolled.begin()
    other = rolled.line.adapter(3)
    leave_pairs(rolled, [answer(valid=False)] * 60, answer(), candidate=other.ref, server="two")
    leave_pairs(rolled, [answer(valid=False)] * 60, answer(), begin=BEGIN - HOUR, server="three")
    for _ in range(3):
        leave_pairs(rolled, [answer(valid=False)] * 2, answer())
    (evidence,) = [each for each in api.show_rollout(LINE, store=rolled.store).evidence if each.kind == "format"]
    assert (evidence.candidate, evidence.incumbent) == (2, 2)


def test_a_damaged_log_of_copies_holds_the_rollout_and_hides_nothing_else(rolled, monkeypatch) -> None:
    rolled.begin()
    leave_pairs(rolled, [answer()] * 60, answer())
    hostile = f"acme/shadows/{LINE}/{BEGIN.date()}/1200-bad-1.jsonl"
    rolled.store.create(hostile, b'{"candidate":"acme.other.line@0","seconds":NaN}\n')
    step = api.advance_rollouts(store=rolled.store, tenants=FORMATTED)
    assert any(hostile in each for each in step.warnings)
    shown = api.show_rollout(LINE, store=rolled.store)
    assert [record.kind for record in shown.state.rollouts[-1].records] == ["started"]
    assert (shown.shadow, shown.evidence) == (20, [])
    assert hostile in shown.next
    assert rolled.weights == {"candidate": 0, "incumbent": 100}
    assert cancel(rolled.store, LINE, actor="bea", reason="look at it").kind == "cancelled"
    assert rolled.weights == {"incumbent": 100}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"outcomes": ("thumbs",), "margins": {}, "latency_limit_s": None}, "nobody sees the answers"),
        ({"shadow": 101}, "at most 100"),
        ({"shadow": -1}, "at least 0"),
    ],
)
def test_a_shadow_stage_that_could_show_nothing_is_refused(rolled: Shadowed, changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        rolled.begin(**changes)
    assert read_rollouts(rolled.store, LINE).rollouts == ()


def test_the_stages_of_a_rollout_share_its_error(rolled: Shadowed) -> None:
    """Copies may roll back, and users' answers later too: each with half of the error, so both take more to show it."""
    seen = traffic(rolled.candidate.ref, rolled.incumbent.ref, good=(0.6, 0.9), n=80, begin=BEGIN + HOUR)
    leave_outcomes(rolled.store, seen)
    leave_pairs(rolled, [answer()] * 20, answer())

    def most(shadow: int) -> float:
        kinds = ("thumbs", "refusal")
        rolled.start(shadow=shadow, minimum=10, outcomes=kinds, margins=dict.fromkeys(kinds, 0.1))
        if shadow:
            assert rolled.conduct(BEGIN + HOUR).record.weight == 5
        found = {each.kind: each for each in api.show_rollout(LINE, store=rolled.store).evidence}
        cancel(rolled.store, LINE, actor="ann", reason="again")
        assert found["thumbs"].candidate == 80
        return found["thumbs"].most

    assert most(0) < most(20) < 1.0
