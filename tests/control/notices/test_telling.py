"""Events from real records to real servers: at least once, to the right ones, and never again."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.notices.deliver import Round, tell
from ft_assets.control.notices.event_records import begin_try, find_event, told
from ft_assets.control.notices.plan import BACKOFF_S, LEASE_S, MOST_TRIES, Delivery, Try, plan
from ft_assets.records.due_notices import mark_due, markers
from ft_assets.records.submissions import SubmissionStatus
from ft_assets.settings.tenants import NO_TENANTS, load_tenants
from ft_resources.errors import UserError
from ft_resources.messages import Message, Target
from ft_resources.notifier import Notifier
from ft_resources.store import Store
from tests.control.notices.servers import Hook
from tests.control.notices.world import Tell, bodies, ended, kinds, send_for


def test_an_end_is_told_once_whoever_looks_again(store: Store, hooks: dict[str, Hook], tick: Tell) -> None:
    ended(store)
    for _ in range(3):
        # Each is what a restarted daemon or a rebuilt instance does: it has nothing but the store.
        tick()
    assert kinds(hooks["acme"]) == ["accepted"]
    assert kinds(hooks["platform"]) == ["accepted"]
    assert bodies(hooks["acme"])[0]["id"] == bodies(hooks["platform"])[0]["id"]
    assert markers(store) == []
    # Somebody who ends it once more, a moment later, is no news.
    ended(store)
    tick()
    tick()
    assert kinds(hooks["acme"]) == ["accepted"]
    assert markers(store) == []


def test_a_tenant_is_told_of_its_own_and_of_nothing_else(store: Store, hooks: dict[str, Hook], tick: Tell) -> None:
    ended(store, "acme", SubmissionStatus.REJECTED, n=1)
    ended(store, "other", SubmissionStatus.CANCELLED, n=2)
    ended(store, "third", n=3)
    tick()
    assert {body["tenant"] for body in bodies(hooks["acme"])} == {"acme"}
    assert {body["tenant"] for body in bodies(hooks["other"])} == {"other"}
    assert {body["tenant"] for body in bodies(hooks["platform"])} == {"acme", "other", "third"}


def test_a_marker_that_lies_with_another_tenant_tells_nobody(store: Store, hooks: dict[str, Hook], tick: Tell) -> None:
    ended(store, "other")
    (path,) = markers(store)
    store.put(path.replace("/other/", "/acme/"), store.get(path))
    done = tick()
    assert any("belongs elsewhere" in problem for problem in done.problems)
    assert hooks["acme"].got == []
    assert kinds(hooks["other"]) == ["accepted"]


def test_a_webhook_that_answers_500_then_200_gets_it_later_and_once(store, hooks, tick) -> None:
    hooks["acme"].answers = [500, 200]
    ended(store)
    assert tick().failed == 1
    # Not before the back-off is over.
    assert tick(BACKOFF_S[0] - 10).sent == 0
    assert tick(BACKOFF_S[0] + 10).sent == 1
    tick(BACKOFF_S[0] + 20)
    assert len(hooks["acme"].got) == 2
    assert hooks["acme"].got[0][1] == hooks["acme"].got[1][1]
    assert kinds(hooks["platform"]) == ["accepted"]
    assert markers(store) == []


def test_a_webhook_that_stays_down_is_given_up_with_the_reason(store, hooks, tick) -> None:
    hooks["acme"].answers = [503]
    asked = ended(store)
    for _ in range(MOST_TRIES + 3):
        tick(2 * sum(BACKOFF_S))
    assert len(hooks["acme"].got) == MOST_TRIES
    assert markers(store) == []
    (found,) = told(store, "acme")
    assert found.event.subject == asked.id
    assert found.channels == {"tenant-webhook": "given up: it answered 503", "platform-webhook": "sent"}


def test_one_that_is_down_costs_one_try_a_round_and_keeps_nobody_waiting(store, hooks, tick) -> None:
    hooks["acme"].answers = [503]
    for number in range(5):
        ended(store, "acme", n=number)
        ended(store, "other", n=number)
    tick()
    assert len(hooks["acme"].got) == 1
    assert len(hooks["other"].got) == 5
    assert len(hooks["platform"].got) == 10


def test_a_process_that_dies_while_it_sends_is_followed_by_another_after_its_lease(
    store: Store, hooks: dict[str, Hook], tick: Tell, tmp_path: Path
) -> None:
    ended(store)
    # Both tries are begun when it dies.
    both = Barrier(2)

    def die(target: Target, message: Message) -> None:
        both.wait(600)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tell(store, load_tenants(tmp_path / "tenants.yaml"), die)
    # Whether it got through nobody knows, so for a while nobody tries.
    assert tick().sent == 0
    assert tick(LEASE_S + 10).sent >= 1
    assert kinds(hooks["acme"]) == ["accepted"]


def test_two_daemons_at_once_send_one_notice(store: Store, hooks: dict[str, Hook], tick: Tell, tmp_path: Path) -> None:
    ended(store)
    inner: list[Round] = []

    def send(target: Target, message: Message) -> None:
        if not inner:
            inner.append(Round())
            inner[0] = tick()
        send_for()(target, message)

    tell(store, load_tenants(tmp_path / "tenants.yaml"), send)
    assert len(hooks["acme"].got) == 1
    assert len(hooks["platform"].got) == 1


def test_a_marker_whose_record_never_came_is_forgotten_after_a_day(store, hooks, tick) -> None:
    mark_due(store, "submission", "acme", f"acme/submissions/{0:016x}/outcome.json")
    tick(3600)
    assert len(markers(store)) == 1
    tick(2 * 86400)
    assert markers(store) == []
    assert hooks["acme"].got == []


def test_a_round_is_bounded_and_the_next_goes_on(store: Store, hooks: dict[str, Hook], tick: Tell) -> None:
    for number in range(5):
        ended(store, n=number)
    first = tick(most=2)
    assert first.looked == 2
    assert first.after
    second = tick(most=2, after=first.after)
    third = tick(most=2, after=second.after)
    assert third.after == ""
    assert len(hooks["acme"].got) == 5
    # A cursor is a hint: one that leads beyond the end looks at everything.
    assert tick(after="zzz").looked == 5


def test_with_nobody_to_tell_markers_go_and_nothing_is_read_or_kept(store: Store) -> None:
    ended(store)
    tell(store, NO_TENANTS, send_for())
    assert markers(store) == []
    assert "notices" not in store.folders("acme")


@given(
    failures=st.integers(0, MOST_TRIES),
    last_failed=st.booleans(),
    sent=st.booleans(),
    later_s=st.floats(0, 2 * sum(BACKOFF_S)),
)
def test_nothing_is_sent_twice_early_or_for_ever(failures: int, last_failed: bool, sent: bool, later_s: float) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    tries = tuple(Try(at=start, failed=last_failed or place < failures - 1) for place in range(failures))
    step = plan(["a"], {"a": Delivery(tries=tries, sent=sent)}, start + timedelta(seconds=later_s))
    assert len(step.send) + len(step.give_up) + step.waiting == (0 if sent else 1)
    if step.send:
        assert step.send["a"] == failures + 1 <= MOST_TRIES
        assert not failures or later_s >= BACKOFF_S[failures - 1]
        assert not failures or last_failed or later_s >= LEASE_S
    if step.give_up:
        assert failures == MOST_TRIES


def test_an_event_of_somebody_else_in_ones_place_is_refused_and_a_try_is_made_by_one(store: Store, tick: Tell) -> None:
    ended(store)
    tick()
    (name,) = store.folders("acme/notices")
    store.put(f"other/notices/{name}/event.json", store.get(f"acme/notices/{name}/event.json"))
    with pytest.raises(UserError, match="belongs to another tenant"):
        find_event(store, "other", name)
    ended(store)
    tick()
    event = find_event(store, "acme", name)
    assert event is not None
    assert not begin_try(store, event, "tenant-webhook", 1)


def test_a_missing_key_is_a_failed_try_that_names_the_variable(store, hooks, tick, tmp_path) -> None:
    ended(store)
    send = Notifier(environment={}.get).send
    done = tell(store, load_tenants(tmp_path / "tenants.yaml"), send)
    assert done.failed == 2
    assert any("FT_WEBHOOK_ACME is not set" in problem for problem in done.problems)
