"""Production by two people: what waits, who may approve it, and what is refused when something changed meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from ft_assets.control.lines import second_person
from ft_assets.control.lines.lines import PromotionRecord, read_line
from ft_assets.control.lines.promotion import Decision, promote, rollback
from ft_assets.control.lines.proposals import Proposal, WaitsForSecondPerson, read_proposals
from ft_assets.control.lines.second_person import approve, decline
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings.tenants import Tenant, TenantsFile
from ft_resources.artifacts import Artifact
from ft_resources.errors import NotFound, NotPermitted, UserError
from ft_resources.records import Record
from tests.control.lines.promotable import LINE, SERVED, Promotable, decided, made_record

TWO = SERVED.model_copy(update={"production_second_person": True})
ANN, BEA = "ann (key aaaaaaaaaaaa)", "bea (key bbbbbbbbbbbb)"


def by(actor: str, **changes: object) -> Decision:
    return decided(actor, tenants=TWO, **changes)


def proposed(line: Promotable, adapter: Artifact, actor: str = ANN, **changes: object) -> Proposal:
    with pytest.raises(WaitsForSecondPerson) as waits:
        promote(line.world.artifacts, str(adapter.address), "production", by(actor, **changes))
    return waits.value.proposal


def in_production(line: Promotable) -> str:
    found = read_line(line.world.store, LINE).at("production")
    return found.adapter.address if found else ""


def test_a_promotion_to_production_waits_and_the_approval_carries_it_out_with_both_names(line: Promotable) -> None:
    adapter = line.adapter()
    promote(line.world.artifacts, str(adapter.address), "staging", by(ANN))
    waiting = proposed(line, adapter, reason="a good week")
    assert in_production(line) == ""
    assert [each.state for each in read_proposals(line.world.store, LINE)] == ["open"]
    record = approve(line.world.artifacts, LINE, by(BEA, reason="I read it"))
    assert in_production(line) == str(adapter.address)
    assert (record.actor, record.proposed_by, record.reason) == (BEA, ANN, "a good week")
    assert record.findings[-1] == f"approved by {BEA}: I read it"
    assert "the safety gate passed" in record.findings
    (state,) = read_proposals(line.world.store, LINE)
    assert (state.state, state.answer.actor, state.proposal) == ("approved", BEA, waiting)
    # Giving the approval again changes nothing.
    assert approve(line.world.artifacts, LINE, by(BEA), proposal=waiting.id).data() == record.data()
    assert len(read_line(line.world.store, LINE).records) == 2


@pytest.mark.parametrize("root", [ANN, "kim (sign-in)", "kim@acme.example"])
def test_two_keys_that_one_person_made_are_one_person(line: Promotable, root: str) -> None:
    proposed(line, line.adapter(), "first (key cccccccccccc)", made_by=root)
    with pytest.raises(NotPermitted, match="another person must approve it"):
        approve(line.world.artifacts, LINE, by("second (key dddddddddddd)", made_by=root))
    assert in_production(line) == ""
    approve(line.world.artifacts, LINE, by("second (key dddddddddddd)", made_by=BEA))


@pytest.mark.parametrize(
    ("actor", "made_by"),
    [
        (ANN, "root"),
        ("ann (key cccccccccccc)", "root"),
        ("Ann", ""),
        ("ann (in Dagster)", ""),
        ("service (key dddddddddddd)", ANN),
        ("root", ""),
    ],
)
def test_who_proposed_it_is_nobody_else_by_another_key(line: Promotable, actor: str, made_by: str) -> None:
    waiting = proposed(line, line.adapter(), made_by="root")
    with pytest.raises(NotPermitted, match="another person must approve it"):
        approve(line.world.artifacts, LINE, by(actor, made_by=made_by))
    assert in_production(line) == ""
    # Two people to whom an operator gave keys are two.
    approve(line.world.artifacts, LINE, by(BEA, made_by="root"), proposal=waiting.id)


def test_one_tenant_may_want_it_and_all_others_not_and_records_without_it_have_the_bytes_that_they_had() -> None:
    file = TenantsFile(tenants={"acme": Tenant(production_second_person=True)})
    assert [file.second_person_of(name) for name in ("acme", "globex")] == [True, False]
    all_but_one = TenantsFile(production_second_person=True, tenants={"acme": Tenant(production_second_person=False)})
    assert [all_but_one.second_person_of(name) for name in ("acme", "globex")] == [False, True]
    record: Record = made_record()
    assert b"proposed_by" not in record.data()
    assert b"proposed_by" in made_record(proposed_by="ann").data()


def test_only_production_waits_and_a_rollback_does_not(line: Promotable) -> None:
    first, second = line.adapter(1), line.adapter(2)
    for adapter in (first, second):
        promote(line.world.artifacts, str(adapter.address), "dev", by(ANN))
        proposed(line, adapter)
        approve(line.world.artifacts, LINE, by(BEA))
    assert rollback(line.world.artifacts, LINE, by(ANN)).adapter == first.ref
    assert in_production(line) == str(first.address)


def test_asking_again_is_the_same_proposal_and_a_check_that_refuses_proposes_nothing(line: Promotable) -> None:
    adapter = line.adapter()
    assert proposed(line, adapter) == proposed(line, adapter) == proposed(line, adapter, actor="zoe")
    unsafe = line.adapter(2, verdicts=[{"gate": "task_gain", "outcome": "pass", "reason": "good", "numbers": {}}])
    with pytest.raises(UserError, match="safety"):
        promote(line.world.artifacts, str(unsafe.address), "production", by(ANN))
    assert len(read_proposals(line.world.store, LINE)) == 1


def test_of_several_that_wait_one_has_to_be_named(line: Promotable) -> None:
    first, second = proposed(line, line.adapter(1)), proposed(line, line.adapter(2))
    with pytest.raises(UserError, match="several proposals are pending"):
        approve(line.world.artifacts, LINE, by(BEA))
    approve(line.world.artifacts, LINE, by(BEA), proposal=first.id)
    # The other one was compared with what stood there before.
    assert [each.state for each in read_proposals(line.world.store, LINE)] == ["overtaken", "approved"]
    with pytest.raises(UserError, match="changed after it was proposed"):
        approve(line.world.artifacts, LINE, by(BEA), proposal=second.id)
    with pytest.raises(NotFound, match="no pending proposal"):
        approve(line.world.artifacts, LINE, by(BEA))
    with pytest.raises(NotFound, match="has no proposal"):
        approve(line.world.artifacts, LINE, by(BEA), proposal="0" * 24)


def test_what_was_declined_or_withdrawn_is_not_approved_any_more(line: Promotable) -> None:
    adapter = line.adapter()
    for who, kind in ((BEA, "declined"), ("ann (key cccccccccccc)", "withdrawn")):
        waiting = proposed(line, adapter)
        assert decline(line.world.artifacts, LINE, by(who, reason="no")).state == kind
        with pytest.raises(UserError, match=f"has {kind} it"):
            approve(line.world.artifacts, LINE, by(BEA), proposal=waiting.id)
        with pytest.raises(UserError, match=f"has {kind} it"):
            decline(line.world.artifacts, LINE, by("zoe"), proposal=waiting.id)
    assert in_production(line) == ""
    # It may be proposed once more.
    proposed(line, adapter)
    approve(line.world.artifacts, LINE, by(BEA))
    assert in_production(line) == str(adapter.address)


def test_all_checks_run_again_at_the_approval(line: Promotable) -> None:
    adapter = line.adapter()
    waiting = proposed(line, adapter)
    nothing_served = TWO.model_copy(update={"served_bases": ()})
    with pytest.raises(UserError, match="served"):
        approve(line.world.artifacts, LINE, decided(BEA, tenants=nothing_served))
    delete(line.world.store, Subject.adapter(adapter.address), reason="leaked", actor="root")
    with pytest.raises(UserError, match="leaked"):
        approve(line.world.artifacts, LINE, by(BEA))
    assert [each.state for each in read_proposals(line.world.store, LINE)] == ["open"]
    assert waiting.id == read_proposals(line.world.store, LINE)[0].proposal.id


def test_two_who_approve_at_once_make_one_record(line: Promotable) -> None:
    adapter = line.adapter()
    proposed(line, adapter)

    def asked(name: str) -> PromotionRecord | None:
        # Who comes when it is carried out already finds nothing to answer.
        with suppress(NotFound):
            return approve(line.world.artifacts, LINE, by(name))
        return None

    with ThreadPoolExecutor(4) as pool:
        records = [each for each in pool.map(asked, ["bea", "zoe", "eve", "kim"]) if each]
    (made,) = read_line(line.world.store, LINE).records
    assert {record.actor for record in records} == {made.actor}


def test_who_approves_while_another_approval_is_carried_out_gets_its_record(line, monkeypatch) -> None:
    proposal = proposed(line, line.adapter())
    real, faster = second_person.prepare, []

    def after_another(*asked: object) -> object:
        with monkeypatch.context() as undone:
            undone.setattr(second_person, "prepare", real)
            faster.append(approve(line.world.artifacts, LINE, by("zoe"), proposal=proposal.id))
        return real(*asked)

    monkeypatch.setattr(second_person, "prepare", after_another)
    assert approve(line.world.artifacts, LINE, by(BEA)).data() == faster[0].data()


def test_an_approval_that_was_cut_off_is_carried_out_when_it_is_given_again(line, monkeypatch) -> None:
    adapter = line.adapter()
    proposed(line, adapter)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(second_person, "append_and_mirror", killed)
        with pytest.raises(KeyboardInterrupt):
            approve(line.world.artifacts, LINE, by(BEA))
    (state,) = read_proposals(line.world.store, LINE)
    assert (state.state, in_production(line)) == ("approved", "")
    with pytest.raises(UserError, match="has approved it"):
        decline(line.world.artifacts, LINE, by("zoe"), proposal=state.proposal.id)
    assert approve(line.world.artifacts, LINE, by("zoe"), proposal=state.proposal.id).actor == BEA
    assert in_production(line) == str(adapter.address)
