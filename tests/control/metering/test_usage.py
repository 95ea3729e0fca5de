"""What is counted of an attempt, by whom it is paid, and that it is counted once whatever dies in between."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ft_assets.control.metering.refunds import decide_refund
from ft_assets.control.metering.usage import UsageRecord, count_usage, read_usage, usage_of
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import PLACE, Attempt, attempts_at
from ft_resources.errors import UserError
from ft_resources.execution import Execution
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import POLICIES, Outcome
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import Resources
from tests.control.submissions.estimate_world import DATASET, World
from tests.made import spec_of
from tests.resources.small_work import request_for

PAIR = f"{DATASET}|large.v1"
AT = datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()


def attempt_at(
    store: Store,
    *,
    asset: str = "checkpoint",
    label: str = PAIR,
    number: int = 1,
    hours: float = 1.5,
    outcome: Outcome,
    refund: str = "",
) -> Attempt:
    address = request_for(asset).address.model_copy(update={"asset": asset})
    attempt = Attempt(store, address, number)
    attempt.claim("ann")
    attempt.mark_open(label, "ann")
    attempt.write_launch({"launcher": "elsewhere"})
    place = {"started_at": AT - hours * 3600, "ended_at": AT, "cause": "worker", "evidence": {"pod": "p"}}
    store.put_json(f"{attempt.path}/{PLACE}", place | ({"refund": refund} if refund else {}))
    attempt.record_ending(outcome, {"type": "X", "what": "why", "where": "", "remedy": ""})
    return attempt


def test_gpu_hours_are_those_of_all_nodes_from_the_start_of_the_pod_to_its_end(world: World, tmp_path: Path) -> None:
    tenants = tmp_path / "t.yaml"
    tenants.write_text("gpu_prices: {H100: 4.0}\ntiers: {gold: {price_factor: 0.5}}\ntenants: {acme: {tier: gold}}\n")
    attempt_at(world.store, outcome=Outcome.DONE)
    (record,) = count_usage(world.store, load_tenants(tenants))
    assert (record.gpu_hours, record.billed_hours, record.price) == (6.0, 6.0, 2.0)
    assert record.evidence["pod"] == "p"
    assert record.month == "2026-11"


def test_an_attempt_that_runs_has_used_its_gpus_until_now_and_is_not_counted_yet(world: World) -> None:
    attempt = Attempt(world.store, request_for("checkpoint").address, 1)
    attempt.claim("ann")
    attempt.mark_open(PAIR, "ann")
    world.store.put_json(f"{attempt.path}/progress.json", {"phase": "training", "since": AT - 3600, "at": AT})
    tenants = TenantsFile(gpu_prices={"H100": 4.0})
    used = usage_of(world.store, attempt, PAIR, "ann", tenants, now=AT)
    assert used is not None
    assert (used.outcome, used.billed_hours, used.price) == ("running", 4.0, 4.0)
    assert usage_of(world.store, attempt, PAIR, "ann", tenants) is None
    assert count_usage(world.store, tenants) == []


def test_an_elastic_attempt_is_billed_for_the_gpus_that_it_had(world: World) -> None:
    world.recipe("elastic.v1", gpus={"min": 1, "max": 4}, nodes=2)
    for number, gpus in ((1, 2), (2, 4)):
        attempt = attempt_at(
            world.store, label=f"{DATASET}|elastic.v1", number=number, hours=1.0, outcome=Outcome.RESIZED
        )
        spec = spec_of(world.store, request_for("checkpoint"), number)
        attempt.write_spec(spec.model_copy(update={"resources": Resources(gpus=gpus, gpu_sizes=(4, 2, 1))}))
    assert [each.billed_hours for each in count_usage(world.store, TenantsFile())] == [4.0, 8.0]


def test_work_in_a_part_is_billed_by_the_part_that_it_requested(world: World, tmp_path: Path) -> None:
    tenants = tmp_path / "t.yaml"
    tenants.write_text("gpu_prices: {H100: 7.0}\n")
    label = f"{DATASET}|{world.recipe('small.v1', parts=['H100-1g.10gb'])}"
    for number, gpu_type in ((1, "H100-1g.10gb"), (2, "H100")):
        attempt = attempt_at(world.store, label=label, number=number, outcome=Outcome.DONE)
        spec = spec_of(world.store, request_for("checkpoint"), number)
        attempt.write_spec(spec.model_copy(update={"resources": Resources(gpus=1, gpu_type=gpu_type)}))
    found = count_usage(world.store, load_tenants(tenants))
    # Of a quota too a part takes its share: it has no more than that of a GPU.
    assert [(each.gpu_type, round(each.billed_hours, 6)) for each in found] == [
        ("H100-1g.10gb", round(1.5 / 7, 6)),
        ("H100", 1.5),
    ]
    assert [each.price for each in found] == [pytest.approx(7.0), 7.0]
    assert UsageRecord.get(world.store, found[0].path) == found[0]


def test_an_export_is_counted_as_other_work_on_the_cpu_and_its_evaluation_as_the_adapters(world: World) -> None:
    """Its worker asks for no GPU, so the tenant is billed none; that it is evaluated again takes the recipe's."""
    for asset in ("merged_model", "quantized_model", "dataset", "eval_report"):
        attempt_at(world.store, asset=asset, label=DATASET if asset == "dataset" else PAIR, outcome=Outcome.DONE)
    found = {record.asset: record for record in count_usage(world.store, TenantsFile())}
    for asset in ("merged_model", "quantized_model"):
        export, other = found[asset], found["dataset"]
        assert (
            (export.gpus, export.billed_hours, export.label) == (other.gpus, other.billed_hours, PAIR) == (0, 0.0, PAIR)
        )
        assert (export.started_at, export.ended_at) == (other.started_at, other.ended_at)
    assert (found["eval_report"].gpus, found["eval_report"].billed_hours) == (2, 3.0)
    assert sum(record.billed_hours for record in found.values()) == 3.0


