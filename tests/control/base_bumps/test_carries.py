"""Carried pairs, and the plan of a base bump over every way its dependents can stand."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.api import present
from ft_assets.control import identity
from ft_assets.control.base_bumps.bump import Dependent
from ft_assets.control.base_bumps.plan import ENDS, Progress, Standing, Step, plan_bump
from ft_assets.control.registry.register import register_locked
from ft_assets.graph.assets.checkpoints import checkpoint
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.partitions import pair_key
from ft_assets.records.carries import Carry, find_carry, record_carry
from ft_assets.records.submissions import Submission
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings import tags
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.adapters.carried_checkpoint import make_carried
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_resources.artifacts import Address, Artifact, InputRef
from ft_resources.attempts import attempts_at
from ft_resources.canonical import digest
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import CorruptArtifact, MissingInput, UserError
from ft_resources.store_marker import open_store
from tests.control.lines.promotable import add_dataset
from tests.made import leave, submitted
from tests.workers.evals.world import SOURCE, World, lora_files

DATASET, OLD, NEW = "acme.things.v1", "tiny.v1", "tiny.v2"
CONFIG = {"model_type": "llama", "hidden_size": 32}
FACTS = {"tokenizer_digest": "t", "template_digest": "c", "parameters": 1000, "architecture": "LlamaForCausalLM"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An adapter on the base of tiny.v1, and tiny.v2, whose base moved; nothing of the pair is there but its base."""
    world = World(store=open_store(str(tmp_path / "store"), create=True), folder=tmp_path)
    for key in (OLD, NEW):
        recipe = Recipe.model_validate({"key": key, "base": "hub:acme/tiny@main"})
        lock = BaseLock(kind="hub", source=SOURCE, revision=f"commit of {key}", digest=digest(key), files={})
        register_locked(world.store, recipe, lock, actor="ann")
    world.store.create_json(f"names/successor/{OLD}/c.json", {"successor": NEW, "from": "a", "to": "c", "actor": "s"})
    add_dataset(world, DATASET)
    base(world, OLD)
    return world


def base(world: World, recipe: str, config: dict[str, Any] | None = None, **facts: Any) -> Artifact:
    request = identity.base_model_request(world.artifacts, recipe)
    files = {"config.json": json.dumps(config or CONFIG).encode()}
    pin = {"source": SOURCE, "revision": f"commit of {recipe}"}
    return leave(world.artifacts, request, files, {**FACTS, **pin, **facts})


def accepted(world: World, files: dict[str, bytes] | None = None) -> Carry:
    """The pair's carry from an adapter on the old base."""
    pack = world.publish("token_pack", {"tokens.bin": b"12"})
    inputs = {"pack": pack, "base": world.artifacts.get(identity.base_model_request(world.artifacts, OLD).address)}
    files = files or {f"final/{name}": data for name, data in lora_files(0.1).items()}
    trained = world.publish("checkpoint", {**files, "recipe.json": b"{}"}, inputs=inputs, facts={"steps": 8})
    params = {"dataset": DATASET, "recipe": OLD}
    adapter = world.publish("adapter", {"README.md": b"-"}, inputs={"checkpoint": trained}, params=params)
    carry = Carry(
        dataset=DATASET, recipe=NEW, adapter=adapter.ref, checkpoint=trained.ref, actor="sensor", at="2026-01-01"
    )
    record_carry(world.store, carry)
    return carry


def ask(world: World, mode: Any = "carry", key: str = "base-bump") -> Submission:
    return submitted(world.store, DATASET, NEW, key=key, actor="sensor", origin="sensor", mode=mode)


def test_a_carried_pairs_checkpoint_has_the_old_weights_and_names_the_new_base(world: World) -> None:
    carry, after = accepted(world), base(world, NEW)
    request = identity.checkpoint_request(world.artifacts, DATASET, NEW)
    made = make_carried(world.artifacts, request, actor="ann")
    assert identity.checkpoint(world.artifacts, DATASET, NEW).ref == made.ref
    assert make_carried(world.artifacts, request, actor="bob").manifest == made.manifest
    source = world.artifacts.get(Address.parse(carry.checkpoint.address))
    changed = {name for name in source.manifest.files if made.read(name) != source.read(name)}
    assert changed == {"final/adapter_config.json"}
    config = json.loads(made.read("final/adapter_config.json"))
    assert (config["base_model_name_or_path"], config["revision"]) == (SOURCE, after.facts["revision"])
    assert made.facts == {"steps": 8, "carried_from": str(source.address)}
    assert made.manifest.inputs == {
        "carried_from": source.ref,
        "pack": source.manifest.inputs["pack"],
        "base": after.ref,
    }


