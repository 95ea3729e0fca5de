"""Gates in real Dagster runs: eval_report, its checks and adapter over a store whose heavy work was done by hand."""

import json
from collections.abc import Mapping
from typing import Any

import dagster as dg
import pytest
import yaml

from ft_assets.api import next_launches, present
from ft_assets.control import identity
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import Decision, promote
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.control.rejections.record import RejectionRecord
from ft_assets.control.submissions.plan import RunState, Stage, Wanted
from ft_assets.control.submissions.status import State, status_of
from ft_assets.graph.assets.adapters import adapter
from ft_assets.graph.assets.evals import eval_report
from ft_assets.graph.checks.evals import eval_gates, partition_verdicts
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.partitions import pair_key
from ft_assets.records.submissions import open_submissions
from ft_assets.settings import tags
from ft_assets.settings.catalogue.gates import GATES
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.evals.gates import passed
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Artifact
from ft_resources.canonical import canonical_json
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import DoctorRefused, UserError
from tests.fake_base import make_fake_base
from tests.made import leave, submitted
from tests.workers.evals.results import SUITE, Results, flips, make_results
from tests.workers.evals.safety_world import write_safety_suite
from tests.workers.evals.world import World, lora_files, rows, suite_files

pytestmark = pytest.mark.dagster

DATASET = "acme.things.v1"
GOOD, BAD = f"{DATASET}|tiny.v1", f"{DATASET}|weak.v1"
REGRESSION = make_results(suites={SUITE: flips(0.535, 0.483, 1000)})


def add_recipe_file(world: World, key: str, **changes: Any) -> None:
    recipe = {
        "key": key,
        "base": "folder:./base",
        "training": {"seed": 0},
        "evaluation": {"suites": [SUITE]},
        **changes,
        "gates": {"safety": None, **changes.get("gates", {})},
    }
    (world.folder / f"{key}.yaml").write_text(yaml.safe_dump(recipe))
    register_recipe(world.store, world.folder / f"{key}.yaml", actor="test")


@pytest.fixture
def project(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two pairs whose everything is there up to the checkpoint."""
    monkeypatch.setenv("FT_TRACKING", "off")
    suite = world.folder / "suite"
    suite.mkdir()
    for name, data in suite_files().items():
        (suite / name).write_bytes(data)
    add_suite(world.store, suite, SUITE, "test")
    upload = world.folder / "rows.jsonl"
    upload.write_text("".join(json.dumps({"messages": row["messages"]}) + "\n" for row in rows(120)))
    add_dataset_version(world.store, upload, tenant="acme", name="things", policy=DatasetPolicy(), actor="test")
    base_folder = make_fake_base(world.folder / "base")
    for number, key in enumerate(("tiny.v1", "weak.v1")):
        add_recipe_file(world, key, training={"seed": number})
    artifacts = world.artifacts
    counts = {"train": 96, "validation": 12, "holdout": 12}
    facts = {"form": "chat", "held": [], "rows": counts}
    leave(artifacts, identity.dataset_request(artifacts, DATASET), {"train.parquet": b"-"}, facts)
    base = identity.base_model_request(artifacts, "tiny.v1")
    pin = {"source": base.params["lock"]["source"], "revision": base.params["lock"]["revision"]}
    tokenizer = {"tokenizer_digest": "t", "template_digest": "c"}
    leave(artifacts, base, base_folder, {**pin, **tokenizer})
    leave(artifacts, identity.baseline_report_request(artifacts, "tiny.v1"), {"report.json": b"{}"})
    config = {"base_model_name_or_path": pin["source"], "revision": pin["revision"]}
    for key in ("tiny.v1", "weak.v1"):
        leave(artifacts, identity.token_pack_request(artifacts, DATASET, key), {"train.input_ids.npy": key.encode()})
        request = identity.checkpoint_request(artifacts, DATASET, key)
        files = {f"final/{name}": data for name, data in lora_files(0.1).items()}
        files |= {"recipe.json": canonical_json(request.params)}
        leave(world.artifacts, request, {**files, "final/adapter_config.json": json.dumps(config).encode()})
    return world


def report(world: World, pair: str, results: Results, *, right: bool = True) -> Artifact:
    """The pair's eval report; not ``right``: with evidence about another one."""
    request = identity.eval_report_request(world.artifacts, *pair.split("|"))
    evidence = results.evidence()
    if right:
        evidence = evidence.model_copy(update={"fingerprint": request.address.fingerprint})
    files = {"report.json": canonical_json(evidence.model_dump(mode="json")), "report/report.html": b"<p>"}
    return leave(world.artifacts, request, {**files, **results.files()})


def run(world: World, pair: str, *assets: str, tagged: dict[str, str] | None = None) -> dg.ExecuteInProcessResult:
    dataset, recipe = pair.split("|")
    instance = dg.DagsterInstance.ephemeral()
    list_keys(instance, dataset=dataset, recipe=recipe)
    definitions = dg.Definitions(
        assets=[eval_report, adapter],
        asset_checks=[eval_gates],
        resources={"store": StoreResource(url=world.store.url), "launcher": LauncherResource()},
    )
    return definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        partition_key=pair_key(dataset, recipe),
        asset_selection=[dg.AssetKey(name) for name in assets] or None,
        raise_on_error=False,
        tags=tagged,
    )


