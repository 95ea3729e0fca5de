"""A journey is made once, and a copy of it is a project of its own."""

import dataclasses
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.control.lines.lines import read_line
from tests.journeys import Journey, copied
from tests.once import made_once

pytestmark = pytest.mark.e2e
LINE = "acme.things.tiny"


def test_what_a_copy_changes_the_journey_does_not_see(
    accepted: Journey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_TRACKING", "off")
    mine = copied(accepted, tmp_path / "mine")
    assert dataclasses.replace(mine, folder=accepted.folder) == accepted
    api.promote(mine.adapter, "staging", reason="it is mine", store=mine.store, actor="bob")
    assert api.verify(everything=True, store=mine.store).findings == ()
    assert len(read_line(mine.store, LINE).records) == 1
    assert read_line(accepted.store, LINE).records == ()


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
