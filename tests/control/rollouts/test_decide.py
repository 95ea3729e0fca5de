"""Decisions of a rollout: what is good, bounds that may be looked at after every outcome, and how often they err."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from benchmarks.canary import simulate
from ft_assets.control.rollouts.decide import Situation, decide
from ft_assets.control.rollouts.evidence import ERROR, Evidence, differences, good, weigh
from ft_assets.control.rollouts.rollouts import Rollout, RolloutPlan
from ft_assets.control.rollouts.sequential import exceeds, log_capital, lower_bound, upper_bound
from ft_assets.control.rollouts.weights import choose
from ft_resources.artifacts import InputRef
from tests.control.rollouts.made import BEGIN, made_rollout, outcome, traffic

pytestmark = pytest.mark.statistics

CANDIDATE = InputRef(address="acme/adapter/c", digest="c" * 64)
INCUMBENT = InputRef(address="acme/adapter/i", digest="i" * 64)
PLAN = RolloutPlan(
    steps=[5, 25, 100],
    minimum=200,
    margins={"thumbs": 0.05, "latency": 0.05},
    latency_limit_s=2.0,
    waive_incumbent=False,
    made_by="",
)


def rollout(weight: int = 5) -> Rollout:
    made = made_rollout("started", weight).model_copy(update={"candidate": CANDIDATE, "incumbent": INCUMBENT})
    return Rollout(records=(made.model_copy(update={"plan": PLAN}),))


@pytest.mark.parametrize("shadow", [{}, {"shadow": 20}])
def test_plans_without_a_shadow_stage_or_a_judge_keep_their_bytes(shadow: dict) -> None:
    """A log is read by its seals: a field more in old records would be an alteration."""
    plan = {"steps": [5, 100], "minimum": 1, "margins": {"latency": 0.05}, "latency_limit_s": 1.0}
    plan |= {"waive_incumbent": False, "made_by": "", **shadow}
    assert RolloutPlan.model_validate(plan).model_dump(mode="json") == plan


def evidence(kind: str = "thumbs", in_stage: int = 200, least: float = -0.5, most: float = 0.5) -> Evidence:
    return Evidence(
        kind=kind,
        candidate=in_stage,
        incumbent=1000,
        in_stage=in_stage,
        candidate_good=0.8,
        incumbent_good=0.8,
        least=least,
        most=most,
        margin=0.05,
    )


SHOWN = {"least": -0.04, "most": 0.03}


@pytest.mark.parametrize(
    ("weight", "thumbs", "latency", "action", "reason"),
    [
        (5, {"in_stage": 199}, {}, "wait", "outcomes of the candidate at 5 %: thumbs: 199 of 200"),
        (5, {}, {}, "advance", "at least 200 outcomes at 5 %"),
        (5, SHOWN, SHOWN, "advance", "at least 200 outcomes"),
        # It goes at once, also before it has the minimum, and whatever the other kind says.
        (5, {"in_stage": 40, "most": -0.01}, SHOWN, "roll_back", "significantly worse than the incumbent: thumbs:"),
        (25, SHOWN, {"most": -0.01}, "roll_back", "latency: 0.800 good"),
        (25, SHOWN, {}, "wait", "not yet proved to be within the margin: latency"),
        (25, {**SHOWN, "least": -0.05}, SHOWN, "wait", "not yet proved"),
        (25, SHOWN, {**SHOWN, "in_stage": 3}, "wait", "latency: 3 of 200"),
        (25, SHOWN, SHOWN, "complete", "the difference is within -0.040 and +0.030"),
    ],
)
def test_evidence_decides(weight: int, thumbs: dict, latency: dict, action: str, reason: str) -> None:
    seen = [evidence(**thumbs), evidence("latency", **latency)]
    found = decide(rollout(weight), seen, Situation(production=INCUMBENT.address))
    assert found.action == action
    assert reason in found.reason


@pytest.mark.parametrize(
    ("production", "obstacle", "action", "reason"),
    [
        (CANDIDATE.address, "", "completed", "the candidate is in production"),
        (
            "acme/adapter/other",
            "",
            "cancel",
            "in the meantime: it now has acme/adapter/other",
        ),
        ("", "", "cancel", "it now has no adapter"),
        (INCUMBENT.address, "the candidate was archived", "roll_back", "the candidate was archived"),
    ],
)
def test_what_happens_beside_it_comes_before_evidence(production: str, obstacle: str, action: str, reason: str) -> None:
    found = decide(rollout(25), [evidence(**SHOWN)], Situation(production=production, obstacle=obstacle))
    assert found.action == action
    assert reason in found.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": [100]},
        {"steps": [5, 25]},
        {"steps": [25, 5, 100]},
        {"steps": [0, 100]},
        {"minimum": 0},
        {"margins": {}},
        {"margins": {"thumbs": 0.0}},
        {"margins": {"thumbs": 0.05}},
        {"latency_limit_s": None},
        {"latency_limit_s": 0.0},
    ],
)
def test_a_plan_that_means_nothing_is_refused(changes: dict) -> None:
    with pytest.raises(ValidationError):
        RolloutPlan.model_validate({**PLAN.model_dump(), **changes})


OUTCOMES = st.lists(st.tuples(st.sampled_from(("candidate", "incumbent")), st.floats(0, 1)), max_size=60)


@pytest.mark.parametrize(
    ("kind", "value", "is_good"),
    [
        ("thumbs", 1.0, 1.0),
        ("judge", 0.7, 0.7),
        ("latency", 2.0, 1.0),
        ("latency", 2.1, 0.0),
        ("refusal", 1.0, 0.0),
        ("format", 1.0, 1.0),
    ],
)
def test_each_kind_says_what_is_good(kind: str, value: float, is_good: float) -> None:
    assert good(outcome(CANDIDATE, value, BEGIN, kind=kind), 2.0) == is_good


def test_a_candidate_is_compared_block_by_block_with_what_came_meanwhile() -> None:
    seen = [("candidate", 1), ("incumbent", 0), ("incumbent", 1), ("candidate", 0), ("candidate", 1), ("incumbent", 1)]
    assert differences(seen) == [1, -1, 0]
    assert differences([*[("incumbent", 1.0)] * 30, *[("incumbent", 0.0)] * 10, ("candidate", 1.0)]) == [0.25]
    good_hour = [*[("incumbent", 1.0)] * 99, ("candidate", 1.0)] * 2
    bad_hour = [*[("incumbent", 0.0)] * 3, ("candidate", 0.0)] * 40
    assert set(differences([*good_hour, *bad_hour])) == {0.0}


@given(OUTCOMES, st.randoms(use_true_random=False))
def test_where_a_block_ends_depends_on_whose_outcomes_come_and_not_on_what_they_say(outcomes, random) -> None:
    changed = [(arm, random.random()) for arm, _ in outcomes]
    found = differences(outcomes)
    assert len(found) == len(differences(changed))
    assert all(-1 <= each <= 1 for each in found)


def test_evidence_tells_worse_from_as_good_from_open_and_without_outcomes_shows_nothing() -> None:
    margins = {"thumbs": 0.1}

    def of(good: tuple[float, float], n: int):
        seen = traffic(CANDIDATE, INCUMBENT, good=good, n=n, begin=BEGIN)
        arms = [("candidate" if each.model.endswith("c" * 16) else "incumbent", each) for each in seen]
        return weigh(arms, margins=margins, latency_limit_s=None, stage_at=(BEGIN + timedelta(seconds=5)).isoformat())[
            0
        ]

    worse, same, early = of((0.6, 0.9), 200), of((0.9, 0.9), 200), of((0.6, 0.9), 10)
    assert worse.worse
    assert not worse.as_good
    assert same.as_good
    assert not same.worse
    assert not early.worse
    assert not early.as_good
    assert (early.candidate, early.incumbent, early.in_stage) == (10, 10, 5)
    assert early.sentence.startswith("thumbs: 0.600 good of 10, incumbent 0.900 of 10; the difference is within -0.")
    (found,) = weigh([], margins={"judge": 0.05}, latency_limit_s=None, stage_at="")
    assert not found.worse
    assert not found.as_good
    assert found.sentence == "judge: 0 outcomes of the candidate, 0 of the incumbent"


DIFFERENCES = st.lists(st.floats(-1, 1), min_size=1, max_size=60)


def test_capital_is_what_bets_make_by_hand_and_nothing_is_shown_by_nothing() -> None:
    assert np.exp(log_capital([1.0, -0.5], 0.0, stakes=(0.5,))) == pytest.approx([1.5, 1.125])
    # Against a mean of at most 0.6 a difference of 1 pays 1.25 for 1.
    assert np.exp(log_capital([1.0], 0.6, stakes=(0.5,))) == pytest.approx([1.125])
    assert (lower_bound([], ERROR), upper_bound([], ERROR)) == (-1.0, 1.0)
    assert not exceeds([], 0.0, ERROR)
    assert upper_bound([-1.0] * 40, ERROR) < -0.5
    assert upper_bound([-1.0] * 5, ERROR) > 0
    assert lower_bound([0.0] * 400, ERROR) > -0.05


@given(DIFFERENCES, st.floats(-1, 1))
def test_bounds_never_widen_and_enclose_each_other(differences: list[float], more: float) -> None:
    low, high = lower_bound(differences, ERROR), upper_bound(differences, ERROR)
    longer = [*differences, more]
    # A look costs nothing: what was shown stays shown.
    assert lower_bound(longer, ERROR) >= low - 1e-3
    assert upper_bound(longer, ERROR) <= high + 1e-3
    assert lower_bound([-each for each in differences], ERROR) == -high
    assert lower_bound(differences, ERROR / 5) <= low


@given(DIFFERENCES, st.floats(-0.9, 0.8), st.floats(0.01, 0.1))
def test_capital_falls_with_the_claim_it_is_won_against(differences: list[float], claim: float, more: float) -> None:
    assert np.all(log_capital(differences, claim) >= log_capital(differences, claim + more) - 1e-9)


@pytest.mark.statistics
@pytest.mark.parametrize("rate", [0.5, *(pytest.param(each, marks=pytest.mark.long) for each in (0.02, 0.9))])
def test_a_true_mean_is_left_out_by_fewer_than_the_error_over_all_looks(rate: float) -> None:
    generator = np.random.default_rng(11)
    pairs = generator.random((2, 2_000, 1_500)) < rate
    capital = log_capital(pairs[0].astype(float) - pairs[1], 0.0)
    assert (capital.max(axis=1) >= -np.log(ERROR)).mean() <= ERROR
    # A test that is made for one look errs several times as often when it is repeated.
    differences = pairs[0].astype(float) - pairs[1]
    counts = np.arange(1, 1_501)
    means, squares = np.cumsum(differences, axis=1) / counts, np.cumsum(differences**2, axis=1) / counts
    errors = np.sqrt(np.maximum(squares - means**2, 1e-12) / counts)
    assert ((means / errors)[:, 100:] > 1.645).any(axis=1).mean() > 3 * ERROR


@pytest.mark.statistics
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("share", [0.9, pytest.param(0.5, marks=pytest.mark.long)])
def test_of_many_rollouts_few_end_wrongly_also_with_copies_first(share: float, copies: bool) -> None:
    """Copies and users' answers may both take a candidate back: together they err no more often than one alone may."""
    many = {"times": 400, "horizon": 3_000}
    same = simulate(share, share, **many, **({"shadow": 2_000} if copies else {}))
    worse = simulate(share - 0.1, share, **many, **({"shadow": 200} if copies else {}))
    assert same.in_shadow <= same.rolled_back <= ERROR
    assert same.completed >= 0.9
    assert worse.completed <= ERROR
    assert worse.rolled_back >= 0.95
    # Two hundred pairs find some of them before any user had one.
    assert not copies or worse.in_shadow >= 0.1