@pytest.mark.parametrize(
    ("outcome", "refund", "billed"),
    [
        *((outcome, "", 0.0 if POLICIES[outcome].refund == "full" else 6.0) for outcome in Outcome),
        # A cluster that knows why a pod ended says who pays; a delivered result is billed though its node went after.
        (Outcome.PREEMPTED, "none", 6.0),
        (Outcome.DONE, "full", 6.0),
    ],
)
def test_who_pays_is_decided_by_how_it_ended(world: World, outcome: Outcome, refund: str, billed: float) -> None:
    attempt_at(world.store, outcome=outcome, refund=refund)
    (record,) = count_usage(world.store, TenantsFile())
    assert record.billed_hours == billed
    refunded = {each for each in Outcome if POLICIES[each].refund == "full"}
    assert refunded == {Outcome.PREEMPTED, Outcome.PLATFORM_ERROR}


@pytest.mark.parametrize(
    ("gib", "gpu_type", "image", "refund"),
    [
        (60.0, "H100", None, "full"),
        (90.0, "H100", None, "flagged"),
        (None, "H100", None, "flagged"),
        (60.0, None, None, "flagged"),
        (60.0, "H100-1g.10gb", None, "flagged"),
        (60.0, "H100", f"own@sha256:{'0' * 64}", "flagged"),
    ],
)
def test_an_attempt_out_of_memory_that_was_expected_to_fit_is_refunded(world, gib, gpu_type, image, refund) -> None:
    attempt = attempt_at(world.store, outcome=Outcome.OUT_OF_MEMORY)
    runtime = {"predicted_memory_bytes": None if gib is None else int(gib * 2**30)}
    spec = spec_of(world.store, request_for("checkpoint", runtime=runtime), 1)
    attempt.write_spec(spec.model_copy(update={"resources": Resources(gpus=1, gpu_type=gpu_type, image=image)}))
    (record,) = count_usage(world.store, TenantsFile())
    assert (record.refund, record.billed_hours) == (refund, 0.0 if refund == "full" else 6.0)


@pytest.mark.parametrize("refund", ["", "full"])
def test_whoever_published_and_then_calls_it_our_failure_pays_until_a_person_decides(world, tmp_path, refund) -> None:
    """The attack: a worker kept its weights and got its 80 GPU-hours back."""
    request = request_for("checkpoint")
    attempt_at(world.store, outcome=Outcome.PLATFORM_ERROR, refund=refund)
    (tmp_path / "weights").write_bytes(b"1")
    artifacts = Artifacts(world.store)
    folder = {"folder": tmp_path, "identity": request.identity, "actor": "ann"}
    artifacts.publish(request.address, writer="w0001-0123abcd", **folder)
    (record,) = count_usage(world.store, TenantsFile())
    assert (record.refund, record.billed_hours) == ("flagged", 6.0)
    # Another attempt's artifact says nothing of this one.
    attempt_at(world.store, outcome=Outcome.PLATFORM_ERROR, refund=refund, number=2)
    (other,) = count_usage(world.store, TenantsFile())
    assert (other.refund, other.billed_hours) == ("full", 0.0)


def test_counting_again_after_a_death_at_any_moment_counts_once(world: World) -> None:
    attempt = attempt_at(world.store, outcome=Outcome.DONE)
    first = count_usage(world.store, TenantsFile())
    attempt.mark_open(PAIR, "ann")  # It died before the marker was gone.
    assert count_usage(world.store, TenantsFile()) == []
    assert read_usage(world.store, "acme", "2026-11") == first
    assert list(world.store.entries("open_attempts")) == []