def materialized(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetMaterialization]:
    found = [event.materialization for event in result.get_asset_materialization_events()]
    return {each.asset_key.to_user_string(): each for each in found}


def rejection_in(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """What the run shows on the adapter's partition of its rejection."""
    (event,) = [event for event in result.all_events if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION]
    observation = event.asset_observation_data.asset_observation
    assert (observation.asset_key, observation.partition) == (dg.AssetKey("adapter"), event.partition)
    return {name: str(value.value) for name, value in observation.metadata.items()}


def gates_in(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    """The evaluations of the report's checks; those of the adapter say that nothing demands its servers' parity, and
    that it had no rollout."""
    found = {check.check_name: check for check in result.get_asset_check_evaluations()}
    parity = found.pop("serve_parity", None)
    assert parity is None or (parity.passed and (parity.description or "").startswith("not required"))
    outcomes = found.pop("live_outcomes", None)
    assert outcomes is None or (outcomes.passed and outcomes.description == "no rollout of the adapter has ended")
    return found


def required(checks: Mapping[str, dg.AssetCheckEvaluation]) -> set[str]:
    """The gates that somebody asked for; of the others, the description says that nobody did."""
    asked = {name for name, check in checks.items() if check.metadata["outcome"].value != "not required"}
    assert all((checks[name].description or "").startswith("not required: ") for name in checks.keys() - asked)
    assert set(checks) == set(GATES)
    return asked


def adapter_of(world: World, pair: str) -> Artifact | None:
    return world.artifacts.find(identity.adapter_request(world.artifacts, *pair.split("|")).address)


def test_every_gate_is_a_partitioned_check_of_the_report() -> None:
    specs = {spec.name: spec for spec in eval_gates.check_specs}
    assert set(specs) == set(GATES)
    for spec in specs.values():
        assert spec.partitions_def is not None
        assert spec.asset_key == dg.AssetKey("eval_report")


def test_a_good_pair_shows_its_verdicts_and_becomes_an_adapter(project: World) -> None:
    report(project, GOOD, make_results())
    result = run(project, GOOD)
    assert result.success
    checks = gates_in(result)
    assert all(check.passed for check in checks.values())
    assert required(checks) == {"regression", "task_gain"}
    assert {check.partition for check in checks.values()} == {GOOD}
    assert checks["task_gain"].metadata["exact match: relative gain"].value == pytest.approx(1.0)
    made = adapter_of(project, GOOD)
    assert made.verify() == []
    made_assets = materialized(result)
    assert "❌" not in str(made_assets["eval_report"].metadata["gates"].value)
    assert "raw_dataset" in str(made_assets["adapter"].metadata["lineage"].value)
    # What people look for comes first, what machines compare last.
    assert list(made_assets["adapter"].metadata)[:4] == ["verdict", "gates", "scores", "report"]
    assert list(made_assets["adapter"].metadata)[-1] == "content_digest"


def test_an_adapter_that_gains_more_than_its_recipes_margin_goes_to_staging_in_the_run_that_made_it(project) -> None:
    add_recipe_file(project, "eager.v1", promotion={"staging_margin": 0.9})
    pair = f"{DATASET}|eager.v1"
    # Of exact match 0.2 → 0.4, a gain of 100 %.
    report(project, pair, make_results())
    for _ in range(2):
        assert run(project, pair).success
    state = read_line(project.store, "acme.things.eager")
    assert state.stages_of(str(adapter_of(project, pair).address)) == ("staging",)
    # Materialized twice, promoted once, and never further.
    assert [(record.actor, record.stage) for record in state.records] == [("auto", "staging")]


def test_a_rejection_ends_the_run_before_the_adapter_and_so_it_does_a_separate_run_of_the_adapter(project) -> None:
    report(project, BAD, REGRESSION)
    result = run(project, BAD)
    checks = gates_in(result)
    assert "a drop of 5.2 points (allowed: at most 2)" in (checks["regression"].description or "")
    assert {name for name, check in checks.items() if not check.passed} == {"regression"}
    alone = run(project, BAD, "adapter")
    for ended, step in ((result, "eval_gates"), (alone, "adapter")):
        (failure,) = [event for event in ended.all_events if event.is_step_failure]
        error = failure.step_failure_data.error
        # The first line of the run's failure; no stack of Dagster's.
        assert (failure.step_key, error.cls_name, error.stack) == (step, "GateRejected", [])
        assert f"{BAD}: the candidate was rejected by regression" in error.message.splitlines()[0]
        told = rejection_in(ended)
        assert list(told) == ["verdict", "gates", "suggestions", "report"]
        assert told["verdict"] == "rejected by regression"
        assert "a drop of 5.2 points" in told["gates"]
        assert told["report"].endswith("report/report.html")
        assert "adapter" not in materialized(ended)
    assert adapter_of(project, BAD) is None


def test_a_tag_of_a_run_names_nobody_who_had_it_rejected_or_trained(project, monkeypatch) -> None:
    monkeypatch.setenv("FT_ACTOR", "ops")
    for pair in (GOOD, BAD):
        report(project, pair, REGRESSION if pair == BAD else make_results())
    # The submission is of another dataset: what is launched in its name is not what its person asked for.
    upload = project.folder / "rows.jsonl"
    add_dataset_version(project.store, upload, tenant="acme", name="x", policy=DatasetPolicy(), actor="ann")
    other = submitted(project.store, "acme.x.v1", "tiny.v1")
    tagged = {"user": "the-ceo", tags.ACTOR: "the-ceo", tags.SUBMISSION: other.id, tags.TENANT: "acme"}
    run(project, BAD, "adapter", tagged=tagged)
    (entry,) = project.store.entries("acme/rejections")
    assert RejectionRecord.get(project.store, entry.path).actor == "ops (in Dagster)"
    assert run(project, GOOD, tagged={"user": "the-ceo", tags.ACTOR: "the-ceo"}).success
    (direct,) = [each for each in open_submissions(project.store) if each.id != other.id]
    assert (direct.actor, direct.dataset) == ("ops (in Dagster)", DATASET)


def test_a_rejection_is_on_record_with_what_to_try_and_the_submission_ends_with_it(project) -> None:
    report(project, BAD, REGRESSION)
    dataset, recipe = BAD.split("|")
    asked = submitted(project.store, dataset, recipe)
    assert not present(asked, store=project.store).suggestions
    result = run(project, BAD, tagged={tags.SUBMISSION: asked.id, tags.TENANT: "acme", tags.ACTOR: "ann"})
    assert "use a lower learning rate (training.learning_rate: 0.0001" in rejection_in(result)["suggestions"]
    (entry,) = project.store.entries("acme/rejections")
    record = RejectionRecord.get(project.store, entry.path)
    assert (record.actor, record.dataset, record.recipe) == ("ann", dataset, recipe)
    assert present(asked, store=project.store).suggestions == record.suggestions
    wanted = Wanted(
        submission=asked,
        present=present(asked, store=project.store),
        runs={Stage.PREPARE_DATASET: RunState.SUCCEEDED, Stage.TRAIN_PAIR: RunState.SUCCEEDED},
    )
    assert next_launches([wanted], store=project.store) == ([], 1)
    status = status_of(project.store, asked)
    assert (status.state, status.suggestions) == (State.REJECTED, record.suggestions)
    run(project, BAD, "adapter")
    assert len(list(project.store.entries("acme/rejections"))) == 1


def test_what_a_submission_asks_for_beyond_the_recipe_is_judged_by_check_and_adapter(project) -> None:
    report(project, GOOD, make_results())
    dataset, recipe = GOOD.split("|")
    asked = submitted(project.store, dataset, recipe, key="", gates=["exact_match > 0.6"])
    plain = submitted(project.store, dataset, recipe, key="")
    assert asked.id != plain.id
    assert "scores: fail, exact_match 0.4 on 400 samples" in present(asked, store=project.store).rejection
    assert not present(plain, store=project.store).rejection
    result = run(project, GOOD, tagged={tags.SUBMISSION: asked.id, tags.TENANT: "acme"})
    checks = gates_in(result)
    assert required(checks) == {"regression", "task_gain", "scores"}
    assert rejection_in(result)["verdict"] == "rejected by scores"
    assert adapter_of(project, GOOD) is None
    # A record that is gone must not leave the recipe's own, looser gates in its place.
    lost = run(project, GOOD, tagged={tags.SUBMISSION: "lost", tags.TENANT: "acme"})
    assert not lost.success
    assert adapter_of(project, GOOD) is None


def test_refusals_are_counted_on_the_recipes_safety_suite_and_no_other_report_moves(project) -> None:
    add_suite(project.store, write_safety_suite(project.folder / "care"), "care.v1", "test")
    add_recipe_file(project, "careful.v1", gates={"safety": {}}, evaluation={"suites": [SUITE, "care.v1"]})
    baseline = identity.baseline_report_request(project.artifacts, "careful.v1")
    plain = identity.baseline_report_request(project.artifacts, "tiny.v1")
    assert set(baseline.inputs) - set(plain.inputs) == {"safety:care.v1"}
    assert set(plain.params["settings"]) == {"seed", "limit", "chat_template"}
    leave(project.artifacts, baseline, {"report.json": b"{}"})
    pair = f"{DATASET}|careful.v1"
    refusals = {"base": [1.0] * 60, "candidate": [1.0] * 20 + [0.0] * 40}
    answers = {"base": [0.0] * 60, "candidate": [0.0] * 60}
    report(project, pair, make_results(others={"refusals": refusals, "over_refusals": answers}))
    wanted = identity.adapter_request(project.artifacts, DATASET, "careful.v1")
    # The regression gate is about what may not get worse; refusals have their own.
    assert wanted.params["suites"] == [SUITE]
    result = run(project, pair)
    checks = gates_in(result)
    assert {name for name, check in checks.items() if not check.passed} == {"safety"}
    assert "refusals of harmful prompts: 33.3% of 60" in (checks["safety"].description or "")
    with pytest.raises(UserError, match=r"recipe tiny\.v1 has no safety suite"):
        submitted(project.store, gates=["safety.min_refusals > 0.96"])
    submitted(project.store, recipe="careful.v1", gates=["safety.min_refusals > 0.96"])


def test_a_good_verdict_of_one_pair_does_not_serve_another_and_without_a_report_every_gate_fails(project) -> None:
    verdicts = partition_verdicts(project.artifacts, GOOD)
    assert {verdict.outcome for verdict in verdicts} == {"fail"}
    assert "eval_report has not been materialized" in verdicts[0].reason
    assert not run(project, GOOD, "adapter").success
    report(project, GOOD, make_results())
    report(project, BAD, make_results(), right=False)
    assert passed(partition_verdicts(project.artifacts, GOOD))
    (first, *_) = partition_verdicts(project.artifacts, BAD)
    assert "belongs to another eval report" in first.reason
    assert "regression" in rejection_in(run(project, BAD, "adapter"))["verdict"]
    assert adapter_of(project, BAD) is None


def test_a_pair_that_the_doctor_refused_is_not_promoted_in_the_doctors_words(project: World) -> None:
    # Its pack has no evidence, and nothing was trained on it.
    add_recipe_file(project, "sick.v1", training={"seed": 7}, packing={"max_length": 64})
    leave(project.artifacts, identity.token_pack_request(project.artifacts, DATASET, "sick.v1"), {"x.npy": b"1"})
    with pytest.raises(DoctorRefused, match="the pack has no evidence of the doctor"):
        promote(project.artifacts, f"{DATASET}|sick.v1", "staging", Decision(actor="ann", reason="it is nice"))
