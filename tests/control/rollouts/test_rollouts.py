"""Rollouts from start to end, over outcomes that lie in a store, also such as begin by themselves."""

from datetime import timedelta
from logging import getLogger

import pytest

from ft_assets import api
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import rollback
from ft_assets.control.lines.proposals import WaitsForSecondPerson, read_proposals
from ft_assets.control.lines.second_person import approve, decline
from ft_assets.control.rollouts import conduct as conducting
from ft_assets.control.rollouts.asked import Wish, cancel, start
from ft_assets.control.rollouts.automatic import start_automatic
from ft_assets.control.rollouts.decide import Verdict
from ft_assets.control.rollouts.look import SETTLED, Look
from ft_assets.control.rollouts.rollouts import RolloutLost, RolloutRecord, append, read_rollouts
from ft_assets.control.rollouts.sign import sign_decided
from ft_assets.control.rollouts.verify import rollout_findings
from ft_assets.control.rollouts.weights import weights_of
from ft_assets.records.tombstones import Subject, delete, restore
from ft_assets.settings.rollout_settings import RolloutSettings
from ft_assets.settings.tenants import LineSettings, Tenant, TenantsFile
from ft_resources.artifacts import InputRef
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import CorruptArtifact, NotFound, NotPermitted, UserError
from ft_resources.signatures import Unsigned, require_signed
from tests.control.lines.promotable import LINE, SERVED, Promotable, decided
from tests.control.rollouts.made import BEGIN, HOUR, Rolled, leave_outcomes, outcome
from tests.signing_keys import make_pair, signs_with, trusts

TWO = SERVED.model_copy(update={"production_second_person": True})


def test_a_good_candidate_goes_step_by_step_into_production(rolled: Rolled) -> None:
    assert rolled.weights == {"incumbent": 100}
    started = rolled.start()
    assert rolled.weights == {"candidate": 5, "incumbent": 95}
    assert rolled.conduct(BEGIN + HOUR).said == "outcomes of the candidate at 5 %: thumbs: 0 of 50"
    rolled.serve(60, (0.9, 0.9), BEGIN, "one")
    assert rolled.conduct(BEGIN + HOUR).record.kind == "advanced"
    assert rolled.weights == {"candidate": 25, "incumbent": 75}
    # The first weight's outcomes are evidence, and do not count for the minimum of the second.
    assert rolled.conduct(BEGIN + HOUR).said == "outcomes of the candidate at 25 %: thumbs: 0 of 50"
    rolled.serve(300, (0.9, 0.9), BEGIN + HOUR, "two")
    ended = rolled.conduct(BEGIN + 2 * HOUR).record
    assert rolled.weights == {"candidate": 100}
    assert (rolled.kinds, ended.weight) == (["started", "advanced", "completed"], 100)
    (evidence,) = ended.evidence
    assert (evidence.candidate, evidence.in_stage, evidence.as_good) == (360, 300, True)
    made = read_line(rolled.store, LINE).at("production")
    assert made.adapter == rolled.candidate.ref
    assert made.reason.startswith(f"rollout {started.rollout}: thumbs: 0.900 good of 360")
    assert "the safety gate passed" in ended.findings
    assert rolled.conduct(BEGIN + 3 * HOUR) is None


def test_a_candidate_that_is_worse_loses_its_traffic_and_the_record_says_why(rolled: Rolled) -> None:
    rolled.start()
    rolled.serve(45, (0.3, 0.9), BEGIN, "one")
    record = rolled.conduct(BEGIN + HOUR).record
    assert (record.kind, record.weight, record.actor) == ("rolled_back", 0, "auto")
    assert record.reason.startswith("significantly worse than the incumbent: thumbs: 0.289 good of 45")
    assert rolled.weights == {"incumbent": 100}
    assert read_line(rolled.store, LINE).at("production").adapter == rolled.incumbent.ref
    # Whoever wants may try again: it begins with no outcomes.
    again = rolled.start()
    assert again.rollout != record.rollout
    assert len(read_rollouts(rolled.store, LINE).rollouts) == 2


def test_outcomes_of_the_last_minutes_wait_until_every_server_has_written_its_own(rolled: Rolled) -> None:
    rolled.start()
    rolled.serve(60, (0.9, 0.9), BEGIN, "one")
    assert rolled.conduct(BEGIN + SETTLED).record is None
    assert rolled.conduct(BEGIN + SETTLED + timedelta(seconds=60)).record.kind == "advanced"


