"""What follows from a rollout's evidence."""

import pytest
from pydantic import ValidationError

from ft_assets.control.rollouts.decide import Situation, decide
from ft_assets.control.rollouts.evidence import Evidence
from ft_assets.control.rollouts.rollouts import Rollout, RolloutPlan, RolloutRecord
from ft_resources.artifacts import InputRef

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
    record = RolloutRecord(
        id="1",
        line="acme.things.tiny",
        seq=1,
        kind="started",
        rollout="1",
        candidate=CANDIDATE,
        incumbent=INCUMBENT,
        plan=PLAN,
        weight=weight,
        evidence=[],
        findings=[],
        actor="ann",
        reason="try it",
        at="2026-05-01T12:00:00+00:00",
        previous="",
    )
    return Rollout(records=(record,))


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
        (5, {}, {}, "advance", "200 outcomes or more at 5 %"),
        (5, SHOWN, SHOWN, "advance", "200 outcomes or more"),
        # It goes at once, also before it has the minimum, and whatever the other kind says.
        (5, {"in_stage": 40, "most": -0.01}, SHOWN, "roll_back", "shown to be worse than the incumbent: thumbs:"),
        (25, SHOWN, {"most": -0.01}, "roll_back", "latency: 0.800 good"),
        (25, SHOWN, {}, "wait", "not yet shown to be within its margin: latency"),
        (25, {**SHOWN, "least": -0.05}, SHOWN, "wait", "not yet shown"),
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
        (CANDIDATE.address, "", "completed", "the candidate stands in production"),
        ("acme/adapter/other", "", "cancel", "production changed meanwhile: now acme/adapter/other stands there"),
        ("", "", "cancel", "now nothing stands there"),
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
