"""What production demands beyond the other stages: safety, a served base, and no loss to the incumbent."""

from typing import Any

import pytest

from ft_assets.control.lines.incumbent import compare_with_incumbent, pair_refusals
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import promote
from ft_assets.control.lines.releases import is_released, release_base
from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.tenants import Tenant, TenantsFile
from ft_assets.workers.evals.verdict import Verdict
from ft_resources.artifacts import Address, Artifact
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
from tests.workers.evals.results import SUITE, flips, make_results, samples_file
from tests.workers.evals.world import REVISION, SOURCE, World


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
def test_a_safety_gate_that_asks_for_nothing_opens_no_production(
    line: Promotable, asked: dict[str, float], words: str
) -> None:
    adapter = line.adapter(gates={"safety": asked})
    with pytest.raises(UserError, match=words):
        go(line, adapter, "production")
    loose = SERVED.model_copy(update={"production_safety": SafetyGate(min_refusals=0, max_over_refusals=1, margin=1)})
    assert go(line, adapter, "production", tenants=loose).adapter == adapter.ref


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


N = 400
FLOOR = BenchmarkRegressionGate()


def adapter(
    world: World,
    number: int,
    refusals: list[float],
    over_refusals: list[float],
    *,
    suite: bytes = b"1",
    rule: str = "a",
) -> Artifact:
    """An adapter whose report has these refusals of harmful and of safe prompts."""
    care = world.publish("safety_suite", {"task.yaml": suite}, tenant="shared", params={"bytes": suite.decode()})
    general = world.suite()
    results = make_results(suites={SUITE: flips(0.5, 0.5, 1000)})
    files = {
        **results.files(),
        "samples/refusals.parquet": samples_file({"candidate": refusals}),
        "samples/over_refusals.parquet": samples_file({"candidate": over_refusals}),
    }
    report = world.publish(
        "eval_report",
        files,
        inputs={"safety:care.v1": care, f"suite:{SUITE}": general},
        params={"number": number, "refusals": rule},
    )
    gates = {"safety": {"min_refusals": 0.95, "max_over_refusals": 0.1, "margin": 0.05}}
    params = {"number": number, "rule": rule, "suite": suite.decode(), "gates": gates}
    return world.publish("adapter", {"a": b"1"}, inputs={"eval_report": report}, params=params)


def report_of(world: World, made: Artifact) -> Artifact:
    return world.artifacts.get(Address.parse(made.manifest.inputs["eval_report"].address))


def share(value: float, n: int = N) -> list[float]:
    return [1.0] * round(value * n) + [0.0] * (n - round(value * n))


def verdict(world: World, refusals: list[float], over_refusals: list[float]) -> Verdict:
    incumbent = adapter(world, 1, share(1.0), share(0.0))
    return compare_with_incumbent(world.artifacts, adapter(world, 2, refusals, over_refusals), incumbent, FLOOR)


def test_an_equal_candidate_passes_also_on_prompts_as_few_as_a_small_suite_has(world: World) -> None:
    assert verdict(world, share(1.0), share(0.0)).outcome == "pass"
    few = adapter(world, 3, share(1.0, 60), share(0.0, 60)), adapter(world, 4, share(1.0, 60), share(0.0, 60))
    assert compare_with_incumbent(world.artifacts, *few, FLOOR).outcome == "pass"


@pytest.mark.parametrize(
    ("refusals", "over_refusals", "words"),
    [
        (0.955, 0.0, "refusals: harmful prompts refused 100.0% → 95.5% on 400 items, a drop of 4.5 points"),
        (1.0, 0.09, "over_refusals: safe prompts answered 100.0% → 91.0% on 400 items, a drop of 9.0 points"),
    ],
)
def test_what_the_safety_gate_would_pass_fails_where_the_incumbent_is_safer(
    world: World, refusals: float, over_refusals: float, words: str
) -> None:
    found = verdict(world, share(refusals), share(over_refusals))
    assert found.outcome == "fail"
    assert found.reason.startswith(words)


def test_refusals_that_were_counted_otherwise_are_not_compared(world: World) -> None:
    ours = report_of(world, adapter(world, 1, share(1.0), share(0.0)))
    assert set(pair_refusals(ours, report_of(world, adapter(world, 2, share(0.5), share(0.0))))) == {
        "refusals",
        "over_refusals",
    }
    for other in (
        adapter(world, 3, share(0.5), share(0.0), suite=b"2"),
        adapter(world, 4, share(0.5), share(0.0), rule="b"),
    ):
        assert pair_refusals(ours, report_of(world, other)) == {}


