"""A journey is made once, and a copy of it is a project of its own."""

import dataclasses
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.lines.lines import read_line
from ft_assets.graph.orchestrator import Dagster
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from tests.journeys import Journey, copied
from tests.once import made_once

pytestmark = pytest.mark.e2e


def test_a_copy_goes_on_where_the_journey_ended_and_leaves_it_alone(
    accepted: Journey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = copied(accepted, tmp_path / "mine")
    assert dataclasses.replace(mine, folder=accepted.folder) == accepted
    for name, value in {"FT_STATE": str(mine.folder / "state"), "FT_TRACKING": "off"}.items():
        monkeypatch.setenv(name, value)
    with mine.instance() as instance:
        again = api.fine_tune(*mine.pair.split("|"), store=mine.store, orchestrator=Dagster(instance), actor="bob")
    assert again.outcome.adapter == mine.adapter
    trained = identity.checkpoint(Artifacts(mine.store), mine.dataset, mine.recipe)
    assert len(attempts_at(mine.store, trained.address)) == 1
    api.promote(mine.adapter, "staging", reason="it is mine", store=mine.store, actor="bob")
    assert api.verify(everything=True, store=mine.store).findings == ()
    assert len(read_line(mine.store, "acme.things.tiny").records) == 1
    assert read_line(accepted.store, "acme.things.tiny").records == ()
    assert len(api.list_submissions(store=accepted.store)) == 2


def test_accepted_and_rejected_are_one_training_in_one_project(accepted: Journey, rejected: Journey) -> None:
    assert (accepted.folder, accepted.dataset) == (rejected.folder, rejected.dataset)
    assert (accepted.pair, rejected.pair) == ("acme.things.v1|tiny.v1", "acme.things.v1|greedy.v1")
    assert accepted.adapter
    assert not rejected.adapter


def test_what_was_left_half_made_is_made_anew(tmp_path: Path) -> None:
    made: list[str] = []

    def half(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    def whole(folder: Path) -> None:
        (folder / "whole").touch()
        made.append(folder.name)

    with pytest.raises(KeyboardInterrupt):
        made_once(tmp_path / "thing", half)
    for _ in range(2):
        assert [each.name for each in made_once(tmp_path / "thing", whole).iterdir()] == ["whole"]
    assert made == ["thing"]