@pytest.mark.parametrize("declined", [False, True])
def test_production_by_two_people_waits_for_the_second_and_a_declined_completion_ends_the_rollout(
    rolled: Rolled, declined: bool
) -> None:
    rolled.start(tenants=TWO, steps=(25, 100))
    rolled.serve(300, (0.9, 0.9), BEGIN, "one")
    for _ in range(2):
        waits = rolled.conduct(BEGIN + HOUR, TWO)
        assert waits.record is None
        assert "requires approval by a second person; ann proposed" in waits.said
    assert rolled.weights == {"candidate": 25, "incumbent": 75}
    answer = decline if declined else approve
    answer(rolled.artifacts, LINE, decided("bea", reason="it is rude", tenants=TWO))
    record = rolled.conduct(BEGIN + HOUR, TWO).record
    if declined:
        assert (record.kind, record.reason) == ("rolled_back", "bea has declined its promotion: it is rude")
    else:
        assert (record.kind, rolled.weights) == ("completed", {"candidate": 100})


@pytest.mark.parametrize("steps", [(99, 100), (26, 100), (50, 75, 100)])
def test_a_large_first_step_waits_for_the_second_person_as_production_does(rolled: Rolled, steps) -> None:
    with pytest.raises(WaitsForSecondPerson, match="requires approval by a second person; ann proposed"):
        rolled.start(tenants=TWO, steps=steps)
    assert rolled.weights == {"incumbent": 100}
    with pytest.raises(NotPermitted, match="another person"):
        approve(rolled.artifacts, LINE, decided("ann", tenants=TWO))
    approve(rolled.artifacts, LINE, decided("bea", tenants=TWO))
    assert rolled.weights == {"candidate": 100}


@pytest.mark.parametrize(
    "begin", [{"steps": (5, 99, 100)}, {"steps": (99, 100), "shadow": 100, "outcomes": ("refusal",)}]
)
def test_no_later_step_gets_past_the_second_person(rolled: Rolled, monkeypatch, begin: dict[str, object]) -> None:
    rolled.start(tenants=TWO, margins={}, **begin)
    seen = Look(evidence=[], verdict=Verdict(action="advance", reason="none significantly worse"))
    monkeypatch.setattr(conducting, "look", lambda *_: seen)
    before = rolled.weights
    waits = rolled.conduct(BEGIN + HOUR, TWO)
    assert (waits.record, rolled.weights) == (None, before)
    assert "requires approval by a second person" in waits.said
    # Without the rule it is a step as each other.
    assert rolled.conduct(BEGIN + HOUR).record.weight == 99


def test_a_large_automatic_step_that_a_person_declined_is_not_proposed_again(rolled: Rolled) -> None:
    rolled.promote(rolled.candidate, "staging")
    large = settings(steps=(50, 100)).model_copy(update={"production_second_person": True})
    for _ in range(2):
        with pytest.raises(WaitsForSecondPerson):
            begin(rolled, large)
    decline(rolled.artifacts, LINE, decided("bea", reason="not yet", tenants=TWO))
    assert begin(rolled, large) is None
    assert len(read_proposals(rolled.store, LINE)) == 1


def test_a_completion_waits_while_a_check_of_promotions_refuses_it(rolled: Rolled) -> None:
    rolled.start(steps=(25, 100))
    rolled.serve(300, (0.9, 0.9), BEGIN, "one")
    waits = rolled.conduct(BEGIN + HOUR, TenantsFile())
    assert waits.record is None
    assert waits.said.startswith("ready for production, but the base")
    assert rolled.conduct(BEGIN + HOUR).record.kind == "completed"


@pytest.mark.parametrize(
    ("happens", "kind", "reason"),
    [
        (lambda rolled: rolled.promote(rolled.line.adapter(3)), "cancelled", "production was changed in the meantime"),
        (
            lambda rolled: rollback(rolled.artifacts, LINE, decided()),
            "cancelled",
            "production was changed in the meantime",
        ),
        (lambda rolled: rolled.promote(rolled.candidate, "archived"), "rolled_back", "the candidate was archived"),
        (lambda rolled: rolled.promote(rolled.candidate, "deprecated"), "rolled_back", "the candidate was deprecated"),
        (lambda rolled: rolled.promote(rolled.candidate), "completed", "the candidate is in production"),
    ],
)
def test_what_happens_to_the_line_ends_the_rollout(line: Promotable, happens, kind: str, reason: str) -> None:
    rolled = Rolled(line, before=line.adapter(9))
    rolled.start()
    happens(rolled)
    # At once, before anything is recorded of it.
    assert [weight for _, weight in weights_of(rolled.store, LINE)] == [100]
    record = rolled.conduct(BEGIN + HOUR).record
    assert record.kind == kind
    assert reason in record.reason


