"""The whole demo as a user runs it, with its store on an S3 server over HTTP."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ft_assets.control import identity
from ft_assets.control.lines.lines import read_line
from ft_assets.workers.adapters.lineage import verify_lineage
from ft_assets.workers.evals.verdicts import judge_candidate, load_evidence
from ft_resources.artifacts import Artifacts
from ft_resources.errors import MissingInput
from ft_resources.store_marker import open_store
from tests.e2e.project import ROOT
from tests.s3_server import s3_server, use_bucket
from tests.warm_workers import PLACE

pytestmark = pytest.mark.e2e

DATASET, CAREFUL, CARELESS = "demo.docs.v1", "docs-qa.v1", "docs-qa-forgetful.v1"
LINE = "demo.docs.docs-qa"


def test_the_demo_on_s3_stages_one_pair_and_rejects_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    with s3_server() as endpoint:
        url = use_bucket(monkeypatch, endpoint, "demo")
        monkeypatch.setenv("FT_STORE", url)
        # Each worker starts as a user's does, and imports what it needs itself.
        monkeypatch.delenv(PLACE)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        for name in ("FT_STATE", "DAGSTER_HOME"):
            monkeypatch.delenv(name, raising=False)
        command = [sys.executable, "-c", "from ft_assets.cli.main import app; app()", "demo"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert "production needs a passed safety gate, and it says: not required" in done.stdout

        artifacts = Artifacts(open_store(url))
        adapter = identity.adapter(artifacts, DATASET, CAREFUL)
        assert verify_lineage(artifacts, adapter.address) == []
        with pytest.raises(MissingInput):
            identity.adapter(artifacts, DATASET, CARELESS)
        # What passed stands in staging, by an act on record, and in production stands nothing.
        line = read_line(artifacts.store, LINE)
        (record,) = line.records
        assert (record.stage, record.adapter) == ("staging", adapter.ref)
        # What did not forgot its books, and the regression gate says so.
        request = identity.adapter_request(artifacts, DATASET, CARELESS)
        verdicts = {verdict.gate: verdict for verdict in judge_candidate(artifacts, request.inputs, request.params)}
        assert verdicts["regression"].outcome == "fail"
        assert re.match(
            r"book-cloze\.v1: acc \S+% → \S+% on 1000 items, a drop of \S+ points where at most 2 are allowed",
            verdicts["regression"].reason,
        )
        evidence = load_evidence(identity.eval_report(artifacts, DATASET, CAREFUL))
        exact = evidence.holdout["exact_match"]
        # Clearly better than the base, than always saying the commonest answer, and not by memory alone.
        assert exact.candidate > 0.3 + max(exact.base, evidence.majority_rate)
        assert evidence.never_seen is not None
        assert evidence.never_seen.candidate > 0.2
        assert evidence.suites["book-cloze.v1"].difference_points > -2
        tree = json.loads(adapter.read("lineage.json"))
        assert (tree["dataset"], tree["recipe"]) == (DATASET, CAREFUL)
        # Nothing but Dagster's and MLflow's own state is on this machine's disk.
        assert not (tmp_path / ".ft" / "store").exists()