def ended(generator: np.random.Generator, good: tuple[float, float], drift: float = 0.0) -> str:
    """How a rollout ends whose requests are drawn one by one; both adapters lose ``drift`` at the second weight."""
    seen = []
    stage: Rollout = rollout(5)
    plan = PLAN.model_copy(update={"steps": [5, 25, 100], "margins": {"thumbs": 0.1}, "minimum": 100})
    number, began = 0, 0
    while number < 12_000:
        for _ in range(400 if stage.last.weight == 25 else 1000):
            arm = "candidate" if generator.random() < stage.last.weight / 100 else "incumbent"
            rate = good[arm == "incumbent"] - (drift if stage.last.weight == 25 else 0.0)
            # As of one moment: what counts for the stage is passed by hand below.
            made = outcome(CANDIDATE if arm == "candidate" else INCUMBENT, float(generator.random() < rate), BEGIN)
            seen.append((arm, made))
            number += 1
        found = weigh(seen, margins=plan.margins, latency_limit_s=None, stage_at="")
        in_stage = found[0].candidate - began
        evidence = [found[0].model_copy(update={"in_stage": in_stage})]
        last = stage.last.model_copy(update={"plan": plan})
        verdict = decide(Rollout(records=(last,)), evidence, Situation(production=INCUMBENT.address))
        if verdict.action == "advance":
            stage, began = rollout(25), found[0].candidate
        elif verdict.action != "wait":
            return verdict.action
    return "wait"


