"""What a notice says to whom, and what it keeps to itself; the section of tenants.yaml that asks for notices."""

import json
import re
from pathlib import Path

import pytest

from ft_assets.control.base_bumps.bump import BaseBump, Dependent
from ft_assets.control.lines.lines import append
from ft_assets.control.notices.deliver import tell
from ft_assets.control.submissions.failures import of_ending, of_step
from ft_assets.records.due_notices import mark_due, markers
from ft_assets.records.failures import Failure
from ft_assets.records.submissions import SubmissionStatus
from ft_assets.records.training_alerts import record_alert
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Address, InputRef
from ft_resources.attempts import Attempt, Ending
from ft_resources.canonical import canonical_json, sha256_bytes
from ft_resources.errors import UserError
from ft_resources.notifier import Notifier
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from tests.control.lines.promotable import made_record
from tests.control.notices.servers import Hook, mail_server
from tests.control.notices.world import Tell, bodies, ended, kinds, send_for, tenants_file


def test_only_what_was_asked_for_is_told(store: Store, hooks: dict[str, Hook], tmp_path: Path) -> None:
    path = tenants_file(tmp_path, hooks, ", events: [rejected]")
    ended(store, n=1)
    ended(store, status=SubmissionStatus.REJECTED, reason="task_gain: fail, 0.1 where 0.2 is required", n=2)
    for _ in range(2):
        tell(store, load_tenants(path), send_for())
    assert kinds(hooks["acme"]) == ["rejected"]
    assert bodies(hooks["acme"])[0]["details"] == ["task_gain: fail, 0.1 where 0.2 is required"]
    assert bodies(hooks["acme"])[0]["suggestions"] == ["train for fewer epochs"]
    assert markers(store) == []


def ending_of(store: Store, asset: str, outcome: Outcome, error: dict[str, str] | None = None) -> Failure:
    attempt = Attempt(store, Address(tenant="acme", asset=asset, fingerprint="ab"), 1)
    return of_ending(attempt, Ending(outcome=outcome, error=error))


def test_a_failure_says_whose_it_is_and_what_to_do(store: Store, hooks: dict[str, Hook], tick: Tell) -> None:
    error = {"type": "UserError", "what": "loss 1e9 at step 4", "remedy": "less"}
    ended(store, status=SubmissionStatus.FAILED, failure=ending_of(store, "checkpoint", Outcome.DIVERGED, error))
    tick()
    (body,) = bodies(hooks["acme"])
    assert body["kind"] == "failed"
    assert body["facts"]["asset"] == "checkpoint"
    assert (body["blame"], body["remedy"]) == ("user", "less")
    assert "diverged" in body["cause"]
    assert "loss 1e9 at step 4" in body["details"][0]


def test_an_alert_of_a_running_training_is_told_once_with_what_to_do(store, hooks, tick) -> None:
    submission = ended(store)
    tick()
    for attempt in (1, 2):
        record_alert(store, submission, "acme/checkpoint/ab", attempt, "9 tokens/s: far too slow. Look for other work.")
        tick()
    _, alert = bodies(hooks["acme"])
    assert (alert["kind"], alert["subject"], alert["facts"]["attempt"]) == ("alert", submission.id, "1")
    assert alert["details"] == ["9 tokens/s: far too slow. Look for other work."]


@pytest.mark.parametrize("kind", ["BadData", "WorkFailed", "KeyError", ""])
def test_what_may_quote_a_row_is_not_told(store: Store, kind: str) -> None:
    row = "the patient's name is Ann"
    error = {"type": kind, "what": row, "where": "rows.jsonl, row 7"}
    ending = ending_of(store, "dataset", Outcome.BAD_DATA, error)
    chain = [("DagsterExecutionStepExecutionError", "x"), (kind, f"ft_resources.errors.{kind}: {row}")]
    step = of_step("dataset", chain)
    for failure in (ending, step):
        assert row not in failure.model_dump_json()
    assert ending.where == "rows.jsonl, row 7"


def test_users_and_platforms_failures_are_told_apart(store: Store) -> None:
    said = "ft.BadRecipe: r.v1: no such key\n  What to do: y\n"
    asked = of_step("token_pack", [("Dagster", "x"), ("BadRecipe", said)])
    assert (asked.blame, asked.sentence, asked.remedy) == ("user", "r.v1: no such key", "y")
    refused = of_step("checkpoint", [("OverLimit", "ft_assets.control.submissions.admission.OverLimit: a: too long")])
    assert (refused.blame, refused.sentence) == ("user", "a: too long")
    for name, words in (("StoreUnavailable", "ft.StoreUnavailable: down"), ("ZeroDivisionError", "x")):
        assert of_step("a", [("Dagster", "x"), (name, words)]).blame == "platform"
    for outcome, blame in ((Outcome.PREEMPTED, "platform"), (Outcome.DIVERGED, "user")):
        assert ending_of(store, "checkpoint", outcome).blame == blame
    # A worker ends so for every error with words of ours, and this one nobody asked for.
    broken = ending_of(store, "dataset", Outcome.USER_ERROR, {"type": "CorruptArtifact", "what": "rows is missing"})
    assert (broken.blame, broken.cause) == ("platform", "the platform's store or a server is at fault")


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
        address = {"FT_SMTP_HOST": "127.0.0.1", "FT_SMTP_PORT": str(box.port), "FT_SMTP_FROM": "ft@example.org"}
        send = Notifier(environment={**address, "FT_SMTP_STARTTLS": "off"}.get, timeout_s=600.0).send
        for _ in range(2):
            tell(store, load_tenants(tmp_path / "tenants.yaml"), send)
    ((to, data),) = box.got
    assert to == ["ann@example.org"]
    head, _, body = data.decode().partition("\r\n\r\n")
    assert "Subject: [acme] acme.things.v1 with tiny.v1 was rejected" in head
    assert "eve" not in head
    assert "safety: fail" in body
    assert "\x1b" not in data.decode()


def test_a_candidate_that_no_gate_failed_was_not_proved_rather_than_rejected(store, hooks, tick) -> None:
    ended(store, status=SubmissionStatus.REJECTED, reason="not proved: no gate failed\ntask_gain: inconclusive")
    tick()
    (body,) = bodies(hooks["acme"])
    assert body["title"] == "acme.things.v1 with tiny.v1 was not proved"
    assert body["kind"] == "rejected", "who asked for rejections is told"


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
