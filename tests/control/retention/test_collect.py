"""Collecting over a real store: what anything leads to stays, and what is interrupted is finished by the next."""

from datetime import UTC, datetime, timedelta

import pytest

from ft_assets.control.lines.lines import append
from ft_assets.control.lines.promotion import promote
from ft_assets.control.retention import collect_unreferenced as collect
from ft_assets.control.retention.collect_unreferenced import collect_unreferenced
from ft_assets.control.retention.places import collect_places
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.records.tombstones import Subject, delete, restore
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.retention import Leftovers, Retention
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.adapters.lineage import verify_lineage
from ft_resources.artifacts import Artifact
from ft_resources.attempts import Attempt
from ft_resources.errors import CorruptArtifact
from ft_resources.execution import Execution
from ft_resources.launchers.base import LaunchState
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.control.lines.promotable import Promotable, decided, made_record
from tests.made import submitted

TENANTS = TenantsFile(retention=Retention(leftovers=Leftovers(attempt_days=7, saves_days=30, unreferenced_days=30)))
NOW = datetime.now(UTC)


def later(days: float) -> datetime:
    return NOW + timedelta(days=days)


def old_training(line: Promotable, number: int = 1) -> list[Artifact]:
    """What older code made of the line's upload: dataset, pack and checkpoint, and an attempt's records."""
    world, params = line.world, {"older": number}
    curated = world.publish("dataset", {"train.parquet": b"r"}, inputs={"raw": line.raw}, params=params)
    pack = world.publish("token_pack", {"tokens.bin": b"1"}, inputs={"dataset": curated}, params=params)
    inputs = {"pack": pack, "base": line.base}
    checkpoint = world.publish("checkpoint", {"final/model": b"w"}, inputs=inputs, params=params)
    attempt = Attempt(world.store, checkpoint.address, 1)
    attempt.claim("ann")
    attempt.complete_log(b"words")
    attempt.record_ending(Outcome.DONE)
    return [curated, pack, checkpoint]


def addresses(artifacts: list[Artifact]) -> set[str]:
    return {str(each.address) for each in artifacts}


def test_what_nothing_leads_to_goes_after_its_days_and_an_adapter_loses_nothing(line: Promotable) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    adapter, old = line.adapter(), old_training(line)
    first = collect_unreferenced(artifacts, TENANTS, now=NOW)
    assert addresses(old) <= set(first.plan.mark)
    assert first.addresses == ()
    assert collect_unreferenced(artifacts, TENANTS, now=later(29)).addresses == ()
    assert collect_unreferenced(artifacts, TENANTS, now=later(31), dry_run=True).addresses == ()
    done = collect_unreferenced(artifacts, TENANTS, now=later(31))
    assert done.addresses == tuple(str(each.address) for each in reversed(old))
    assert all(artifacts.find(each.address) is None for each in old)
    # Usage is billed by the number of an attempt, which is not given twice.
    left = {entry.path.rsplit("/", 1)[-1] for entry in store.entries(str(old[-1].address))}
    assert left == {"claim.json", "outcome.json"}
    assert verify_lineage(artifacts, adapter.address) == []
    assert collect_unreferenced(artifacts, TENANTS, now=later(99)).plan.mark == ()


def test_whatever_record_names_it_keeps_it(line: Promotable) -> None:
    """A line's log, a rejection, a carry, a base bump, a recipe that stands on it: any text with the address."""
    store = line.world.store
    old = {number: old_training(line, number) for number in range(1, 6)}
    heads = {number: chain[-1] for number, chain in old.items()}
    append(store, made_record().model_copy(update={"checkpoint": heads[1].ref, "stage": "archived"}))
    store.put_json(f"acme/rejections/{'0' * 64}/x.json", {"checkpoint": heads[2].ref.model_dump()})
    store.put_json("acme/carries/acme.things.v1/tiny.v2/carry.json", {"checkpoint": str(heads[3].address)})
    store.put_json("names/base_bump/tiny.v2.json", {"dependents": [{"adapter": {"address": str(heads[4].address)}}]})
    store.put_json("names/recipe_like/next.v1.json", {"lock": {"source": f"artifact:{heads[5].address}"}})
    done = collect_unreferenced(line.world.artifacts, TENANTS, now=NOW)
    assert not set(done.plan.mark) & set().union(*(addresses(chain) for chain in old.values()))


def test_what_waits_for_the_end_of_a_grace_can_be_restored_whole(line: Promotable) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    old, subject = old_training(line), Subject.dataset(DatasetKey.parse("acme.things.v1"))
    collect_unreferenced(artifacts, TENANTS, now=NOW)
    delete(store, subject, actor="ann", reason="ended", grace_days=90)
    assert collect_unreferenced(artifacts, TENANTS, now=later(31)).addresses == ()
    restore(store, subject, actor="ann", reason="a mistake")
    assert all(artifacts.find(each.address) is not None for each in old)


