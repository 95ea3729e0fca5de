"""The quarantine record, and whose past runs it may speak of."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ft_assets.control.rejections.past import past_runs
from ft_assets.control.rejections.record import FOLDER, find_rejection, quarantine, record_path
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.workers.evals.verdicts import judge_candidate
from ft_resources.artifacts import Address, Artifact
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact
from ft_resources.work import WorkRequest
from tests.control.lines.promotable import add_recipe
from tests.workers.evals.results import SUITE, flips, losses, make_results
from tests.workers.evals.world import World

STEPS = "".join(
    json.dumps(
        {"step": step, "loss": 3.0 / step, **({"validation_loss": abs(step - 20) / 10 + 1} if step % 10 == 0 else {})}
    )
    + "\n"
    for step in range(1, 61)
)
TRAINED = {
    "method": "sft",
    "variant": "lora",
    "lora": {"rank": 16, "alpha": 32},
    "training": {"learning_rate": 0.002, "epochs": 3},
}
WORSE = {"correct": flips(0.4, 0.3, 400), "losses": losses(400, fall=-0.5)}


def made_adapter(
    world: World,
    *,
    tenant: str = "acme",
    dataset: str = "acme.things.v2",
    base: bytes = b"{}",
    gates: dict[str, Any] | None = None,
    **training: Any,
) -> Artifact:
    """An accepted adapter with the settings of its training."""
    told = {**TRAINED, "training": {**TRAINED["training"], **training}}  # type: ignore[dict-item]
    checkpoint = world.publish(
        "checkpoint", {"recipe.json": canonical_json(told)}, tenant=tenant, params={"for": dataset, **training}
    )
    params = {
        "line": f"{tenant}.things.tiny",
        "dataset": dataset,
        "recipe": "tiny.v1",
        "gates": GateSettings.model_validate(gates or {}).model_dump(mode="json"),
        "suites": [SUITE],
    }
    of = {} if base == b"{}" else {"params": {"source": "another"}}
    model = world.publish("base_model", {"config.json": base}, tenant="shared", **of)
    inputs = {"checkpoint": checkpoint, "base": model}
    return world.publish("adapter", {"README.md": b"#"}, tenant=tenant, inputs=inputs, params=params)


def rejected(world: World) -> WorkRequest:
    """A candidate that overfitted and got worse."""
    add_recipe(world.store, "tiny.v1")
    base = world.publish("base_model", {"config.json": b"{}"}, tenant="shared")
    files = {"recipe.json": canonical_json(TRAINED), "report/steps.jsonl": STEPS.encode()}
    checkpoint = world.publish("checkpoint", files, inputs={"base": base})
    return world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint, make_results(**WORSE)))


def test_a_rejected_candidate_is_recorded_once_with_words_numbers_and_what_to_try(world: World) -> None:
    request = rejected(world)
    verdicts = judge_candidate(world.artifacts, request.inputs, request.params)
    record = quarantine(world.artifacts, request, verdicts, actor="ann")
    assert record.checkpoint == request.inputs["checkpoint"]
    (gain,) = [verdict for verdict in record.verdicts if verdict.gate == "task_gain"]
    assert gain.outcome == "fail"
    assert gain.numbers["exact_match"]["candidate"] == pytest.approx(0.3)
    assert record.suggestions[0].startswith("stop at step 20 (training.max_steps: 20): it overfits from step 20")
    assert record.tried_next[0].change == {"training.max_steps": 20}
    made_adapter(world, learning_rate=0.0002)
    again = quarantine(world.artifacts, request, verdicts, actor="bob")
    assert again == record, "the first word stands, whatever passed since"
    path = record_path(request, verdicts)
    assert path.startswith(f"acme/{FOLDER}/{request.address.fingerprint}/")
    assert [entry.path for entry in world.store.entries(f"acme/{FOLDER}")] == [path]
    assert find_rejection(world.store, request, verdicts) == record
    # The candidate stays, and there is no adapter of it.
    assert world.artifacts.find(request.address) is None
    world.store.put(path, b'{"version": 1}')
    with pytest.raises(CorruptArtifact, match="record of a rejection"):
        find_rejection(world.store, request, verdicts)


def test_who_passes_leaves_no_record(world: World) -> None:
    base = world.publish("base_model", {"config.json": b"{}"}, tenant="shared")
    checkpoint = world.checkpoint(base)
    request = world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint))
    verdicts = judge_candidate(world.artifacts, request.inputs, request.params)
    assert quarantine(world.artifacts, request, verdicts, actor="ann") is None
    assert not list(world.store.entries(f"acme/{FOLDER}"))


def test_a_run_of_the_same_tenant_that_passed_is_an_example_and_nobody_elses_is(world: World) -> None:
    request = rejected(world)
    made_adapter(world, tenant="rival", dataset="rival.secrets.v7", learning_rate=0.0007)
    verdicts = judge_candidate(world.artifacts, request.inputs, request.params)
    record = quarantine(world.artifacts, request, verdicts, actor="ann")
    text = record.model_dump_json()
    assert "rival" not in text
    assert "0.0007" not in text
    own = made_adapter(world, learning_rate=0.0003, epochs=1)
    (run,) = past_runs(world.artifacts, "acme")
    assert (run.adapter, run.settings["training.learning_rate"]) == (str(own.address), 0.0003)
    stricter = replace(request, params={**request.params, "chat_template": "x"})
    record = quarantine(world.artifacts, stricter, verdicts, actor="ann")
    last = record.tried_next[-1]
    assert last.change == {"training.learning_rate": 0.0003, "training.epochs": 1}
    assert last.why == "tiny.v1 of this line passed with acme.things.v2"


@pytest.mark.parametrize(
    "other",
    [
        {"dataset": "acme.letters.v1"},
        {"base": b'{"model_type": "gpt2"}'},
        {"gates": {"benchmark_regression": {"max_drop_points": 50.0}}},
    ],
)
def test_a_run_on_other_data_another_base_or_under_other_gates_is_no_example(world, other) -> None:
    request = rejected(world)
    made_adapter(world, learning_rate=0.0003, **other)
    verdicts = judge_candidate(world.artifacts, request.inputs, request.params)
    record = quarantine(world.artifacts, request, verdicts, actor="ann")
    assert "0.0003" not in record.model_dump_json()


def test_an_adapter_whose_checkpoint_lies_with_another_tenant_is_no_example(world: World) -> None:
    checkpoint = world.publish("checkpoint", {"recipe.json": canonical_json(TRAINED)}, tenant="rival")
    params = {"line": "acme.things.tiny", "dataset": "acme.things.v2", "recipe": "tiny.v1"}
    world.publish("adapter", {"README.md": b"#"}, inputs={"checkpoint": checkpoint}, params=params)
    assert past_runs(world.artifacts, "acme") == []


def test_damaged_curves_and_settings_give_fewer_suggestions_and_no_error(world: World) -> None:
    request = rejected(world)
    verdicts = judge_candidate(world.artifacts, request.inputs, request.params)
    checkpoint = world.artifacts.get(Address.parse(request.inputs["checkpoint"].address))
    for name in ("recipe.json", "report/steps.jsonl"):
        world.store.put(checkpoint.location(name), b"{")
    record = quarantine(world.artifacts, request, verdicts, actor="ann")
    assert not any("overfits" in sentence for sentence in record.suggestions)
