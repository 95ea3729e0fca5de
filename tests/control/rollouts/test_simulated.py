"""Simulated traffic that is looked at after every batch: how often a rollout is decided wrongly."""

import numpy as np
import pytest

from benchmarks.canary import simulate
from ft_assets.control.rollouts.decide import Situation, decide
from ft_assets.control.rollouts.evidence import ERROR, weigh
from ft_assets.control.rollouts.rollouts import Rollout
from tests.control.rollouts.made import BEGIN, outcome
from tests.control.rollouts.test_decide import CANDIDATE, INCUMBENT, PLAN, rollout

pytestmark = pytest.mark.statistics


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_of_many_rollouts_few_end_wrongly(share: float) -> None:
    same = simulate(share, share, times=400, horizon=3_000)
    worse = simulate(share - 0.1, share, times=400, horizon=3_000)
    assert same.rolled_back <= ERROR
    assert same.completed >= 0.9
    assert worse.completed <= ERROR
    assert worse.rolled_back >= 0.95


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_of_many_rollouts_with_copies_first_few_end_wrongly_as_a_whole(share: float) -> None:
    """Copies and users' answers may both take a candidate back: together they err no more often than one alone may."""
    same = simulate(share, share, times=400, horizon=3_000, shadow=2_000)
    worse = simulate(share - 0.1, share, times=400, horizon=3_000, shadow=200)
    assert same.in_shadow <= same.rolled_back <= ERROR
    assert same.completed >= 0.9
    assert worse.completed <= ERROR
    assert worse.rolled_back >= 0.95
    # Two hundred pairs find some of them before any user had one.
    assert worse.in_shadow >= 0.1


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


@pytest.mark.parametrize("drift", [0.0, 0.4])
def test_the_rules_themselves_decide_rightly_also_when_a_bad_hour_comes_with_the_higher_weight(drift: float) -> None:
    generator = np.random.default_rng(5)
    good = [ended(generator, (0.85, 0.85), drift) for _ in range(40)]
    bad = [ended(generator, (0.7, 0.85), drift) for _ in range(40)]
    assert good.count("roll_back") <= 4
    assert good.count("complete") >= 34
    assert bad.count("complete") <= 4
    assert bad.count("roll_back") >= 36