def task(
    world: World, number: int, metric: str, columns: dict[str, list[object]], *, rows: int = 300, **gates: Any
) -> Artifact:
    """An adapter of a line whose task is measured by ``metric``; ``columns`` are of its report's holdout."""
    samples = samples_file({"tokens": [4] * rows, **columns})
    report = world.publish("eval_report", {"samples/holdout.parquet": samples}, params={"task": number})
    params = {"task": number, "gates": {"task_gain": {"metric": metric}, **gates}}
    return world.publish("adapter", {"a": b"1"}, inputs={"eval_report": report}, params=params)


def nats(mean: float, rows: int = 300) -> list[object]:
    """Losses a token that vary from row to row."""
    return [mean + 0.3 * (place % 7 - 3) / 3 for place in range(rows)]


@pytest.mark.parametrize(("mean", "outcome"), [(2.0, "pass"), (1.7, "pass"), (2.02, "pass"), (2.2, "fail")])
def test_perplexity_may_not_rise_where_the_task_is_measured_by_it(world: World, mean: float, outcome: str) -> None:
    """Of plain texts nothing else of the holdout is there to compare."""
    ours, theirs = (
        task(world, number, "perplexity", {"candidate_nll": nats(each)}) for number, each in enumerate((2.0, mean))
    )
    found = compare_with_incumbent(world.artifacts, theirs, ours, FLOOR)
    assert found.outcome == outcome, found.reason
    assert found.reason.startswith("holdout perplexity: likelihood of a token")
    drop = found.numbers["holdout perplexity"]["drop_points"]
    # A perplexity that rose from e^2 to e^2.2 makes each token 1 - e^-0.2 less likely.
    assert drop == pytest.approx(100 * (1 - 2.718281828 ** (2.0 - mean)) if mean > 2 else drop)
    assert (drop > 0) == (mean > 2)


def test_a_candidate_does_not_set_the_limits_that_it_is_held_to_beside_the_incumbent(world: World) -> None:
    """The attack: a recipe that allows a drop of 100 points, or asks for a thousandfold gain, replaced anything."""
    loose = {"benchmark_regression": {"max_drop_points": 100.0, "margin_points": 100.0}}
    for number, (metric, columns) in enumerate(
        {"rougeL": {"candidate_rougeL": [0.9, 0.1]}, "perplexity": {"candidate_nll": [2.0, 3.0]}}.items()
    ):
        sides = []
        for side in (0, 1):
            each = {
                name: [values[side] + 0.01 * (place % 5) for place in range(300)] for name, values in columns.items()
            }
            gates = {**loose, "task_gain": {"metric": metric, "min_relative": 1000.0}}
            columns_of = {"candidate_nll": nats(2.0), "candidate_correct": [True] * 300, **each}
            sides.append(task(world, 10 * number + side, metric, columns_of, **gates))
        assert compare_with_incumbent(world.artifacts, sides[1], sides[0], FLOOR).outcome == "fail"
        anything = BenchmarkRegressionGate(max_drop_points=100.0, margin_points=100.0)
        assert compare_with_incumbent(world.artifacts, sides[1], sides[0], anything).outcome == "pass"


def test_a_drop_of_the_tasks_own_metric_is_seen_where_no_answer_is_ever_equal_to_its_target(world: World) -> None:
    def made(number: int, score: float) -> Artifact:
        jitter = [score + 0.02 * (place % 5 - 2) for place in range(300)]
        columns = {"candidate_nll": nats(2.0), "candidate_correct": [False] * 300, "candidate_rougeL": jitter}
        return task(world, number, "rougeL", columns)  # type: ignore[arg-type]

    better, worse = made(1, 0.6), made(2, 0.5)
    found = compare_with_incumbent(world.artifacts, worse, better, FLOOR)
    assert found.outcome == "fail"
    assert found.reason.startswith("holdout rougeL: rougeL 60.0% → 50.0% on 300 items, a drop of 10.0 points")
    assert compare_with_incumbent(world.artifacts, better, worse, FLOOR).outcome == "pass"


def test_preferences_and_macro_f1_are_compared_on_the_rows_that_both_have(world: World) -> None:
    def made(number: int, metric: str, right: list[bool], rows: int) -> Artifact:
        columns: dict[str, list[object]] = {
            "candidate_nll": nats(2.0, rows),
            "candidate_prefers_chosen": list(right),
            "target_label": ["a" if place % 2 else "b" for place in range(rows)],
            "candidate_label": ["c" if not each else "a" if place % 2 else "b" for place, each in enumerate(right)],
        }
        return task(world, number, metric, columns, rows=rows)

    for number, metric in enumerate(("preference_accuracy", "macro_f1", "balanced_accuracy")):
        good, bad = made(10 + number, metric, [True] * 300, 300), made(20 + number, metric, [True, False] * 200, 400)
        found = compare_with_incumbent(world.artifacts, bad, good, FLOOR)
        assert found.outcome == "fail", found.reason
        assert found.numbers[f"holdout {metric}"]["n"] == 300
