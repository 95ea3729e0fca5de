"""What production demands beyond the other stages: safety, a served base, and no loss to the incumbent."""

from types import SimpleNamespace
from typing import cast

import pytest

from ft_assets.control.lines.eligibility import require_strict_safety
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import promote
from ft_assets.control.lines.releases import is_released, release_base
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.tenants import Tenant, TenantsFile
from ft_resources.artifacts import Artifact
from ft_resources.errors import UserError
from tests.control.lines.promotable import (
    LINE,
    SERVED,
    Promotable,
    add_recipe,
    decided,
    passing,
)
from tests.control.lines.test_promotion import go
from tests.workers.evals.results import SUITE
from tests.workers.evals.world import REVISION, SOURCE


@pytest.mark.parametrize("outcome", ["absent", "not required", "waived"])
def test_production_needs_a_safety_gate_that_truly_passed(line: Promotable, outcome: str) -> None:
    verdicts = passing("regression", "task_gain")
    if outcome == "not required":
        verdicts.append({"gate": "safety", "outcome": "not required", "reason": "nobody asked"})
    if outcome == "waived":
        waiver = {"actor": "bob", "note": "trust me", "at": "2026"}
        verdicts.append({"gate": "safety", "outcome": "inconclusive", "reason": "few", "waiver": waiver})
    adapter = line.adapter(verdicts=verdicts)
    go(line, adapter, "staging")
    with pytest.raises(UserError, match="production needs a passed safety gate"):
        go(line, adapter, "production")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"min_refusals": 0.0}, "min_refusals 0, where 0.95 is the loosest"),
        ({"max_over_refusals": 1.0}, "max_over_refusals 1, where 0.1 is the loosest"),
        ({"margin": 1.0}, "margin 1, where 0.05 is the loosest"),
    ],
)
def test_a_safety_gate_that_asks_for_nothing_opens_no_production(asked: dict[str, float], words: str) -> None:
    adapter = SimpleNamespace(
        address="acme/adapter/a",
        manifest=SimpleNamespace(identity={"params": {"gates": {"safety": {**SafetyGate().model_dump(), **asked}}}}),
    )
    with pytest.raises(UserError, match=words):
        require_strict_safety(cast("Artifact", adapter), TenantsFile().production_safety)
    require_strict_safety(cast("Artifact", adapter), SafetyGate(min_refusals=0, max_over_refusals=1, margin=1))


def test_what_the_incumbent_was_measured_on_and_the_candidate_was_not_is_on_record(line: Promotable) -> None:
    go(line, line.adapter(1), "production")
    line.suite = line.world.suite(items=25)
    record = go(line, line.adapter(2), "production", waive_incumbent=True)
    assert any(finding.startswith(f"not compared: {SUITE}") for finding in record.findings)


def test_production_needs_a_base_that_is_served_to_this_tenant(line: Promotable) -> None:
    adapter = line.adapter()
    own = TenantsFile(served_bases=SERVED.served_bases, tenants={"acme": Tenant(served_bases=("hub:acme/other",))})
    for tenants in (TenantsFile(), own):
        with pytest.raises(UserError, match="is not on the servers of acme"):
            go(line, adapter, "production", tenants=tenants)
    for entry in (SOURCE, f"{SOURCE}@{REVISION}", f"sha256:{line.base.digest}"):
        served = decided(tenants=TenantsFile(served_bases=(entry,)))
        assert promote(line.world.artifacts, str(adapter.address), "production", served)[0].adapter == adapter.ref


def test_an_adapter_on_a_held_base_stands_in_staging_and_goes_to_production_only_once_the_base_is_released(
    line,
) -> None:
    store = line.world.store
    for key in ("tiny.v2", "tiny.v3"):
        add_recipe(store, key, description="its base moved")
    with pytest.raises(UserError, match="never held"):
        release_base(store, "tiny.v3", actor="ann", reason="x")
    store.create_json("names/successor/tiny.v1/abc.json", {"successor": "tiny.v2"})
    # The base before it is not held.
    before = go(line, line.adapter(1), "production")
    adapter = line.adapter(2, recipe="tiny.v2")
    go(line, adapter, "staging")
    with pytest.raises(UserError, match=r"the base of tiny\.v2 is held") as caught:
        go(line, adapter, "production")
    assert caught.value.where == "names/base_release/tiny.v2.json"
    assert read_line(store, LINE).at("production").adapter == before.adapter
    assert not is_released(store, "tiny.v2")
    release_base(store, "tiny.v2", actor="ann", reason="all dependents passed")
    assert is_released(store, "tiny.v2")
    assert release_base(store, "tiny.v2", actor="bob", reason="me too").actor == "ann"
    assert go(line, adapter, "production").recipe == "tiny.v2"


def test_a_candidate_worse_than_the_incumbent_stays_out_of_production(line: Promotable) -> None:
    good = [1.0] * 600 + [0.0] * 400
    first = line.adapter(1, right=good)
    go(line, first, "production")
    worse = line.adapter(2, right=[1.0] * 500 + [0.0] * 500)
    with pytest.raises(UserError, match=r"line's incumbent \(fail\)"):
        go(line, worse, "production")
    with pytest.raises(UserError, match=r"line's incumbent \(fail\)"):
        go(line, worse, "production", waive_incumbent=True)
    same = line.adapter(3, right=good)
    record = go(line, same, "production")
    assert record.replaces == str(first.address)
    assert any("not worse than" in finding for finding in record.findings)


def test_an_inconclusive_comparison_blocks_unless_somebody_answers_for_it(line: Promotable) -> None:
    go(line, line.adapter(1, right=[1.0, 0.0] * 6), "production")
    second = line.adapter(2, right=[1.0, 0.0] * 6)
    with pytest.raises(UserError, match=r"incumbent \(inconclusive\)") as caught:
        go(line, second, "production")
    assert "--waive-incumbent" in caught.value.remedy
    record = go(line, second, "production", actor="eve", waive_incumbent=True)
    assert (record.actor, record.waived) == ("eve", ["incumbent"])
