import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ft_assets.control.registry.adding import add_dataset
from ft_assets.settings.tenants import load_tenants
from ft_assets.workers.datasets.intake.hub import HubSplit, fetch_split
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData, StoreUnavailable, UserError
from ft_resources.store_marker import open_store

COMMIT = "0123456789abcdef" * 2 + "01234567"
REFERENCE = "hub:org/tickets@main#train"


def rows(count: int = 120) -> list[dict[str, Any]]:
    return [{"prompt": f"question {n}?", "completion": f"answer {n} — ünïcode"} for n in range(count)]


def open_split(repo: str, revision: str, split: str) -> tuple[str, list[pa.Table]]:
    assert (repo, revision, split) == ("org/tickets", "main", "train")
    return COMMIT, [pa.Table.from_pylist(rows()[:50]), pa.Table.from_pylist(rows()[50:])]


def test_a_split_becomes_a_file_named_after_its_commit(tmp_path: Path) -> None:
    path = fetch_split(REFERENCE, tmp_path, open_split=open_split)
    assert path.name == "org--tickets-0123456789ab-train.jsonl"
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == rows()


def test_a_hub_split_is_added_like_a_file_and_once_for_a_commit(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"), create=True)
    first = add_dataset(store, load_tenants(), REFERENCE, "acme.tickets", None, actor="ann", open_split=open_split)
    again = add_dataset(store, load_tenants(), REFERENCE, "acme.tickets", None, actor="ann", open_split=open_split)
    assert (str(first.key), first.created, again.created) == ("acme.tickets.v1", True, False)
    (name,) = [n for n in Artifacts(store).get(first.address).manifest.files if n.startswith("upload/")]
    assert COMMIT[:12] in name


def test_fields_that_a_row_lacks_are_not_read_as_null(tmp_path: Path) -> None:
    said = [{"call": {"city": "Oslo"}}, {"call": {"a": [None]}}, {"call": {}}]
    path = fetch_split(REFERENCE, tmp_path, open_split=lambda *_: (COMMIT, [pa.Table.from_pylist(said)]))
    assert [json.loads(line) for line in path.read_text().splitlines()] == said


def test_a_column_without_a_json_form_is_named_and_nothing_is_stored(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"), create=True)
    with pytest.raises(BadData, match="column 'image' holds binary values, which cannot be written as JSON"):
        add_dataset(
            store,
            load_tenants(),
            REFERENCE,
            "acme.tickets",
            None,
            actor="ann",
            open_split=lambda *_: (COMMIT, [pa.table({"prompt": ["a"], "image": [b"png"]})]),
        )
    assert store.root_folders() == []


@pytest.mark.parametrize(
    "text", ["hub:org/tickets#train", "hub:org/tickets@main", "hub:../x@main#train", "hub:a/b/c@main#train", "hub:"]
)
def test_a_reference_without_revision_or_split_says_the_form(text: str) -> None:
    with pytest.raises(UserError, match="hub:ORG/NAME@REVISION#SPLIT"):
        HubSplit.parse(text)


def test_a_hub_that_fails_between_two_rows_is_said_so_and_leaves_no_file(tmp_path: Path) -> None:
    def failing(*_: str) -> tuple[str, Iterator[pa.Table]]:
        def stream() -> Iterator[pa.Table]:
            yield pa.Table.from_pylist(rows(3))
            raise ConnectionError("reset by peer")

        return COMMIT, stream()

    with pytest.raises(StoreUnavailable) as error:
        fetch_split(REFERENCE, tmp_path, open_split=failing)
    assert str(error.value) == (
        f"{REFERENCE}: the Hub failed (ConnectionError: reset by peer)\n"
        "  What to do: Check the network and the name, then run this again."
    )
    assert list(tmp_path.iterdir()) == []