def test_a_training_ends_the_carry_for_good_and_gets_its_own_address(world: World) -> None:
    carry = accepted(world)
    base(world, NEW)
    asked = ask(world)
    carried = identity.checkpoint_request(world.artifacts, DATASET, NEW).address
    assert identity.carry_problem(world.artifacts, DATASET, NEW) == ""
    ask(world, "train", "ask-1")
    assert find_carry(world.store, DATASET, NEW) is None
    # The walk now goes over the pair's own pack, which nobody made.
    with pytest.raises(MissingInput):
        identity.checkpoint_request(world.artifacts, DATASET, NEW)
    assert carried.asset == "checkpoint"
    assert "a training of the pair was requested" in identity.carry_problem(world.artifacts, DATASET, NEW)
    record_carry(world.store, carry)
    assert find_carry(world.store, DATASET, NEW) is None
    with pytest.raises(UserError, match="has no carry"):
        ask(world, "carry", "again")
    assert asked.id != ask(world, "train", "base-bump").id


def test_a_training_asked_for_before_the_carry_is_not_undone_by_it(world: World) -> None:
    ask(world, "train", "ask-1")
    accepted(world)
    assert find_carry(world.store, DATASET, NEW) is None


def test_a_carry_that_leads_to_another_tenant_is_refused(world: World) -> None:
    theirs = world.publish("checkpoint", {"final/adapter_config.json": b"{}"}, tenant="rival")
    ours = accepted(world)
    path = f"acme/carries/{DATASET}/{NEW}/carry.json"
    world.store.put_json(path, {**ours.model_dump(mode="json"), "checkpoint": theirs.ref.model_dump(mode="json")})
    with pytest.raises(CorruptArtifact, match="carried from cannot be read"):
        find_carry(world.store, DATASET, NEW)


@pytest.mark.parametrize(
    ("files", "changes", "said"),
    [
        (None, {"tokenizer_digest": "u"}, "another tokenizer"),
        (None, {"template_digest": "d"}, "another chat template"),
        (None, {"parameters": 2000}, "other shapes"),
        (None, {"architecture": "MistralForCausalLM"}, "other shapes"),
        ({"final/model.safetensors": b"weights"}, {}, "a fully trained model"),
    ],
)
def test_only_an_adapter_is_carried_and_only_to_a_base_of_equal_shapes_tokenizer_and_template(
    world, files, changes, said
) -> None:
    accepted(world, files)
    base(world, NEW, **changes)
    assert said in identity.carry_problem(world.artifacts, DATASET, NEW)


def test_a_carry_that_cannot_be_ends_with_the_reason_before_anything_runs(world, monkeypatch) -> None:
    monkeypatch.setattr("ft_assets.control.identity.approved_dataset", lambda *_: None)
    monkeypatch.setattr("ft_assets.control.identity.baseline_report", lambda *_: None)
    carry = accepted(world)
    base(world, NEW)
    asked = ask(world)
    assert present(asked, store=world.store).problem == ""
    delete(world.store, Subject(kind="adapter", name=carry.adapter.address), actor="ann", reason="contract ended")
    assert "deleted by ann" in present(asked, store=world.store).problem


def materialize(world: World, asked: Submission) -> dg.ExecuteInProcessResult:
    """The checkpoint of the pair in a run of the submission, as Dagster executes it."""
    instance = dg.DagsterInstance.ephemeral()
    list_keys(instance, dataset=DATASET, recipe=NEW)
    resources = {"store": StoreResource(url=world.store.url), "launcher": LauncherResource()}
    definitions = dg.Definitions(assets=[checkpoint], resources=resources)
    return definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        partition_key=pair_key(DATASET, NEW),
        raise_on_error=False,
        tags={tags.SUBMISSION: asked.id, tags.TENANT: "acme", tags.ACTOR: "the-ceo"},
    )


def test_a_run_that_carries_starts_no_worker_and_never_trains(world: World) -> None:
    accepted(world)
    base(world, NEW)
    asked = ask(world)
    address = identity.checkpoint_request(world.artifacts, DATASET, NEW).address
    assert materialize(world, asked).success
    assert world.artifacts.get(address).manifest.actor == asked.actor
    assert attempts_at(world.store, address) == []
    ask(world, "train", "ask-1")
    failed = materialize(world, asked)
    assert not failed.success
    errors = [event.step_failure_data.error for event in failed.all_events if event.is_step_failure]
    assert "a training of the pair was requested" in str(errors)


