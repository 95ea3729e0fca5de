"""What is refused at upload, in which words, and that nothing of it is kept."""

import os
import re
from pathlib import Path

import pytest

from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.settings.dataset.policy import DatasetPolicy, SplitSettings, TextSettings
from ft_assets.workers.datasets.intake.snapshot import take_snapshots
from ft_resources.errors import BadData, UserError
from ft_resources.store import Store
from tests.workers.datasets.conftest import Add, Row, WriteRows, pair

GOOD: list[Row | bytes] = [pair(number) for number in range(150)]


@pytest.mark.parametrize(
    ("rows", "message", "remedy"),
    [
        (
            [*GOOD, {}, b"x", {"prompt": "a"}, *GOOD, b"x", b"y"],
            "data.jsonl, row 151: the row's fields (none that can be shown) fit none of: messages; "
            "conversations; chosen and rejected; prompt and completion; instruction and output; text "
            "(4 more bad rows: 152, 153, 304, …)",
            "Correct the rows, or leave out all 5 bad ones (1.6%): put this into dataset.yaml, and give it with "
            "`--policy dataset.yaml`:\non_bad_row: drop",
        ),
        (
            GOOD[:99],
            "data.jsonl: 99 different examples are too few to learn from and to measure on",
            "Add examples: at least 100 different ones are needed.",
        ),
        (
            GOOD[:1] * 7,
            "data.jsonl: 1 example is too few to learn from and to measure on (7 rows, of which 6 duplicates)",
            "Add examples: at least 100 different ones are needed.",
        ),
        (
            [*GOOD[:99], *GOOD[:20]],
            "data.jsonl: 99 different examples are too few to learn from and to measure on "
            "(119 rows, of which 20 duplicates)",
            "Add examples: at least 100 different ones are needed.",
        ),
    ],
)
def test_a_bad_file_is_refused_with_its_row_and_leaves_no_trace(
    add: Add, write: WriteRows, store: Store, rows: list[Row | bytes], message: str, remedy: str
) -> None:
    with pytest.raises(BadData) as error:
        add(write(rows))
    assert str(error.value) == f"{message}\n  What to do: {remedy}"
    assert list(store.entries("names")) == list(store.entries("acme")) == []


def test_groups_too_few_for_a_split_are_refused_before_anything_is_stored(
    add: Add, write: WriteRows, store: Store, tmp_path: Path
) -> None:
    rows = [{**pair(number), "source": f"book {number % 3}"} for number in range(150)]
    policy = DatasetPolicy(split=SplitSettings(group_by="source"))
    with pytest.raises(BadData) as error:
        add(write(rows), policy)
    assert re.search(r"the \w+ split is empty: none of the 3 groups \(source\) fell into it", error.value.what)
    assert "set split.group_by (source) to a field with more different values" in error.value.remedy
    assert list(store.entries("names")) == list(store.entries("acme")) == []
    many = [{**row, "source": f"book {number}"} for number, row in enumerate(rows)]
    assert add(write(many), policy).created


def test_a_text_too_short_for_its_pieces_is_told_the_setting_and_its_value(
    add: Add, tmp_path: Path, store: Store
) -> None:
    def text(name: str, paragraphs: int) -> Path:
        path = tmp_path / name
        path.write_text("\n\n".join(" ".join(f"word{number}{n}" for n in range(75)) for number in range(paragraphs)))
        return path

    with pytest.raises(BadData) as error:
        add(text("manual.txt", 90))
    cut = re.match(
        r"Cut the text .* text.chunk_characters in dataset.yaml is 4,000, and (\d+) would", error.value.remedy
    )
    assert cut
    settings = TextSettings(chunk_characters=int(cut[1]))
    assert add(text("manual.txt", 90), DatasetPolicy(text=settings)).created
    with pytest.raises(BadData) as error:
        add(text("leaflet.txt", 10), name="leaflet")
    assert "100 pieces need at least 40,000, with text.chunk_characters (4,000) at its least, 200" in error.value.remedy


@pytest.mark.parametrize(
    ("tenant", "name"), [("Acme", "facts"), ("acme", "a|b"), ("acme", ""), ("acme", "a.b"), ("", "facts")]
)
def test_a_tenant_or_name_that_cannot_be_in_a_key_is_refused(
    store: Store, write: WriteRows, tenant: str, name: str
) -> None:
    with pytest.raises(UserError):
        add_dataset_version(store, write(GOOD), tenant=tenant, name=name, policy=DatasetPolicy(), actor="tester")
    assert list(store.entries("names")) == []


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (
            ["upload/a", "upload/a"],
            "a.jsonl: two of the files have this name\n  What to do: Rename one; the names are kept.",
        ),
        (
            ["upload/a", "holdout/b"],
            "b.jsonl (holdout): the file holds the same bytes as a.jsonl (upload)\n"
            "  What to do: Give each file once: rows of the training data cannot be in the holdout.",
        ),
        ([], "acme.facts: no file is given\n  What to do: Name at least one file with examples."),
    ],
)
def test_files_that_do_not_go_together_are_refused(
    store: Store, tmp_path: Path, write: WriteRows, roles: list[str], message: str
) -> None:
    data, given = write(GOOD).read_bytes(), {"upload": [], "holdout": []}
    for place in roles:
        role, _, rest = place.partition("/")
        path = tmp_path / "in" / f"{rest}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        given[role].append(path)
    with pytest.raises(BadData) as error:
        add_dataset_version(
            store,
            given["upload"],
            tenant="acme",
            name="facts",
            policy=DatasetPolicy(),
            actor="t",
            holdout=given["holdout"],
        )
    assert str(error.value) == message
    assert list(store.entries("names")) == []


def test_what_its_first_bytes_refuse_is_not_copied(tmp_path: Path) -> None:
    """The attack: two sparse gigabytes were copied before they were no text."""
    (tmp_path / "rows.jsonl").touch()
    os.truncate(tmp_path / "rows.jsonl", 2 << 30)
    (tmp_path / "copy").mkdir()
    with pytest.raises(BadData):
        take_snapshots({"upload": [tmp_path / "rows.jsonl"]}, tmp_path / "copy")
    assert sum(path.stat().st_size for path in (tmp_path / "copy").rglob("*") if path.is_file()) == 0


def test_a_disk_without_room_for_the_copy_says_so(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b'{"text": "a"}\n')
    (tmp_path / "copy" / "upload").mkdir(parents=True)
    (tmp_path / "copy" / "upload" / "rows.jsonl").symlink_to("/dev/full")
    with pytest.raises(UserError, match="the disk of") as caught:
        take_snapshots({"upload": [tmp_path / "rows.jsonl"]}, tmp_path / "copy")
    assert "TMPDIR" in caught.value.remedy
