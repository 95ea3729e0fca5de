"""Once held out, never trained on: sequences of versions of one dataset, each with the memory of those before."""

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from ft_assets.settings.dataset.policy import DatasetPolicy, DuplicateSettings, MixSettings, SplitSettings
from ft_assets.workers.datasets.held_out import FILE, HeldOut, similarity, sketches_of
from ft_assets.workers.datasets.writing import MixSource
from ft_resources.errors import BadData
from tests.workers.datasets.conftest import Curated, CurateFiles, Row, WriteRows, nearly, prose, told


def text_of(row: Row) -> str:
    return "\n".join(turn["content"] for turn in row["messages"])


def shingles(text: str) -> set[str]:
    return {text[at : at + 5] for at in range(len(text) - 4)}


def alike(one: str, other: str) -> float:
    some, others = shingles(one), shingles(other)
    return len(some & others) / len(some | others)


def held_texts(made: Curated) -> list[str]:
    return [text_of(row) for row in made.tables["holdout"].to_pylist()]


def leaked(made: Curated, held: Sequence[str], near: float) -> list[tuple[str, str]]:
    """Rows of training that are as similar as ``near`` to a row of ``held``, with that row."""
    trained = [text_of(row) for row in made.tables["train"].to_pylist()]
    return [(one, other) for one in trained for other in held if one == other or alike(one, other) >= near]


class Versions:
    """Versions of one dataset: each gets the memory that the one before left."""

    def __init__(self, write: WriteRows, curated: CurateFiles) -> None:
        self._write, self._curated = write, curated
        self.made: list[Curated] = []

    def add(self, rows: Sequence[Row], policy: DatasetPolicy | None = None, **inputs: Any) -> Curated:
        memory = HeldOut.open(self.made[-1].folder / FILE if self.made else None)
        holdout = inputs.pop("holdout", [])
        files: Any = {"upload": [self._write(rows)]}
        if holdout:
            files["holdout"] = [self._write(holdout, "holdout.jsonl")]
        self.made.append(self._curated(files, policy, held_out=memory, **inputs))
        return self.made[-1]


@pytest.fixture
def versions(write: WriteRows, curated: CurateFiles) -> Versions:
    return Versions(write, curated)


def typed(row: Row, seed: object) -> Row:
    """``row`` with one letter of its answer changed."""
    draw, answer = random.Random(f"typo {seed}"), row["completion"]
    at = draw.randrange(len(answer))
    return {**row, "completion": f"{answer[:at]}{draw.choice('xqzj')}{answer[at + 1 :]}"}


def test_equal_rows_in_two_groups_stay_on_their_side_when_the_upload_is_reversed(versions: Versions) -> None:
    policy = DatasetPolicy(split=SplitSettings(group_by="user"))
    rows = [told(number, user=f"u{number % 60}") for number in range(150)]
    rows += [told(number, user=f"u{(number * 7 + 1) % 60}") for number in range(150)]
    assert versions.add(rows, policy).sides == versions.add(rows[::-1], policy).sides


def test_the_side_of_a_near_pair_does_not_depend_on_which_of_them_is_kept(versions: Versions) -> None:
    pairs = [(told(number), {**told(number), "prompt": told(number)["prompt"] + "!"}) for number in range(100)]
    more = [told(number) for number in range(1000, 1060)]
    first = versions.add([*(row for pair in pairs for row in pair), *more])
    second = versions.add([*(row for pair in pairs for row in pair[::-1]), *more])
    assert first.report.dropped == {"near_duplicate": 100}
    prompts = [
        {
            row["messages"][0]["content"].rstrip("!"): side
            for side, table in made.tables.items()
            for row in table.to_pylist()
        }
        for made in (first, second)
    ]
    assert prompts[0] == prompts[1]


def test_near_keep_reversed_moves_no_row(versions: Versions) -> None:
    policy = DatasetPolicy(duplicates=DuplicateSettings(near="keep"))
    rows = [row for number in range(100) for row in (told(number), typed(told(number), number))]
    assert versions.add(rows, policy).sides == versions.add(rows[::-1], policy).sides


def test_a_row_with_a_typo_stays_held_out_under_another_seed_and_the_report_says_so(versions: Versions) -> None:
    rows = [told(number) for number in range(200)]
    first = versions.add(rows)
    edited = [
        typed({**row, "prompt": row["prompt"].replace("Tell", "Told")}, number) for number, row in enumerate(rows)
    ]
    second = versions.add(edited, DatasetPolicy(split=SplitSettings(seed=7)))
    assert leaked(second, held_texts(first), 0.9) == []
    stays = second.found("split")["stays_held_out"]
    assert 0 < stays <= len(held_texts(first))
    assert second.report.dropped == {}


def test_a_coarser_group_leaves_out_the_held_rows_and_not_their_group(versions: Versions) -> None:
    rows = [told(number, user=f"u{number % 90}", topic=f"t{number % 12}") for number in range(270)]
    first = versions.add(rows, DatasetPolicy(split=SplitSettings(group_by="user")))
    second = versions.add(rows, DatasetPolicy(split=SplitSettings(group_by="topic")))
    held = held_texts(first)
    assert leaked(second, held, 0.9) == []
    lost = second.report.dropped["held_out"]
    assert 0 < lost <= len(held)
    assert lost == len(second.noted("split", "held_out"))
    assert any("left out: the holdout of an earlier version" in warning for warning in second.report.warnings)
    assert second.tables["train"].num_rows > 130


