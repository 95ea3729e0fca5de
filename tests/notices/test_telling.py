"""Events from real records to real servers: at least once, to the right ones, and never again."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.adapters.lines import append
from ft_assets.base_bumps.bump import BaseBump, Dependent
from ft_assets.notices.due import mark_due, markers
from ft_assets.notices.failures import Failure, of_ending, of_step
from ft_assets.notices.plan import BACKOFF_S, LEASE_S, MOST_TRIES, Delivery, Try, plan
from ft_assets.notices.records import begin_try, find_event, told
from ft_assets.notices.telling import Round, tell
from ft_assets.submissions.record import Submission, SubmissionStatus, finish
from ft_assets.tenants import load_tenants
from ft_resources.artifacts import InputRef
from ft_resources.canonical import canonical_json, sha256_bytes
from ft_resources.errors import UserError
from ft_resources.notifier import Message, Notifier, Target
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from tests.adapters.promotable import made_record
from tests.notices.servers import Hook, mail_server, webhook

SECRET = "a key of thirty-two characters.."
Tell = Callable[..., Round]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture
def hooks() -> Iterator[dict[str, Hook]]:
    with webhook() as acme, webhook() as other, webhook() as platform:
        yield {"acme": acme, "other": other, "platform": platform}


def tenants_file(folder: Path, hooks: dict[str, Hook], events: str = "") -> Path:
    def section(owner: str, indent: str) -> str:
        name = f"FT_WEBHOOK_{owner.upper()}"
        return f"{indent}notify: {{webhook: {{url: '{hooks[owner].url}', secret_env: {name}}}{events}}}\n"

    text = "tenants:\n"
    for tenant in ("acme", "other"):
        text += f"  {tenant}:\n" + section(tenant, "    ")
    path = folder / "tenants.yaml"
    path.write_text(section("platform", "") + text)
    return path


def send_for(hosts: str = "127.0.0.1") -> Callable[[Target, Message], None]:
    environment = {f"FT_WEBHOOK_{name}": SECRET for name in ("ACME", "OTHER", "PLATFORM")} | {"FT_NOTIFY_HOSTS": hosts}
    return Notifier(environment=environment.get, timeout_s=5.0).send


@pytest.fixture
def tick(tmp_path: Path, store: Store, hooks: dict[str, Hook]) -> Tell:
    """A round at a later time; nothing is kept in the process between two of them."""
    path = tenants_file(tmp_path, hooks)

    def at(later_s: float = 0.0, failure: Failure | None = None, **more: object) -> Round:
        moment = datetime.now(UTC) + timedelta(seconds=later_s)
        return tell(Store(store.url), load_tenants(path), send_for(), lambda _: failure, now=lambda: moment, **more)

    return at


def ended(
    store: Store,
    tenant: str = "acme",
    status: SubmissionStatus = SubmissionStatus.ACCEPTED,
    reason: str = "",
    n: int = 0,
) -> Submission:
    """A submission that ended; only its records."""
    submission = Submission(
        id=f"{n:016x}",
        dataset=f"{tenant}.things.v1",
        recipe="tiny.v1",
        actor="ann",
        origin="cli",
        idempotency_key="ask-1",
        driver="sensor",
        created_at="2026-01-01T00:00:00+00:00",
    )
    store.put(submission.path, canonical_json(submission.model_dump(mode="json")))
    adapter = "acme/adapter/a" if status == "accepted" else ""
    tried = ["train for fewer epochs"] if status == "rejected" else []
    finish(store, submission, status, reason=reason, adapter=adapter, suggestions=tried)
    return submission


def bodies(hook: Hook) -> list[dict]:
    return [json.loads(body) for _, body in hook.got]


def kinds(hook: Hook) -> list[str]:
    return [body["kind"] for body in bodies(hook)]


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


def test_a_webhook_that_answers_500_then_200_gets_it_later_and_once(
    store: Store, hooks: dict[str, Hook], tick: Tell
) -> None:
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


def test_a_webhook_that_stays_down_is_given_up_with_the_reason(
    store: Store, hooks: dict[str, Hook], tick: Tell
) -> None:
    hooks["acme"].answers = [503]
    asked = ended(store)
    for _ in range(MOST_TRIES + 3):
        tick(2 * sum(BACKOFF_S))
    assert len(hooks["acme"].got) == MOST_TRIES
    assert markers(store) == []
    (found,) = told(store, "acme")
    assert found.event.subject == asked.id
    assert found.channels == {"tenant-webhook": "given up: it answered 503", "platform-webhook": "sent"}


def test_one_that_is_down_costs_one_try_a_round_and_keeps_nobody_waiting(
    store: Store, hooks: dict[str, Hook], tick: Tell
) -> None:
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

    def die(target: Target, message: Message) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tell(store, load_tenants(tmp_path / "tenants.yaml"), die, lambda _: None)
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

    tell(store, load_tenants(tmp_path / "tenants.yaml"), send, lambda _: None)
    assert len(hooks["acme"].got) == 1
    assert len(hooks["platform"].got) == 1


def test_a_marker_whose_record_never_came_is_forgotten_after_a_day(
    store: Store, hooks: dict[str, Hook], tick: Tell
) -> None:
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


def test_only_what_was_asked_for_is_told(store: Store, hooks: dict[str, Hook], tmp_path: Path) -> None:
    path = tenants_file(tmp_path, hooks, ", events: [rejected]")
    ended(store, n=1)
    ended(store, status=SubmissionStatus.REJECTED, reason="task_gain: fail, 0.1 where 0.2 is required", n=2)
    for _ in range(2):
        tell(store, load_tenants(path), send_for(), lambda _: None)
    assert kinds(hooks["acme"]) == ["rejected"]
    assert bodies(hooks["acme"])[0]["details"] == ["task_gain: fail, 0.1 where 0.2 is required"]
    assert bodies(hooks["acme"])[0]["suggestions"] == ["train for fewer epochs"]
    assert markers(store) == []


def test_with_nobody_to_tell_markers_go_and_nothing_is_read_or_kept(store: Store, tmp_path: Path) -> None:
    ended(store)
    tell(store, load_tenants(tmp_path / "none.yaml"), send_for(), lambda _: None)
    assert markers(store) == []
    assert "notices" not in store.folders("acme")


def test_a_failure_says_whose_it_is_and_what_to_do(store: Store, hooks: dict[str, Hook], tick: Tell) -> None:
    error = {"type": "UserError", "what": "loss 1e9 at step 4", "remedy": "less"}
    why = of_ending("checkpoint", Outcome.DIVERGED, error)
    ended(store, status=SubmissionStatus.FAILED, reason="train_pair failed")
    tick(failure=why)
    (body,) = bodies(hooks["acme"])
    assert body["kind"] == "failed"
    assert body["facts"]["asset"] == "checkpoint"
    assert (body["blame"], body["remedy"]) == ("user", "less")
    assert "diverged" in body["cause"]
    assert "loss 1e9 at step 4" in body["details"]


@pytest.mark.parametrize("kind", ["BadData", "WorkFailed", "KeyError", ""])
def test_what_may_quote_a_row_is_not_told(kind: str) -> None:
    row = "the patient's name is Ann"
    ending = of_ending("dataset", Outcome.BAD_DATA, {"type": kind, "what": row, "where": "rows.jsonl, row 7"})
    chain = [("DagsterExecutionStepExecutionError", "x"), (kind, f"ft_resources.errors.{kind}: {row}")]
    step = of_step("dataset", chain)
    for failure in (ending, step):
        assert row not in failure.model_dump_json()
    assert ending.where == "rows.jsonl, row 7"


def test_users_and_platforms_failures_are_told_apart() -> None:
    said = "ft.BadRecipe: r.v1: no such key\n  What to do: y\n"
    asked = of_step("token_pack", [("Dagster", "x"), ("BadRecipe", said)])
    assert (asked.blame, asked.sentence, asked.remedy) == ("user", "r.v1: no such key", "y")
    assert of_step("a", [("Dagster", "x"), ("StoreUnavailable", "ft.StoreUnavailable: down")]).blame == "platform"
    assert of_step("a", [("Dagster", "x"), ("ZeroDivisionError", "x")]).blame == "platform"
    assert of_ending("checkpoint", Outcome.PREEMPTED, None).blame == "platform"
    assert of_ending("checkpoint", Outcome.DIVERGED, None).blame == "user"


def test_promotions_and_their_like_are_told_with_who_and_why(store: Store, hooks: dict[str, Hook], tick: Tell) -> None:
    previous = ""
    for seq, (stage, kind) in enumerate(
        [("staging", "promotion"), ("production", "promotion"), ("staging", "rollback"), ("archived", "promotion")], 1
    ):
        record = made_record(seq=seq, stage=stage, kind=kind, previous=previous, reason=f"reason {seq}")
        append(store, record)
        previous = sha256_bytes(record.data())
    tick()
    assert sorted(kinds(hooks["acme"])) == ["archived", "promoted", "promoted", "rolled_back"]
    archived = next(body for body in bodies(hooks["acme"]) if body["kind"] == "archived")
    assert archived["details"][0] == "reason 4"
    assert archived["facts"]["by"] == "ann"


def test_a_moved_base_is_told_to_each_with_its_own_part(store: Store, hooks: dict[str, Hook], tick: Tell) -> None:
    ref = InputRef(address="x/adapter/a", digest="d")
    dependents = tuple(
        Dependent(dataset=f"{tenant}.things.v1", recipe="tiny.v1", adapter=ref, checkpoint=ref)
        for tenant in ("acme", "other", "third")
    )
    bump = BaseBump(recipe="tiny.v2", dependents=dependents, actor="sensor", at="2026-01-01T00:00:00+00:00")
    mark_due(store, "base_bump", "shared", "names/base_bump/tiny.v2.json")
    store.create("names/base_bump/tiny.v2.json", canonical_json(bump.model_dump(mode="json")))
    for _ in range(3):
        tick()
    (mine,) = bodies(hooks["acme"])
    assert mine["facts"]["adapters"] == "1"
    assert "other" not in json.dumps(mine)
    (all_of_it,) = bodies(hooks["platform"])
    assert all_of_it["facts"]["adapters"] == "3"


def test_a_mail_says_it_in_words(store: Store, tmp_path: Path) -> None:
    (tmp_path / "tenants.yaml").write_text("tenants: {acme: {notify: {email: {to: [ann@example.org]}}}}\n")
    ended(store, status=SubmissionStatus.REJECTED, reason="safety: fail\nBcc: eve@example.org\x1b[31m")
    with mail_server() as box:
        environment = {
            "FT_SMTP_HOST": "127.0.0.1",
            "FT_SMTP_PORT": str(box.port),
            "FT_SMTP_FROM": "ft@example.org",
            "FT_SMTP_STARTTLS": "off",
        }
        send = Notifier(environment=environment.get).send
        for _ in range(2):
            tell(store, load_tenants(tmp_path / "tenants.yaml"), send, lambda _: None)
    ((to, data),) = box.got
    assert to == ["ann@example.org"]
    head, _, body = data.decode().partition("\r\n\r\n")
    assert "Subject: [acme] acme.things.v1 with tiny.v1 was rejected" in head
    assert "eve" not in head
    assert "safety: fail" in body
    assert "\x1b" not in data.decode()


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


def test_an_event_of_somebody_else_in_ones_place_is_refused(store: Store, tick: Tell) -> None:
    ended(store)
    tick()
    (name,) = store.folders("acme/notices")
    store.put(f"other/notices/{name}/event.json", store.get(f"acme/notices/{name}/event.json"))
    with pytest.raises(UserError, match="belongs to somebody else"):
        find_event(store, "other", name)


def test_a_try_is_made_by_one(store: Store, tick: Tell) -> None:
    ended(store)
    tick()
    (name,) = store.folders("acme/notices")
    event = find_event(store, "acme", name)
    assert event is not None
    assert not begin_try(store, event, "tenant-webhook", 1)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{webhook: {url: 'ftp://x/y', secret_env: FT_WEBHOOK_A}}", "should be https"),
        ("{webhook: {url: 'https://u:p@x/y', secret_env: FT_WEBHOOK_A}}", "no user and password"),
        ("{webhook: {url: 'https://x/y', secret_env: AWS_SECRET_ACCESS_KEY}}", "secret_env"),
        ("{webhook: {url: 'https://x/y'}}", "secret_env: is missing"),
        ('{email: {to: ["ann@example.org\\nBcc: eve@example.org"]}}', "one mail address"),
        ("{email: {to: [Ann <ann@example.org>]}}", "one mail address"),
        ("{email: {to: []}}", "to"),
        ("{events: [acepted]}", "events"),
        ("{webhok: {}}", "did you mean 'webhook'"),
    ],
)
def test_a_section_that_means_nothing_is_refused_with_its_place(tmp_path: Path, section: str, words: str) -> None:
    path = tmp_path / "tenants.yaml"
    path.write_text(f"tenants: {{acme: {{notify: {section}}}}}\n")
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        load_tenants(path)
    assert "tenants.acme.notify" in str(caught.value)


def test_a_missing_key_is_a_failed_try_that_names_the_variable(
    store: Store, hooks: dict[str, Hook], tick: Tell, tmp_path: Path
) -> None:
    ended(store)
    send = Notifier(environment={}.get).send
    done = tell(store, load_tenants(tmp_path / "tenants.yaml"), send, lambda _: None)
    assert done.failed == 2
    assert any("FT_WEBHOOK_ACME is not set" in problem for problem in done.problems)
