"""Rollouts that begin by themselves, and ends that the line's settings leave to a person."""

from logging import getLogger

import pytest

from ft_assets.control.rollouts.automatic import start_automatic
from ft_assets.control.rollouts.rollouts import RolloutRecord
from ft_assets.settings.rollout_settings import RolloutSettings
from ft_assets.settings.tenants import LineSettings, Tenant, TenantsFile
from ft_resources.errors import UserError
from tests.control.lines.promotable import LINE, SERVED
from tests.control.rollouts.made import BEGIN, HOUR, Rolled


def settings(**values: object) -> TenantsFile:
    plan = {"automatic": True, "steps": (5, 100), "minimum": 50, "outcomes": ("thumbs",), "margins": {"thumbs": 0.2}}
    tenant, _, name = LINE.partition(".")
    line = LineSettings(rollouts=RolloutSettings.model_validate({**plan, **values}))
    return SERVED.model_copy(update={"tenants": {tenant: Tenant(lines={name: line})}})


def begin(rolled: Rolled, tenants: TenantsFile | None = None) -> RolloutRecord | None:
    return start_automatic(rolled.artifacts, LINE, tenants=tenants or settings(), log=getLogger(), now=BEGIN)


def test_what_comes_to_staging_is_rolled_out_once_against_what_is_in_production(rolled: Rolled) -> None:
    assert begin(rolled) is None
    rolled.promote(rolled.candidate, "staging", "it gained 8 %")
    found = begin(rolled)
    assert (found.candidate, found.incumbent, found.weight) == (rolled.candidate.ref, rolled.incumbent.ref, 5)
    assert (found.actor, found.plan.minimum) == ("auto", 50)
    assert found.reason.endswith(": it gained 8 %")
    assert begin(rolled) is None
    rolled.serve(400, good=(0.2, 0.9), begin=BEGIN, server="one")
    assert rolled.kinds == ["started"]
    done = rolled.conduct(BEGIN + HOUR, settings())
    assert done.record is not None
    assert done.record.kind == "rolled_back"
    assert begin(rolled) is None
    third = rolled.line.adapter(3)
    rolled.promote(third, "staging", "it gained 8 %")
    again = begin(rolled)
    assert again.candidate == third.ref


def test_a_check_of_promotions_refuses_it(rolled: Rolled) -> None:
    rolled.promote(rolled.candidate, "staging", "it gained 8 %")
    nowhere = settings().model_copy(update={"served_bases": ()})
    with pytest.raises(UserError, match="served"):
        begin(rolled, nowhere)
    assert begin(rolled) is not None


def test_a_lines_settings_may_leave_the_last_step_to_a_person(rolled: Rolled) -> None:
    rolled.promote(rolled.candidate, "staging", "it gained 8 %")
    by_hand = settings(completes=False)
    assert begin(rolled, by_hand) is not None
    rolled.serve(600, good=(0.9, 0.9), begin=BEGIN, server="one")
    waits = rolled.conduct(BEGIN + HOUR, by_hand)
    assert waits.record is None
    assert "leave to a person" in waits.said
    assert rolled.weights == {"candidate": 5, "incumbent": 95}
    rolled.promote(rolled.candidate)
    assert rolled.weights == {"candidate": 100}


def test_only_lines_whose_settings_say_so_are_looked_at() -> None:
    assert settings().lines_with_automatic_rollouts() == [LINE]
    assert settings(automatic=False).lines_with_automatic_rollouts() == []
    with pytest.raises(ValueError, match="thumbs"):
        RolloutSettings.model_validate({"outcomes": ["smiles"]})
