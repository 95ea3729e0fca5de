"""What a tier may train with, and what nobody may any more, told at submission."""

from pathlib import Path

import pytest

from ft_assets.control.recipes.allowed import NotAllowed
from ft_assets.control.submissions.submit import submit
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.tenants import load_tenants
from ft_resources.errors import BadRecipe
from tests.control.submissions.estimate_world import DATASET, Tenants, World


def ask(world: World, recipe: str, key: str = "k") -> None:
    submit(world.store, load_tenants(), dataset=DATASET, recipe=recipe, actor="ann", origin="cli", idempotency_key=key)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("deprecated_methods: [sft/lora]", "sft/lora is deprecated"),
        ("deprecated_methods: [lora]", "sft/lora is deprecated"),
        ("tiers: {default: {allowed_methods: [dpo, full]}}", "allows dpo, full, and this recipe uses sft/lora"),
        ("tiers: {default: {allowed_methods: []}}", "allows nothing"),
        (
            "tiers: {default: {allowed_bases: ['hub:meta/llama']}}",
            "allows the bases hub:meta/llama, and this recipe uses",
        ),
    ],
)
def test_what_may_not_be_used_is_refused_and_nothing_is_recorded(
    world: World,
    tenants: Tenants,
    text: str,
    words: str,
) -> None:
    recipe = world.recipe()
    tenants(text)
    with pytest.raises(NotAllowed, match=words):
        ask(world, recipe)
    assert list(open_submissions(world.store)) == []


def test_what_was_asked_for_before_a_deprecation_goes_on(world: World, tenants: Tenants) -> None:
    recipe = world.recipe()
    tenants("{}")
    ask(world, recipe)
    tenants("deprecated_methods: [lora]")
    ask(world, recipe)  # The same wish joins what is under way.
    assert len(list(open_submissions(world.store))) == 1
    with pytest.raises(NotAllowed):
        ask(world, recipe, key="another")


def test_an_unknown_method_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tenants.yaml"
    path.write_text("deprecated_methods: [lorra]")
    with pytest.raises(BadRecipe, match="METHOD/VARIANT"):
        load_tenants(path)


def test_a_gpu_hour_quota_is_held_at_submission(world: World, tenants: Tenants) -> None:
    recipe = world.recipe()
    tenants("tenants: {acme: {quota: {hard_gpu_hours: 0.0001}}}")
    with pytest.raises(Exception, match=r"of acme's 0\.0001 a month 0\.00 are used and 0\.00 reserved"):
        ask(world, recipe)
    assert list(open_submissions(world.store)) == []
    tenants("tenants: {acme: {quota: {hard_gpu_hours: 500, soft_gpu_hours: 0}}}")
    ask(world, recipe)
    (found,) = open_submissions(world.store)
    assert "overage" in found.warnings[0]
