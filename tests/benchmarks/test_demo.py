"""The demo's figures: which of the checks that Dagster shows are red for no reason."""

import dagster as dg
import pytest

from benchmarks.demo_probe import wrong_red_checks
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.shown_checks import show_checks

pytestmark = pytest.mark.dagster

GOOD, FORGETFUL = "acme.docs.v1|good.v1", "acme.docs.v1|forgetful.v1"
FAILED = {GOOD: (), FORGETFUL: ("regression",)}


@pytest.mark.parametrize(
    ("asset", "check", "partition", "wrong"),
    [
        ("eval_report", "regression", FORGETFUL, 0),
        ("eval_report", "regression", GOOD, 1),
        # A gate that nobody asked for.
        ("eval_report", "safety", FORGETFUL, 1),
        ("token_pack", "within_length", FORGETFUL, 1),
    ],
)
def test_a_red_check_is_wrong_unless_it_is_a_gate_that_failed(
    asset: str, check: str, partition: str, wrong: int
) -> None:
    red = dg.AssetCheckResult(asset_key=asset, check_name=check, passed=False)
    with dg.DagsterInstance.ephemeral() as instance:
        list_keys(instance, dataset="acme.docs.v1", recipe=partition.partition("|")[2])
        assert wrong_red_checks(instance, FAILED.__getitem__) == 0
        show_checks(instance, [red], partition)
        assert wrong_red_checks(instance, FAILED.__getitem__) == wrong
