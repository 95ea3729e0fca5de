"""What could lose or double a bill: failing reads, equal work of two tenants, month borders, records not as ours."""

import os
import time
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from ft_assets.control.metering.abandoned import SILENT_S, close_abandoned
from ft_assets.control.metering.ledger import Ledger
from ft_assets.control.metering.quota import OverQuota, Standing, admit, release_ended, taken_hours
from ft_assets.control.metering.refunds import RefundDecision, decide_refund
from ft_assets.control.metering.usage import count_usage, read_usage
from ft_assets.settings.tenants import Quota, TenantsFile, Tier
from ft_resources.attempts import PLACE, Attempt
from ft_resources.errors import StoreUnavailable
from ft_resources.execution import Execution
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from tests.control.metering.test_ledger import record
from tests.control.metering.test_quota import NOW, RUNS, ask, tenants, use
from tests.control.metering.test_usage import AT, PAIR, attempt_at
from tests.control.submissions.estimate_world import World
from tests.resources.small_work import request_for

MONTH_END = datetime(2026, 12, 1, tzinfo=UTC).timestamp()


def test_equal_work_of_two_tenants_is_billed_to_both_and_refunded_to_one(url: str) -> None:
    """A fingerprint says nothing of tenants: the same public rows and a shared recipe have one, in two prefixes."""
    ledger = Ledger(url)
    key = "checkpoint.f.0001"
    ledger.add_usage([record(key, 2.0, tenant=name, refund="flagged") for name in ("acme", "globex")])
    decision = RefundDecision(key=key, decision="refund", actor="bo", reason="r", at="now")
    ledger.add_refunds("acme", [decision])
    billed = {name: sum(r.billed_hours for r in ledger.usage_rows(name, "2025-11")) for name in ("acme", "globex")}
    assert billed == {"acme": 0.0, "globex": 2.0}
    assert ledger.keys("globex", "2025-11") == ({key}, set())
    ledger.close()


def test_a_ledger_of_the_first_schema_keeps_its_rows_and_decisions(url: str) -> None:
    from alembic import command
    from alembic.config import Config

    import ft_assets.control.metering.ledger as module
    import ft_resources.database as database

    engine = sa.create_engine(database._driven(url))
    config = Config()
    config.set_main_option("script_location", str(module._SCHEMA.migrations))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        row = record("checkpoint.f.0001", 3.0, refund="flagged")
        values = {**row.model_dump(mode="json", exclude={"version"}), "month": row.month, "gpu_hours": row.gpu_hours}
        connection.execute(sa.insert(module.usage), [values])
        said = (
            "INSERT INTO refunds (key, decision, actor, reason, at) VALUES ('checkpoint.f.0001','refund','b','r','n')"
        )
        connection.execute(sa.text(said))
    engine.dispose()
    ledger = Ledger(url)
    assert [(found.gpu_hours, found.decision) for found in ledger.usage_rows("acme", "2025-11")] == [(3.0, "refund")]
    ledger.close()


def test_text_that_a_database_refuses_keeps_nobodys_bill_away(url: str) -> None:
    """Who launches from the UI names themselves, at any length and with any character."""
    ledger = Ledger(url)
    odd = record("checkpoint.a.0001", 1.0).model_copy(update={"actor": "a\x00" * 500})
    ledger.add_usage([odd, record("checkpoint.b.0001", 1.0)])
    assert len(ledger.usage_rows("acme", "2025-11")) == 2
    ledger.close()


def test_a_store_that_fails_while_a_recipe_is_read_does_not_make_its_gpus_free(world, monkeypatch) -> None:
    attempt_at(world.store, outcome=Outcome.DONE)

    def fails(*_: object) -> None:
        raise StoreUnavailable("the store refused to read", where="names/recipe")

    with monkeypatch.context() as patch:
        patch.setattr("ft_assets.control.metering.usage.get_recipe", fails)
        with pytest.raises(StoreUnavailable):
            count_usage(world.store, TenantsFile())
    (found,) = count_usage(world.store, TenantsFile())
    assert found.gpu_hours == 6.0


