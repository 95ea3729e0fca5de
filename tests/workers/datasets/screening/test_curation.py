"""The screen inside curation: a registered classifier decides about rows of an upload, and the reports say so."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ft_assets.settings.dataset.policy import DatasetPolicy, ToxicitySettings
from ft_assets.workers.suites.classifiers import add_classifier
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import BadData
from ft_resources.store import Store
from tests.workers.datasets.conftest import SIDES, Row, WriteRows, report_of, run_curation
from tests.workers.datasets.screening.conftest import NASTY, NICE

TOXIC = (5, 60, 61, 150)
Curate = Callable[[Any], Artifact]


def rows() -> list[Row]:
    """160 rows of nice words, and nasty ones in the answers of the rows TOXIC."""
    draw = random.Random(0)
    made = [
        {"prompt": " ".join(draw.choices(NICE, k=12)), "completion": " ".join(draw.choices(NICE, k=12))}
        for _ in range(160)
    ]
    for row in TOXIC:
        made[row - 1]["completion"] = " ".join(draw.choices(NASTY, k=12))
    return made


@pytest.fixture
def curate_with(
    store: Store, artifacts: Artifacts, add: Any, write: WriteRows, classifier_folder: Path, tmp_path: Path
) -> Curate:
    """Register the classifier, add the rows with what the policy does about them, and do the worker's work."""

    def run(action: Any) -> Artifact:
        add_classifier(store, str(classifier_folder), "toxic.v1", actor="tester")
        settings = ToxicitySettings(classifier="toxic.v1", labels=("toxic",), action=action, max_share=0.01)
        version = add(write(rows()), DatasetPolicy(toxicity=settings))
        return run_curation(artifacts, str(version.key), tmp_path)

    return run


def test_rows_that_a_registered_classifier_flags_are_left_out_and_told_of(curate_with: Curate, tmp_path: Path) -> None:
    artifact = curate_with("remove")
    report = report_of(artifact)
    (finding,) = report.findings("toxicity")
    assert (finding.reason, finding.action, finding.count) == ("toxic", "removed", len(TOXIC))
    assert tuple(note.place.row for note in finding.notes) == TOXIC
    assert all((note.similarity or 0) > 0.5 for note in finding.notes)
    assert artifact.facts["dropped"] == report.dropped == {"toxic": len(TOXIC)}
    kept = {
        row for side in SIDES for row in pq.read_table(artifact.path(f"{side}.parquet", tmp_path))["row"].to_pylist()
    }
    assert kept == set(range(1, 161)) - set(TOXIC)
    assert "Flagged by the toxicity classifier" in artifact.read("report/report.html").decode()


def test_flagged_rows_hold_a_version_or_refuse_the_upload_where_the_policy_says_so(curate_with: Curate) -> None:
    held = curate_with("escalate")
    assert held.facts["held"] == ["4 rows were flagged by the toxicity classifier."]
    assert report_of(held).examples == 160
    with pytest.raises(BadData, match=r"4 of 160 examples were flagged by toxic.v1 \(toxic\), more than max_share"):
        curate_with("reject")
