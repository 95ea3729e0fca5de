"""The worker as it is started: ``python -m ft_assets.worker``."""

import subprocess
import sys
from pathlib import Path

import pytest

from ft_resources.artifacts import Address
from ft_resources.outcomes import EXIT_CODES, Outcome
from ft_resources.store_marker import open_store
from ft_resources.work import WorkSpec
from tests.e2e.project import ROOT

_AS_MAIN = """
import runpy, sys
from ft_assets import worker
worker.WORK["fail"] = "tests.fake_worker:fail"
sys.argv = ["ft_assets.worker", sys.argv[1]]
runpy.run_module("ft_assets.worker", run_name="__main__")
"""


@pytest.mark.parametrize("outcome", [Outcome.DIVERGED, Outcome.OUT_OF_MEMORY])
def test_what_the_work_raises_is_what_the_worker_knows_also_when_it_is_the_main_module(
    tmp_path: Path, outcome: Outcome
) -> None:
    """``__main__`` had exceptions of its own beside ``ft_assets.worker.Diverged``: a training that diverged or ran out
    of memory counted as a mistake in the recipe, and the latter was never tried with half the batch."""
    store = open_store(str(tmp_path / "store"), create=True)
    spec = WorkSpec(
        asset="fail",
        store_url=store.url,
        store_layout=store.layout,
        address=Address(tenant="acme", asset="fail", fingerprint="ff"),
        attempt=1,
        identity={},
        inputs={},
        params={"how": str(outcome), "times": 1},
        runtime={},
        label="acme.x.v1",
        actor="ann",
    )
    (tmp_path / "spec.json").write_text(spec.model_dump_json())
    done = subprocess.run([sys.executable, "-c", _AS_MAIN, tmp_path / "spec.json"], cwd=ROOT, capture_output=True)
    assert done.returncode == EXIT_CODES[outcome], done.stderr
    assert store.get_json(f"{spec.attempt_path}/outcome.json")["outcome"] == outcome
