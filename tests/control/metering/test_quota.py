"""Admission against a tenant's GPU-hours: no interleaving of submissions takes more than there is."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.metering.quota import OverQuota, Standing, admit, release_ended, taken_hours
from ft_assets.control.metering.quota_log import read_quota
from ft_assets.settings.tenants import Quota, TenantsFile, Tier
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store
from tests.control.metering.test_ledger import record

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
ENDED = Standing(ended=True, labels=frozenset())
RUNS = Standing(ended=False, labels=frozenset())


def tenants(hard: float | None = 10.0, soft: float | None = None, overage: float = 1.0) -> TenantsFile:
    quota = Quota(hard_gpu_hours=hard, soft_gpu_hours=soft, overage_factor=overage)
    return TenantsFile(tiers={"default": Tier(quota=quota)})


def ask(store: Store, submission: str, hours: float | None, *, now: datetime = NOW, **quota: float) -> list[str]:
    return admit(
        store,
        tenants(**quota),
        "acme",
        submission,
        hours=lambda: hours,
        standing=lambda _: RUNS,
        actor="ann",
        now=now,
    )


def use(store: Store, key: str, hours: float, *, at: datetime = NOW, refund: str = "none") -> None:
    used = record(key, hours, refund=refund, price=3.0, ended_at=at.timestamp(), outcome="done", currency="USD")
    store.create(used.path, canonical_json(used.model_dump(mode="json")))


def test_what_does_not_fit_is_refused_with_what_is_left_and_nothing_is_written(store: Store) -> None:
    ask(store, "one", 6.0)
    use(store, "checkpoint.a.0001", 2.0)
    with pytest.raises(
        OverQuota, match=r"up to 3\.00 GPU-hours; of acme's 10 per month 2\.00 are used and 6\.00 reserved"
    ):
        ask(store, "two", 3.0)
    assert read_quota(store, "acme", "2026-11").open == {"one": 6.0}
    assert ask(store, "three", 2.0) == []


def test_asking_again_for_the_same_submission_promises_nothing_twice(store: Store) -> None:
    for _ in range(3):
        ask(store, "one", 6.0)
    assert taken_hours(store, "acme", "2026-11") == (0.0, 6.0)


def test_hours_that_were_refunded_are_free_again(store: Store) -> None:
    use(store, "checkpoint.a.0001", 9.0, refund="full")
    assert ask(store, "one", 9.0) == []


def test_beyond_the_soft_quota_the_overage_is_told(store: Store) -> None:
    use(store, "checkpoint.a.0001", 4.0)
    warnings = ask(store, "one", 3.0, soft=5.0, overage=1.5)
    assert warnings == [
        "up to 2.00 GPU-hours of this are overage, at 1.5 times the price: of acme's 5 per month 4.00 are "
        "used and 0.00 reserved in 2026-11"
    ]


def test_what_cannot_be_estimated_is_refused_where_there_is_a_hard_quota_only(store: Store) -> None:
    with pytest.raises(OverQuota, match="the GPU-hours of this training cannot be estimated"):
        ask(store, "one", None)
    assert ask(store, "one", None, hard=None, soft=1.0) == []


def test_without_a_quota_nothing_is_estimated_and_nothing_written(store: Store) -> None:
    def never() -> float:
        raise AssertionError("nobody needs to know")

    found = admit(store, TenantsFile(), "acme", "x", hours=never, standing=lambda _: RUNS, actor="ann", now=NOW)
    assert found == []
    assert list(store.entries("acme")) == []


def test_a_promise_ends_only_when_what_its_attempts_used_is_counted(store: Store) -> None:
    ask(store, "one", 6.0)
    marker = "open_attempts/acme/checkpoint.f.0001.json"
    store.put_json(marker, {"label": "acme.a.v1|r.v1", "actor": "ann"})
    ended = Standing(ended=True, labels=frozenset({"acme.a.v1|r.v1"}))
    assert release_ended(store, tenants(), "acme", lambda _: ended, now=NOW) == []
    store.delete(marker)
    assert release_ended(store, tenants(), "acme", lambda _: ended, now=NOW) == ["one"]
    assert taken_hours(store, "acme", "2026-11") == (0.0, 0.0)


def test_a_promise_whose_submission_was_never_recorded_ends_after_an_hour(store: Store) -> None:
    ask(store, "one", 6.0)
    assert release_ended(store, tenants(), "acme", lambda _: None, now=NOW + timedelta(minutes=59)) == []
    assert release_ended(store, tenants(), "acme", lambda _: None, now=NOW + timedelta(minutes=61)) == ["one"]


def test_promises_of_last_month_count_until_they_end_and_hours_of_last_month_do_not(store: Store) -> None:
    october = datetime(2026, 10, 31, 23, tzinfo=UTC)
    ask(store, "one", 6.0, now=october)
    use(store, "checkpoint.a.0001", 9.0, at=october)
    with pytest.raises(OverQuota):
        ask(store, "two", 5.0)
    assert ask(store, "three", 4.0) == []


def test_a_log_with_a_gap_admits_nobody(store: Store) -> None:
    for name in ("one", "two"):
        ask(store, name, 1.0)
    store.delete("acme/quota/2026-11/000001.json")
    with pytest.raises(CorruptArtifact, match="missing"):
        ask(store, "three", 1.0)


def test_submissions_at_once_never_overshoot(store: Store) -> None:
    barrier = threading.Barrier(12)

    def is_refused(number: int) -> bool:
        barrier.wait()
        try:
            ask(store, f"s{number}", 3.0)
        except OverQuota:
            return True
        return False

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(is_refused, range(12))) == 9
    assert taken_hours(store, "acme", "2026-11") == (0.0, 9.0)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("ask"), st.integers(0, 9), st.floats(0.1, 6.0)),
            st.tuples(st.just("end"), st.integers(0, 9), st.floats(0.0, 1.0)),
        ),
        max_size=30,
    )
)
def test_whatever_is_asked_and_whatever_ends_the_quota_holds(tmp_path_factory, steps) -> None:
    store = Store(str(tmp_path_factory.mktemp("quota")))
    promised: dict[str, float] = {}
    ended: set[str] = set()
    for number, (step, which, amount) in enumerate(steps):
        name = f"s{which}"
        if step == "ask" and name not in ended:
            try:
                ask(store, name, amount)
                promised.setdefault(name, amount)
            except OverQuota:
                assert name not in promised
        elif step == "end" and name in promised and name not in ended:
            # It used a part of what was promised; that is counted before the promise ends.
            use(store, f"checkpoint.{number}.0001", promised[name] * amount)
            ended.add(name)
            release_ended(store, tenants(), "acme", lambda other: ENDED if other in ended else RUNS, now=NOW)
        billed, open_hours = taken_hours(store, "acme", "2026-11")
        assert billed + open_hours <= 10.0 + 1e-6
        assert open_hours == pytest.approx(sum(h for s, h in promised.items() if s not in ended))
