"""The opt-in search for test items in other words: found by meaning, and reported apart."""

from pathlib import Path
from typing import Any

import pytest

from ft_assets.settings.dataset.policy import ContaminationSettings, DatasetPolicy, ParaphraseSettings
from ft_assets.workers.suites.encoders import add_encoder
from ft_resources.artifacts import Artifacts, InputRef
from ft_resources.errors import UserError
from ft_resources.store import Store
from tests.workers.datasets.conftest import (
    Add,
    WriteRows,
    prose,
    register_suite,
    report_of,
    run_curation,
)
from tests.workers.datasets.screening.conftest import make_encoder

ITEMS = [
    {"question": "which organ makes insulin", "choices": ["pancreas", "liver"], "answer": 0},
    {"question": "who wrote hamlet", "choices": ["shakespeare", "jonson"], "answer": 0},
]


@pytest.fixture
def inputs(store: Store, tmp_path: Path) -> dict[str, InputRef]:
    encoder = add_encoder(store, str(make_encoder(tmp_path / "encoder")), "tiny.v1", pooling="mean", actor="ann")
    return {"suite:quiz.v1": register_suite(store, tmp_path / "quiz", "quiz.v1", ITEMS), "encoder": encoder.ref}


def rows() -> list[dict[str, Any]]:
    """Rows 11 and 21 ask an item in other words, the second one in the second of three turns; others ask nothing."""
    found = [{"messages": turns(f"hamlet insulin {prose(number, 3)}", prose(number))} for number in range(150)]
    found[10] = {"messages": turns("what gland produces insulin", "the pancreas does, I think")}
    found[20] = {"messages": [{"role": "system", "content": prose("s")}, *turns("who penned hamlet", "a poet")]}
    return found


def turns(asked: str, said: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]


def policy(**paraphrases: Any) -> DatasetPolicy:
    settings = ParaphraseSettings(encoder="tiny.v1", threshold=0.95, **paraphrases) if paraphrases else None
    return DatasetPolicy(contamination=ContaminationSettings(paraphrases=settings), duplicates={"near": "off"})


@pytest.mark.parametrize(("action", "said"), [("remove", "removed"), ("escalate", "held"), ("warn", "warned")])
def test_rows_that_ask_an_item_in_other_words_are_reported_apart_with_it(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path, inputs: dict[str, Any], action: str, said: str
) -> None:
    version = add(write(rows()), policy(action=action))
    artifact = run_curation(artifacts, str(version.key), tmp_path, inputs)
    report = report_of(artifact)
    assert report.findings("contamination") == []
    (finding,) = report.findings("paraphrases")
    assert (finding.subject, finding.reason, finding.action, finding.count) == ("quiz.v1", "paraphrased", said, 2)
    assert [(note.place.row, note.detail) for note in finding.notes] == [
        (11, "item 1 of quiz.v1"),
        (21, "item 2 of quiz.v1"),
    ]
    assert all(note.similarity is not None and note.similarity > 0.95 for note in finding.notes)
    assert bool(report.held) == (action == "escalate")
    page = artifact.path("report/report.html", tmp_path).read_text()
    # Both are there to be compared: the row, and the item that it paraphrases.
    assert "produces" in page
    assert "makes" in page


def test_nothing_is_searched_for_where_the_policy_does_not_ask(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path, inputs: dict[str, Any]
) -> None:
    version = add(write(rows()), policy())
    report = report_of(run_curation(artifacts, str(version.key), tmp_path, {"suite:quiz.v1": inputs["suite:quiz.v1"]}))
    assert "paraphrases" not in {step.step for step in report.steps}


def test_an_encoder_that_is_not_registered_is_refused_when_the_version_is_added(add: Add, write: WriteRows) -> None:
    with pytest.raises(UserError, match=r"there is no encoder 'tiny\.v1'"):
        add(write(rows()), policy(action="warn"))
