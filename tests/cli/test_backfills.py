"""``ft backfill``: a request to Dagster's daemon, refused before anything is listed where it cannot be meant."""

import dagster as dg
import pytest

from tests.cli.conftest import DATASET, RECIPE, Ft

pytestmark = pytest.mark.dagster

Pair = tuple[str, str]


def test_every_asset_of_the_pairs_is_requested_in_one_backfill(
    instance: dg.DagsterInstance, ft: Ft, pair: Pair
) -> None:
    done = ft("backfill", "--dataset", DATASET, "--recipe", RECIPE)
    (backfill,) = instance.get_backfills()
    assert done.stdout.strip() == backfill.backfill_id
    wanted = {
        (key.to_user_string(), partition)
        for key, partition in backfill.asset_backfill_data.target_subset.iterate_asset_partitions()
    }
    assert wanted == {
        *((asset, DATASET) for asset in ("raw_dataset", "dataset")),
        *((asset, RECIPE) for asset in ("base_model", "baseline_report")),
        *((asset, f"{DATASET}|{RECIPE}") for asset in ("token_pack", "checkpoint", "eval_report", "adapter")),
    }


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--recipe", RECIPE] * 2, "are 2 trainings, and the limit is 1"),
        (["--recipe", "nothing.v1"], "there is no recipe 'nothing.v1'"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_listed(
    instance: dg.DagsterInstance, ft: Ft, pair: Pair, monkeypatch: pytest.MonkeyPatch, asked: list[str], said: str
) -> None:
    monkeypatch.setenv("FT_MAX_PAIRS", "1")
    refused = ft("backfill", "--dataset", DATASET, *asked)
    assert (refused.exit_code, said in " ".join(refused.stderr.split())) == (2, True)
    assert not instance.get_backfills()
    assert not instance.get_dynamic_partitions("recipe")