def test_a_person_ends_a_rollout_another_may_begin_and_of_two_decisions_at_one_moment_one_counts(rolled) -> None:
    started = rolled.start()
    made = started.model_copy(update={"seq": 2, "kind": "cancelled", "id": "late", "seal": ""})
    cancel(rolled.store, LINE, actor="bea", reason="not today")
    with pytest.raises(RolloutLost, match="concurrent change by bea: the rollout was cancelled"):
        append(rolled.store, made)
    rolled.start()
    with pytest.raises(UserError, match="a rollout is open"):
        rolled.start()
    with pytest.raises(UserError, match="needs a reason"):
        cancel(rolled.store, LINE, actor="bea", reason=" ")
    record = cancel(rolled.store, LINE, actor="bea", reason="not today")
    assert (record.kind, record.weight, record.actor, record.evidence) == ("cancelled", 0, "bea", [])
    assert rolled.weights == {"incumbent": 100}
    with pytest.raises(NotFound, match="no rollout is open"):
        cancel(rolled.store, LINE, actor="bea", reason="not today")
    rolled.start()


def test_only_what_may_go_to_production_may_be_rolled_out_and_only_beside_what_stands_there(line: Promotable) -> None:
    wish = Wish(candidate=str(line.adapter(5).address))
    with pytest.raises(UserError, match="there is no adapter in production"):
        start(line.world.artifacts, LINE, wish, decided())
    assert weights_of(line.world.store, LINE) == ()
    rolled = Rolled(line)
    unsafe = line.adapter(4, verdicts=[{"gate": "safety", "outcome": "fail", "reason": "rude"}])
    for adapter, said in ((unsafe, "not every gate accepted it"), (rolled.incumbent, "is already in production")):
        with pytest.raises(UserError, match=said):
            rolled.start(adapter)
    with pytest.raises(UserError, match="is not on the servers"):
        rolled.start(tenants=TenantsFile())
    assert read_rollouts(rolled.store, LINE).rollouts == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": (5, 25)}, "steps rise"),
        ({"outcomes": ("mood",), "margins": {}}, "'mood' is not a kind of outcome"),
        ({"outcomes": ("judge",)}, "a margin is set for a kind of outcome that is not used"),
        ({"outcomes": (), "margins": {}}, "at least one kind"),
        ({"outcomes": ("format",), "margins": {}}, "no answer format is set"),
        ({"minimum": 0}, "at least 1"),
        ({"outcomes": ("thumbs", "latency")}, "usual latency is unknown: 0 answers"),
    ],
)
def test_a_wish_that_makes_no_plan_is_refused(rolled: Rolled, changes: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        rolled.start(**changes)
    assert rolled.weights == {"incumbent": 100}


def test_the_usual_latency_is_what_nine_of_ten_answers_stayed_within(rolled: Rolled) -> None:
    before = BEGIN - HOUR
    leave_outcomes(
        rolled.store,
        [
            outcome(rolled.incumbent.ref, number / 100, before + timedelta(seconds=number), kind="latency")
            for number in range(100)
        ],
    )
    assert rolled.start(outcomes=("thumbs", "latency")).plan.latency_limit_s == 0.9


def test_a_candidate_with_a_tombstone_has_no_traffic_until_it_is_restored(rolled: Rolled) -> None:
    rolled.start()
    subject = Subject.adapter(rolled.candidate.address)
    delete(rolled.store, subject, actor="ann", reason="it was trained on a secret")
    assert rolled.weights == {"incumbent": 100}
    restore(rolled.store, subject, actor="ann", reason="it was not")
    assert rolled.weights == {"candidate": 5, "incumbent": 95}
    delete(rolled.store, subject, actor="ann", reason="it was")
    assert rolled.conduct(BEGIN + HOUR).record.kind == "rolled_back"


def test_a_rollout_that_was_altered_and_an_adapter_that_was_exchanged_are_found_and_give_no_traffic(rolled) -> None:
    record = rolled.start()
    assert list(rollout_findings(rolled.artifacts, LINE)) == []
    rolled.store.put(record.path, record.data().replace(b'"weight":5', b'"weight":6'))
    with pytest.raises(CorruptArtifact, match="was altered"):
        weights_of(rolled.store, LINE)
    (finding,) = rollout_findings(rolled.artifacts, LINE)
    assert finding == f"{record.path}: the record of a rollout was altered: it does not match its seal"
    assert finding in api.verify(LINE, store=rolled.store).findings
    other = record.model_copy(update={"candidate": InputRef(address=record.candidate.address, digest="0" * 64)})
    rolled.store.put(record.path, other.data())
    exchanged = f"{record.path}: the candidate's content differs from the one that was rolled out"
    assert list(rollout_findings(rolled.artifacts, LINE)) == [exchanged]
    assert any("rolled out" in each for each in api.verify(everything=True, store=rolled.store).findings)


def test_a_candidate_gets_no_traffic_unsigned_where_signatures_are_demanded(rolled, tmp_path, monkeypatch) -> None:
    private, public = make_pair(tmp_path / "keys", "ours")
    trusts(monkeypatch, public)
    with pytest.raises(Unsigned):
        rolled.start()
    signs_with(monkeypatch, private)
    # What stands in production was promoted before there was a key.
    sign_decided(rolled.artifacts, LINE)
    assert read_rollouts(rolled.store, LINE).rollouts == ()
    record = rolled.start()
    require_signed(rolled.store, rolled.candidate)
    assert record.base == rolled.candidate.manifest.inputs["base"]
    # A share that nobody signed is none.
    forged = record.model_copy(
        update={"kind": "advanced", "weight": 99, "seq": 2, "previous": sha256_bytes(record.data())}
    )
    rolled.store.put(forged.path, forged.data())
    with pytest.raises(Unsigned, match="none of the 1 trusted keys signed it"):
        weights_of(rolled.store, LINE)


def settings(**values: object) -> TenantsFile:
    plan = {"automatic": True, "steps": (5, 100), "minimum": 50, "outcomes": ("thumbs",), "margins": {"thumbs": 0.2}}
    tenant, _, name = LINE.partition(".")
    line = LineSettings(rollouts=RolloutSettings.model_validate({**plan, **values}))
    return SERVED.model_copy(update={"tenants": {tenant: Tenant(lines={name: line})}})


def begin(rolled: Rolled, tenants: TenantsFile | None = None) -> RolloutRecord | None:
    return start_automatic(rolled.artifacts, LINE, tenants=tenants or settings(), log=getLogger(), now=BEGIN)


def test_what_comes_to_staging_is_rolled_out_once_against_what_is_in_production(rolled: Rolled) -> None:
    assert begin(rolled) is None
    rolled.promote(rolled.candidate, "staging", "it gained 8 %")
    found = begin(rolled)
    assert (found.candidate, found.incumbent, found.weight) == (rolled.candidate.ref, rolled.incumbent.ref, 5)
    assert (found.actor, found.plan.minimum) == ("auto", 50)
    assert found.reason.endswith(": it gained 8 %")
    assert begin(rolled) is None
    rolled.serve(400, good=(0.2, 0.9), begin=BEGIN, server="one")
    assert rolled.kinds == ["started"]
    done = rolled.conduct(BEGIN + HOUR, settings())
    assert done.record is not None
    assert done.record.kind == "rolled_back"
    assert begin(rolled) is None
    third = rolled.line.adapter(3)
    rolled.promote(third, "staging", "it gained 8 %")
    again = begin(rolled)
    assert again.candidate == third.ref


def test_a_check_of_promotions_refuses_it(rolled: Rolled) -> None:
    rolled.promote(rolled.candidate, "staging", "it gained 8 %")
    nowhere = settings().model_copy(update={"served_bases": ()})
    with pytest.raises(UserError, match="served"):
        begin(rolled, nowhere)
    assert begin(rolled) is not None


def test_a_lines_settings_may_leave_the_last_step_to_a_person(rolled: Rolled) -> None:
    rolled.promote(rolled.candidate, "staging", "it gained 8 %")
    by_hand = settings(completes=False)
    assert begin(rolled, by_hand) is not None
    rolled.serve(600, good=(0.9, 0.9), begin=BEGIN, server="one")
    waits = rolled.conduct(BEGIN + HOUR, by_hand)
    assert waits.record is None
    assert "require a person" in waits.said
    assert rolled.weights == {"candidate": 5, "incumbent": 95}
    rolled.promote(rolled.candidate)
    assert rolled.weights == {"candidate": 100}


def test_only_lines_whose_settings_say_so_are_looked_at() -> None:
    assert settings().lines_with_automatic_rollouts() == [LINE]
    assert settings(automatic=False).lines_with_automatic_rollouts() == []
    with pytest.raises(ValueError, match="thumbs"):
        RolloutSettings.model_validate({"outcomes": ["smiles"]})
