"""The graph as the definitions declare it: a change is seen in a diff, and follows the project's policies."""

import re
import subprocess
import sys
from typing import Any

import dagster as dg
import pytest

from ft_assets.definitions import defs
from ft_assets.graph.assets.datasets import dataset
from ft_assets.workers.datasets.writing import COLUMNS
from tests.e2e.project import ROOT
from tests.graph.specs import SNAPSHOT, specs, text

PRIVATE = {"ft_resources/dagster_private.py", "tests/dagster_private.py"}


def test_assets_checks_jobs_and_sensors_are_as_in_the_snapshot() -> None:
    assert text() == SNAPSHOT.read_text(encoding="utf-8"), "python -m tests.graph.specs rewrites it; commit the diff"


def test_every_asset_is_owned_versioned_and_described_and_every_check_has_a_verdict_for_each_partition() -> None:
    for name, asset in specs()["assets"].items():
        assert all(asset[each] for each in ("owners", "code_version", "description", "group", "kinds")), name
        assert asset["tags"]["ft/worker"] in ("none", "cpu", "gpu"), name
    for name, check in specs()["checks"].items():
        # Those of an adapter tell what became of it later, and nothing comes after it.
        assert check["blocking"] == (not name.startswith("adapter:")), name
        assert check["partitions"] == specs()["assets"][name.partition(":")[0]]["partitions"]


def test_the_lineage_page_opens_as_assets_every_sensor_says_what_it_does_and_columns_are_as_written() -> None:
    assert len({asset["group"] for asset in specs()["assets"].values()}) == 1
    assert all(sensor["description"] for sensor in specs()["sensors"].values())
    assert len(specs()["sensors"]) == 15
    assert "id: string" in specs()["assets"]["dataset"]["columns"]


@pytest.mark.parametrize(
    "config", [{"store": {"url": "/tmp"}}, {"launcher": {"kind": "local"}}, {"hub": {"endpoint": "http://x"}}]
)
def test_whoever_launches_a_run_cannot_give_it_another_store_launcher_or_hub(config: dict[str, Any]) -> None:
    resources = {name: {"config": fields} for name, fields in config.items()}
    for job in ("prepare_dataset", "train_pair"):
        asked = dg.validate_run_config(defs.resolve_job_def(job))["resources"]
        assert asked["store"]["config"] == {}
        with pytest.raises(dg.DagsterInvalidConfigError, match="unexpected config entry"):
            dg.validate_run_config(defs.resolve_job_def(job), {"resources": resources})


def test_dagsters_private_modules_are_imported_in_one_file_and_for_tests_in_one() -> None:
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    private = re.compile(r"^\s*(from|import) dagster\._", re.MULTILINE)
    found = {name for name in tracked.stdout.split() if private.search((ROOT / name).read_text(encoding="utf-8"))}
    assert found <= PRIVATE


def test_the_columns_that_dataset_shows_are_those_that_curation_writes() -> None:
    # The code location must not load pyarrow, so the graph spells them out.
    schema = dataset.metadata_by_key[dataset.key]["dagster/column_schema"]
    shown = [(column.name, column.type) for column in schema.columns]
    assert shown == [(each.name, str(each.type)) for each in COLUMNS]


@pytest.mark.subprocess
def test_loading_the_definitions_loads_nothing_heavy_beside_dagster() -> None:
    # A fifth of the load was Dagster's parser of selections, for jobs that name their assets, and a database's errors.
    heavy = "torch transformers trl peft datasets lm_eval matplotlib mlflow pyarrow numpy numba "
    heavy += "kubernetes huggingface_hub sqlalchemy antlr4"
    code = f"import sys, ft_assets.definitions; print(*set({heavy.split()!r}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
