"""What is told of an upload's columns before it is stored: those that fit no form, and kinds that are answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from ft_assets.control.registry.columns import UnknownColumns
from ft_assets.control.registry.precheck import Checked, check_uploads
from ft_assets.settings.dataset.policy import load_policy
from ft_assets.workers.datasets.intake.spool import Spool
from ft_resources.errors import BadRecipe

Row = dict[str, Any]
_LONG = "Please describe in your own words what has happened, and what should have happened instead"


def tickets(**columns: str) -> list[Row]:
    """150 rows of these columns; each text is followed by the row's number."""
    return [{name: f"{text} {number}" for name, text in columns.items()} for number in range(150)]


def classes() -> list[Row]:
    return [
        {"text": f"The thing {number} leaks.", "class": ("roof", "pump", "door")[number % 3]} for number in range(150)
    ]


def check(folder: Path, rows: list[Row], policy: str = "") -> Checked:
    path = folder / "upload"
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    spool = Spool(name="tickets.csv", role="upload", path=path, start=0, source_sha256="", source_size=1)
    return check_uploads([spool], load_policy(policy, "dataset.yaml"))


def refused(folder: Path, rows: list[Row]) -> UnknownColumns:
    with pytest.raises(UnknownColumns) as caught:
        check(folder, rows)
    return caught.value


def test_every_column_is_named_and_those_that_the_advice_does_not_use(tmp_path: Path) -> None:
    rows = tickets(**{"Ticket no": "T", "Our subject": "Rain", "Reply of the team": "We come.", "Owner": "Ann"})
    error = refused(tmp_path, rows)
    assert "the row's fields (Owner and 3 more) fit none of" in error.what
    assert "The columns are Ticket no, Our subject, Reply of the team, Owner." in error.remedy
    assert 'fields: {prompt: ["Ticket no", "Our subject"], completion: "Reply of the team"}' in error.remedy
    assert error.remedy.endswith("These would not be used: Owner.")


def test_a_long_text_before_the_answer_is_no_column_that_the_advice_drops(tmp_path: Path) -> None:
    error = refused(tmp_path, tickets(Subject="Rain", **{_LONG: "It rains into the kitchen."}, Answer="We come."))
    assert f'fields: {{prompt: [Subject, "{_LONG}"], completion: Answer}}' in error.remedy
    assert "not be used" not in error.remedy
    lines = error.remedy.rpartition("`:\n")[2]
    assert check(tmp_path, tickets(Subject="Rain", **{_LONG: "It rains."}, Answer="We come."), lines).rows == 150


def test_a_kind_that_is_mapped_to_the_answers_own_field_is_refused_by_name(tmp_path: Path) -> None:
    rows = [{"prompt": row["text"], "completion": row["class"]} for row in classes()]
    with pytest.raises(BadRecipe, match="kind is the upload's field 'completion', which is the answer itself"):
        check(tmp_path, rows, "fields: {kind: completion}")


def test_a_copy_of_the_answer_as_kind_is_warned_about_by_name(tmp_path: Path) -> None:
    rows = [{**row, "group of goods": row["class"].upper()} for row in classes()]
    mapped = 'fields: {prompt: text, completion: class, kind: "group of goods"}'
    (warning,) = check(tmp_path, rows, mapped).warnings
    assert warning.startswith("The field 'group of goods', which is read as kind, is the answer itself in every row")
    assert check(tmp_path, [*rows[1:], {**rows[0], "group of goods": "other"}], mapped).warnings == ()


@pytest.mark.parametrize("name", ["instructions", "System_Prompt", "persona"])
def test_a_column_of_system_prompts_beside_turns_is_told_with_the_lines_that_use_it(tmp_path: Path, name: str) -> None:
    turns = [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Hello."}]
    rows = [
        {"messages": [{**turns[0], "content": f"Hi, {number}?"}, turns[1]], name: "Be kind."} for number in range(150)
    ]
    (warning,) = check(tmp_path, rows).warnings
    assert f"150 rows have a field {name!r} that is not used: it holds a system prompt" in warning
    lines = f"form: system/messages\nfields: {{system: {name}}}"
    assert lines in warning
    assert check(tmp_path, rows, lines).warnings == ()