def test_inputs_of_a_living_attempt_stay(line: Promotable) -> None:
    artifacts, world = line.world.artifacts, line.world
    curated, pack, _ = old_training(line)
    request = world.request("checkpoint", inputs={"pack": pack}, params={"another": 1})
    attempt = Attempt(world.store, request.address, 1)
    attempt.claim("ann")
    attempt.write_spec(world.context(request).spec)
    assert not addresses([curated, pack]) & set(collect_unreferenced(artifacts, TENANTS, now=NOW).plan.mark)
    attempt.record_ending(Outcome.DIVERGED)
    assert addresses([curated, pack]) <= set(collect_unreferenced(artifacts, TENANTS, now=NOW).plan.mark)


def test_an_interrupted_removal_leaves_no_artifact_without_its_inputs(line, monkeypatch) -> None:
    artifacts, old = line.world.artifacts, old_training(line)
    collect_unreferenced(artifacts, TENANTS, now=NOW)
    real = Store.delete
    stops = 0
    for most in range(20):
        left = iter(range(most))

        def dies(self: Store, path: str, left=left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            real(self, path)

        monkeypatch.setattr(Store, "delete", dies)
        try:
            collect_unreferenced(artifacts, TENANTS, now=later(31))
        except KeyboardInterrupt:
            stops += 1
        monkeypatch.setattr(Store, "delete", real)
        there = [artifacts.find(each.address) is not None for each in old]
        assert there == sorted(there, reverse=True)
    assert stops > 3
    assert not any(artifacts.find(each.address) for each in old)


def test_whoever_asks_for_something_in_between_stops_the_removal(line, monkeypatch) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    old_training(line)
    collect_unreferenced(artifacts, TENANTS, now=NOW)
    real = collect.roots

    def asks(*given):
        found = real(*given)
        submitted(store, "acme.things.v1", "tiny.v1", key="k", actor="bob")
        return found

    monkeypatch.setattr(collect, "roots", asks)
    done = collect_unreferenced(artifacts, TENANTS, now=later(31))
    assert done.plan.remove
    assert done.addresses == ()


def test_a_damaged_manifest_stops_it_and_without_the_rule_nothing_is_marked(line: Promotable) -> None:
    artifacts, store, old = line.world.artifacts, line.world.store, old_training(line)
    rule = TenantsFile(retention=Retention(keep_versions=1, leftovers=Leftovers(attempt_days=1)))
    assert collect_unreferenced(artifacts, rule, now=later(99)).plan.mark == ()
    assert list(store.entries(collect.FOLDER)) == []
    collect_unreferenced(artifacts, TENANTS, now=NOW)
    store.put(f"{old[0].address}/manifest.json", b"{}")
    with pytest.raises(CorruptArtifact):
        collect_unreferenced(artifacts, TENANTS, now=later(31))
    assert artifacts.find(old[-1].address) is not None


class Cluster:
    """A launcher that knows one thing."""

    def __init__(self, state: LaunchState) -> None:
        self.known = state

    def state(self, attempt: Attempt) -> LaunchState:
        return self.known

    def ending(self, attempt: Attempt) -> None:
        return None

    def clean_up(self, attempt: Attempt) -> None:
        return


@pytest.fixture
def unfinished(line: Promotable) -> tuple[WorkRequest, Attempt]:
    """A training that left a save, a log and half a result, and no ending."""
    world = line.world
    request = world.request("checkpoint", inputs={"base": line.base}, params={"unfinished": 1})
    attempt = Attempt(world.store, request.address, 1)
    attempt.claim("ann")
    attempt.write_spec(world.context(request).spec)
    attempt.write_launch({"launcher": "local"})
    attempt.complete_log(b"words")
    world.store.put(f"{attempt.path}/saves/000010/save.json", b"{}")
    world.store.put(f"{request.address}/w0001-ab/final/model", b"half")
    return request, attempt


def names(store: Store, request: WorkRequest) -> set[str]:
    return {entry.path.removeprefix(f"{request.address}/") for entry in store.entries(str(request.address))}


SAVE, LOG, HALF = "attempts/0001/saves/000010/save.json", "attempts/0001/log-000001.txt", "w0001-ab/final/model"


def test_an_abandoned_attempt_is_ended_collected_and_its_saves_stay_longer(line, unfinished) -> None:
    artifacts, store, (request, attempt) = line.world.artifacts, line.world.store, unfinished
    assert collect_places(artifacts, TENANTS, now=later(6)).ended == []
    assert collect_places(artifacts, TENANTS, now=later(8), dry_run=True).ended == [attempt.path]
    assert attempt.ending() is None
    assert collect_places(artifacts, TENANTS, now=later(8)).dropped == []
    ending = attempt.ending()
    assert ending.outcome is Outcome.PREEMPTED
    assert {SAVE, LOG, HALF} <= names(store, request)
    assert len(collect_places(artifacts, TENANTS, now=later(8), dry_run=True).dropped) == 2
    collect_places(artifacts, TENANTS, now=later(8))
    assert {SAVE, LOG, HALF} & names(store, request) == {SAVE}
    collect_places(artifacts, TENANTS, now=later(31))
    kept = {"claim.json", "spec.json", "launch.json", "outcome.json"}
    assert names(store, request) == {f"attempts/0001/{name}" for name in kept}
    assert collect_places(artifacts, TENANTS, now=later(31)).dropped == []


@pytest.mark.parametrize(
    ("launcher", "known", "ends"),
    [
        ("local", LaunchState.RUNNING, False),
        ("local", LaunchState.UNKNOWN, True),
        ("kubernetes", LaunchState.UNKNOWN, False),
        ("kubernetes", LaunchState.GONE, True),
        ("kubernetes", None, False),
    ],
)
def test_what_may_wait_in_a_cluster_s_queue_is_left_alone(line, unfinished, launcher, known, ends) -> None:
    _, attempt = unfinished
    attempt.write_launch({"launcher": launcher})
    execution = Execution(store=line.world.store, launcher=Cluster(known)) if known else None  # type: ignore[arg-type]
    collect_places(line.world.artifacts, TENANTS, now=later(99), execution=execution)
    assert (attempt.ending() is not None) is ends


def test_what_an_open_submission_or_a_run_waits_for_and_what_is_not_billed_stays(line, unfinished) -> None:
    artifacts, store, (request, attempt) = line.world.artifacts, line.world.store, unfinished
    attempt.record_ending(Outcome.PREEMPTED)
    before = names(store, request)
    asked = submitted(store, "acme.things.v1", "tiny.v1", key="k")
    assert collect_places(artifacts, TENANTS, now=later(99)).dropped == []
    finish(store, asked, SubmissionStatus.CANCELLED, reason="enough")
    assert collect_places(artifacts, TENANTS, now=later(99), busy={asked.pair}).dropped == []
    attempt.mark_open(asked.pair, "ann")
    assert collect_places(artifacts, TENANTS, now=later(99)).dropped == []
    store.delete(attempt.marker)
    assert names(store, request) == before
    assert len(collect_places(artifacts, TENANTS, now=later(99)).dropped) == 3


def test_the_folder_of_a_writer_that_lost_goes_and_the_winner_s_is_whole(line: Promotable) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    adapter = line.adapter()
    promote(artifacts, str(adapter.address), "staging", decided())
    for artifact in (line.raw, adapter):
        store.put(f"{artifact.address}/late-writer/a/b.bin", b"late")
    done = collect_places(artifacts, TENANTS, now=later(8))
    assert {(each.what, each.address) for each in done.dropped} == {
        ("folder late-writer", str(artifact.address)) for artifact in (line.raw, adapter)
    }
    assert verify_lineage(artifacts, adapter.address) == []
    assert not store.exists(f"{adapter.address}/late-writer/a/b.bin")


def test_a_result_that_came_after_the_look_is_not_touched(line: Promotable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an upload that lay for long and was finished between the listing and the removal."""
    from ft_assets.control.retention import places

    world, real = line.world, places.plan_place
    request = world.request("dataset", inputs={"raw": line.raw}, params={"late": 1})
    world.store.put(f"{request.address}/w1/train.parquet", b"rows")

    def finishes(place, rule, now):
        if place.address == str(request.address):
            (world.folder / "late").mkdir()
            (world.folder / "late" / "train.parquet").write_bytes(b"rows")
            world.artifacts.publish(
                request.address, world.folder / "late", writer="w1", identity=request.identity, actor="ann"
            )
        return real(place, rule, now)

    monkeypatch.setattr(places, "plan_place", finishes)
    collect_places(world.artifacts, TENANTS, now=later(8))
    assert world.artifacts.get(request.address).verify() == []


def test_a_part_at_a_time_sees_everything_once(line: Promotable) -> None:
    artifacts, store = line.world.artifacts, line.world.store
    line.adapter()
    everywhere = {str(node) for node in addresses_of(store)}
    for address in everywhere:
        store.put(f"{address}/late-writer/x", b"late")
    found, after, ticks = set(), "", 0
    while True:
        done = collect_places(artifacts, TENANTS, now=later(8), after=after, most=1)
        found |= {each.address for each in done.dropped}
        after, ticks = done.last, ticks + 1
        if not after:
            break
    assert found == everywhere
    assert ticks >= len(everywhere)


def addresses_of(store: Store) -> list[str]:
    tops = [f"{tenant}/{asset}" for tenant in ("acme", "shared") for asset in store.folders(tenant)]
    return [f"{top}/{name}" for top in tops for name in store.folders(top) if len(name) == 64]