@pytest.mark.statistics
@pytest.mark.parametrize("times", [8, pytest.param(40, marks=pytest.mark.long)])
@pytest.mark.parametrize("drift", [0.0, 0.4])
def test_the_rules_themselves_decide_rightly_also_when_a_bad_hour_comes_with_the_higher_weight(drift, times) -> None:
    generator = np.random.default_rng(5)
    good = [ended(generator, (0.85, 0.85), drift) for _ in range(times)]
    bad = [ended(generator, (0.7, 0.85), drift) for _ in range(times)]
    assert good.count("roll_back") <= times / 10
    assert good.count("complete") >= 0.85 * times
    assert bad.count("complete") <= times / 10
    assert bad.count("roll_back") >= 0.9 * times


USERS = st.text(max_size=30)
PERCENT = st.integers(1, 99)


def split(candidate: str, weight: int) -> list[tuple[str, int]]:
    return [(candidate, weight), ("incumbent", 100 - weight)]


@given(USERS, PERCENT, PERCENT)
def test_raising_the_weight_never_takes_the_candidate_from_a_user(user: str, one: int, other: int) -> None:
    low, high = sorted((one, other))
    if choose(split("candidate", low), user) == "candidate":
        assert choose(split("candidate", high), user) == "candidate"


@given(USERS, PERCENT)
def test_a_user_is_answered_by_the_same_adapter_each_time(user: str, weight: int) -> None:
    assert choose(split("candidate", weight), user) == choose(split("candidate", weight), user)


@given(USERS)
def test_without_a_rollout_everybody_has_production(user: str) -> None:
    assert choose([("production", 100)], user) == "production"
    assert choose(split("candidate", 0), user) == "incumbent"


@pytest.mark.parametrize("weight", [1, 5, 25, 50])
def test_the_candidate_has_its_share_of_users(weight: int) -> None:
    chosen = [choose(split("candidate", weight), f"user {number}") for number in range(20_000)]
    assert chosen.count("candidate") / len(chosen) == pytest.approx(weight / 100, abs=0.01)


def test_another_candidate_is_tried_on_other_users() -> None:
    users = [f"user {number}" for number in range(10_000)]
    first = {user for user in users if choose(split("first", 10), user) == "first"}
    second = {user for user in users if choose(split("second", 10), user) == "second"}
    assert len(first & second) / len(first) < 0.15
