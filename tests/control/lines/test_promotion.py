"""Promotion: what may stand in a stage, what is put on record, and that nothing is promoted on less than evidence."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from ft_assets.api import list_adapters
from ft_assets.control.lines.auto import promote_by_margin
from ft_assets.control.lines.lines import PromotionLost, PromotionRecord, Stage, append, read_line
from ft_assets.control.lines.promotion import Decision, promote, rollback
from ft_assets.control.registry.chain import lock_adapter
from ft_assets.settings.keys import RecipeKey
from ft_assets.settings.recipe.base_ref import AcceptedAdapter
from ft_assets.workers.adapters.export import export_adapter
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import UserError
from tests.control.lines.promotable import (
    LINE,
    RECIPE,
    Promotable,
    add_dataset,
    add_recipe,
    decided,
    flip,
    passing,
)
from tests.workers.evals.world import World


def go(line: Promotable, adapter: Artifact, stage: Stage, **changes: object) -> PromotionRecord:
    record, created = promote(line.world.artifacts, str(adapter.address), stage, decided(**changes))  # type: ignore[arg-type]
    assert created
    return record


def test_a_promotion_records_everything_that_it_stood_on(line: Promotable) -> None:
    adapter = line.adapter()
    go(line, adapter, "dev", actor="bob")
    go(line, adapter, "staging")
    record = go(line, adapter, "production", reason="  the customer wants it ")
    assert (record.adapter, record.base) == (adapter.ref, line.base.ref)
    assert record.checkpoint == adapter.manifest.inputs["checkpoint"]
    assert record.eval_report == adapter.manifest.inputs["eval_report"]
    assert record.pack is not None
    assert record.pack.address.startswith("acme/token_pack/")
    assert (record.dataset, record.recipe, record.actor) == ("acme.things.v1", RECIPE, "ann")
    assert (record.reason, record.stage, record.seq, record.replaces) == ("the customer wants it", "production", 3, "")
    assert len(record.recipe_hash) == len(record.base.digest) == 64
    assert record.metrics == {"exact_match": {"base": 0.2, "candidate": 0.4}}
    assert "the safety gate passed" in record.findings
    state = read_line(line.world.store, LINE)
    assert state.stages_of(str(adapter.address)) == ("dev", "staging", "production")
    assert json.loads(line.world.store.get(record.path))["seal"]


def test_a_line_goes_up_stage_by_stage_and_asking_again_changes_nothing(line: Promotable) -> None:
    artifacts, adapter = line.world.artifacts, line.adapter()
    for target, stage in ((LINE, "dev"), (LINE, "staging"), (LINE, "production")):
        record, created = promote(artifacts, target, stage, decided())  # type: ignore[arg-type]
        assert created
        assert record.adapter == adapter.ref
    record, created = promote(artifacts, LINE, "production", decided(actor="bob"))
    assert (created, record.actor) == (False, "ann")


def test_of_several_adapters_none_is_chosen_for_being_the_newest(line: Promotable) -> None:
    first, second = line.adapter(1), line.adapter(2)
    with pytest.raises(UserError, match="2 accepted adapters") as caught:
        promote(line.world.artifacts, LINE, "staging", decided())
    assert str(first.address) in caught.value.what
    assert str(second.address) in caught.value.what
    assert read_line(line.world.store, LINE).records == ()


def test_what_is_no_accepted_adapter_of_the_line_is_not_promoted_and_another_tenants_line_out_of_reach(line) -> None:
    artifacts = line.world.artifacts
    adapter = line.adapter()
    for target, words in (
        (adapter.manifest.inputs["checkpoint"].address, "this is a checkpoint"),
        (f"acme/adapter/{'0' * 64}", "no such artifact"),
        ("acme.things.other", "no accepted adapter"),
        ("acme.things", "is not a line"),
    ):
        with pytest.raises(UserError) as caught:
            promote(artifacts, target, "staging", decided())
        assert words in caught.value.what
    for broken in (decided, lambda **_: Decision(actor="", reason="x")):
        with pytest.raises(UserError, match="needs"):
            broken(reason=" ")
    add_dataset(line.world, "globex.things.v1", b"others")
    with pytest.raises(UserError):
        rollback(line.world.artifacts, "globex.things.tiny", decided(), to=str(adapter.address))
    assert read_line(line.world.store, "globex.things.tiny").records == ()


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([{"gate": "task_gain", "outcome": "fail", "reason": "no gain"}], "task_gain: fail, no gain"),
        ([{"gate": "task_gain", "outcome": "inconclusive", "reason": "few"}], "inconclusive"),
        ([], "no gate passed"),
        ([{"gate": "safety", "outcome": "not required"}], "no gate passed"),
        ([{"gate": "safety"}], "cannot be read"),
        ([*passing("safety"), *passing("safety")], "cannot be read"),
    ],
)
def test_stored_verdicts_that_do_not_let_it_through_refuse_it(line, verdicts, words) -> None:
    adapter = line.adapter(verdicts=verdicts)
    with pytest.raises(UserError) as caught:
        go(line, adapter, "dev")
    assert words in caught.value.what


def test_the_evidence_is_judged_once_more_and_what_was_altered_since_refuses_it(world: World) -> None:
    base = world.base()
    checkpoint = world.checkpoint(base)
    report = world.eval_report(base, checkpoint)
    request = world.adapter_request(base, checkpoint, report)
    adapter = world.publish_result(request, export_adapter(world.context(request)))
    add_recipe(world.store, RECIPE)
    assert promote(world.artifacts, str(adapter.address), "dev", decided())[1]
    flip(report.path("report.json", world.folder))
    with pytest.raises(UserError, match="no longer passes"):
        promote(world.artifacts, str(adapter.address), "staging", decided())


@pytest.mark.parametrize("asset", ["ungated", "adapter"])
def test_an_ungated_result_is_refused_at_every_door_also_where_records_were_written_by_hand(line, asset) -> None:
    """``adapter``: somebody published it where accepted adapters lie, with verdicts that pass."""
    artifacts, accepted = line.world.artifacts, line.adapter()
    go(line, accepted, "staging")
    ungated = line.adapter(2, ungated=asset)
    address = str(ungated.address)
    for stage in ("dev", "staging", "production", "deprecated", "archived"):
        with pytest.raises(UserError, match="is ungated") as caught:
            promote(artifacts, address, stage, decided())  # type: ignore[arg-type]
        assert "gates" in caught.value.remedy
    # A record of the line that says it stood there; its digest chains as promotion's own do.
    for adapter in (ungated, accepted):
        state = read_line(artifacts.store, LINE)
        forged = state.records[-1].model_copy(
            update={"adapter": adapter.ref, "seq": len(state.records) + 1, "previous": state.head, "id": str(adapter)}
        )
        append(artifacts.store, forged)
    with pytest.raises(UserError, match="is ungated"):
        rollback(artifacts, LINE, decided(), stage="staging", to=address)
    assert rollback(artifacts, LINE, decided(), stage="staging").adapter == accepted.ref
    recipe = RecipeKey.parse("acme.next.v1")
    with pytest.raises(UserError, match="ungated"):
        lock_adapter(artifacts, AcceptedAdapter(address=address), recipe, "recipe.yaml")
    assert not promote_by_margin(artifacts, ungated, logging.getLogger())
    assert [each.address for each in list_adapters(store=artifacts.store)] == [accepted.address]


def test_rollback_points_back_to_what_stood_there_and_can_be_taken_back(line: Promotable) -> None:
    artifacts = line.world.artifacts
    adapters = [line.adapter(number) for number in (1, 2, 3)]
    for adapter in adapters:
        go(line, adapter, "production")
    first, second, third = (str(adapter.address) for adapter in adapters)
    record = rollback(artifacts, LINE, decided(reason="it insults people"))
    assert (record.kind, record.adapter.address, record.replaces) == ("rollback", second, third)
    # Once more goes on back, and does not swing between two.
    assert rollback(artifacts, LINE, decided()).adapter.address == first
    assert rollback(artifacts, LINE, decided(), to=third).adapter.address == third
    with pytest.raises(UserError, match="was never in staging"):
        rollback(artifacts, LINE, decided(), stage="staging", to=first)


def test_rollback_passes_over_what_is_out_of_use_and_says_so_where_nothing_is_left(line: Promotable) -> None:
    artifacts = line.world.artifacts
    adapters = [line.adapter(number) for number in (1, 2, 3)]
    for adapter in adapters:
        go(line, adapter, "production")
    go(line, adapters[1], "deprecated", reason="superseded")
    assert rollback(artifacts, LINE, decided()).adapter == adapters[0].ref
    with pytest.raises(UserError, match="no adapter that was in production before"):
        rollback(artifacts, LINE, decided())
    with pytest.raises(UserError, match="deprecated by ann"):
        go(line, adapters[1], "staging")
    go(line, adapters[0], "archived", reason="retired")
    state = read_line(line.world.store, LINE)
    assert state.at("production") is None
    with pytest.raises(UserError, match="archived by ann"):
        go(line, adapters[0], "dev")
    with pytest.raises(UserError, match="which adapter"):
        promote(artifacts, LINE, "archived", decided())


def test_two_promotions_at_once_end_in_one_winner_each_and_a_log_that_holds(line: Promotable) -> None:
    adapters = [line.adapter(number) for number in range(4)]

    def ask(adapter: Artifact) -> bool:
        artifacts = Artifacts(line.world.store)
        try:
            return promote(artifacts, str(adapter.address), "staging", decided(actor=str(adapter.address)))[1]
        except PromotionLost:
            return False

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(ask, adapters))
    state = read_line(line.world.store, LINE)
    assert sum(won) == len(state.records) >= 1
    assert all(record.actor == record.adapter.address for record in state.records)


class Log:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, message: str) -> None:
        self.warnings.append(message)


@pytest.mark.parametrize(
    ("margin", "verdicts", "goes", "warned"),
    [
        (0.9, None, True, []),
        (1.5, None, False, []),
        (None, None, False, []),
        # What stands in the way is a warning.
        (0.1, [], False, ["was not promoted to staging automatically"]),
    ],
)
def test_an_adapter_above_its_recipes_margin_goes_to_staging_by_itself_once(
    world, judged_well, monkeypatch, margin, verdicts, goes, warned
) -> None:
    monkeypatch.setenv("FT_TRACKING", "off")
    recipe: dict[str, object] = {} if margin is None else {"promotion": {"staging_margin": margin}}
    line, log = Promotable.make(world, recipe=recipe), Log()
    adapter = line.adapter(verdicts=verdicts)
    assert promote_by_margin(world.artifacts, adapter, log) is goes
    assert all(words in said for words, said in zip(warned, log.warnings, strict=True))
    assert promote_by_margin(world.artifacts, adapter, log) is False
    records = read_line(world.store, LINE).records
    assert [(record.actor, record.stage) for record in records] == ([("auto", "staging")] if goes else [])


def test_a_registry_that_is_down_does_not_keep_a_promotion(line, tmp_path, monkeypatch) -> None:
    log = Log()
    (tmp_path / "file").write_text("")
    adapter = line.adapter()
    go(line, adapter, "staging", tracking=f"sqlite:///{tmp_path}/file/mlflow.db", log=log)
    assert read_line(line.world.store, LINE).at("staging") is not None
    assert "MLflow failed" in log.warnings[0]