def dependent(number: int) -> Dependent:
    ref = InputRef(address=f"acme/adapter/{number}", digest=digest(number))
    return Dependent(dataset=f"acme.d{number}.v1", recipe="tiny.v1", adapter=ref, checkpoint=ref)


def standing(number: int, **changes: object) -> Standing:
    return Standing(dependent=dependent(number), **changes)  # type: ignore[arg-type]


progress = st.sampled_from(Progress)
many = st.lists(
    st.builds(dict, carriable=st.booleans(), carry=progress, training=progress, deleted=st.booleans()), max_size=12
).map(lambda drawn: [standing(number, **each) for number, each in enumerate(drawn)])
limits = st.integers(0, 6)


@given(many, limits, limits)
def test_no_limit_is_passed_and_nothing_is_submitted_twice(standings: list[Standing], free: int, budget: int) -> None:
    plan = plan_bump(standings, most_open=free, budget=budget)
    carrying = sum(each.step is Step.CARRYING for each in standings)
    assert len(plan.carry) <= max(0, free - carrying)
    assert len(plan.retrain) <= budget
    submitted = [*plan.carry, *plan.retrain]
    assert len(submitted) == len({each.dataset for each in submitted})
    asked = {each.dependent.dataset: each for each in standings}
    for each in plan.carry:
        assert asked[each.dataset].carry is asked[each.dataset].training is Progress.NONE
    for each in submitted:
        assert not asked[each.dataset].deleted
        assert asked[each.dataset].training is Progress.NONE
        assert Progress.PASSED not in (asked[each.dataset].carry, asked[each.dataset].training)


@given(many, limits, limits, st.randoms())
def test_the_order_does_not_count(standings: list[Standing], free: int, budget: int, chance: random.Random) -> None:
    mixed = list(standings)
    chance.shuffle(mixed)
    assert plan_bump(mixed, most_open=free, budget=budget) == plan_bump(standings, most_open=free, budget=budget)


@given(many, st.integers(1, 6), st.integers(1, 6), st.randoms())
def test_every_bump_ends_within_its_limits_and_a_repeated_tick_submits_nothing(standings, free, budget, chance) -> None:
    state = {each.dependent.dataset: each for each in standings}
    for _ in range(200):
        plan = plan_bump(state.values(), most_open=free, budget=budget)
        if plan.over:
            break
        for each in plan.carry:
            state[each.dataset] = replace(state[each.dataset], carry=Progress.OPEN)
        for each in plan.retrain:
            state[each.dataset] = replace(state[each.dataset], training=Progress.OPEN)
        again = plan_bump(state.values(), most_open=free, budget=0)
        assert not again.carry
        assert not again.retrain
        for key, now in state.items():
            how = chance.choice([Progress.PASSED, Progress.FAILED, Progress.CANCELLED])
            if now.step is Step.CARRYING:
                state[key] = replace(now, carry=how)
            elif now.step is Step.RETRAINING:
                state[key] = replace(now, training=how)
    assert plan.over
    assert all(each.step in ENDS for each in state.values())


def test_of_300_dependents_that_all_fail_no_more_are_trained_than_the_budget() -> None:
    standings = [standing(number, carry=Progress.FAILED) for number in range(300)]
    plan = plan_bump(standings, most_open=25, budget=20)
    assert (len(plan.carry), len(plan.retrain), plan.held, plan.over) == (0, 20, 280, False)
    fresh = plan_bump([standing(number) for number in range(300)], most_open=25, budget=20)
    assert (len(fresh.carry), len(fresh.retrain)) == (25, 0)


def test_full_models_are_retrained_and_what_was_deleted_or_cancelled_is_not_waited_for() -> None:
    plan = plan_bump([standing(1, carriable=False)], most_open=25, budget=20)
    assert (plan.carry, len(plan.retrain)) == ((), 1)
    found = [standing(1, deleted=True, carry=Progress.OPEN), standing(2, carry=Progress.CANCELLED)]
    assert [each.step for each in found] == [Step.LEFT_OUT, Step.CANCELLED]
    assert plan_bump(found, most_open=25, budget=20).over
    assert plan_bump([], most_open=25, budget=20).over