def test_a_value_of_another_group_field_is_not_taken_for_a_held_out_group(versions: Versions) -> None:
    rows = [told(number, user=f"{number % 50}") for number in range(200)]
    first = versions.add(rows, DatasetPolicy(split=SplitSettings(group_by="user")))
    others = [told(number, topic=f"{number % 50}") for number in range(1000, 1200)]
    second = versions.add(others, DatasetPolicy(split=SplitSettings(group_by="topic", seed=3)))
    assert first.tables["holdout"].num_rows
    assert "stays_held_out" not in second.found("split")
    assert second.report.dropped == {}


def test_what_is_left_out_is_shown_beside_the_row_that_was_held_out(versions: Versions) -> None:
    policy = DatasetPolicy(split=SplitSettings(group_by="user"))
    rows = [told(number, user=f"u{number % 40}") for number in range(200)]
    first = versions.add(rows, policy)
    held = first.tables["holdout"].to_pylist()[0]["row"] - 1
    # A copy of a held row in a group of others comes first, and stands for both.
    copy = {**nearly(rows[held]), "user": "new"}
    more = [told(number, user="new") for number in range(900, 910)]
    second = versions.add([copy, *more, *rows], policy)
    (note,) = [
        each for finding in second.report.findings("split") if finding.reason == "held_out" for each in finding.notes
    ]
    assert (note.place.row, note.other and note.other.row) == (1, held + 12)


def test_rows_that_are_mixed_in_are_held_against_what_earlier_versions_held_out(versions: Versions) -> None:
    rows = [told(number) for number in range(200)]
    first = versions.add(rows)
    source = MixSource(dataset="acme.other.v1", train=first.folder / "holdout.parquet")
    policy = DatasetPolicy(mix=(MixSettings(dataset="acme.other.v1", share=0.5),))
    made = versions.add([told(number) for number in range(1000, 1200)], policy, mix=(source,))
    assert [each.rows for each in made.report.mixed] == [0]
    assert leaked(made, held_texts(first), 0.9) == []


def test_the_memory_grows_by_what_is_new_and_holds_no_text(versions: Versions) -> None:
    rows = [told(number) for number in range(200)]
    made = [versions.add(part) for part in (rows[:150], rows, rows[50:])]
    memories = [HeldOut.open(each.folder / FILE) for each in made]
    ids = [set(each.tables["holdout"]["id"].to_pylist()) for each in made]
    known = [set(memory.rows["content"].to_pylist()) for memory in memories]
    assert [len(memory) for memory in memories] == [len(each) for each in known]
    assert known[0] < known[1]
    assert known[1] == known[2]
    assert len(known[2]) == len(set.union(*ids))


@given(st.integers(0, 10_000), st.floats(0, 0.3))
def test_similarities_are_estimated_within_five_deviations(seed: int, share: float) -> None:
    draw = random.Random(seed)
    text = prose(seed, 60)
    other = "".join(draw.choice("qxzj") if draw.random() < share / 5 else letter for letter in text)
    sketches = sketches_of(pa.array([text, other]))
    exact = alike(text, other)
    assert abs(similarity(sketches[:1], sketches[1:])[0] - exact) < 5 * 0.034


ROWS = 24
POLICIES = st.builds(
    lambda near, group_by, seed, holdout: DatasetPolicy(
        duplicates=DuplicateSettings(near=near),
        split=SplitSettings(group_by=group_by, seed=seed, holdout=holdout, validation=0.1),
    ),
    st.sampled_from(["remove", "keep", "off"]),
    st.sampled_from([None, "user", "topic"]),
    st.integers(0, 3),
    st.sampled_from([0.1, 0.3]),
)
# Each row of a version: which of ROWS stories, a typo or none, its user and its topic. Then its policy, the stories set
# aside as its holdout, and whether the holdout of the version before is mixed in.
VERSION = st.tuples(
    st.lists(
        st.tuples(st.integers(0, ROWS - 1), st.integers(0, 2), st.integers(0, 9), st.integers(0, 5)),
        min_size=30,
        max_size=60,
    ),
    POLICIES,
    st.lists(st.integers(0, ROWS - 1), max_size=3),
    st.booleans(),
)


def row_of(story: int, typo: int, user: int, topic: int) -> Row:
    row = told(story, user=f"u{user}", topic=f"t{topic}")
    return typed(row, (story, typo)) if typo else row


@pytest.mark.statistics
@settings(max_examples=settings().max_examples // 5)
@given(st.lists(VERSION, min_size=2, max_size=3))
def test_what_a_holdout_ever_held_is_never_trained_on_nor_a_near_copy_of_it(
    write: WriteRows, curated: CurateFiles, found: list[Any]
) -> None:
    versions, held = Versions(write, curated), list[str]()
    filler = [told(number, user=f"f{number}", topic=f"f{number}") for number in range(500, 630)]
    for rows, policy, own, mixed in found:
        holdout = [row_of(story, 0, 90, 90) for story in sorted(set(own))]
        mix: tuple[MixSource, ...] = ()
        if mixed and versions.made:
            mix = (MixSource(dataset="acme.other.v1", train=versions.made[-1].folder / "holdout.parquet"),)
        asked = policy.model_copy(update={"mix": tuple(MixSettings(dataset=each.dataset, share=0.3) for each in mix)})
        try:
            made = versions.add([*(row_of(*row) for row in rows), *filler], asked, holdout=holdout, mix=mix)
        except BadData as error:
            # A side without rows: a version that is refused has held out nothing.
            event(error.what)
            continue
        assert leaked(made, held, 0.9) == []
        held += held_texts(made)