def test_two_words_on_when_it_ended_on_both_sides_of_a_months_end_are_one_bill(world, monkeypatch) -> None:
    """Whoever counted first died before the listing was gone; meanwhile the cluster's own word was brought."""
    monkeypatch.setattr("tests.control.metering.test_usage.AT", MONTH_END - 1.0)
    attempt = attempt_at(world.store, outcome=Outcome.DONE)
    (first,) = count_usage(world.store, TenantsFile())
    attempt.mark_open(PAIR, "ann")
    place = attempt.place()
    assert place is not None
    world.store.put_json(f"{attempt.path}/{PLACE}", {**place, "ended_at": MONTH_END + 1.0})
    assert count_usage(world.store, TenantsFile()) == []
    assert read_usage(world.store, "acme", "2026-11") == [first]
    assert read_usage(world.store, "acme", "2026-12") == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("outcome.json", {"outcome": "won", "error": None, "at": 1.0}),
        ("outcome.json", ["done"]),
        ("outcome.json", {"outcome": "done", "error": "text", "at": "soon"}),
        ("outcome.json", {"outcome": "done", "error": None, "at": 10**400}),
        ("outcome.json", {"outcome": "done", "error": None, "at": 1e300}),
        ("outcome.json", b"["),
        ("outcome.json", b"[" * 100_000),
        (PLACE, {"refund": "full"}),
        (PLACE, {"started_at": "x", "ended_at": {}, "cause": 1, "evidence": [], "refund": "half"}),
    ],
)
def test_a_worker_that_writes_nonsense_about_itself_stops_no_other_bill(world, name, content) -> None:
    """A worker may write what it likes into its attempt's folder, and runs what a tenant brought."""
    odd = attempt_at(world.store, outcome=Outcome.DONE, number=1)
    path = f"{odd.path}/{name}"
    if isinstance(content, bytes):
        world.store.put(path, content)
    else:
        world.store.put_json(path, content)
    attempt_at(world.store, outcome=Outcome.DONE, number=2)
    problems: list[str] = []
    found = count_usage(world.store, TenantsFile(), problems=problems)
    assert [each.key[-4:] for each in found] == ["0002"]
    assert len(problems) == 1
    assert world.store.exists(odd.marker), "it is not forgotten"


@pytest.mark.parametrize(
    "content",
    [
        *(b"[1]", b'"x"', b"", b"[" * 100_000),
        b'{"at": "now", "done": "a", "total": null, "save_s": [], "eta_s": "soon"}',
        b'{"at": -1, "done": 1e999}',
        # Numbers that no float holds, and moments that no calendar knows.
        b'{"at": %d, "since": 1e300, "done": %d}' % (10**400, 10**400),
    ],
)
def test_progress_that_is_none_is_read_as_no_sign_of_life(world: World, content: bytes) -> None:
    attempt = attempt_at(world.store, outcome=Outcome.DONE)
    world.store.put(f"{attempt.path}/progress.json", content)
    assert attempt.progress().keys().isdisjoint({"at", "done", "total", "save_s", "eta_s"})


def test_what_a_person_refunds_is_free_again(store: Store) -> None:
    use(store, "checkpoint.a.0001", 9.0, refund="flagged")
    with pytest.raises(OverQuota):
        ask(store, "one", 5.0)
    decide_refund(store, "acme", "2026-11", "checkpoint.a.0001", refund=True, actor="bo", reason="ours")
    assert ask(store, "one", 5.0) == []
    assert taken_hours(store, "acme", "2026-11") == (0.0, 5.0)


def test_a_promise_counts_and_ends_however_long_its_submission_takes(store: Store) -> None:
    """A dataset waits for a person for two months; what it was promised is not given to others meanwhile."""
    ask(store, "slow", 8.0, now=datetime(2026, 8, 1, tzinfo=UTC))
    with pytest.raises(OverQuota, match=r"8\.00 reserved"):
        ask(store, "two", 5.0)
    ended = Standing(ended=True, labels=frozenset())
    assert release_ended(store, tenants(), "acme", lambda _: ended, now=NOW) == ["slow"]
    assert ask(store, "two", 5.0) == []