def test_a_later_change_of_prices_changes_no_record(world: World, tmp_path: Path) -> None:
    attempt = attempt_at(world.store, outcome=Outcome.DONE)
    count_usage(world.store, TenantsFile(gpu_prices={"H100": 4.0}))
    attempt.mark_open(PAIR, "ann")
    count_usage(world.store, TenantsFile(gpu_prices={"H100": 9.0}))
    assert [record.price for record in read_usage(world.store, "acme", "2026-11")] == [4.0]


@pytest.mark.parametrize("runs", [True, False])
def test_what_still_runs_is_not_counted_and_stays_listed_and_what_never_started_costs_nothing(world, runs) -> None:
    attempt = Attempt(world.store, request_for("checkpoint").address, 1)
    attempt.claim("ann")
    attempt.mark_open(PAIR, "ann")
    attempt.write_launch({"launcher": "elsewhere"}) if runs else attempt.record_ending(Outcome.USER_ERROR)
    assert count_usage(world.store, TenantsFile()) == []
    assert len(list(world.store.entries("open_attempts"))) == runs


@pytest.mark.subprocess
def test_a_worker_that_really_ran_is_billed_from_its_launch_to_its_last_sign_of_life(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"), create=True)
    execution = Execution(store=store, launcher=LocalLauncher(module="tests.fake_worker"), poll_s=0.05)
    request = request_for("write", text="x", runtime={"seconds": 0.2})
    execution.run(request, actor="ann")
    (attempt,) = attempts_at(store, request.address)
    record = usage_of(store, attempt, request.label, "ann", TenantsFile())
    assert record.outcome == "done"
    assert record.ended_at - record.started_at >= 0.2
    assert [each.key for each in count_usage(store, TenantsFile())] == [record.key]


def test_a_flagged_attempt_is_decided_once_with_a_reason_and_no_other_is(world: World) -> None:
    attempt_at(world.store, outcome=Outcome.OUT_OF_MEMORY)
    attempt_at(world.store, outcome=Outcome.DONE, number=2)
    record, done = count_usage(world.store, TenantsFile())
    assert record.refund == "flagged"
    ask = {"tenant": "acme", "month": "2026-11", "key": record.key}
    with pytest.raises(UserError, match="reason"):
        decide_refund(world.store, **ask, refund=True, actor="bo", reason=" ")
    first = decide_refund(world.store, **ask, refund=True, actor="bo", reason="we said it fits")
    assert decide_refund(world.store, **ask, refund=True, actor="cy", reason="yes") == first
    with pytest.raises(UserError, match="already decided by bo: refund, we said it fits"):
        decide_refund(world.store, **ask, refund=False, actor="cy", reason="no")
    with pytest.raises(UserError, match="billed by the outcome table"):
        decide_refund(world.store, **{**ask, "key": done.key}, refund=True, actor="bo", reason="why not")


@pytest.mark.parametrize("launched", ["", "launch.json", "launch.json outcome.json"])
def test_an_attempt_on_a_cluster_is_counted_when_its_place_is_known(world: World, launched: str) -> None:
    """Also where its launcher died before it wrote the launch down: its Job was created, and its worker ran."""
    attempt = attempt_at(world.store, outcome=Outcome.DONE)
    place = world.store.get_json(f"{attempt.path}/{PLACE}")
    for name in (PLACE, *launched.split()[:1]):
        world.store.delete(f"{attempt.path}/{name}")
    if launched:
        # It reported until just now.
        now = time.time()
        world.store.put_json(f"{attempt.path}/progress.json", {"phase": "done", "since": now - 60, "at": now})
    if "outcome" in launched:
        world.store.put_json(f"{attempt.path}/outcome.json", {"outcome": "done", "error": None, "at": time.time()})
    assert count_usage(world.store, TenantsFile()) == []
    assert world.store.exists(attempt.marker)
    world.store.put_json(f"{attempt.path}/{PLACE}", place)
    assert [record.gpu_hours for record in count_usage(world.store, TenantsFile())] == [6.0]


def test_a_pod_that_waited_in_the_queue_until_it_was_given_up_costs_nothing(world: World) -> None:
    attempt = attempt_at(world.store, outcome=Outcome.PLATFORM_ERROR)
    path = f"{attempt.path}/{PLACE}"
    world.store.put_json(path, {**world.store.get_json(path), "started_at": None, "ended_at": None})
    assert count_usage(world.store, TenantsFile()) == []
    assert list(world.store.entries("open_attempts")) == []
