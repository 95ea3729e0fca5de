"""Rows of other versions are held to what holds for a version's own."""

from pathlib import Path
from typing import Any

import pytest

from ft_assets.settings.dataset.policy import DatasetPolicy, MixSettings, PersonalDataSettings, SplitSettings
from ft_assets.workers.datasets import writing
from ft_assets.workers.datasets.writing import MixSource
from ft_resources.errors import BadData
from tests.workers.datasets.conftest import CurateFiles, Row, WriteRows, prose, told

OTHER = "acme.other.v1"
MIX = (MixSettings(dataset=OTHER, share=0.5),)
OWN = [told(number) for number in range(200)]


@pytest.fixture
def other(curated: CurateFiles, write: WriteRows) -> Any:
    def make(rows: list[Row]) -> tuple[MixSource, ...]:
        policy = DatasetPolicy(split=SplitSettings(validation=0.02, holdout=0.02, seed=7))
        made = curated(write([*rows, *(told(number) for number in range(1000, 1150))], "other.jsonl"), policy)
        return (MixSource(dataset=OTHER, train=made.folder / "train.parquet"),)

    return make


def _texts(folder: Path, side: str) -> list[list[str]]:
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / f"{side}.parquet").column("messages").to_pylist()
    return [[turn["content"] for turn in turns] for turns in rows]


def test_rows_with_prompts_that_the_version_sets_aside_are_not_mixed_in(
    curated: CurateFiles, write: WriteRows, other: Any
) -> None:
    rows = [{"prompt": row["prompt"], "completion": f"Another answer: {prose(('o', i))}"} for i, row in enumerate(OWN)]

    made = curated(write(OWN), DatasetPolicy(mix=MIX), mix=other(rows))

    aside = {texts[0] for side in ("validation", "holdout") for texts in _texts(made.folder, side)}
    assert aside
    assert not aside & {texts[0] for texts in _texts(made.folder, "train")}
    assert any(f"rows of {OTHER} may not be mixed in" in warning for warning in made.report.warnings)


def test_rows_that_tell_the_holdouts_answers_are_not_mixed_in(
    curated: CurateFiles, write: WriteRows, other: Any
) -> None:
    rows = [{"prompt": f"Copy text {i} of the list.", "completion": row["completion"]} for i, row in enumerate(OWN)]

    made = curated(write(OWN), DatasetPolicy(mix=MIX), mix=other(rows))

    answers = {texts[1] for texts in _texts(made.folder, "holdout")}
    assert not answers & {texts[1] for texts in _texts(made.folder, "train")}


@pytest.mark.parametrize("action", ["scrub", "escalate"])
def test_personal_data_does_not_come_in_by_mixing(
    curated: CurateFiles, write: WriteRows, other: Any, action: Any
) -> None:
    rows = [{**told(number), "completion": f"Write to ann@example.org. {prose(number)}"} for number in range(400, 450)]

    made = curated(
        write(OWN), DatasetPolicy(mix=MIX, personal_data=PersonalDataSettings(action=action)), mix=other(rows)
    )

    answers = [texts[1] for texts in _texts(made.folder, "train")]
    assert made.report.mixed[0].rows > 50
    assert not any("ann@example.org" in answer for answer in answers)
    assert any("<EMAIL>" in answer for answer in answers) == (action == "scrub")


def test_rows_that_the_version_has_are_not_mixed_in_and_its_ids_are_no_text_as_a_whole(
    curated: CurateFiles, write: WriteRows, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Arrow's strings hold 2 GiB, the ids of 33 million rows.
    given = other(OWN[:100])
    sizes = []
    hex_of = writing.hex_of
    monkeypatch.setattr(writing, "hex_of", lambda keys: sizes.append(len(keys)) or hex_of(keys))

    made = curated(write(OWN), DatasetPolicy(mix=MIX), chunk_bytes=4 << 10, mix=given)

    texts = [tuple(each) for each in _texts(made.folder, "train")]
    assert made.report.mixed[0].rows > 50
    assert len(texts) == len(set(texts))
    assert max(sizes) < len(OWN) // 2


def test_rows_that_teach_another_kind_of_thing_are_refused(
    curated: CurateFiles, write: WriteRows, tmp_path: Path
) -> None:
    pairs = [
        {"prompt": row["prompt"], "chosen": row["completion"], "rejected": prose(("r", i))} for i, row in enumerate(OWN)
    ]
    made = curated(write(pairs, "pairs.jsonl"))
    source = (MixSource(dataset=OTHER, train=made.folder / "train.parquet"),)

    with pytest.raises(BadData, match="has another kind of data than the chat rows"):
        curated(write(OWN), DatasetPolicy(mix=MIX), mix=source)