def test_a_clock_that_is_a_month_behind_does_not_see_less_than_there_is(store: Store) -> None:
    ask(store, "one", 8.0, now=datetime(2026, 12, 1, tzinfo=UTC))
    with pytest.raises(OverQuota):
        ask(store, "two", 8.0, now=datetime(2026, 11, 30, 23, 59, tzinfo=UTC))


def test_admission_goes_on_beside_an_attempt_that_cannot_be_read(world: World) -> None:
    """Its promise is kept, as nobody knows what it used; the tenant's other work is not held up by it."""
    odd = attempt_at(world.store, outcome=Outcome.DONE)
    world.store.put_json(f"{odd.path}/outcome.json", ["done"])
    quota = TenantsFile(tiers={"default": Tier(quota=Quota(hard_gpu_hours=10.0))})

    def asks(name: str) -> list[str]:
        return admit(world.store, quota, "acme", name, hours=lambda: 4.0, standing=lambda _: RUNS, actor="ann", now=NOW)

    assert asks("one") == []
    assert asks("two") == []
    ended = Standing(ended=True, labels=frozenset({PAIR}))
    assert release_ended(world.store, quota, "acme", lambda _: ended, now=NOW) == []


def test_time_in_a_queue_is_not_billed_where_the_cluster_forgot_when_the_pod_started(world: World) -> None:
    """Launched on a Monday, started on a Thursday; the Job was removed by hand before anybody looked at it."""
    attempt = attempt_at(world.store, outcome=Outcome.DONE)
    world.store.delete(f"{attempt.path}/{PLACE}")
    world.store.put_json(f"{attempt.path}/launch.json", {"launcher": "kubernetes", "at": AT - 4 * 24 * 3600.0})
    world.store.put_json(f"{attempt.path}/outcome.json", {"outcome": "done", "error": None, "at": AT})
    progress = {"phase": "done", "since": AT - 1800.0, "at": AT}
    world.store.put_json(f"{attempt.path}/progress.json", progress)
    (found,) = count_usage(world.store, TenantsFile())
    assert found.gpu_hours == pytest.approx(2.0)


def open_attempt(store: Store, *, launch: dict[str, object] | None, age_s: float) -> Attempt:
    """An attempt that nobody closed, listed so long ago."""
    attempt = Attempt(store, request_for("checkpoint").address, 1)
    attempt.claim("ann")
    attempt.mark_open(PAIR, "ann")
    if launch:
        attempt.write_launch(dict(launch))
    path = store.local_path(attempt.marker)
    assert path is not None
    os.utime(path, (time.time() - age_s, time.time() - age_s))
    return attempt


@pytest.mark.parametrize("launch", [None, {"launcher": "local", "host": "gone", "pid": 1}])
def test_an_attempt_that_nobody_closed_keeps_no_promise_for_ever(store, launch) -> None:
    """Its orchestrator was killed between claim and launch, or its machine is gone; no run asks for it again."""
    attempt = open_attempt(store, launch=launch, age_s=2 * SILENT_S)
    execution = Execution(store=store, launcher=LocalLauncher())
    ask(store, "one", 6.0)
    ended = Standing(ended=True, labels=frozenset({PAIR}))
    assert release_ended(store, tenants(), "acme", lambda _: ended, now=NOW) == []
    now = time.time()
    assert close_abandoned(execution, {(str(attempt.address), 1)}, (), now, most=9) == [], "it has a Job"
    assert close_abandoned(execution, (), {PAIR}, now, most=9) == [], "a run is at it"
    assert close_abandoned(execution, (), (), now, most=9) == [attempt.path]
    ending = attempt.ending()
    assert ending.outcome is Outcome.PREEMPTED
    assert release_ended(store, tenants(), "acme", lambda _: ended, now=NOW) == ["one"]


def test_an_attempt_that_was_heard_of_lately_is_left_alone(store: Store) -> None:
    execution = Execution(store=store, launcher=LocalLauncher())
    fresh = open_attempt(store, launch=None, age_s=SILENT_S / 2)
    assert close_abandoned(execution, (), (), time.time(), most=9) == []
    os.utime(store.local_path(fresh.marker) or "", (0.0, 0.0))
    store.put_json(f"{fresh.path}/progress.json", {"phase": "training", "at": time.time() - 60.0})
    assert close_abandoned(execution, (), (), time.time(), most=9) == []
